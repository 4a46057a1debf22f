"""Replay buffer: the streamed words of recently finished turns, for clients that reconnect in the middle of them.

The database has the result of such a turn, but not its streamed words.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cachetools import TTLCache

BUFFER_S = 60.0
BUFFER_BYTES_MAX = 32_000_000  # of all turns; the least recently used are dropped first
BUFFER_TURN_BYTES_MAX = 2_000_000  # of one turn; a larger one is not buffered
ENTRY_BYTES = 500  # approximate size of a turn without its frames

Run: TypeAlias = tuple[tuple[str, str], int, str]
"""One run of one turn: its session, the number of the last event before it, and its attempt."""


class ReplayBuffer:
    """The frames of recently finished turns, bounded in time and in bytes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._turns: TTLCache[Run, tuple[bytes, ...], float] = TTLCache(BUFFER_BYTES_MAX, BUFFER_S, clock, _bytes_of)

    @property
    def size_bytes(self) -> float:
        """Return the size of all buffered turns."""
        return self._turns.currsize

    def add(self, run: Run, frames: Sequence[bytes]) -> None:
        """Store the frames of a turn unless it has none or too many."""
        if frames and _bytes_of(frames) <= BUFFER_TURN_BYTES_MAX:
            self._turns[run] = tuple(frames)

    def frames(self, run: Run) -> tuple[bytes, ...] | None:
        """Return the frames of a turn if they are buffered."""
        return self._turns.get(run)

    def remove(self, session: tuple[str, str]) -> None:
        """Drop all frames of a session."""
        for run in [run for run in self._turns if run[0] == session]:
            self._turns.pop(run, None)  # it may expire meanwhile


def _bytes_of(frames: Sequence[bytes]) -> int:
    return ENTRY_BYTES + sum(map(sys.getsizeof, frames))
