"""One endpoint: its connections, its limit of concurrent calls, its breaker, and a single call to it."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import msgspec
from msgspec import Struct
from openai import APIError, AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient, Omit, Timeout
from openai.types.chat import ChatCompletionChunk

from runtime.models.hosted.failures import AttemptFailure, failure_of, reported_failure
from runtime.models.hosted.reply_reader import visible, whole_characters
from runtime.models.hosted.settings import Secret
from runtime.state.circuit import BreakerState, Circuit

CONNECT_S = 5.0
KEEP_ALIVE_S = 60.0
REPLY_CHARS_MAX = 200_000
EACH_CHARS_MAX = 2_000  # up to this length a growing reply is parsed at every piece,
PARSED_EVERY_S = 0.02  # then not more often than this, which users do not notice, because all of it is parsed each time
NO_KEY = "none"  # the client requires a key
# also if the environment names a proxy, which cannot reach this machine
NO_PROXY: Mapping[str, None] = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}

_HALF = re.compile(r"[\ud800-\udbff]\Z")  # the rest of this character is in the next piece


class Line(Struct, frozen=True):
    """The identity of an endpoint: models with the same values share its connections."""

    url: str
    key: Secret
    timeout_s: float  # applies to the wait for a free slot, to the first piece of a reply, and to each further one
    concurrency_max: int


class Listener(Struct, frozen=True):
    """Callbacks for the progress of a call: its start, and a streamed reply that has grown to a text."""

    sent: Callable[[], None]
    grew: Callable[[str], None]


class EndpointCall(Struct, frozen=True):
    """A call of a tool in the endpoint's own form; the arguments are JSON."""

    name: str
    arguments: str


class EndpointReply(Struct, frozen=True, kw_only=True):
    """The result of a call."""

    text: str
    is_called: bool = False  # the text is the arguments of tool calls; there was no content
    call: EndpointCall | None = None  # the first of them
    model: str = ""
    finish: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0


# -- responses of endpoints, as far as they are used -------------------------------------------------------------------


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, object] | None = None  # some endpoints send the object itself

    @property
    def written(self) -> str:
        if isinstance(self.arguments, dict):
            return msgspec.json.encode(self.arguments).decode()
        return self.arguments or ""


class _ToolCall(Struct, frozen=True):
    index: int | None = None
    function: _Function | None = None


class _Message(Struct, frozen=True):
    """A message, or a part of a streamed one."""

    content: str | list[object] | None = None  # some endpoints send a list of parts, with thoughts and texts
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None
    # a model's reasoning, under the two names that endpoints use; never read
    reasoning_content: object = None
    reasoning: object = None

    @property
    def is_progress(self) -> bool:
        """Return whether the model produced anything; endpoints also send empty pieces to keep the connection open."""
        return bool(self.content or self.refusal or self.called or self.reasoning_content or self.reasoning)

    @property
    def words(self) -> str:
        parts = [self.content] if isinstance(self.content, str) else map(_text_of, self.content or ())
        return "".join(parts) + (self.refusal or "")

    @property
    def called(self) -> str:
        return "".join(each.function.written for each in self.tool_calls or () if each.function is not None)


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
    """A reply, or a part of a streamed one."""

    choices: list[_Choice] | None = None
    usage: object = None  # read by itself: a reply counts also without it
    model: str | None = None
    error: object = None

    @property
    def tokens(self) -> _Tokens | None:
        try:
            return msgspec.convert(self.usage, _Tokens | None, from_attributes=True, strict=False)
        except msgspec.ValidationError:
            return None


def _text_of(part: object) -> str:
    """Return the text of a part of a content; empty for a thought."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


class Breaker:
    """Guards the calls of one endpoint: after several failures in a row, it is not called for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._circuit = Circuit(clock)
        self._cause = ""  # the kind of the first failure in the row

    @property
    def state(self) -> BreakerState:
        """Return the current state."""
        return self._circuit.state

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Guard one call. Raises AttemptFailure `resting` if the call is not made; its cause is the first failure."""
        if not self._circuit.begin():
            raise AttemptFailure("resting", cause=self._cause)
        is_down: bool | None = None
        try:
            yield
            is_down = False
        except AttemptFailure as failure:
            is_down = failure.meaning.down
            if is_down:
                self._cause = self._cause or failure.kind
            raise
        finally:
            if is_down is False:  # an endpoint that refuses a request is not down
                self._cause = ""
            self._circuit.end(is_down=is_down)


class Endpoint:
    """An endpoint, used until the server stops."""

    def __init__(self, line: Line, clock: Callable[[], float] = time.monotonic) -> None:
        self.breaker = Breaker(clock)
        self.line = line
        self._clock = clock
        self._places = asyncio.Semaphore(line.concurrency_max)
        self._client = _client(line)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def call(
        self, body: Mapping[str, object], listener: Listener, chars_max: int = REPLY_CHARS_MAX
    ) -> EndpointReply:
        """Make one call, for a reply of at most `chars_max` characters. Raises AttemptFailure.

        The time limit applies to each piece of a stream, and to the whole of any other reply.
        """
        async with self._place():
            with self.breaker.guard():
                try:
                    async with asyncio.timeout(self.line.timeout_s) as silence:
                        listener.sent()
                        growing = _PartialReply(listener, min(chars_max, REPLY_CHARS_MAX), self._clock)
                        return await self._call(body, growing, lambda: self._put_off(silence))
                except TimeoutError:
                    raise AttemptFailure("timeout") from None

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Hold one of the slots for concurrent calls; a call that waits too long for one fails as `busy`."""
        try:
            async with asyncio.timeout(self.line.timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise AttemptFailure("busy") from None
        try:
            yield
        finally:
            self._places.release()

    def _put_off(self, silence: asyncio.Timeout) -> None:
        silence.reschedule(asyncio.get_running_loop().time() + self.line.timeout_s)

    async def _call(
        self, body: Mapping[str, object], growing: "_PartialReply", on_progress: Callable[[], None]
    ) -> EndpointReply:
        create: Any = self._client.chat.completions.create  # its overloads require each parameter by name
        try:
            answer = await create(**body)
        except APIError as error:
            extra = body.get("extra_body")
            failure = failure_of(error, extra if isinstance(extra, dict) else ())
            refused_key = failure.kind in {"401", "key"}
            raise (AttemptFailure("no_key") if refused_key and not self.line.key else failure) from None
        except ValueError:  # a body that is not JSON
            raise AttemptFailure("protocol") from None
        if isinstance(answer, str):  # no JSON: some proxies stream also what is requested as a whole
            response = httpx2.Response(200, text=answer, request=httpx2.Request("POST", self.line.url))
            return await _read_stream(_Events(response, self._client), growing, on_progress)
        if not isinstance(answer, AsyncStream):
            return _whole(answer, growing)
        if answer.response.headers.get("content-type", "").startswith("application/json"):
            return _whole(await _body_of(answer), growing)
        return await _read_stream(_Events(answer.response, self._client), growing, on_progress)


def _client(line: Line) -> AsyncOpenAI:
    # with OPENAI_LOG, or a root logger at level DEBUG, the client would log requests, and in some versions the users'
    # messages in them
    logging.getLogger("openai").setLevel(logging.WARNING)
    timeout = Timeout(line.timeout_s, connect=min(CONNECT_S, line.timeout_s))
    address, _, query = line.url.partition("?")  # the client would put the path behind the query
    most = line.concurrency_max
    limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEP_ALIVE_S)
    return AsyncOpenAI(
        api_key=line.key.reveal() or NO_KEY,
        base_url=address,
        default_query=dict(parse_qsl(query, keep_blank_values=True)),
        timeout=timeout,
        max_retries=0,
        # the values in the environment are meant for another endpoint
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultAsyncHttpxClient(timeout=timeout, limits=limits, follow_redirects=False, mounts=NO_PROXY),
    )


def _read(piece: object) -> _Completion:
    try:
        return msgspec.convert(piece, _Completion, from_attributes=True)
    except msgspec.ValidationError:
        raise AttemptFailure("protocol") from None


class _PartialReply:
    """A reply while it is streamed: its pieces, and a listener, which is called less often for long replies."""

    def __init__(self, listener: Listener, chars_max: int, clock: Callable[[], float]) -> None:
        self._listener = listener
        self._chars_max = chars_max
        self._clock = clock
        self._words: list[str] = []
        self._call: list[str] = []
        self._first_name = ""
        self._first_arguments: list[str] = []
        self._chars = 0
        self._reported_chars = 0
        self._reported_at = 0.0

    def add(self, piece: _Message) -> None:
        """Add a piece. Raises AttemptFailure if the reply is too long."""
        words, called = piece.words, piece.called
        if words:
            self._words.append(words)
        if called:
            self._call.append(called)
        for place, each in enumerate(piece.tool_calls or ()):
            if each.function is not None and (place if each.index is None else each.index) == 0:
                self._first_name = self._first_name or each.function.name or ""
                self._first_arguments.append(each.function.written)
        self._chars += len(words) + len(called)
        if self._chars > self._chars_max:
            raise AttemptFailure("long")

    def first_call(self) -> EndpointCall:
        """Return the first call of a tool, in a reply that is one."""
        return EndpointCall(self._first_name, "".join(self._first_arguments))

    def report(self, *, at_last: bool = False) -> None:
        """Call the listener, if there is enough new text."""
        now = self._clock()
        is_due = at_last or self._chars < EACH_CHARS_MAX or now >= self._reported_at + PARSED_EVERY_S
        if is_due and self._chars > self._reported_chars:
            self._reported_chars, self._reported_at = self._chars, now
            self._listener.grew(self.text(at_last=at_last)[0])

    def text(self, *, at_last: bool = True) -> tuple[str, bool]:
        """Return the content, or the arguments of a tool call if there is no content; and whether it is the latter."""
        words = "".join(self._words)
        is_called = bool(self._call) and not visible(words)
        text = words + "".join(self._call) if is_called else words
        return whole_characters(text if at_last else _HALF.sub("", text)), is_called


def _whole(answer: object, growing: _PartialReply) -> EndpointReply:
    read = _read(answer)
    if read.error and not read.choices:
        raise reported_failure(read.error)
    if not read.choices or read.choices[0].message is None:
        raise AttemptFailure("protocol")
    growing.add(read.choices[0].message)
    return _reply_of(growing, read.choices[0].finish_reason or "", read.model or "", read.tokens)


async def _body_of(stream: AsyncStream[ChatCompletionChunk]) -> object:
    """Return the body of an answer that is no stream, although one was requested."""
    try:
        async with stream:
            return msgspec.json.decode(await stream.response.aread())
    except httpx2.TimeoutException:
        raise AttemptFailure("timeout") from None
    except httpx2.HTTPError:
        raise AttemptFailure("cut") from None
    except msgspec.DecodeError:
        raise AttemptFailure("protocol") from None


class _Events(AsyncStream[ChatCompletionChunk]):
    """The events of a stream, with a note of `[DONE]`, which the client library reads and does not report."""

    def __init__(self, response: httpx2.Response, client: AsyncOpenAI) -> None:
        super().__init__(cast_to=ChatCompletionChunk, response=response, client=client)
        self.is_done = False

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in super()._iter_events():
            self.is_done = self.is_done or event.data.startswith("[DONE]")
            yield event


async def _read_stream(stream: _Events, growing: _PartialReply, on_progress: Callable[[], None]) -> EndpointReply:
    finish, model = "", ""
    usage: _Tokens | None = None
    try:
        async with stream:
            async for chunk in stream:
                piece = _read(chunk)
                usage, model = piece.tokens or usage, piece.model or model
                for choice in (piece.choices or ())[:1]:
                    finish = choice.finish_reason or finish
                    if choice.delta is not None:
                        growing.add(choice.delta)
                        if choice.delta.is_progress:
                            on_progress()
                    growing.report(at_last=bool(finish))
    except APIError as error:
        if not finish:  # otherwise only the usage is missing
            raise failure_of(error) from None
    except ValueError:  # an event that is not JSON
        raise AttemptFailure("protocol") from None
    finally:
        growing.report(at_last=True)  # also if the attempt fails: the usage is estimated from its text
    if not finish and not (stream.is_done and growing.text()[0]):
        raise AttemptFailure("cut" if growing.text()[0] else "protocol")
    return _reply_of(growing, finish, model, usage)


def _reply_of(growing: _PartialReply, finish: str, model: str, usage: _Tokens | None) -> EndpointReply:
    if finish in {"content_filter", "error"}:
        raise AttemptFailure("filtered" if finish == "content_filter" else "cut")
    text, is_called = growing.text()
    details = usage.prompt_tokens_details if usage is not None else None
    return EndpointReply(
        text=text,
        is_called=is_called,
        call=growing.first_call() if is_called else None,
        finish=finish,
        model=model,
        # an endpoint that counts nothing may say 0
        input_tokens=(usage.prompt_tokens or None) if usage is not None else None,
        output_tokens=(usage.completion_tokens or None) if usage is not None else None,
        cached_tokens=(details.cached_tokens if details is not None else None) or 0,
    )
