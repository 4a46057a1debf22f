"""Requests on their way to a server and back: sent again where that is safe, answers decoded into their types."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx
import msgspec
from msgspec import Struct

from api.client.errors import UNEXPECTED, CuebookError, failure_of, unreachable

T = TypeVar("T")


class Patience(Struct, frozen=True, kw_only=True):
    """How long a client waits, and how often it tries."""

    answer_s: float = 150.0  # a turn of a server may take as long as its own bound
    connect_s: float = 10.0
    attempts_max: int = 5
    first_wait_s: float = 0.2
    wait_max_s: float = 10.0
    retry_after_max_s: float = 60.0  # a server that wants to be left alone for longer is not waited for


class Wire:
    """One connection pool to one server. Every request that changes something carries an Idempotency-Key, or comes to
    the same however often it is sent; so all of them are tried again.
    """

    def __init__(self, http: httpx.AsyncClient, patience: Patience) -> None:
        self._http = http
        self._patience = patience

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: object = None,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        answer_s: float | None = None,
    ) -> T:
        """The answer, waited for as long as for any, or for `answer_s`. Raises CuebookError."""

        answer = await self._answered(self._request(method, path, body, parameters, headers, answer_s))
        return _decoded(answer.content, kind)

    async def content(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parameters: Mapping[str, object] | None = None,
        answer_s: float | None = None,
    ) -> bytes:
        """An answer that is a document. Raises CuebookError."""
        return (await self._answered(self._request(method, path, body, parameters, None, answer_s))).content

    async def text(self, path: str, *, parameters: Mapping[str, object] | None = None) -> str:
        """An answer that is no JSON, as it comes. Raises CuebookError."""
        return (await self._answered(self._request("GET", path, None, parameters, None))).text

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        for attempt in itertools.count(1):
            try:
                return await self._sent(request)
            except CuebookError as failed:
                await self.before_next(attempt, failed)
        raise AssertionError("there is always a next attempt, or an error")

    async def _sent(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await self._http.send(request)
        except httpx.TransportError as error:
            raise unreachable(error) from error
        if not answer.is_success:
            raise failure_of(answer)
        return answer

    async def before_next(self, attempt: int, failed: CuebookError) -> None:
        """Waits before the attempt after one that failed; longer each time, and at random, so that clients that failed
        together do not come back together. Raises the failure where no further one is worth it.
        """
        patience, wanted_s = self._patience, failed.retry_after_s or 0.0
        if not failed.is_passing or attempt >= patience.attempts_max or wanted_s > patience.retry_after_max_s:
            raise failed
        longest_s = min(patience.first_wait_s * 2**attempt, patience.wait_max_s)
        await asyncio.sleep(wanted_s + random.uniform(0, longest_s))  # noqa: S311  (no secret)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """An answer that comes bit by bit. Raises CuebookError."""
        request = self._request(method, path, body, parameters, headers)
        try:
            answer = await self._http.send(request, stream=True)
        except httpx.TransportError as error:
            raise unreachable(error) from error
        try:
            if not answer.is_success:
                await answer.aread()
                raise failure_of(answer)
            yield answer
        except httpx.TransportError as error:
            raise unreachable(error) from error
        finally:
            await answer.aclose()

    def _request(
        self,
        method: str,
        path: str,
        body: object,
        parameters: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
        answer_s: float | None = None,
    ) -> httpx.Request:
        given: list[tuple[str, str | int | float | bool | None]] = [
            (name, each) for name, value in (parameters or {}).items() for each in _written(value)
        ]
        content = None if body is None else msgspec.json.encode(body)
        kind = {} if content is None else {"Content-Type": "application/json"}
        answer_s = self._patience.answer_s if answer_s is None else answer_s
        return self._http.build_request(
            method,
            path,
            params=httpx.QueryParams(given),
            content=content,
            headers={**kind, **(headers or {})},
            timeout=httpx.Timeout(answer_s, connect=self._patience.connect_s),
        )


def _written(value: object) -> list[str]:
    """A parameter as it is sent: once, not at all, or once for each of a list."""
    match value:
        case None:
            return []
        case bool():
            return [str(value).lower()]
        case list():
            return [str(each) for each in value]
        case _:
            return [str(value)]


def _decoded(content: bytes, kind: type[T]) -> T:
    """Raises CuebookError where it is something else: a proxy's page, an answer of another version."""
    try:
        return msgspec.json.decode(content or b"null", type=kind)
    except msgspec.DecodeError as error:
        raise CuebookError(UNEXPECTED, f"the answer is not what it should be: {error}") from error
