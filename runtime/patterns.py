"""Patterns that authors write, matched with texts that users type, within a time that a turn cannot exceed.

Values are read synchronously. A match that takes longer than an instant raises `MatchWanted`; then it is made in a
thread, where it holds up nobody else, and the turn begins again with what came of it (as in `runtime.recalls`). A
pattern may take half of what is left of the turn's time for all of them, so that one which never ends leaves enough
for the others, each of which takes some millionths of a second.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import regex

BOUND_S = 0.02  # of computing, for all matches of one turn
INSTANT_S = 0.002  # of it, for one match on the event loop
PATTERN_CHARS_MAX = 80  # in a message


class Match(NamedTuple):
    """A text to look through for a pattern, or to compare as a `whole`."""

    pattern: str
    text: str
    whole: bool


class MatchWanted(Exception):
    """A match has to be made off the event loop before the turn can go on."""

    def __init__(self, match: Match) -> None:
        super().__init__("a pattern has to be matched first")
        self.match = match


class PatternGivenUp(Exception):
    """A pattern took too long; its texts count as not matching. The message names it."""


class Matches:
    """The matches of one turn, over all the times it begins: what was found, and the time that is left to find more.

    `at_hand` gives the id of the action that a match is made for.
    """

    def __init__(self, at_hand: Callable[[], str] = str) -> None:
        self._at_hand = at_hand
        self._left_s = BOUND_S
        self._found: dict[Match, str | None] = {}
        self._given_up: dict[str, str] = {}

    @property
    def given_up(self) -> tuple[tuple[str, str], ...]:
        """The patterns that took too long, and the action that was at hand when they did."""
        return tuple(self._given_up.items())

    def find(self, match: Match, *, off_loop: bool) -> str | None:
        """Find a match, where it takes no more than an instant. Raises MatchWanted, PatternGivenUp.

        Without a way `off_loop` it takes what time it may, here and now.
        """
        if match in self._found:
            return self._found[match]
        if match.pattern in self._given_up:
            raise PatternGivenUp(worded(match.pattern))
        share_s = self._left_s / 2
        try:
            self._found[match] = self._timed(match, min(share_s, INSTANT_S) if off_loop else share_s)
        except TimeoutError:
            if off_loop and self._left_s / 2 > INSTANT_S:
                raise MatchWanted(match) from None
            self._given_up[match.pattern] = self._at_hand()
            raise PatternGivenUp(worded(match.pattern)) from None
        return self._found[match]

    async def put(self, match: Match) -> None:
        """Make a match in a thread; a pattern that takes too long is given up for the turn."""
        action_id = self._at_hand()
        try:
            self._found[match] = await asyncio.to_thread(self._timed, match, self._left_s / 2)
        except TimeoutError:
            self._given_up[match.pattern] = action_id

    def _timed(self, match: Match, limit_s: float) -> str | None:
        """The text that matches. Raises TimeoutError. Other threads run meanwhile, where there are any."""
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
def matching(matches: Matches) -> Iterator[None]:
    """Have all matches within the block counted, and made off the event loop where they take long."""
    token = _of_turn.set(matches)
    try:
        yield
    finally:
        _of_turn.reset(token)


def searched(pattern: str, text: str) -> str | None:
    """Find a pattern in a text. Raises MatchWanted within a turn, PatternGivenUp."""
    return _find(Match(pattern, text, whole=False))


def is_match(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches a whole text. Raises MatchWanted within a turn, PatternGivenUp."""
    return _find(Match(pattern, text, whole=True)) is not None


def _find(match: Match) -> str | None:
    matches = _of_turn.get()
    return Matches().find(match, off_loop=False) if matches is None else matches.find(match, off_loop=True)


def worded(pattern: str) -> str:
    """Say that a pattern was given up, for the script's author."""
    shown = pattern if len(pattern) <= PATTERN_CHARS_MAX else f"{pattern[: PATTERN_CHARS_MAX - 1]}…"
    return (
        f"the pattern `{shown}` was given up and counts as not matching: a turn has "
        f"{BOUND_S * 1_000:g} ms for its patterns; see PATTERN_BACKTRACKS"
    )
