"""Matching of authors' patterns with users' texts, within a time limit.

Values are parsed synchronously. A match that takes longer than `INSTANT_S` raises `MatchWanted`; the match is then
made in a thread, without blocking the event loop, and the turn restarts with its result, as in
`runtime.turn.turn_recall`. A pattern may use half of the time left for all patterns of the turn, so that a pattern
that never ends leaves enough for the others, each of which needs some microseconds.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import regex

BOUND_S = 0.02  # computing time for all matches of one turn
INSTANT_S = 0.002  # computing time for one match on the event loop
PATTERN_CHARS_MAX = 80  # in a message


class Match(NamedTuple):
    """A text to search for a pattern, or to match as a `whole`."""

    pattern: str
    text: str
    whole: bool


class MatchWanted(Exception):
    """A match must be made off the event loop before the turn can continue."""

    def __init__(self, match: Match, matches: "Matches") -> None:
        super().__init__("a pattern must be matched first")
        self.match = match
        self.matches = matches


class PatternGivenUp(Exception):
    """A pattern took too long; its texts count as not matching. The message names the pattern."""


class Matches:
    """The matches of one turn, over all its restarts: the results, and the time left for further matches.

    `current_action` returns the id of the action that a match is made for.
    """

    def __init__(self, current_action: Callable[[], str] = str) -> None:
        self._current_action = current_action
        self._left_s = BOUND_S
        self._found: dict[Match, str | None] = {}
        self.given_up: dict[str, str] = {}  # the patterns that took too long, each with the action current then

    def find(self, match: Match, *, off_loop: bool) -> str | None:
        """Return the result of a match, made here if it takes no more than `INSTANT_S`. Raises MatchWanted,
        PatternGivenUp.

        Without `off_loop`, the match is made here within the remaining time.
        """
        if match in self._found:
            return self._found[match]
        if match.pattern in self.given_up:
            raise PatternGivenUp(timeout_message(match.pattern))
        share_s = self._left_s / 2
        try:
            self._found[match] = self._match_within(match, min(share_s, INSTANT_S) if off_loop else share_s)
        except TimeoutError:
            if off_loop and self._left_s / 2 > INSTANT_S:
                raise MatchWanted(match, self) from None
            self.given_up[match.pattern] = self._current_action()
            raise PatternGivenUp(timeout_message(match.pattern)) from None
        return self._found[match]

    async def put(self, match: Match) -> None:
        """Make a match in a thread; a pattern that takes too long is disabled for the turn."""
        action_id = self._current_action()
        try:
            self._found[match] = await asyncio.to_thread(self._match_within, match, self._left_s / 2)
        except TimeoutError:
            self.given_up[match.pattern] = action_id

    def _match_within(self, match: Match, limit_s: float) -> str | None:
        """Return the matching text. Raises TimeoutError. Runs without the GIL if the limit is above `INSTANT_S`."""
        compiled = regex.compile(match.pattern)
        look = compiled.fullmatch if match.whole else compiled.search
        began = time.thread_time()
        try:
            found = look(match.text, timeout=limit_s, concurrent=limit_s > INSTANT_S)
        except TimeoutError:
            self._left_s -= min(limit_s, self._left_s)
            raise
        self._left_s = max(self._left_s - (time.thread_time() - began), 0.0)
        return found[0] if found else None


_of_turn: ContextVar[Matches | None] = ContextVar("matches", default=None)


@contextmanager
def matching(current_action: Callable[[], str]) -> Iterator[Mapping[str, str]]:
    """Count all matches within the block, and make slow ones off the event loop.

    Yields the patterns that took too long, each with the action that was current then.
    """
    matches = Matches(current_action)
    token = _of_turn.set(matches)
    try:
        yield matches.given_up
    finally:
        _of_turn.reset(token)


def search(pattern: str, text: str) -> str | None:
    """Return the match of a pattern in a text. Raises MatchWanted within a turn, PatternGivenUp."""
    return _find(Match(pattern, text, whole=False))


def is_match(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text. Raises MatchWanted within a turn, PatternGivenUp."""
    return _find(Match(pattern, text, whole=True)) is not None


def _find(match: Match) -> str | None:
    matches = _of_turn.get()
    return Matches().find(match, off_loop=False) if matches is None else matches.find(match, off_loop=True)


def timeout_message(pattern: str) -> str:
    """Return a message for the script's author that a pattern took too long."""
    shown = pattern if len(pattern) <= PATTERN_CHARS_MAX else f"{pattern[: PATTERN_CHARS_MAX - 1]}…"
    return (
        f"the pattern `{shown}` was given up and counts as not matching: a turn has "
        f"{BOUND_S * 1_000:g} ms for its patterns; see PATTERN_BACKTRACKS"
    )
