"""SSRF protection: webhooks and tools cannot reach this machine and its network, unless the operator lists the target.

A name is resolved when a connection is made, its address is checked, and the connection goes to the checked address:
a name that resolves to another address a moment later has no effect.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version

import httpcore
import httpx
from msgspec import Struct

from api.schemas.allowed_targets import Address, AllowedTarget, read_target
from api.schemas.webhooks import URL_CHARS_MAX
from api.settings import Settings

CONNECT_S = 5.0  # for a connection
KEEP_ALIVE_S = 30.0

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address behind a translator (RFC 6052)
_TRANSLATED_LOCALLY = ipaddress.ip_network("64:ff9b:1::/48")  # RFC 8215; the position of the IPv4 address varies
_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in (
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure, a public address
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, credentials of pods
        "fd00:42::42",  # Scaleway
        "fd20:ce::254",  # Google Cloud
    )
)
"""Metadata addresses of clouds with credentials of a machine, besides link-local ones."""


@cache
def user_agent() -> str:
    """Return the header with which the server introduces itself to receivers and tools."""
    return f"Cuebook/{version('cuebook')}"


class TargetForbidden(httpcore.ConnectError):
    """Deliveries to this address are not permitted."""


class HostUnknown(httpcore.ConnectError):
    """The host has no address."""


class AddressPolicy(Struct, frozen=True, kw_only=True):
    """Permits https to the internet and, by the settings, http and listed private targets. Also permits this machine
    while the server is open, that is, while it has no keys and is reachable only from this machine.
    """

    http: bool = False
    targets: Sequence[AllowedTarget] = ()
    hint: str = ""
    """Which settings permit more, for the messages; empty if none does."""
    is_open: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, settings: Settings, is_open: Callable[[], bool]) -> "AddressPolicy":
        """Return the policy of a server; `is_open` returns whether it needs no key on this machine."""
        targets = [read_target(each) for each in settings.webhook_private_targets]
        hint = "; see the settings `webhook_private_targets` and `webhooks_http`"
        return cls(http=settings.webhooks_http, targets=targets, hint=hint, is_open=is_open)

    def permits(self, host: str, port: int, address: Address) -> bool:
        """Return whether deliveries to a host and port may go to an address; never to one of a cloud's metadata."""
        address = _embedded_ipv4(address)
        if address in _METADATA or address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        if _is_public(address) or (address.is_loopback and self.is_open()):
            return True
        return any(target.matches(host, port, address) for target in self.targets)

    def problem_of(self, url: str) -> str:
        """Return what is wrong with a URL; empty if it is valid."""
        try:
            parts = httpx.URL(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.host) and 0 < (parts.port or 443) < 65_536
            usable = usable and url.isprintable() and " " not in url
        except (httpx.InvalidURL, ValueError):  # its message may contain the whole URL
            usable = False
        if not usable or len(url) > URL_CHARS_MAX:
            return f"the url begins with https:// or http://, names a host, and has at most {URL_CHARS_MAX} characters"
        if parts.userinfo or parts.fragment:
            return "the url must have no password and no fragment"
        address, port = _address_of(parts.host), parts.port or (443 if parts.scheme == "https" else 80)
        if address is not None and not self.permits(parts.host, port, address):
            return f"requests to this address are not permitted{self.hint}"
        if parts.scheme == "http" and not (self.http or (address is not None and address.is_loopback)):
            return f"the url must begin with https://{self.hint}"
        return ""


def _address_of(host: str) -> Address | None:
    """Return the address that a host is; None for a name that is resolved when a connection is made."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address in _TRANSLATED_LOCALLY):
        return False
    return address.is_global and not address.is_reserved


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


class SafeNetworkBackend(httpcore.AsyncNetworkBackend):
    """A network backend that connects only to permitted addresses."""

    def __init__(self, rules: AddressPolicy) -> None:
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
        """Connect to the first permitted address of a host that accepts. Raises httpcore.ConnectError."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await _resolve(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        permitted = [each for each in addresses if self._rules.permits(host, port, each)]
        if not permitted:
            raise TargetForbidden
        for address in permitted[:-1]:
            try:
                return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(str(permitted[-1]), port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await self._inner.sleep(seconds)


class SafeConnections:
    """Connections to permitted addresses. No redirects and proxies are used, because both bypass the address check."""

    def __init__(self, rules: AddressPolicy, connections_max: int) -> None:
        self._rules = rules
        self._max = connections_max
        self._was_open = False
        self._pool: httpcore.AsyncConnectionPool | None = None  # created on first use: most servers need none

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    @asynccontextmanager
    async def request(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes | None, timeouts: Mapping[str, float]
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request and yield the answer, whose content is not read yet. Raises httpcore's errors."""
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        pool, extensions = await self._connections(), {"timeout": timeouts}
        async with pool.stream(
            method, target, headers=dict(headers.items()), content=body, extensions=extensions
        ) as answer:
            yield answer

    async def _connections(self) -> httpcore.AsyncConnectionPool:
        is_open = self._rules.is_open()
        was_open, self._was_open = self._was_open, is_open
        if self._pool is not None and was_open and not is_open:
            # connections to this machine that were permitted until keys existed
            pool, self._pool = self._pool, None
            await pool.aclose()
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                max_connections=self._max,
                max_keepalive_connections=self._max,
                keepalive_expiry=KEEP_ALIVE_S,
                network_backend=SafeNetworkBackend(self._rules),
            )
        return self._pool


async def _resolve(host: str, port: int) -> list[Address]:
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise HostUnknown from None
    texts = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in entries)
    return [ipaddress.ip_address(text) for text in texts]
