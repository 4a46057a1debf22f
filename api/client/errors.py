"""What a request comes back with when it fails: the one error of the client, made of the one error shape of the API."""

from typing import Any

import httpx
import msgspec

from api.errors import ErrorAnswer

UNREACHABLE = "UNREACHABLE"
UNEXPECTED = "UNEXPECTED_ANSWER"
_AGAIN = frozenset({"wait", "resend"})  # what a server calls it when the very same request may be sent again


class CuebookError(Exception):
    """A request that failed. `code` is one of the API's, `UNREACHABLE` where no answer came, or `UNEXPECTED_ANSWER`."""

    def __init__(self, code: str, message: str, *, status: int = 0, details: Any = None, suggestion: str = "") -> None:
        super().__init__(f"{code}: {message}{f' ({suggestion})' if suggestion else ''}")
        self.code = code
        self.message = message
        self.status = status
        self.details = details
        self.suggestion = suggestion
        self.retry_after_s: float | None = None
        self.is_passing = False  # whether the same request may come through a moment later


def failure_of(answer: httpx.Response) -> CuebookError:
    """What an answer says that is none of success; its body was read."""
    try:
        error = msgspec.json.decode(answer.content, type=ErrorAnswer).error
    except msgspec.DecodeError:
        status = answer.status_code
        return CuebookError(UNEXPECTED, f"status {status}, and no error of Cuebook's", status=status)
    failed = CuebookError(
        error.code,
        error.message,
        status=answer.status_code,
        details=error.details,
        suggestion=error.recovery.suggestion,
    )
    failed.is_passing = error.recovery.can_retry and error.recovery.retry_action in _AGAIN
    wanted = answer.headers.get("Retry-After", "")
    failed.retry_after_s = float(wanted) if wanted.isdigit() else None
    return failed


def unreachable(error: httpx.TransportError) -> CuebookError:
    """No answer came; whether the request was carried out is not known."""
    failed = CuebookError(UNREACHABLE, f"no answer from the server ({type(error).__name__})")
    failed.is_passing = True
    return failed
