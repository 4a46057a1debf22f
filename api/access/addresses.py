"""The address of a client: that of its connection or, behind proxies, the one that they name."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from msgspec import Struct

HOPS_MAX = 32
"""Addresses of `X-Forwarded-For` that are read, from the right."""
_FORWARDED = b"x-forwarded-for"
_IPV6_PREFIX = 64  # one client has as many IPv6 addresses as it likes, all of them with the same 64 bits


class Client(Struct, frozen=True):
    """Where a request comes from."""

    address: str
    """An IPv4 address, a /64 network of IPv6, or what a proxy named instead."""
    is_proxy: bool
    """Whether it is a trusted proxy that named nobody: many clients may share the address."""


class Addresses:
    """Finds the address of clients. `proxies` are the addresses and networks of trusted proxies."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._proxies = tuple(ip_network(each) for each in proxies)
        self._read = lru_cache(4_096)(self._client)

    def of_peer(self, host: str) -> Client:
        """The client at the other end of a connection."""
        return self._read(host)

    def of_request(self, host: str, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The client that sent a request.

        Only a trusted proxy is believed: of the addresses in its `X-Forwarded-For`, the rightmost that is no trusted
        proxy itself counts, for what stands left of it comes from the client.
        """
        client = self._read(host)
        if not client.is_proxy:
            return client
        forwarded = b",".join(value for name, value in headers if name == _FORWARDED)
        for _ in range(HOPS_MAX):
            forwarded, _, last = forwarded.rpartition(b",")
            hop = last.decode("latin-1").strip()
            if hop:
                client = self._read(hop)
            if not client.is_proxy or not forwarded:
                break
        return client

    def _client(self, text: str) -> Client:
        try:
            address = _address(text)
        except ValueError:
            return Client("unknown", is_proxy=False)
        if any(address in network for network in self._proxies):
            return Client(str(address), is_proxy=True)
        if isinstance(address, IPv6Address):
            return Client(str(ip_network((address, _IPV6_PREFIX), strict=False)), is_proxy=False)
        return Client(str(address), is_proxy=False)


def _address(text: str) -> IPv4Address | IPv6Address:
    """An address, with or without a port. Raises ValueError."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
