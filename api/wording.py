"""What msgspec says of values it refuses, in words for people."""

from scripts.model import LOCALE

_NOT_A_TAG = f"Expected `str` matching regex {LOCALE.pattern!r}"  # msgspec's words for it


def worded(problem: str) -> str:
    """A message of msgspec without the pattern of a language tag in it."""
    return problem.replace(_NOT_A_TAG, "expected a language tag such as en, de or pt-BR")
