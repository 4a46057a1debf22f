"""Summaries of memory: without a language model, the most central sentences, marked as an extract; with one, its
request and its reply.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime

from runtime.context.extracts import EARLIER_WEIGHT, MARK, Sentence, extract_sentences, sentences_of
from runtime.context.text_lengths import cut_text
from runtime.memory.summaries import Summary, SummaryRequest
from runtime.memory.units import MemoryUnit
from runtime.state.events import Message, Role
from runtime.state.ports import ConversationSummary, ModelFailed, ModelReply, ModelRequest
from scripts.expressions.values import Value

# -- without a model --------------------------------------------------------------------------------------------------


EXTRACT_CHARS_MAX = 1_500


async def extractive_summary(passage: SummaryRequest) -> Summary:
    """Return the most representative sentences of the units and of the summary so far."""
    content = await asyncio.to_thread(extract, passage.so_far, passage.units)  # half a second for the longest units
    return Summary(content, is_extract=True)


def extract(so_far: str, units: tuple[MemoryUnit, ...], chars_max: int = EXTRACT_CHARS_MAX) -> str:
    """Return an extract of the units and of the summary so far; each line names its speaker."""
    sentences_before = [Sentence(line, weight=EARLIER_WEIGHT) for line in _lines(so_far)]
    sentences = [each for unit in units for each in _sentences_of_unit(unit)]
    chars_left = max(chars_max - len(MARK) - 1, 0)
    lines = [each.text for each in extract_sentences([*sentences_before, *sentences], chars_max=chars_left)]
    if not lines:  # no sentence is short enough, or there is none
        whole = next((each.text for each in [*sentences_before, *sentences]), " ".join(unit.content for unit in units))
        lines = [whole[:chars_left]]
    return "\n".join([MARK, *lines])


def _sentences_of_unit(unit: MemoryUnit) -> list[Sentence]:
    """Return the sentences of a unit: the lines of an extract, or sentences with the name of their speaker."""
    if unit.rank:
        return [Sentence(part) for part in _lines(unit.content)]
    who = f"{unit.source}: " if unit.source else ""
    return [Sentence(who + part) for part in sentences_of(unit.content)]


def _lines(account: str) -> list[str]:
    """Return the lines of an extract, or the sentences of a model's summary."""
    if not account.startswith(MARK):
        return sentences_of(account)
    return [line.strip() for line in account.removeprefix(MARK).splitlines() if line.strip()]


# -- by a model -------------------------------------------------------------------------------------------------------


MEMORY = "memory"  # the action id of these requests
ANY_LANGUAGE = "und"  # the language tag for an undetermined language
SUMMARY_CHARS_MAX = 4_000
INSTRUCT = (
    "The messages are memories of one person: what was said, noted or summed up before, each with its day in front and "
    "with who said it. Sum them up so that each matter can be found again by its names, numbers and days. Where there "
    "is <summary>, it says what came before: it explains them, and is not to be repeated."
)
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "ai": "assistant"}
"""Roles by the sources that name one; other sources are names of people."""


def request_of(passage: SummaryRequest, now: datetime, index: int) -> ModelRequest:
    """Return the model request for a summary, the `index`th of a run from 0. Memory is passed only as data."""
    return ModelRequest(
        purpose="summarise",
        action_id=MEMORY,
        round=0,
        asked=index,
        task="",
        locale=ANY_LANGUAGE,
        now=now,
        history=tuple(_message(number, unit) for number, unit in enumerate(passage.units, 1)),
        account=ConversationSummary(summary=passage.history, previous=passage.so_far or None, instruct=INSTRUCT),
    )


def parse_summary(reply: ModelReply) -> Summary:
    """Return the summary in a model's reply. Raises ModelFailed if it is empty."""
    text = cut_text(reply.text.strip(), SUMMARY_CHARS_MAX)
    if not text:
        raise ModelFailed("the model gave no summary of the memory")
    return Summary(text)


def _message(number: int, unit: MemoryUnit) -> Message:
    speaker: dict[str, Value] = {} if unit.source in _ROLES else {"speaker": {"name": unit.source or "note"}}
    return Message(number, "", _ROLES.get(unit.source, "user"), f"{_days(unit)}: {unit.content}", "", speaker)


def _days(unit: MemoryUnit) -> str:
    first, last = unit.creation_time.date(), unit.end_time.date()
    return f"{first}" if first == last else f"{first} to {last}"
