"""The words of turns that were over a moment ago, for who comes back in the midst of them.

What such a turn came to is in the record; only its words are nowhere else.
"""

import sys
from collections import OrderedDict
from typing import TypeAlias

from msgspec import Struct

KEPT_S = 60.0
KEPT_BYTES_MAX = 32_000_000  # of all turns; the oldest are let go first
KEPT_TURN_BYTES_MAX = 2_000_000  # of one turn; one that took more is not kept
ENTRY_BYTES = 500  # what a turn takes beside its frames, about

Run: TypeAlias = tuple[tuple[str, str], int, str]
"""One run of one turn: its session, the last event before it, and which attempt at it."""


class _Told(Struct, frozen=True):
    frames: tuple[bytes, ...]
    bytes: int
    over_at: float


class Kept:
    """The frames of the last turns, for a bounded time and in a bounded number of bytes."""

    def __init__(self) -> None:
        self.bytes = 0
        self._turns: OrderedDict[Run, _Told] = OrderedDict()  # in the order they were over

    def keep(self, run: Run, frames: list[bytes], now: float) -> None:
        """Keeps what a turn has said, unless that is nothing or too much."""
        size = ENTRY_BYTES + sum(map(sys.getsizeof, frames))
        if frames and size <= KEPT_TURN_BYTES_MAX:
            self._turns[run] = _Told(tuple(frames), size, now)
            self.bytes += size
        while self._turns and (self.bytes > KEPT_BYTES_MAX or self._oldest.over_at < now - KEPT_S):
            self.bytes -= self._turns.popitem(last=False)[1].bytes

    def frames(self, run: Run) -> tuple[bytes, ...] | None:
        """All that a turn has said, if it is kept."""
        told = self._turns.get(run)
        return told.frames if told is not None else None

    def remove(self, session: tuple[str, str]) -> None:
        """Lets go of all that a session has said."""
        for run in [run for run in self._turns if run[0] == session]:
            self.bytes -= self._turns.pop(run).bytes

    @property
    def _oldest(self) -> _Told:
        return next(iter(self._turns.values()))
