"""Memory searches of a turn: for its texts and expressions, its actions, and the prompts of its models.

Each search is made once, within bounds of number and time. Texts are rendered synchronously. If one needs a search
that has not been made yet, `RecallWanted` is raised; the search is made and the turn restarts with its result. A turn
depends only on its input, its search results and its model replies, so it reaches the same point again, and the
restart has no visible effect.
"""

import asyncio

import msgspec
from msgspec import Struct

from runtime.context.text_lengths import CUT, cut_text
from runtime.state.events import Recollected
from runtime.state.ports import Memory, MemoryFailed
from runtime.state.recall_types import By, RecalledUnit, RecallResult, RecallWish

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
    answers: dict[bytes, RecallResult | MemoryFailed] = {}
    events: dict[bytes, Recollected] = {}  # the searches with their results, in order

    def event(self, question: RecallQuestion) -> Recollected | None:
        """Return the event of a search, or None if it was not made."""
        return self.events.get(_key(question))

    def take_result(self, question: RecallQuestion) -> RecallResult:
        """Return the result of a search that was made before. Raises RecallWanted, MemoryFailed."""
        if self.memory is None:
            return RecallResult()
        answer = self.answers.get(_key(question))
        if answer is None:
            raise RecallWanted(question)
        if isinstance(answer, MemoryFailed):
            raise answer
        return answer

    async def search(self, question: RecallQuestion) -> None:
        """Make a search if it was not made before, for `take_result`. Raises RecallsExceeded."""
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


async def _answer(memory: Memory, question: RecallQuestion, recall_s: float) -> RecallResult | MemoryFailed:
    try:
        async with asyncio.timeout(recall_s):
            return fit(await memory.recall(question.wish), question.chars_max)
    except MemoryFailed as failed:
        return failed
    except TimeoutError:
        return MemoryFailed(f"memory took longer than {recall_s:g} s")


_encoder = msgspec.json.Encoder(order="deterministic")


def _key(question: RecallQuestion) -> bytes:
    """Return the key of a search; it does not depend on the message at which the search is made."""
    return _encoder.encode((msgspec.structs.replace(question.wish, in_sight=0), question.chars_max))


def fit(recalled: RecallResult, chars_max: int) -> RecallResult:
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
    return RecallResult(units=tuple(units))
