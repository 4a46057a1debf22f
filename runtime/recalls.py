"""What one turn asks of memory: each question once, within bounds of number and time.

Texts are filled in synchronously. One that asks what memory was not asked yet raises `RecallWanted`; then the turn
begins anew, with the answer at hand. All that a turn does follows from its input, its answers and the replies of its
models, so it comes to the same place again, and nobody sees that it was there before.
"""

import asyncio

import msgspec
from msgspec import Struct

from runtime.events import Recollected
from runtime.ports import Memory, MemoryFailed
from runtime.prompts.fitting import CUT, cut_text
from runtime.recalled import By, Recalled, RecalledUnit, RecallWish

SCORE_DIGITS = 4


class RecallWanted(Exception):
    """Something has to be asked of memory before the turn can go on."""

    def __init__(self, asked: "Asked") -> None:
        super().__init__("memory has to be asked first")
        self.asked = asked


class RecallsExceeded(Exception):
    """A turn asked more of memory than it may; the message names the limit."""


class Asked(Struct, frozen=True):
    """A question to memory: the wish, how many characters of an answer are wanted, by which action and by what."""

    wish: RecallWish
    chars_max: int
    action_id: str
    by: By


class Recalls:
    """The questions of one turn, over all the times it begins, and the answers to them. Without a `memory` nothing is
    known, and nobody is asked.
    """

    def __init__(self, memory: Memory | None, *, recalls_max: int, recall_s: float) -> None:
        self._memory = memory
        self._recalls_max = recalls_max
        self._recall_s = recall_s
        self._answers: dict[bytes, Recalled | MemoryFailed] = {}
        self._told: dict[bytes, Recollected] = {}

    @property
    def told(self) -> tuple[Recollected, ...]:
        """What was asked and what came of it, in the order it was asked."""
        return tuple(self._told.values())

    def event(self, asked: Asked) -> Recollected | None:
        """What tells of a question that was put; None where it never was."""
        return self._told.get(_key(asked))

    def known(self, asked: Asked) -> Recalled:
        """The answer to a question that was put before. Raises RecallWanted, MemoryFailed."""
        if self._memory is None:
            return Recalled()
        answer = self._answers.get(_key(asked))
        if answer is None:
            raise RecallWanted(asked)
        if isinstance(answer, MemoryFailed):
            raise answer
        return answer

    async def put(self, asked: Asked) -> Recalled:
        """The answer to a question, which is put where it was not yet. Raises MemoryFailed, RecallsExceeded."""
        key = _key(asked)
        if self._memory is None or key in self._answers:
            return self.known(asked)
        if len(self._answers) >= self._recalls_max:
            raise RecallsExceeded(f"more than {self._recalls_max} questions to memory in one turn")
        self._answers[key] = answer = await _answer(self._memory, asked, self._recall_s)
        failed = str(answer) if isinstance(answer, MemoryFailed) else ""
        self._told[key] = Recollected(
            action_id=asked.action_id,
            query=asked.wish.query,
            by=asked.by,
            k=asked.wish.k,
            filters=asked.wish.filters,
            units=() if isinstance(answer, MemoryFailed) else answer.units,
            failed=failed,
        )
        return self.known(asked)


async def _answer(memory: Memory, asked: Asked, recall_s: float) -> Recalled | MemoryFailed:
    try:
        async with asyncio.timeout(recall_s):
            return fitted(await memory.recall(asked.wish), asked.chars_max)
    except MemoryFailed as failed:
        return failed
    except TimeoutError:
        return MemoryFailed(f"memory took longer than {recall_s:g} s")


_encoder = msgspec.json.Encoder(order="deterministic")


def _key(asked: Asked) -> bytes:
    """The same for the same question, at whichever message of the turn it is asked."""
    return _encoder.encode((msgspec.structs.replace(asked.wish, in_sight=0), asked.chars_max))


def fitted(recalled: Recalled, chars_max: int) -> Recalled:
    """As much as goes into so many characters: the units in their order, then what stands around them.

    The first is cut where it does not fit alone.
    """
    left = chars_max
    kept: list[RecalledUnit] = []
    for unit in recalled.units:
        is_cut = not kept and len(unit.text) > left
        text = cut_text(unit.text, left - len(CUT)) if is_cut else unit.text
        if len(text) > left:
            break
        left -= len(text)
        kept.append(msgspec.structs.replace(unit, text=text, around=(), score=round(unit.score, SCORE_DIGITS)))
    units = []
    for unit, whole in zip(kept, recalled.units, strict=False):
        around = []
        for each in whole.around:
            if len(each.text) <= left:
                left -= len(each.text)
                around.append(each)
        units.append(msgspec.structs.replace(unit, around=tuple(around)))
    return Recalled(units=tuple(units))
