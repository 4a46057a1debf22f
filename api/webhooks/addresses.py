"""Where deliveries may go: not to this machine and its network, unless the operator says so.

A name is looked up when a connection is made, what it stands for is checked, and the very address that was checked is
connected to: a name that stands for something else a moment later leads nowhere else.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import TypeAlias

import httpcore
import httpx
from msgspec import Struct

from api.settings import Settings
from runtime.models.hosted.settings import is_loopback

URL_CHARS_MAX = 2_000

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address behind a translator (RFC 6052)
_METADATA = {ipaddress.ip_address(each) for each in ("fd00:ec2::254", "100.100.100.200")}  # not link-local, as others


class Refused(httpcore.ConnectError):
    """An address that deliveries are not sent to."""


class NameUnknown(httpcore.ConnectError):
    """A host that has no address."""


class Rules(Struct, frozen=True):
    """What is let through besides https to the internet."""

    http: bool = False
    private: bool = False
    loopback: bool = False

    @classmethod
    def of(cls, settings: Settings) -> "Rules":
        """Those of a server. One that only this machine reaches may send to this machine."""
        private = settings.webhooks_private
        return cls(settings.webhooks_http, private, private or is_loopback(settings.host))

    def permits(self, address: Address) -> bool:
        """Whether deliveries may be sent to an address. Never to one of a cloud's metadata."""
        address = _meant(address)
        if address in _METADATA or address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        if address.is_loopback:
            return self.loopback
        is_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
        return self.private or (address.is_global and not address.is_reserved and not is_local)

    def problem_of(self, url: str) -> str:
        """What is wrong with the url of a webhook; empty where nothing is."""
        try:
            parts = httpx.URL(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.host) and 0 < (parts.port or 443) < 65_536
            usable = usable and url.isprintable() and " " not in url
        except (httpx.InvalidURL, ValueError):  # its words may hold all of the url
            usable = False
        if not usable or len(url) > URL_CHARS_MAX:
            return f"the url must begin with https:// or http://, name a host, and be shorter than {URL_CHARS_MAX}"
        if parts.userinfo or parts.fragment:
            return "the url must have no password and no fragment; deliveries are signed"
        if parts.scheme == "http" and not (self.http or (self.loopback and is_loopback(parts.host))):
            return "deliveries are sent over https"
        try:
            literal = ipaddress.ip_address(parts.host)
        except ValueError:  # a name: looked up when a connection is made
            return ""
        return "" if self.permits(literal) else "deliveries are not sent to this address"


def _meant(address: Address) -> Address:
    """The IPv4 address in one of IPv6, where it holds one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


class Guard(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the rules permit, and to no other."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (the library's own signature)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first permitted address of a host that takes it. Raises httpcore.ConnectError."""
        try:
            async with asyncio.timeout(timeout):
                found = await _looked_up(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        permitted = [each for each in found if self._rules.permits(each)]
        if not permitted:
            raise Refused
        for address in permitted[:-1]:
            try:
                return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(str(permitted[-1]), port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await self._inner.sleep(seconds)


async def _looked_up(host: str, port: int) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NameUnknown from None
    texts = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
    return [ipaddress.ip_address(text) for text in texts]
