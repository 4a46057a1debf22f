"""Bounds how many requests are open at a time: in all, of one key and of one address."""

from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from api.errors import ApiError
from api.settings import Settings

T = TypeVar("T")
Peer: TypeAlias = tuple[str, int]
"""The other end of a connection: address and port."""


class OpenRequests:
    """The requests that are being answered, streams among them."""

    def __init__(self, settings: Settings) -> None:
        self._max = settings.requests_max
        self._client_max = settings.client_requests_max
        self._by_peer: dict[Peer, int] = {}
        self._by_client: dict[str, int] = {}
        self.count = 0
        """How many count against `requests_max`."""

    def has(self, peer: Peer) -> bool:
        """Whether a connection has an open request."""
        return peer in self._by_peer

    def begin(self, peer: Peer) -> "OpenRequest":
        """A request that came over a connection, which is open while it is entered."""
        return OpenRequest(self, peer)

    def _add(self) -> None:
        if self.count >= self._max:
            raise ApiError("SERVER_BUSY", f"the server answers {self._max} requests already (`requests_max`)")
        self.count += 1

    def _add_client(self, client: str) -> None:
        number = self._by_client.get(client, 0)
        if number >= self._client_max:
            message = f"this {client.partition(' ')[0]} has {number} requests open already (`client_requests_max`)"
            raise ApiError("REQUESTS_FULL", message)
        self._by_client[client] = number + 1


class OpenRequest:
    """One request; what it was counted for is given free when it is left."""

    def __init__(self, requests: OpenRequests, peer: Peer) -> None:
        self._requests = requests
        self._peer = peer
        self._is_counted = False
        self.clients: tuple[str, ...] = ()
        """The key and the address that it counts for: `key NAME`, `address ADDRESS`."""

    def __enter__(self) -> Self:
        _increase(self._requests._by_peer, self._peer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _decrease(self._requests._by_peer, self._peer)
        for client in self.clients:
            _decrease(self._requests._by_client, client)
        if self._is_counted:
            self._requests.count -= 1

    def add(self) -> None:
        """Count it against the bound of the server. Raises ApiError SERVER_BUSY."""
        self._requests._add()
        self._is_counted = True

    def add_client(self, client: str) -> None:
        """Count it against the bound of a key or an address. Raises ApiError REQUESTS_FULL."""
        self._requests._add_client(client)
        self.clients = (*self.clients, client)


def _increase(counts: dict[T, int], name: T) -> None:
    counts[name] = counts.get(name, 0) + 1


def _decrease(counts: dict[T, int], name: T) -> None:
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]
