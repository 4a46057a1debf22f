"""The client for programs without an event loop: the asynchronous one, waited for in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from api.client.analytics import Analytics
from api.client.client import DEFAULT_URL, Client
from api.client.memory import Memory
from api.client.sessions import Sessions
from api.client.wire import Patience

P = ParamSpec("P")
T = TypeVar("T")
_CLOSE_S = 10.0


class Loop:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cuebook-client", daemon=True)
        self._thread.start()

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """What work comes to; given up where the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Ends the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self._loop.close()


class _Waiting:
    """What one part of a client does, waited for."""

    def __init__(self, loop: Loop, part: Any) -> None:
        self._loop = loop
        self._part = part


def _waited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Waiting, P], T]:
    """A method of the asynchronous client, for one that waits."""

    @wraps(method)
    def call(own: _Waiting, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return own._loop.result(method(own._part, *args, **kwargs))

    return call


def _told(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Callable[Concatenate[_Waiting, P], Iterator[T]]:
    """A method that tells one thing after the other, for a client that waits for each."""

    @wraps(method)
    def call(own: _Waiting, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        told = method(own._part, *args, **kwargs)
        try:
            while True:
                try:
                    yield own._loop.result(_next(told))
                except StopAsyncIteration:
                    return
        finally:
            own._loop.result(_closed(told))

    return call


async def _next(told: AsyncIterator[T]) -> T:
    return await anext(told)


async def _closed(told: AsyncIterator[Any]) -> None:
    close = getattr(told, "aclose", None)  # an iterator need not have one; a generator's connection is given back by it
    if close is not None:
        await close()


class SyncSessions(_Waiting):
    """`Sessions`, waited for."""

    create = _waited(Sessions.create)
    get = _waited(Sessions.get)
    send = _waited(Sessions.send)
    stream = _told(Sessions.stream)
    messages = _waited(Sessions.messages)
    transcript = _told(Sessions.transcript)
    variables = _waited(Sessions.variables)
    variable_store = _waited(Sessions.variable_store)
    events = _waited(Sessions.events)
    follow = _told(Sessions.follow)
    get_or_create = _waited(Sessions.get_or_create)
    by_key = _waited(Sessions.by_key)
    note = _waited(Sessions.note)
    set_variables = _waited(Sessions.set_variables)
    pause = _waited(Sessions.pause)
    resume = _waited(Sessions.resume)
    end = _waited(Sessions.end)
    clear = _waited(Sessions.clear)
    rewind = _waited(Sessions.rewind)
    append = _waited(Sessions.append)
    fork = _waited(Sessions.fork)
    snapshots = _waited(Sessions.snapshots)
    snapshot = _waited(Sessions.snapshot)
    delete = _waited(Sessions.delete)
    find = _waited(Sessions.find)
    search = _waited(Sessions.search)
    stats = _waited(Sessions.stats)
    history = _waited(Sessions.history)
    prompt_messages = _waited(Sessions.prompt_messages)
    context = _waited(Sessions.context)
    compress = _waited(Sessions.compress)
    export = _waited(Sessions.export)
    bring = _waited(Sessions.bring)


class SyncMemory(_Waiting):
    """`Memory`, waited for."""

    add = _waited(Memory.add)
    add_many = _waited(Memory.add_many)
    search = _waited(Memory.search)
    units = _waited(Memory.units)
    unit = _waited(Memory.unit)
    pin = _waited(Memory.pin)
    remove = _waited(Memory.remove)
    start_group = _waited(Memory.start_group)
    groups = _waited(Memory.groups)
    group = _waited(Memory.group)
    remove_group = _waited(Memory.remove_group)
    context = _waited(Memory.context)
    restore = _waited(Memory.restore)
    summarise = _waited(Memory.summarise)
    forget = _waited(Memory.forget)
    would_forget = _waited(Memory.would_forget)
    embed = _waited(Memory.embed)
    jobs = _waited(Memory.jobs)
    job = _waited(Memory.job)
    status = _waited(Memory.status)


class SyncAnalytics(_Waiting):
    """`Analytics`, waited for."""

    query = _waited(Analytics.query)
    query_as = _waited(Analytics.query_as)
    report = _waited(Analytics.report)
    report_as = _waited(Analytics.report_as)
    reports = _waited(Analytics.reports)
    model = _waited(Analytics.model)
    status = _waited(Analytics.status)
    snapshot = _waited(Analytics.snapshot)


class SyncClient:
    """A server of Cuebook: ``with SyncClient() as cuebook: cuebook.sessions.create("ana")``."""

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, patience: Patience | None = None) -> None:
        self._loop = Loop()
        self._client = self._loop.result(_made(url, key, patience or Patience()))
        self.sessions = SyncSessions(self._loop, self._client.sessions)
        self.memory = SyncMemory(self._loop, self._client.memory)
        self.analytics = SyncAnalytics(self._loop, self._client.analytics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections, and ends its thread."""
        self._loop.result(self._client.close())
        self._loop.close()


async def _made(url: str, key: str | None, patience: Patience) -> Client:
    """Made in the loop it lives in."""
    return Client(url, key=key, patience=patience)
