"""The current global variables of recent users, in memory. They are read before each turn of a script with globals."""

import threading
from collections.abc import Awaitable, Callable, Iterable

from cachetools import LRUCache

from store.interface.global_writes import UserId, values_after
from store.interface.rows import UserVariableRow

VARIABLES_MAX = 50_000
"""Maximum number of cached variables, about 30 MB with ordinary values."""


class UserVariableCache:
    """The writing thread applies committed writes; every thread may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: LRUCache[UserId, list[UserVariableRow]] = LRUCache(VARIABLES_MAX, lambda rows: 1 + len(rows))
        self._reads: dict[UserId, object] = {}  # the last read in progress of a user, unless a write came after it

    async def get(self, user: UserId, read: Callable[[], Awaitable[list[UserVariableRow]]]) -> list[UserVariableRow]:
        """Return the variables of a user; `read` reads them from the tables if they are not cached."""
        this_read = object()
        with self._lock:
            cached = self._values.get(user)
            if cached is not None:
                return cached
            self._reads[user] = this_read
        try:
            rows = await read()
        except BaseException:
            self._end(user, this_read)
            raise
        self._end(user, this_read, rows)
        return rows

    def apply(self, writes: Iterable[UserVariableRow]) -> None:
        """Apply writes that are on disk: the last one of each variable."""
        by_user: dict[UserId, list[UserVariableRow]] = {}
        for row in writes:
            by_user.setdefault((row.tenant, row.user_id), []).append(row)
        with self._lock:
            for user, rows in by_user.items():
                self._reads.pop(user, None)
                if user in self._values:
                    self._put(user, values_after(self._values[user], rows))

    def forget(self, users: Iterable[UserId] | None = None) -> None:
        """Remove these users, or all, so that their variables are read from the tables."""
        with self._lock:
            if users is None:
                self._values.clear()
                self._reads.clear()
            for user in users or ():
                self._values.pop(user, None)
                self._reads.pop(user, None)

    def _end(self, user: UserId, this_read: object, rows: list[UserVariableRow] | None = None) -> None:
        """End a read; store its result unless a write came after it began, which it may not have seen."""
        with self._lock:
            if self._reads.get(user) is this_read:
                del self._reads[user]
                if rows is not None:
                    self._put(user, rows)

    def _put(self, user: UserId, rows: list[UserVariableRow]) -> None:
        if len(rows) < VARIABLES_MAX:
            self._values[user] = rows
        else:
            self._values.pop(user, None)
