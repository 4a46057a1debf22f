"""The clients of a server: the asynchronous client, and the synchronous one, which runs it in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from api.client.analytics import Analytics
from api.client.memory import Memory
from api.client.session_requests import Sessions
from api.client.transport import HttpTransport, RetryPolicy

P = ParamSpec("P")
T = TypeVar("T")
_CLOSE_S = 10.0
DEFAULT_URL = "http://127.0.0.1:8000"


class Client:
    """A server of Cuebook: ``async with Client() as cuebook: await cuebook.sessions.create("ana")``.

    `url` is the address of the server, without `/api`, and `key` an API key. `patience` sets timeouts and retries;
    `transport` replaces the connection, for tests. Its parts are `sessions`, `memory` and `analytics`.

    Requests that fail temporarily are sent again; the server carries out each of them once. Raises CuebookError.

    A client belongs to the event loop of its first request: open one in each call of `asyncio.run`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        patience: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        patience = patience or RetryPolicy()
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={b"Authorization": b"Bearer " + key.encode()} if key else {},
            timeout=httpx.Timeout(patience.answer_s, connect=patience.connect_s),
            transport=transport,
        )
        wire = HttpTransport(self._http, patience)
        self.sessions = Sessions(wire)
        self.memory = Memory(wire)
        self.analytics = Analytics(wire)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()


# -- without an event loop --------------------------------------------------------------------------------------------


class Loop:
    """An event loop that runs in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cuebook-client", daemon=True)
        self._thread.start()

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the loop and return its result; cancel it if the caller is interrupted.

        Raises RuntimeError if the loop is closed.
        """
        if self.is_closed:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_closed(self) -> bool:
        """Return whether it runs nothing any more."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Stop the loop and its thread, after what streams that were given up still have to close."""
        self.result(_finish_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self._loop.close()


async def _finish_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=_CLOSE_S)


class _SyncPart:
    """A synchronous wrapper of one part of the client."""

    def __init__(self, loop: Loop, part: Any) -> None:
        self._loop = loop
        self._part = part


def _sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_SyncPart, P], T]:
    """Return a synchronous version of an asynchronous method."""

    @wraps(method)
    def call(own: _SyncPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return own._loop.result(method(own._part, *args, **kwargs))

    return call


def _stream(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[_SyncPart, P], Iterator[T]]:
    """Return a synchronous version of a method that yields items."""

    @wraps(method)
    def call(own: _SyncPart, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        iterator = method(own._part, *args, **kwargs)
        try:
            while True:
                try:
                    yield own._loop.result(_next(iterator))
                except StopAsyncIteration:
                    return
        finally:
            if not own._loop.is_closed:
                own._loop.result(_close(iterator))

    return call


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)


async def _close(generator: Any) -> None:
    await generator.aclose()  # a generator releases its connection with it


class SyncSessions(_SyncPart):
    """The synchronous version of `Sessions`."""

    create = _sync(Sessions.create)
    get = _sync(Sessions.get)
    send = _sync(Sessions.send)
    stream = _stream(Sessions.stream)
    messages = _sync(Sessions.messages)
    transcript = _stream(Sessions.transcript)
    variables = _sync(Sessions.variables)
    variable_store = _sync(Sessions.variable_store)
    events = _sync(Sessions.events)
    follow = _stream(Sessions.follow)
    get_or_create = _sync(Sessions.get_or_create)
    by_key = _sync(Sessions.by_key)
    update_metadata = _sync(Sessions.update_metadata)
    set_variables = _sync(Sessions.set_variables)
    pause = _sync(Sessions.pause)
    resume = _sync(Sessions.resume)
    end = _sync(Sessions.end)
    clear = _sync(Sessions.clear)
    rewind = _sync(Sessions.rewind)
    append = _sync(Sessions.append)
    take_over = _sync(Sessions.take_over)
    speak = _sync(Sessions.speak)
    give_back = _sync(Sessions.give_back)
    use_model = _sync(Sessions.use_model)
    fork = _sync(Sessions.fork)
    snapshots = _sync(Sessions.snapshots)
    snapshot = _sync(Sessions.snapshot)
    delete = _sync(Sessions.delete)
    find = _sync(Sessions.find)
    search = _sync(Sessions.search)
    stats = _sync(Sessions.stats)
    history = _sync(Sessions.history)
    prompt_messages = _sync(Sessions.prompt_messages)
    context = _sync(Sessions.context)
    compress = _sync(Sessions.compress)
    export = _sync(Sessions.export)
    import_session = _sync(Sessions.import_session)


class SyncMemory(_SyncPart):
    """The synchronous version of `Memory`."""

    add = _sync(Memory.add)
    add_many = _sync(Memory.add_many)
    search = _sync(Memory.search)
    units = _sync(Memory.units)
    unit = _sync(Memory.unit)
    pin = _sync(Memory.pin)
    remove = _sync(Memory.remove)
    start_group = _sync(Memory.start_group)
    groups = _sync(Memory.groups)
    group = _sync(Memory.group)
    remove_group = _sync(Memory.remove_group)
    context = _sync(Memory.context)
    restore = _sync(Memory.restore)
    summarise = _sync(Memory.summarise)
    forget = _sync(Memory.forget)
    preview_forget = _sync(Memory.preview_forget)
    embed = _sync(Memory.embed)
    jobs = _sync(Memory.jobs)
    job = _sync(Memory.job)
    status = _sync(Memory.status)


class SyncAnalytics(_SyncPart):
    """The synchronous version of `Analytics`."""

    query = _sync(Analytics.query)
    query_as = _sync(Analytics.query_as)
    report = _sync(Analytics.report)
    report_as = _sync(Analytics.report_as)
    reports = _sync(Analytics.reports)
    model = _sync(Analytics.model)
    status = _sync(Analytics.status)
    snapshot = _sync(Analytics.snapshot)


class SyncClient:
    """A server of Cuebook: ``with SyncClient() as cuebook: cuebook.sessions.create("ana")``.

    Its arguments and parts are those of `Client`; it runs in a thread of its own. Raises CuebookError.
    """

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, patience: RetryPolicy | None = None) -> None:
        self._loop = Loop()
        self._client = Client(url, key=key, patience=patience)
        self.sessions = SyncSessions(self._loop, self._client.sessions)
        self.memory = SyncMemory(self._loop, self._client.memory)
        self.analytics = SyncAnalytics(self._loop, self._client.analytics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections and its thread. A closed one stays closed, and its operations raise RuntimeError."""
        if self._loop.is_closed:
            return
        self._loop.result(self._client.close())
        self._loop.close()
