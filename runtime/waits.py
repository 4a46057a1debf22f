"""The waits that offer answers, and what a reply to them picks."""

from collections.abc import Iterable

from runtime.answers import Choice
from runtime.state import Wait


def choice_wait(choices: Iterable[tuple[str, str]]) -> Wait:
    """A wait for one of several answers, given as (key, text)."""
    return Wait("choice", tuple(Choice(key, text) for key, text in choices))
