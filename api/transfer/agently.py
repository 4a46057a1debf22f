"""Sessions of Agently, as its JSON and YAML have them: the whole history, the window of it, and a memo.

A conversation by itself (`runtime.context`) is written down by the same names, and read as well.
"""

from collections.abc import Mapping
from typing import Any, Final

from api.transfer.conversation import MESSAGES_MAX, Conversation, Said, Unusable, kept_of, message_of
from api.transfer.problems import Account, DocumentInvalid
from runtime.context.memory import ContextMemory, LastResize
from scripts.nodes import ID_CHARS_MAX

FORMAT: Final = "agently"
_FULL = ("full_chat_history", "full_context")
_WINDOW = ("current_chat_history", "context_window")


def is_session(given: object) -> bool:
    """Whether it looks like one."""
    return isinstance(given, dict) and any(name in given for name in (*_FULL, *_WINDOW))


def at_path(document: object, path: str) -> object:
    """What stands at a path of keys, such as `payload.session`. Raises DocumentInvalid."""
    found = document
    for number, key in enumerate(path.split(".") if path else [], start=1):
        if not isinstance(found, dict) or key not in found:
            raise DocumentInvalid(f"there is nothing at {'.'.join(path.split('.')[:number])}")
        found = found[key]
    return found


def read_session(given: object, account: Account) -> Conversation:
    """What a session of Agently tells. Raises DocumentInvalid."""
    if not isinstance(given, dict):
        raise DocumentInvalid(f"a session is an object, this is {_kind(given)}")
    full, window = _history(given, _FULL), _history(given, _WINDOW)
    messages: list[Said] = []
    places: list[int] = []  # of the messages that are taken, in the whole history
    whole = full if full is not None else window or []
    if len(whole) > MESSAGES_MAX:
        raise DocumentInvalid(f"a session has at most {MESSAGES_MAX:,} messages, this one has {len(whole):,}")
    for number, each in enumerate(whole, start=1):
        try:
            said, left_out = message_of(each)
        except Unusable as error:
            account.skip(number, str(error))
            continue
        messages.append(said)
        places.append(number)
        for words in left_out:
            account.remark(f"message {number}: {words}")
    own = given.get("id")
    return Conversation(
        format=FORMAT,
        messages=messages,
        key=own if isinstance(own, str) and 0 < len(own) <= ID_CHARS_MAX else None,
        created_at=next((each.at for each in messages if each.at is not None), None),
        memory=_memory(given, messages, places, len(whole) - len(window) if window is not None else 0, account),
    )


def _history(given: Mapping[str, Any], names: tuple[str, ...]) -> list[object] | None:
    name = next((name for name in names if given.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(given[name], list):
        raise DocumentInvalid(f"{name} is a list of messages, this is {_kind(given[name])}")
    return list(given[name])


def _memory(
    given: Mapping[str, Any], messages: list[Said], places: list[int], before: int, account: Account
) -> ContextMemory:
    memo = given.get("memo")
    if memo is not None and not isinstance(memo, dict):
        account.remark("the memo is no object; it is kept as `text`")
        memo = {"text": memo}
    kept, left_out = kept_of(memo or {})
    for words in left_out:
        account.remark(f"memo: {words}")
    resized = kept.pop("last_resize", None)
    return ContextMemory(
        after=sum(place <= before for place in places),
        memo=kept,
        memo_to=sum(place <= _count(given, "_memo_cursor", account) for place in places),
        seen=len(messages),
        turns=_count(given, "_turns", account) or sum(each.role == "assistant" for each in messages),
        resized_at=_count(given, "_last_resize_turn", account),
        last_resize=_resize(resized) if isinstance(resized, dict) else None,
    )


def _count(given: Mapping[str, Any], name: str, account: Account) -> int:
    value = given.get(name, given.get(name.removeprefix("_"), 0))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MESSAGES_MAX:
        account.remark(f"{name} is no number from 0 to {MESSAGES_MAX:,}, and taken for 0")
        return 0
    return value


def _resize(given: Mapping[str, Any]) -> LastResize | None:
    kind, turn, reason = given.get("type"), given.get("turn"), given.get("reason")
    if not isinstance(kind, str) or isinstance(turn, bool) or not isinstance(turn, int) or turn < 0:
        return None
    return LastResize(kind, turn, reason if isinstance(reason, str) else "")


def _kind(given: object) -> str:
    match given:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"
