"""How a turn asks memory: for its texts and expressions, for its actions, and for the prompts of its models."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from runtime.context.ports import View
from runtime.events import Body, Event
from runtime.memory.recall.fillers import says_nothing
from runtime.ports import MemoryFailed
from runtime.program import Program
from runtime.prompts.fitting import cut_text
from runtime.recalled import By, MemoryLine, Recalled, RecallWish, lines_of, recollections
from runtime.recalls import Asked, Recalls
from runtime.state import State
from scripts.memories import Recollections
from scripts.values import Value

QUERY_CHARS_MAX = 2_000


class Remembering(Protocol):
    """What of a turn it takes to ask memory."""

    program: Program
    state: State
    recalls: Recalls
    events: list[Event]
    action_id: str

    def now(self) -> datetime:
        """The moment of the turn."""

    def view(self) -> View:
        """What a model sees of the conversation."""

    def record(self, body: Body) -> None:
        """Adds an event."""

    def warn(self, code: str, message: str) -> None:
        """Something the script's author should know."""


def question(
    run: Remembering,
    query: str,
    by: By,
    *,
    k: int | None = None,
    filters: Value = None,
    min_score: float | None = None,
) -> Asked | None:
    """A question as the script's memory is to be searched; None where that is off, or nothing is asked."""
    plan = run.program.script.memory
    if plan.strategy == "off" or not query.strip():
        return None
    wish = RecallWish(
        query=cut_text(query.strip(), QUERY_CHARS_MAX),
        k=k or plan.k,
        strategy=plan.strategy,
        filters=filters,
        min_score=min_score,
        context=plan.context,
        half_life_days=plan.decay.half_life_days if plan.decay is not None else None,
        floor=plan.decay.floor if plan.decay is not None else 1.0,
        in_sight=_in_sight(run),
        now=run.now(),
    )
    return Asked(wish, plan.chars_max, run.action_id, by)


def _in_sight(run: Remembering) -> int:
    """The first message of the session that is at hand without memory; the system's stay whatever came after."""
    numbers = [each.number for each in run.view().messages if each.role != "system"]
    return min(numbers, default=run.state.message_seq + 1)


def in_text(run: Remembering, query: str, k: int | None) -> Recollections:
    """What a text gets, while it is filled in. Raises RecallWanted, MemoryFailed."""
    asked = question(run, query, "text", k=k)
    if asked is None:
        return Recollections()
    recalled = run.recalls.known(asked)
    _tell(run, asked)
    return recollections(recalled)


async def put(run: Remembering, asked: Asked | None) -> Recalled:
    """The answer to a question. Raises MemoryFailed, RecallsExceeded, LimitExceeded."""
    if asked is None:
        return Recalled()
    try:
        return await run.recalls.put(asked)
    finally:
        _tell(run, asked)


async def for_prompt(run: Remembering, said: str) -> tuple[MemoryLine, ...]:
    """What a model is told of the user's memory beside what was `said`: nothing for fillers such as `ok`. Without it
    the conversation goes on all the same. Raises RecallsExceeded, LimitExceeded.
    """
    if run.program.script.memory.recall != "always" or says_nothing(said):
        return ()
    try:
        recalled = await put(run, question(run, said, "prompt"))
    except MemoryFailed as failed:
        run.warn("recall_failed", str(failed))
        return ()
    return tuple(lines_of(recalled))


def tell_rest(run: Remembering) -> None:
    """Tells of what was asked and is not told of, because what led to it was taken back. Raises LimitExceeded."""
    told = _told(run.events)
    for event in run.recalls.told:
        if id(event) not in told:
            run.record(event)


def _tell(run: Remembering, asked: Asked) -> None:
    event = run.recalls.event(asked)
    if event is not None and id(event) not in _told(run.events):
        run.record(event)


def _told(events: Sequence[Event]) -> set[int]:
    return {id(each.body) for each in events}
