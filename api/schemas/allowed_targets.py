"""Private targets of webhooks and tools that the settings permit."""

import ipaddress
import re
from typing import TypeAlias

from msgspec import Struct

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*")
_PORT = re.compile(r"(\[.+\]|[^:]+):([0-9]{1,5})")


class AllowedTarget(Struct, frozen=True):
    """A network or a host name, optionally limited to one port."""

    network: Network | None
    host: str
    port: int | None

    def matches(self, host: str, port: int, address: Address) -> bool:
        """Return whether an address of a host, at a port, belongs to this target."""
        if self.port not in {None, port}:
            return False
        if self.network is None:
            return self.host == host.lower().rstrip(".")
        return address.version == self.network.version and address in self.network


def read_target(text: str) -> AllowedTarget:
    """Parse `10.0.0.0/8`, `10.0.0.7:9000`, `[::1]:9000`, `hooks.internal` or `hooks.internal:9000`.

    Raises ValueError.
    """
    name, port = text, None
    if (with_port := _PORT.fullmatch(text)) is not None:
        name, port = with_port[1].strip("[]"), int(with_port[2])
    if port is not None and not 0 < port < 65_536:
        raise ValueError(f"{text!r} has no port from 1 to 65535")
    try:
        return AllowedTarget(ipaddress.ip_network(name), "", port)
    except ValueError as error:
        if "has host bits set" in str(error):
            raise ValueError(f"{text!r} is not a network: {error}") from None
    if not _HOST.fullmatch(name) or re.fullmatch(r"[0-9.]+", name):
        raise ValueError(f"{text!r} is not a network or host such as 10.0.0.0/8, 127.0.0.1:9000 or hooks.internal")
    return AllowedTarget(None, name.lower(), port)
