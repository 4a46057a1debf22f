"""The one exception of the client, created from error responses of the API."""

from collections.abc import Sequence

import httpx
import msgspec

from api.errors import ErrorAnswer, ErrorDetail

UNREACHABLE = "UNREACHABLE"
UNEXPECTED = "UNEXPECTED_ANSWER"
_AGAIN = frozenset({"wait", "resend"})  # recoveries that permit to send the same request again


class CuebookError(Exception):
    """A failed request. `code` is an API error code, `UNREACHABLE` without a response, or `UNEXPECTED_ANSWER`.

    `message` is the cause and `suggestion` the fix, for a person; `status` is the HTTP status, 0 without a response;
    `details` name the fields or lines at fault. `is_passing` says whether the same request may succeed a moment later,
    `retry_after_s` after how many seconds, None if the server does not say.
    """

    def __init__(
        self, code: str, message: str, *, status: int = 0, details: Sequence[ErrorDetail] = (), suggestion: str = ""
    ) -> None:
        super().__init__(f"{code}: {message}{f' ({suggestion})' if suggestion else ''}")
        self.code = code
        self.message = message
        self.status = status
        self.details = details
        self.suggestion = suggestion
        self.retry_after_s: float | None = None
        self.is_passing = False


def failure_of(answer: httpx.Response) -> CuebookError:
    """Create the error of an unsuccessful response whose body was read."""
    try:
        error = msgspec.json.decode(answer.content, type=ErrorAnswer).error
    except msgspec.DecodeError:
        status = answer.status_code
        return CuebookError(UNEXPECTED, f"status {status} without a Cuebook error", status=status)
    failed = CuebookError(
        error.code,
        error.message,
        status=answer.status_code,
        details=error.details,
        suggestion=error.recovery.suggestion,
    )
    failed.is_passing = error.recovery.can_retry and error.recovery.retry_action in _AGAIN
    retry_after = answer.headers.get("Retry-After", "")
    failed.retry_after_s = float(retry_after) if retry_after.isdigit() else None
    return failed


def unreachable(error: httpx.TransportError) -> CuebookError:
    """Create the error for a missing response; whether the request was carried out is unknown."""
    url = error.request.url
    if isinstance(error, httpx.UnsupportedProtocol):
        fix = "Begin the address of the server with http:// or https://."
        return CuebookError(UNREACHABLE, f"{url} is no address of a server", suggestion=fix)
    if isinstance(error, httpx.LocalProtocolError):  # its message contains the key
        fix = "Pass the API key without blanks and line breaks."
        return CuebookError(UNREACHABLE, "a header of the request, such as the API key, is not valid", suggestion=fix)
    failed = CuebookError(
        UNREACHABLE,
        f"no answer from {url.scheme}://{url.netloc.decode()} ({type(error).__name__})",
        suggestion="Start the server, or correct its address.",
    )
    failed.is_passing = True
    return failed
