"""Which of a script's choices a free reply picks: by key, position or text, and none where it is not clear."""

import re
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

from runtime.answers.numbers import parse_number

CHARS_MAX = 2_000
PART_CHARS_MIN = 2  # "a" is part of too many texts to name one

_LEAD = re.compile(
    r"(?:(?:(?:i|i'd|i'll|would|will|like|want|take|choose|pick|select|go|with|my|the|answer|is|it's"
    r"|option|choice|number)(?![a-z])"
    r"|no\.|我|就|选择|选项|选|要|答案|是|第)[\s:：#]*){0,6}"
)
_TAIL = re.compile(r"[\s)）\].。!！,，、:：]*(?:please|thanks|谢谢|吧|个|项|号)?[\s.。!！]*")
_OPENING = "([（【\"'“ "
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "last": -1}
_ORDINAL = re.compile(
    rf"\b(?P<word>{'|'.join(_ORDINALS)}|(?P<nth>[0-9]{{1,3}})(?:st|nd|rd|th))(?=\s(?:one|option|choice|answer|item)\b|\s*[.,!]?\s*$)"
    r"|(?<!倒数)第\s?(?P<han>[0-9]{1,3}|[一二两三四五六七八九十]{1,3}|最后)\s?(?=[个项种条款号]|选项|\s*[。！吧]?\s*$)|(?P<final>最后一[个项种条])"
)
_CLAUSE_END = re.compile(r"[,，。;；!！?？\n]|(?<!anything )\bbut\b|而是|而(?!且)|但")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|neither|nor|except|without|cannot|cant|dont|isnt|rather than|anything but|[a-z]{2,8}n't)\b"
    r"|不(?!过|仅|错)|没|无|除了|(?<![特分级性区差])别(?!的|人)"
)


class Choice(msgspec.Struct, frozen=True):
    """One choice of a script: the key its variable takes, and the text a person sees."""

    key: str
    text: str


def match_choice(text: str, choices: Sequence[Choice | str]) -> str | None:
    """The key of the one choice a reply picks, or None; a bare text is a choice that is its own key."""
    offered = [choice if isinstance(choice, Choice) else Choice(choice, choice) for choice in choices]
    reply = _spaced(text[:CHARS_MAX].strip())
    if not reply:
        return None
    ways: tuple[Callable[[str, Sequence[Choice]], set[str]], ...] = (_exact, _by_position, _mentioned, _part_of)
    for way in ways:
        keys = way(reply, offered)
        if keys:
            return keys.pop() if len(keys) == 1 else None
    return None


def _spaced(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())


def _tight(text: str) -> str:
    return "".join(char for char in _spaced(text) if char.isalnum())


def _exact(reply: str, choices: Sequence[Choice]) -> set[str]:
    core = _core(reply)
    for wanted in dict.fromkeys((_tight(reply), _tight(core))):
        for spelled in zip(*((c.key, c.text, c.key + c.text) for c in choices), strict=True):
            keys = {c.key for c, label in zip(choices, spelled, strict=True) if wanted and _tight(label) == wanted}
            if keys:
                return keys
    return {choice.key for choice in choices if choice.text.strip() and _spaced(choice.text) == reply}


def _core(reply: str) -> str:
    """What is left of ``我选(b)吧`` or ``option 2, please`` once the words around the answer are gone."""
    lead = _LEAD.match(reply)
    core = reply[lead.end() if lead else 0 :].lstrip(_OPENING)
    end = re.match(r"[a-z0-9]+|[一二两三四五六七八九十]+", core)
    return end[0] if end and _TAIL.fullmatch(core, end.end()) else core


def _by_position(reply: str, choices: Sequence[Choice]) -> set[str]:
    ordinals = [match for match in _ORDINAL.finditer(reply) if not _negated(reply, match.start())]
    by_order = {_at(_ordinal(match), choices) for match in ordinals} - {""}
    core = _core(reply)
    number = parse_number(core) if len(core) <= 12 and not re.search(r"[^\w.]", core) else None
    named = {c.key: {parse_number(c.key), parse_number(c.text)} - {None} for c in choices}
    if any(named.values()):  # the choices are numbers themselves: 2 then means the choice called 2
        by_value = {key for key, values in named.items() if number is not None and number in values}
        return by_order | by_value
    if not by_order and isinstance(number, int) and re.fullmatch(r"[0-9]+|[一二两三四五六七八九十]+|[a-z]+", core):
        return {_at(number, choices)} - {""}
    return by_order


def _ordinal(match: re.Match[str]) -> int:
    if match["final"]:
        return -1
    number = parse_number(match["nth"] or match["han"]) if match["nth"] or match["han"] else _ORDINALS[match["word"]]
    return number if isinstance(number, int) else 0


def _at(position: int, choices: Sequence[Choice]) -> str:
    if position == -1 and choices:
        return choices[-1].key
    return choices[position - 1].key if 1 <= position <= len(choices) else ""


def _mentioned(reply: str, choices: Sequence[Choice]) -> set[str]:
    """The choices named somewhere in the reply, longest first so that 非常好 does not also name 好."""
    labels = {(_spaced(label), c.key) for c in choices for label in (c.text, c.key) if len(label) > 1 or _wide(label)}
    keys: set[str] = set()
    for label, key in sorted(labels, key=lambda pair: (-len(pair[0]), pair)):
        found = [match for match in _whole(label).finditer(reply) if label]
        if any(not _negated(reply, match.start()) for match in found):
            keys.add(key)
        for match in found:
            reply = reply[: match.start()] + "\0" * len(match[0]) + reply[match.end() :]
    return keys


def _part_of(reply: str, choices: Sequence[Choice]) -> set[str]:
    """The choices of which the reply is a part, but never a choice that says the opposite of it."""
    wanted = reply.strip(" .。!！,，")
    if len(wanted) < PART_CHARS_MIN and not _wide(wanted):
        return set()
    keys = set()
    for choice in choices:
        found = _whole(wanted).search(_spaced(choice.text))
        if found and (_NEGATION.search(wanted) or not _negated(_spaced(choice.text), found.start())):
            keys.add(choice.key)
    return keys


def _wide(text: str) -> bool:
    return bool(text) and not text.isascii()


def _whole(label: str) -> re.Pattern[str]:
    """The label as whole words where it is Latin: ``red`` is not in ``bored``; Chinese has no such borders."""
    return re.compile(rf"(?<![a-z0-9])(?:{re.escape(label)})(?![a-z0-9])" if label.isascii() else re.escape(label))


def _negated(text: str, at: int) -> bool:
    ends = [match.end() for match in _CLAUSE_END.finditer(text, 0, at)]
    return _NEGATION.search(text, ends[-1] if ends else 0, at) is not None
