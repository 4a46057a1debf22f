"""Keeps connections available: closes idle ones of clients with too many, or of any client if all are too many.

granian accepts a fixed number of connections and then waits until one closes. So that one client cannot take all,
idle connections beyond the bounds of the settings are closed before that number is reached.
"""

import asyncio
import heapq
from collections.abc import Collection

import structlog
from msgspec import Struct

from api.auth.middleware import OpenRequests
from api.auth.request_checks import Addresses
from api.http.connections.files import open_files
from api.http.connections.sockets import Connection, Sockets, idle_ms

LOOK_S = 0.5
RESERVE = 256
"""Connections that granian accepts beyond `connections_max`, so that health checks get through meanwhile."""
FOUND_S = 10.0
_FOUND_EVERY_S = 0.02
_LOG_EVERY_S = 60.0

log = structlog.get_logger()


class Bounds(Struct, frozen=True):
    """The bounds of connections, in total and per address."""

    connections: int
    of_address: int


class Watch(Struct):
    """Watches the connections of a server's port."""

    sockets: Sockets
    requests: OpenRequests
    addresses: Addresses
    bounds: Bounds
    unread_s: float
    _ended: int = 0
    _logged_at: float = float("-inf")

    async def run(self) -> None:
        """Watch until cancelled."""
        has_started = False
        while True:
            try:
                if not has_started:
                    await self._begin()
                    has_started = True
                self._ended += await asyncio.to_thread(self._look)
            except Exception:  # (the outermost handler of a background task)
                log.exception("the connections could not be checked")
            self._log()
            await asyncio.sleep(LOOK_S)

    async def _begin(self) -> None:
        """Bound the time for data that clients do not read, as soon as granian listens."""
        deadline = asyncio.get_running_loop().time() + FOUND_S
        while not await asyncio.to_thread(self.sockets.limit_unread, self.unread_s):
            if asyncio.get_running_loop().time() > deadline:
                log.error("the server's socket was not found; connections that are not read have no time limit")
                return
            await asyncio.sleep(_FOUND_EVERY_S)

    def _look(self) -> int:
        """Close connections beyond the bounds and return their number. Runs in a thread."""
        if len(open_files()) <= min(self.bounds.connections, self.bounds.of_address):
            return 0
        groups: dict[str, Group] = {}
        for connection in self.sockets.connections():
            client = self.addresses.of_peer(connection.host)
            group = groups.setdefault(client.address, Group(is_proxy=client.is_proxy))
            group.size += 1
            if not self.requests.has((connection.host, connection.port)):
                group.idle.append(connection)
        if not are_too_many(groups.values(), self.bounds):
            return 0
        for group in groups.values():
            group.idle.sort(key=idle_ms)
        ended = surplus(groups.values(), self.bounds)
        # checked again, because sorting thousands by idle time takes long enough for a request to begin
        ended = [each for each in ended if not self.requests.has((each.host, each.port))]
        for connection in ended:
            self.sockets.close(connection)
        return len(ended)

    def _log(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._ended and now >= self._logged_at + _LOG_EVERY_S:
            log.warning("idle connections were closed: there were too many", ended=self._ended)
            self._ended, self._logged_at = 0, now


class Group(Struct):
    """The connections of one address."""

    is_proxy: bool
    size: int = 0
    idle: list[Connection] = []
    """The connections without an open request; the last is closed first."""


def are_too_many(groups: Collection[Group], bounds: Bounds) -> bool:
    """Return whether an address has too many connections, or all together are too many."""
    return sum(group.size for group in groups) > bounds.connections or any(_over(group, bounds) for group in groups)


def surplus(groups: Collection[Group], bounds: Bounds) -> list[Connection]:
    """Take the connections to close from the groups: first those beyond the bound per address, then others."""
    ended: list[Connection] = []
    for group in groups:
        while group.idle and _over(group, bounds):
            ended.append(_take(group))
    total = sum(group.size for group in groups)
    largest = [(-group.size, number, group) for number, group in enumerate(groups) if group.idle]
    heapq.heapify(largest)
    while largest and total > bounds.connections:
        _, number, group = heapq.heappop(largest)
        ended.append(_take(group))
        total -= 1
        if group.idle:
            heapq.heappush(largest, (-group.size, number, group))
    return ended  # fewer if the rest have requests, which `requests_max` bounds


def _over(group: Group, bounds: Bounds) -> bool:
    return not group.is_proxy and group.size > bounds.of_address


def _take(group: Group) -> Connection:
    group.size -= 1
    return group.idle.pop()
