"""One endpoint: its connections, how many calls it takes at a time, its breaker, and a single call to it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import Struct
from openai import APIError, AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient, Omit, Timeout
from openai.types.chat import ChatCompletionChunk

from runtime.models.hosted.breaker import Breaker
from runtime.models.hosted.failures import Failure, failure_of
from runtime.models.hosted.settings import Secret

CONNECT_S = 5.0
KEEP_ALIVE_S = 60.0
REPLY_CHARS_MAX = 200_000
NO_KEY = "none"  # the client insists on one


class Line(Struct, frozen=True):
    """What an endpoint is told apart by: models that have all of it in common share its connections."""

    url: str
    key: Secret
    timeout_s: float  # for the wait for a place, and then for the whole of a call
    concurrency_max: int


class Said(Struct, frozen=True, kw_only=True):
    """What a call brought."""

    text: str
    model: str = ""
    finish: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0


# -- what endpoints send, as far as it is read -------------------------------------------------------------------------


class _Function(Struct, frozen=True):
    arguments: str | None = None


class _ToolCall(Struct, frozen=True):
    function: _Function | None = None


class _Message(Struct, frozen=True):
    """A message, or a piece of one."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None

    @property
    def text(self) -> str:
        called = "".join(each.function.arguments or "" for each in self.tool_calls or () if each.function is not None)
        return (self.content or "") + (self.refusal or "") + called


class _Choice(Struct, frozen=True):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Details(Struct, frozen=True):
    cached_tokens: int | None = None


class _Tokens(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(Struct, frozen=True):
    """A reply, or a piece of one."""

    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    model: str | None = None


class Endpoint:
    """An endpoint that is used for as long as the server runs."""

    def __init__(self, line: Line, clock: Callable[[], float] = time.monotonic) -> None:
        self.breaker = Breaker(clock)
        self.line = line
        self._places = asyncio.Semaphore(line.concurrency_max)
        self._client = _client(line)

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.close()

    async def call(self, body: Mapping[str, object], grow: Callable[[str], None]) -> Said:
        """One call; the text so far goes to `grow` where the body wants a stream. Raises Failure."""
        async with self._place():
            with self.breaker.guard():
                try:
                    async with asyncio.timeout(self.line.timeout_s):
                        return await self._called(body, grow)
                except TimeoutError:
                    raise Failure("timeout") from None

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of the places; who waits too long for one is turned away."""
        try:
            async with asyncio.timeout(self.line.timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise Failure("busy") from None
        try:
            yield
        finally:
            self._places.release()

    async def _called(self, body: Mapping[str, object], grow: Callable[[str], None]) -> Said:
        create: Any = self._client.chat.completions.create  # its overloads want every parameter by name
        try:
            answer = await create(**body)
        except APIError as error:
            raise failure_of(error) from None
        except ValueError:  # a body that is no JSON
            raise Failure("protocol") from None
        return await _streamed(answer, grow) if isinstance(answer, AsyncStream) else _whole(answer)


def _client(line: Line) -> AsyncOpenAI:
    timeout = Timeout(line.timeout_s, connect=min(CONNECT_S, line.timeout_s))
    limits = httpx2.Limits(
        max_connections=line.concurrency_max,
        max_keepalive_connections=line.concurrency_max,
        keepalive_expiry=KEEP_ALIVE_S,
    )
    return AsyncOpenAI(
        api_key=line.key.reveal() or NO_KEY,
        base_url=line.url,
        timeout=timeout,
        max_retries=0,
        # what the environment says is meant for another endpoint
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultAsyncHttpxClient(timeout=timeout, limits=limits, follow_redirects=False),
    )


def _read(piece: object) -> _Completion:
    try:
        return msgspec.convert(piece, _Completion, from_attributes=True)
    except msgspec.ValidationError:
        raise Failure("protocol") from None


def _whole(answer: object) -> Said:
    read = _read(answer)
    if not read.choices or read.choices[0].message is None:
        raise Failure("protocol")
    return _said(read.choices[0].message.text, read.choices[0].finish_reason or "", read.model or "", read.usage)


async def _streamed(stream: AsyncStream[ChatCompletionChunk], grow: Callable[[str], None]) -> Said:
    text, finish, model = "", "", ""
    usage: _Tokens | None = None
    try:
        async with stream:
            async for chunk in stream:
                piece = _read(chunk)
                usage, model = piece.usage or usage, piece.model or model
                for choice in (piece.choices or ())[:1]:
                    finish = choice.finish_reason or finish
                    more = choice.delta.text if choice.delta is not None else ""
                    if more:
                        text += more
                        grow(text)
                if len(text) > REPLY_CHARS_MAX:
                    raise Failure("long")
    except APIError as error:
        raise failure_of(error) from None
    except ValueError:  # an event that is no JSON
        raise Failure("protocol") from None
    if not finish:
        raise Failure("cut" if text else "protocol")
    return _said(text, finish, model, usage)


def _said(text: str, finish: str, model: str, usage: _Tokens | None) -> Said:
    if finish == "content_filter":
        raise Failure("filtered")
    if len(text) > REPLY_CHARS_MAX:
        raise Failure("long")
    details = usage.prompt_tokens_details if usage is not None else None
    return Said(
        text=text,
        finish=finish,
        model=model,
        input_tokens=usage.prompt_tokens if usage is not None else None,
        output_tokens=usage.completion_tokens if usage is not None else None,
        cached_tokens=(details.cached_tokens if details is not None else None) or 0,
    )
