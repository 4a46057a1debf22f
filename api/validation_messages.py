"""msgspec's validation messages in plain words."""

from api.ids import ID_PATTERN
from scripts.model.script import LOCALE

_NOT_A_TIME = "Invalid RFC3339 encoded datetime"
_NOT_AN_ID = f"Expected `str` matching regex {ID_PATTERN!r}"
_NOT_A_TAG = f"Expected `str` matching regex {LOCALE.pattern!r}"  # in msgspec's words


def humanize_validation_error(problem: str) -> str:
    """Replace what a message of msgspec says about a time, an id or a language tag by a description."""
    problem = problem.replace(_NOT_A_TIME, "expected a time such as 2026-01-31T09:00:00Z (in an address, + is %2B)")
    problem = problem.replace(_NOT_A_TAG, "expected a language tag such as en, de or pt-BR")
    return problem.replace(_NOT_AN_ID, "expected an id without control characters and line breaks")
