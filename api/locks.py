"""One turn at a time for each session, one request at a time for each idempotency key, none for who is erased."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakValueDictionary

from api.errors import ApiError
from api.live import Bell, Underway


class _Place:
    """The lock of one session, alive as long as somebody holds or awaits it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class SessionLocks:
    """Locks by session. A busy session refuses, or lets a bounded number of turns wait for a bounded time."""

    def __init__(self, queue_max: int, queue_s: float) -> None:
        self._places: WeakValueDictionary[Hashable, _Place] = WeakValueDictionary()
        self._queue_max = queue_max
        self._queue_s = queue_s

    @asynccontextmanager
    async def hold(self, session: Hashable, *, queue: bool) -> AsyncIterator[None]:
        """Holds a session's lock. Raises ApiError SESSION_BUSY."""
        place = self._places.setdefault(session, _Place())
        if place.lock.locked() and (not queue or place.waiting >= self._queue_max):
            raise ApiError("SESSION_BUSY", "the session is answering another message")
        place.waiting += 1
        try:
            async with asyncio.timeout(self._queue_s):
                await place.lock.acquire()
        except TimeoutError as error:
            raise ApiError("SESSION_BUSY", f"the session was busy for {self._queue_s:g} s") from error
        finally:
            place.waiting -= 1
        try:
            yield
        finally:
            place.lock.release()


class Beginnings:
    """The sessions that are being begun, by user: who erases a user waits for them, and later ones for the erasure."""

    def __init__(self, wait_s: float) -> None:
        self._begun: Counter[Hashable] = Counter()
        self._barred: set[Hashable] = set()
        self._bell = Bell()
        self._wait_s = wait_s

    @asynccontextmanager
    async def begin(self, user: Hashable) -> AsyncIterator[None]:
        """A session of the user is being begun. Raises ApiError SESSION_BUSY."""
        await self._until(lambda: user not in self._barred)
        self._begun[user] += 1
        try:
            yield
        finally:
            self._begun[user] -= 1
            if not self._begun[user]:
                del self._begun[user]
                self._bell.ring()

    @asynccontextmanager
    async def barred(self, user: Hashable) -> AsyncIterator[None]:
        """No session of the user is being begun meanwhile. Raises ApiError SESSION_BUSY."""
        await self._until(lambda: user not in self._barred)
        self._barred.add(user)
        try:
            await self._until(lambda: user not in self._begun)
            yield
        finally:
            self._barred.discard(user)
            self._bell.ring()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + self._wait_s
        while not is_so():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or not await self._bell.heard(left):
                raise ApiError("SESSION_BUSY", f"the user's sessions were busy for {self._wait_s:g} s")


class KeysInFlight:
    """The requests with an idempotency key that are being answered, by that key."""

    def __init__(self) -> None:
        self._requests: dict[Hashable, Underway[Any]] = {}

    def get(self, key: Hashable | None) -> Underway[Any] | None:
        """The request with this key that is being answered, if there is one."""
        return self._requests.get(key)

    @contextmanager
    def claim(self, key: Hashable | None, underway: Underway[Any]) -> Iterator[None]:
        """Claims a key for a request, None claims nothing. Raises ApiError IDEMPOTENCY_IN_FLIGHT."""
        if key is None:
            yield
            return
        if key in self._requests:
            raise ApiError("IDEMPOTENCY_IN_FLIGHT", "a request with this Idempotency-Key is being answered")
        self._requests[key] = underway
        try:
            yield
        finally:
            del self._requests[key]
