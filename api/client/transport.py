"""Requests to a server: retried where that is safe, responses decoded into their types, errors into CuebookError."""

import asyncio
import itertools
import math
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar, Unpack

import httpx
import msgspec
from msgspec import Struct

from api.schemas.errors import ErrorAnswer, ErrorDetail
from api.schemas.ids import has_control

T = TypeVar("T")

INVALID = "REQUEST_INVALID"
UNREACHABLE = "UNREACHABLE"
UNEXPECTED = "UNEXPECTED_ANSWER"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)


class CuebookError(Exception):
    """A failed request. `code` is an API error code, `UNREACHABLE` without a response, or `UNEXPECTED_ANSWER`.

    `message` is the cause and `suggestion` the fix, for a person; `status` is the HTTP status, 0 without a response;
    `details` name the fields or lines at fault; `context` has the ids it is about, such as the `sessionId` of a session
    whose first turn failed. `is_passing` says whether the same request may succeed a moment later, `retry_after_s`
    after how many seconds, None if the server does not say.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        details: Sequence[ErrorDetail] = (),
        context: Mapping[str, Any] | None = None,
        suggestion: str = "",
        is_passing: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}{f' ({suggestion})' if suggestion else ''}")
        self.code = code
        self.message = message
        self.status = status
        self.details = details
        self.context = dict(context or {})
        self.suggestion = suggestion
        self.is_passing = is_passing
        self.retry_after_s = retry_after_s


def failure_of(answer: httpx.Response) -> CuebookError:
    """Create the error of an unsuccessful response whose body was read."""
    try:
        error = msgspec.json.decode(answer.content, type=ErrorAnswer).error
    except msgspec.DecodeError:
        status = answer.status_code
        return CuebookError(UNEXPECTED, f"status {status} without a Cuebook error", status=status)
    retry_after = answer.headers.get("Retry-After", "")
    return CuebookError(
        error.code,
        error.message,
        status=answer.status_code,
        details=error.details,
        context=error.context,
        suggestion=error.recovery.suggestion,
        is_passing=error.recovery.can_retry,
        retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
    )


def unreachable(error: httpx.TransportError) -> CuebookError:
    """Create the error for a missing response; whether the request was carried out is unknown."""
    url = error.request.url
    if isinstance(error, httpx.UnsupportedProtocol):
        fix = "Begin the address of the server with http:// or https://."
        return CuebookError(UNREACHABLE, f"{url} is no address of a server", suggestion=fix)
    if isinstance(error, httpx.LocalProtocolError):  # its message contains the key
        fix = "Pass the API key without blanks and line breaks."
        return CuebookError(UNREACHABLE, "a header of the request, such as the API key, is not valid", suggestion=fix)
    return CuebookError(
        UNREACHABLE,
        f"no answer from {url.scheme}://{url.netloc.decode()} ({type(error).__name__})",
        suggestion="Start the server, or correct its address.",
        is_passing=True,
    )


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The timeouts and retries of a client, in seconds."""

    answer_s: float = 150.0
    """The longest wait for an answer, above the server's own time limit of a turn."""
    connect_s: float = 10.0
    """The longest wait for a connection."""
    attempts_max: int = 5
    """How often a request is sent, the first time included."""
    first_wait_s: float = 0.2
    """Waits are random: at most twice this after the first attempt, four times after the second, and so on."""
    wait_max_s: float = 10.0
    """The longest wait between two attempts."""
    retry_after_max_s: float = 60.0
    """A longer `Retry-After` of the server is not waited for; the request fails."""


class RequestOptions(TypedDict, total=False):
    """What a request contains besides its path, and how long to wait for the response (default: the policy's).

    A body of bytes is sent as it is, with the Content-Type of the headers; any other becomes JSON.
    """

    body: object
    parameters: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    answer_s: float | None


class HttpTransport:
    """A connection pool to one server. Every request that changes data has an Idempotency-Key or is idempotent, so all
    requests can be retried.
    """

    def __init__(self, http: httpx.AsyncClient, patience: RetryPolicy) -> None:
        self._http = http
        self._patience = patience

    async def ask(self, method: str, path: str, kind: type[T], **options: Unpack[RequestOptions]) -> T:
        """Return the decoded response. Raises CuebookError."""
        return _decode(await self.content(method, path, **options), kind)

    async def get(self, path: str, kind: type[T], /, **parameters: Any) -> T:
        """Return the decoded response to a GET request with these query parameters. Raises CuebookError."""
        return await self.ask("GET", path, kind, parameters=parameters)

    async def post(self, path: str, kind: type[T], body: object, headers: Mapping[str, str] | None = None) -> T:
        """Return the decoded response to a POST request. Raises CuebookError."""
        return await self.ask("POST", path, kind, body=body, headers=headers)

    async def content(self, method: str, path: str, **options: Unpack[RequestOptions]) -> bytes:
        """Return the content of the response. Raises CuebookError."""
        is_lost = False  # the answer of an attempt that may have been carried out
        for attempt in itertools.count(1):
            try:
                async with self.stream(method, path, **options) as answer:
                    return await answer.aread()
            except CuebookError as failed:
                if method == "DELETE" and is_lost and failed.status == HTTPStatus.NOT_FOUND:
                    return b""
                is_lost = is_lost or (failed.code == UNREACHABLE and not isinstance(failed.__cause__, _NOT_SENT))
                await self.retry_delay(attempt, failed)
        raise AssertionError("every attempt returns or raises")

    async def retry_delay(self, attempt: int, failed: CuebookError) -> None:
        """Wait before the next attempt: longer each time, and for a random time, so that clients that failed together
        do not retry together. Raise the error if another attempt is useless.
        """
        patience, wanted_s = self._patience, failed.retry_after_s or 0.0
        if not failed.is_passing or attempt >= patience.attempts_max or wanted_s > patience.retry_after_max_s:
            raise failed
        longest_s = min(patience.first_wait_s * 2**attempt, patience.wait_max_s)
        await asyncio.sleep(wanted_s + random.uniform(0, longest_s))  # noqa: S311  (not a secret)

    @asynccontextmanager
    async def stream(self, method: str, path: str, **options: Unpack[RequestOptions]) -> AsyncIterator[httpx.Response]:
        """Yield a streamed response. Raises CuebookError."""
        request = self._request(method, path, **options)
        try:
            answer = await self._http.send(request, stream=True)
            try:
                if not answer.is_success:
                    await answer.aread()
                    raise failure_of(answer)
                yield answer
            finally:
                await answer.aclose()
        except httpx.TransportError as error:
            raise unreachable(error) from error

    def _request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> httpx.Request:
        if path.endswith("/") or "//" in path:  # a slash of an id is sent as %2F
            raise CuebookError(INVALID, "an id is empty")
        parameters = options.get("parameters") or {}
        body = options.get("body")
        try:
            content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
            sent = options.get("headers") or {}
            headers = [(name.encode(), value.encode()) for name, value in sent.items()]
        except UnicodeEncodeError as error:
            half = "a text has half of a surrogate pair, such as \\ud800, which is not a character"
            raise CuebookError(INVALID, half) from error
        is_json = content is not body
        if is_json and content and b"null" in content and not _is_finite(msgspec.to_builtins(body)):
            raise CuebookError(INVALID, "a number is NaN or infinite, which JSON has no numbers for")
        for name, value in sent.items():
            if has_control(value):
                raise CuebookError(INVALID, f"{name}: it has a control character or a line break")
        if is_json:
            headers.append((b"Content-Type", b"application/json"))
        answer_s = options.get("answer_s") or self._patience.answer_s
        return self._http.build_request(
            method,
            path,
            params={name: value for name, value in parameters.items() if value is not None},
            content=content,
            headers=headers,
            timeout=httpx.Timeout(answer_s, connect=self._patience.connect_s),
        )


def waiting(wait_s: int) -> dict[str, str]:
    """Return the header by which a request waits for what it asks for."""
    return {"Prefer": f"wait={wait_s}"} if wait_s else {}


def _is_finite(value: object) -> bool:
    """Return whether a value has no NaN and nothing infinite, which msgspec writes as null."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list() | tuple():
            return all(map(_is_finite, value))
        case _:
            return True


def _decode(content: bytes, kind: type[T]) -> T:
    """Decode a response. Raises CuebookError if it is another document, such as a page of a proxy."""
    try:
        return msgspec.json.decode(content or b"null", type=kind)
    except msgspec.DecodeError as error:
        raise CuebookError(UNEXPECTED, f"the response has an unexpected format: {error}") from error
