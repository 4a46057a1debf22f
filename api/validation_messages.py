"""msgspec's validation messages in plain words."""

from api.ids import ID_PATTERN
from scripts.model.script import LOCALE

_NOT_AN_ID = f"Expected `str` matching regex {ID_PATTERN!r}"
_NOT_A_TAG = f"Expected `str` matching regex {LOCALE.pattern!r}"  # in msgspec's words


def humanize_validation_error(problem: str) -> str:
    """Replace the pattern of an id or language tag in a message of msgspec by a description."""
    problem = problem.replace(_NOT_A_TAG, "expected a language tag such as en, de or pt-BR")
    return problem.replace(_NOT_AN_ID, "expected an id without control characters and line breaks")
