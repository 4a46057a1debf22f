"""Puts a passage of memory before a language model, and takes its summary back."""

from datetime import datetime

from runtime.events import Message, Role
from runtime.memory.summarising import Passage, Told
from runtime.memory.units import MemoryUnit
from runtime.ports import Account, ModelFailed, ModelReply, ModelRequest
from runtime.prompts.fitting import cut_text
from scripts.values import Value

MEMORY = "memory"  # stands for the action that asks
ANY_LANGUAGE = "und"  # the language tag for: whichever it is
SUMMARY_CHARS_MAX = 4_000
INSTRUCT = (
    "The messages are memories of one person: what was said, noted or summed up before, each with its day in front and "
    "with who said it. Sum them up so that each matter can be found again by its names, numbers and days. Where there "
    "is <summary>, it tells what came before: it explains them, and is not to be told again."
)
_ROLES = frozenset({"user", "assistant"})


def request_of(passage: Passage, now: datetime, asked: int) -> ModelRequest:
    """The request for a passage, the `asked`th of a run from 0. All that is remembered is data in it."""
    return ModelRequest(
        purpose="summarise",
        action_id=MEMORY,
        round=0,
        asked=asked,
        task="",
        locale=ANY_LANGUAGE,
        now=now,
        history=tuple(_message(number, unit) for number, unit in enumerate(passage.units, 1)),
        account=Account(summary=passage.history, previous=passage.so_far or None, instruct=INSTRUCT),
    )


def told(reply: ModelReply) -> Told:
    """The summary that a model gave. Raises ModelFailed where it gave none."""
    text = cut_text(reply.text.strip(), SUMMARY_CHARS_MAX)
    if not text:
        raise ModelFailed("the model gave no summary of the memory")
    return Told(text)


def _message(number: int, unit: MemoryUnit) -> Message:
    speaker: dict[str, Value] = {} if unit.source in _ROLES else {"speaker": {"name": unit.source or "note"}}
    role: Role = "assistant" if unit.source == "assistant" else "user"
    return Message(number, "", role, f"{_days(unit)}: {unit.content}", "", speaker)


def _days(unit: MemoryUnit) -> str:
    first, last = unit.creation_time.date(), unit.end_time.date()
    return f"{first}" if first == last else f"{first} to {last}"
