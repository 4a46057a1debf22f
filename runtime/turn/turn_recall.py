"""Memory searches of a turn: for its texts and expressions, its actions, and the prompts of its models.

Each search is made once, within bounds of number and time. Texts are rendered synchronously. If one needs a search
that has not been made yet, `RecallWanted` is raised; the search is made and the turn restarts with its result. A turn
depends only on its input, its search results and its model replies, so it reaches the same point again, and the
restart has no visible effect.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct

from runtime.context.fitting import CUT, cut_text
from runtime.context.ports import View
from runtime.memory.recall.terms import says_nothing
from runtime.state.events import Body, Event, Recollected
from runtime.state.ports import Memory, MemoryFailed
from runtime.state.program import Program
from runtime.state.recall_types import By, MemoryLine, Recalled, RecalledUnit, RecallWish, lines_of, recollections
from runtime.state.state import State
from scripts.expressions.values import Recollections, Value

QUERY_CHARS_MAX = 2_000
SCORE_DIGITS = 4


class RecallWanted(Exception):
    """A memory search must be made before the turn can continue."""

    def __init__(self, question: "RecallQuestion") -> None:
        super().__init__("a memory search must be made first")
        self.question = question


class RecallsExceeded(Exception):
    """A turn made more memory searches than allowed; the message names the limit."""


class RecallQuestion(Struct, frozen=True):
    """A memory search: the request, the maximum characters of its result, the action and the kind of caller."""

    wish: RecallWish
    chars_max: int
    action_id: str
    by: By


class TurnRecalls(Struct):
    """The memory searches of one turn, over all its restarts, with their results. Without a `memory` every result is
    empty.
    """

    memory: Memory | None
    recalls_max: int
    recall_s: float
    answers: dict[bytes, Recalled | MemoryFailed] = {}
    events: dict[bytes, Recollected] = {}  # the searches with their results, in order

    def event(self, question: RecallQuestion) -> Recollected | None:
        """Return the event of a search, or None if it was not made."""
        return self.events.get(_key(question))

    def known(self, question: RecallQuestion) -> Recalled:
        """Return the result of a search that was made before. Raises RecallWanted, MemoryFailed."""
        if self.memory is None:
            return Recalled()
        answer = self.answers.get(_key(question))
        if answer is None:
            raise RecallWanted(question)
        if isinstance(answer, MemoryFailed):
            raise answer
        return answer

    async def put(self, question: RecallQuestion) -> Recalled:
        """Return the result of a search, which is made if it was not before. Raises MemoryFailed, RecallsExceeded."""
        await self.search(question)
        return self.known(question)

    async def search(self, question: RecallQuestion) -> None:
        """Make a search if it was not made before; `known` has its result or failure then. Raises RecallsExceeded."""
        key = _key(question)
        if self.memory is None or key in self.answers:
            return
        if len(self.answers) >= self.recalls_max:
            raise RecallsExceeded(f"more than {self.recalls_max} memory searches in one turn")
        self.answers[key] = answer = await _answer(self.memory, question, self.recall_s)
        failed = str(answer) if isinstance(answer, MemoryFailed) else ""
        self.events[key] = Recollected(
            action_id=question.action_id,
            query=question.wish.query,
            by=question.by,
            k=question.wish.k,
            filters=question.wish.filters,
            units=() if isinstance(answer, MemoryFailed) else answer.units,
            failed=failed,
        )


async def _answer(memory: Memory, question: RecallQuestion, recall_s: float) -> Recalled | MemoryFailed:
    try:
        async with asyncio.timeout(recall_s):
            return fitted(await memory.recall(question.wish), question.chars_max)
    except MemoryFailed as failed:
        return failed
    except TimeoutError:
        return MemoryFailed(f"memory took longer than {recall_s:g} s")


_encoder = msgspec.json.Encoder(order="deterministic")


def _key(question: RecallQuestion) -> bytes:
    """Return the key of a search; it does not depend on the message at which the search is made."""
    return _encoder.encode((msgspec.structs.replace(question.wish, in_sight=0), question.chars_max))


def fitted(recalled: Recalled, chars_max: int) -> Recalled:
    """Return the results that fit into so many characters: the units in their order, then their neighbours.

    The first unit is cut if it does not fit.
    """
    left = chars_max
    fitted_units: list[RecalledUnit] = []
    for unit in recalled.units:
        is_cut = not fitted_units and len(unit.text) > left
        text = cut_text(unit.text, left - len(CUT)) if is_cut else unit.text
        if len(text) > left:
            break
        left -= len(text)
        fitted_units.append(msgspec.structs.replace(unit, text=text, around=(), score=round(unit.score, SCORE_DIGITS)))
    units = []
    for unit, whole in zip(fitted_units, recalled.units, strict=False):
        around = []
        for each in whole.around:
            if len(each.text) <= left:
                left -= len(each.text)
                around.append(each)
        units.append(msgspec.structs.replace(unit, around=tuple(around)))
    return Recalled(units=tuple(units))


# -- the searches of a turn -------------------------------------------------------------------------------------------


class Remembering(Protocol):
    """The parts of a turn that a memory search needs."""

    program: Program
    state: State
    recalls: TurnRecalls
    events: list[Event]
    action_id: str

    def now(self) -> datetime:
        """Return the time of the turn."""

    def view(self) -> View:
        """Return the part of the conversation that a model sees."""

    def record(self, body: Body) -> None:
        """Add an event."""

    def warn(self, code: str, message: str) -> None:
        """Record a warning for the script's author."""


def question(
    run: Remembering, query: str, by: By, *, k: int | None = None, filters: Value = None, min_score: float | None = None
) -> RecallQuestion | None:
    """Return a search by the script's memory settings, or None if memory is off or the query is blank."""
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
    return RecallQuestion(wish, plan.chars_max, run.action_id, by)


def _in_sight(run: Remembering) -> int:
    """Return the number of the first message that a model sees anyway; system messages do not count."""
    numbers = [each.number for each in run.view().messages if each.role != "system"]
    return min(numbers, default=run.state.message_seq + 1)


def in_text(run: Remembering, query: str, k: int | None) -> Recollections:
    """Return the results of a search made by a text that is being rendered. Raises RecallWanted, MemoryFailed."""
    search = question(run, query, "text", k=k)
    if search is None:
        return Recollections()
    recalled = run.recalls.known(search)
    _record_event(run, search)
    return recollections(recalled)


async def put(run: Remembering, search: RecallQuestion | None) -> Recalled:
    """Make a search and return its result. Raises MemoryFailed, RecallsExceeded, LimitExceeded."""
    if search is None:
        return Recalled()
    try:
        return await run.recalls.put(search)
    finally:
        _record_event(run, search)


async def for_prompt(run: Remembering, said: str) -> tuple[MemoryLine, ...]:
    """Return the memories for the prompt that answers `said`: none for fillers such as `ok`. If memory fails, the
    conversation continues without it. Raises RecallsExceeded, LimitExceeded.
    """
    if run.program.script.memory.recall != "always" or says_nothing(said):
        return ()
    try:
        recalled = await put(run, question(run, said, "prompt"))
    except MemoryFailed as failed:
        run.warn("recall_failed", str(failed))
        return ()
    return tuple(lines_of(recalled))


def record_remaining(run: Remembering) -> None:
    """Record the searches that have no event yet, because the part of the turn that made them was undone.

    Raises LimitExceeded.
    """
    reported = _reported(run.events)
    for event in run.recalls.events.values():
        if id(event) not in reported:
            run.record(event)


def _record_event(run: Remembering, search: RecallQuestion) -> None:
    event = run.recalls.event(search)
    if event is not None and id(event) not in _reported(run.events):
        run.record(event)


def _reported(events: Sequence[Event]) -> set[int]:
    return {id(each.body) for each in events}
