"""Matching of authors' patterns with users' texts, within a time limit.

A pattern may use half of the time left for all patterns of the turn, so that a pattern that never ends leaves enough
for the others, each of which needs some microseconds. The event loop waits for them, so the limit is short.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import regex

BOUND_S = 0.01  # computing time for all matches of one turn
PATTERN_CHARS_MAX = 80  # in a message


class PatternGivenUp(Exception):
    """A pattern took too long; its texts count as not matching. The message names the pattern."""


class Matches:
    """The matches of one turn, over all its restarts: the time left for further ones.

    `current_action` returns the id of the action that a match is made for.
    """

    def __init__(self, current_action: Callable[[], str] = str) -> None:
        self._current_action = current_action
        self._left_s = BOUND_S
        self.given_up: dict[str, str] = {}  # the patterns that took too long, each with the action current then

    def find(self, pattern: str, text: str, *, whole: bool) -> str | None:
        """Return the match of a pattern in a text, or of the `whole` text. Raises PatternGivenUp."""
        if pattern in self.given_up:
            raise PatternGivenUp(worded(pattern))
        compiled = regex.compile(pattern)
        look = compiled.fullmatch if whole else compiled.search
        limit_s, began = self._left_s / 2, time.thread_time()
        try:
            found = look(text, timeout=limit_s)
        except TimeoutError:
            self._left_s -= limit_s
            self.given_up[pattern] = self._current_action()
            raise PatternGivenUp(worded(pattern)) from None
        self._left_s = max(self._left_s - (time.thread_time() - began), 0.0)
        return found[0] if found else None


_of_turn: ContextVar[Matches | None] = ContextVar("matches", default=None)


@contextmanager
def matching(current_action: Callable[[], str]) -> Iterator[Mapping[str, str]]:
    """Count all matches within the block together.

    Yields the patterns that took too long, each with the action that was current then.
    """
    matches = Matches(current_action)
    token = _of_turn.set(matches)
    try:
        yield matches.given_up
    finally:
        _of_turn.reset(token)


def searched(pattern: str, text: str) -> str | None:
    """Return the match of a pattern in a text. Raises PatternGivenUp."""
    return (_of_turn.get() or Matches()).find(pattern, text, whole=False)


def is_match(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text. Raises PatternGivenUp."""
    return (_of_turn.get() or Matches()).find(pattern, text, whole=True) is not None


def worded(pattern: str) -> str:
    """Return a message for the script's author that a pattern took too long."""
    shown = pattern if len(pattern) <= PATTERN_CHARS_MAX else f"{pattern[: PATTERN_CHARS_MAX - 1]}…"
    return (
        f"the pattern `{shown}` was given up and counts as not matching: a turn has "
        f"{BOUND_S * 1_000:g} ms for its patterns; see PATTERN_BACKTRACKS"
    )
