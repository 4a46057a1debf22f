"""Accounts of a conversation where there is no language model: extracts, marked as such."""

import re

from msgspec import Struct

from runtime.context.ports import Condense
from runtime.events import Message
from runtime.summaries import Sentence, extracted, sentences_of
from scripts.values import Value

MARK = "[Extract]"
SUMMARY_CHARS_MAX = 1_500
FACTS_MAX = 20
FACTS_CHARS_MAX = 2_000

_NAMES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
_USER_WEIGHT = 1.5  # what people tell of themselves matters more than what they are told
_KEPT_WEIGHT = 1.5  # what was taken before stood for more sentences than itself
_QUESTION = re.compile(r"[?？]\W*$|[吗呢][。!！]?$")
_FACT_CHARS_MIN = 4


class Extracting(Struct, frozen=True):
    """A condenser that takes its accounts from the messages themselves."""

    async def __call__(self, wish: Condense) -> Value:
        """The sentences that stand for all best: as one text, or as a record of facts.

        What `wish.instruct` asks for takes a model to understand.
        """
        return summary_of(wish) if wish.purpose == "summarise" else memo_of(wish)


def summary_of(wish: Condense) -> str:
    """An extract of the messages, and of the account so far; each line tells who said it."""
    before = wish.previous if isinstance(wish.previous, str) else ""
    lines = [line for line in before.removeprefix(MARK).strip().splitlines() if line.strip()]
    kept = [each for line in lines for each in _kept(line)]
    told = [each for message in wish.messages for each in _said(message)]
    chosen = extracted([*kept, *told], chars_max=SUMMARY_CHARS_MAX)
    return "\n".join([MARK, *(f"{each.source}{each.text}" for each in chosen)])


def memo_of(wish: Condense) -> dict[str, Value]:
    """What people said of themselves and their matters, as `facts`; whatever else the memo holds stays."""
    before = wish.previous if isinstance(wish.previous, dict) else {}
    known = before.get("facts")
    facts = known if isinstance(known, list) else []
    kept = [Sentence(each, weight=_KEPT_WEIGHT) for each in facts if isinstance(each, str)]
    told = [
        Sentence(text)
        for message in wish.messages
        if message.role == "user"
        for text in sentences_of(message.content)
        if len(text) >= _FACT_CHARS_MIN and not _QUESTION.search(text)
    ]
    chosen = extracted([*kept, *told], chars_max=FACTS_CHARS_MAX, count_max=FACTS_MAX)
    return {**before, "facts": [each.text for each in chosen], "extract": True}


def _said(message: Message) -> list[Sentence]:
    source = f"{_NAMES[message.role]}: "
    weight = _USER_WEIGHT if message.role == "user" else 1.0
    return [Sentence(text, source, weight) for text in sentences_of(message.content)]


def _kept(line: str) -> list[Sentence]:
    source = next((f"{name}: " for name in _NAMES.values() if line.startswith(f"{name}: ")), "")
    return [Sentence(text, source, _KEPT_WEIGHT) for text in sentences_of(line.removeprefix(source))]
