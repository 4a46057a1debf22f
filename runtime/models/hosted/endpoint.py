"""One endpoint: its connections, how many calls it takes at a time, its breaker, and a single call to it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx2
import msgspec
from msgspec import Struct
from openai import APIError, AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient, Omit, Timeout
from openai.types.chat import ChatCompletionChunk

from runtime.models.hosted.breaker import Breaker
from runtime.models.hosted.failures import Failure, failure_of
from runtime.models.hosted.reading import visible
from runtime.models.hosted.settings import Secret

CONNECT_S = 5.0
KEEP_ALIVE_S = 60.0
REPLY_CHARS_MAX = 200_000
EACH_CHARS_MAX = 2_000  # up to here a growing reply is read at every piece that comes,
STEP_PART = 64  # then whenever it is longer by one part in so many: the sum of it all is linear
NO_KEY = "none"  # the client insists on one


class Line(Struct, frozen=True):
    """What an endpoint is told apart by: models that have all of it in common share its connections."""

    url: str
    key: Secret
    timeout_s: float  # for the wait for a place, then for the first word of a reply, then for each further one
    concurrency_max: int


class Listener(Protocol):
    """Is told how a call goes on."""

    def sent(self) -> None:
        """The endpoint is being asked."""

    def grew(self, text: str) -> None:
        """The reply, where it is a stream, is this long by now."""


class Said(Struct, frozen=True, kw_only=True):
    """What a call brought."""

    text: str
    is_called: bool = False  # it is the arguments of a call of a tool; there were no words
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
    # what a model thinks before it speaks, by the two names that endpoints have for it; never read
    reasoning_content: object = None
    reasoning: object = None

    @property
    def is_progress(self) -> bool:
        """Whether the model said or thought anything; endpoints also send pieces that only keep the line open."""
        return bool(self.words or self.called or self.reasoning_content or self.reasoning)

    @property
    def words(self) -> str:
        return (self.content or "") + (self.refusal or "")

    @property
    def called(self) -> str:
        return "".join(each.function.arguments or "" for each in self.tool_calls or () if each.function is not None)


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

    async def call(self, body: Mapping[str, object], listener: Listener, chars_max: int = REPLY_CHARS_MAX) -> Said:
        """One call, for a reply of so many characters at most. Raises Failure.

        A stream may take as long as its words keep coming; any other reply comes as one word.
        """
        async with self._place():
            with self.breaker.guard():
                try:
                    async with asyncio.timeout(self.line.timeout_s) as silence:
                        listener.sent()
                        growing = _Growing(listener, min(chars_max, REPLY_CHARS_MAX))
                        return await self._called(body, growing, lambda: self._put_off(silence))
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

    def _put_off(self, silence: asyncio.Timeout) -> None:
        silence.reschedule(asyncio.get_running_loop().time() + self.line.timeout_s)

    async def _called(self, body: Mapping[str, object], growing: "_Growing", heard: Callable[[], None]) -> Said:
        create: Any = self._client.chat.completions.create  # its overloads want every parameter by name
        try:
            answer = await create(**body)
        except APIError as error:
            failure = failure_of(error)
            raise (Failure("no_key") if failure.kind == "401" and not self.line.key else failure) from None
        except ValueError:  # a body that is no JSON
            raise Failure("protocol") from None
        if isinstance(answer, AsyncStream):
            return await _streamed(answer, growing, heard)
        return _whole(answer, growing)


def _client(line: Line) -> AsyncOpenAI:
    # OPENAI_LOG, or a root logger that tells everything, would have the client tell of requests, and some of its
    # versions of what people say in them
    logging.getLogger("openai").setLevel(logging.WARNING)
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


class _Growing:
    """A reply while it comes: its pieces, and the listener that is told of them, seldom enough for long replies."""

    def __init__(self, listener: Listener, chars_max: int) -> None:
        self._listener = listener
        self._chars_max = chars_max
        self._words: list[str] = []
        self._called: list[str] = []
        self._chars = 0
        self._told_chars = 0

    def add(self, piece: _Message) -> None:
        """One more piece. Raises Failure where the reply gets too long."""
        if piece.words:
            self._words.append(piece.words)
        if piece.called:
            self._called.append(piece.called)
        self._chars += len(piece.words) + len(piece.called)
        if self._chars > self._chars_max:
            raise Failure("long")

    def tell(self, *, at_last: bool = False) -> None:
        """Tells the listener, where there is enough that is new."""
        new = self._chars - self._told_chars
        if new and (at_last or self._chars < EACH_CHARS_MAX or new > self._told_chars // STEP_PART):
            self._told_chars = self._chars
            self._listener.grew(self.text()[0])

    def text(self) -> tuple[str, bool]:
        """The words, or the arguments of a call of a tool where there are no words; and which of them it is."""
        words = "".join(self._words)
        is_called = bool(self._called) and not visible(words)
        return (words + "".join(self._called) if is_called else words), is_called


def _whole(answer: object, growing: _Growing) -> Said:
    read = _read(answer)
    if not read.choices or read.choices[0].message is None:
        raise Failure("protocol")
    growing.add(read.choices[0].message)
    return _said(growing, read.choices[0].finish_reason or "", read.model or "", read.usage)


async def _streamed(stream: AsyncStream[ChatCompletionChunk], growing: _Growing, heard: Callable[[], None]) -> Said:
    finish, model = "", ""
    usage: _Tokens | None = None
    try:
        async with stream:
            async for chunk in stream:
                piece = _read(chunk)
                usage, model = piece.usage or usage, piece.model or model
                for choice in (piece.choices or ())[:1]:
                    finish = choice.finish_reason or finish
                    if choice.delta is not None:
                        growing.add(choice.delta)
                        if choice.delta.is_progress:
                            heard()
                    growing.tell(at_last=bool(finish))
    except APIError as error:
        raise failure_of(error) from None
    except ValueError:  # an event that is no JSON
        raise Failure("protocol") from None
    if not finish:
        raise Failure("cut" if growing.text()[0] else "protocol")
    return _said(growing, finish, model, usage)


def _said(growing: _Growing, finish: str, model: str, usage: _Tokens | None) -> Said:
    if finish == "content_filter":
        raise Failure("filtered")
    text, is_called = growing.text()
    details = usage.prompt_tokens_details if usage is not None else None
    return Said(
        text=text,
        is_called=is_called,
        finish=finish,
        model=model,
        input_tokens=usage.prompt_tokens if usage is not None else None,
        output_tokens=usage.completion_tokens if usage is not None else None,
        cached_tokens=(details.cached_tokens if details is not None else None) or 0,
    )
