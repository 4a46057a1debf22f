"""What msgspec says of values it refuses, in words for people."""

from api.ids import ID_PATTERN
from scripts.model import LOCALE

_NOT_AN_ID = f"Expected `str` matching regex {ID_PATTERN!r}"
_NOT_A_TAG = f"Expected `str` matching regex {LOCALE.pattern!r}"  # msgspec's words for it


def worded(problem: str) -> str:
    """A message of msgspec without the pattern of a language tag or an id in it."""
    problem = problem.replace(_NOT_A_TAG, "expected a language tag such as en, de or pt-BR")
    return problem.replace(_NOT_AN_ID, "expected an id without control characters and line breaks")
