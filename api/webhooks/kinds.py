"""Kinds of events that webhooks are told of, and the patterns that choose among them."""

import re
from collections.abc import Iterable
from typing import Final

TURN = "turn"
CREATED = "session.created"
COMPLETED = "session.completed"
PING: Final = "ping"  # a trial; nobody subscribes to it
EMIT = "emit:"  # before the name of a script's own event

PATTERN_CHARS_MAX = 200
STARS_MAX = 3  # in a pattern: what matching may take is bounded


def problem_of(pattern: str) -> str:
    """What is wrong with a pattern; empty where nothing is."""
    if pattern.count("*") > STARS_MAX:
        return f"`{pattern}` has more than {STARS_MAX} stars"
    fixed = (TURN, CREATED, COMPLETED)
    if pattern == EMIT or not (pattern.startswith(EMIT) or any(map(_compiled(pattern).fullmatch, fixed))):
        return f"no event is called `{pattern}`; there are {', '.join(fixed)}, {EMIT}NAME, and * for any characters"
    return ""


def matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    """What matches the kinds of these patterns, as a whole."""
    return re.compile("|".join(f"(?:{_compiled(each).pattern})" for each in patterns), re.DOTALL)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
