"""The sockets of the server's own port, found among the open files of the process: granian gives no access to them."""

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from api.connections.files import open_files

_INTERNET = {socket.AF_INET, socket.AF_INET6}
_LAST_SENT, _LAST_RECEIVED = 44, 52  # offsets in Linux' struct tcp_info, each a 32-bit number of milliseconds


class Connection(Struct, frozen=True):
    """An accepted connection: its file descriptor, and the address and port of the client."""

    descriptor: int
    host: str
    port: int


class Sockets:
    """The sockets that are bound to one local port. One thread uses it at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[int, tuple[int, Connection | None]] = {}  # by descriptor, with the inode

    def connections(self) -> list[Connection]:
        """List the accepted connections."""
        known: dict[int, tuple[int, Connection | None]] = {}
        for descriptor, inode in _open_sockets():
            before = self._known.get(descriptor)
            if before is not None and inode and before[0] == inode:
                known[descriptor] = before
            else:
                known[descriptor] = (inode, self._connection(descriptor))
        self._known = known
        return [connection for _, connection in known.values() if connection is not None]

    def limit_unread(self, seconds: float) -> bool:
        """Have the kernel break connections whose client reads nothing of what is sent for `seconds`.

        Set on the listening socket, from which Linux copies it to each that it accepts, and on those it has accepted
        before; elsewhere nothing is set. Gives whether the port is listened to.
        """
        is_listened_to = False
        for descriptor, _ in _open_sockets():
            with _borrowed(descriptor) as found:
                if found is None or not self._is_ours(found):
                    continue
                with suppress(OSError):  # closed since
                    is_listened_to |= bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
                    if hasattr(socket, "TCP_USER_TIMEOUT"):
                        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(seconds * 1_000)))
        return is_listened_to

    def close(self, connection: Connection) -> None:
        """End a connection; whoever holds its descriptor finds it at its end."""
        try:
            copy = os.dup(connection.descriptor)
        except OSError:  # closed since
            return
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            return  # reused for a file; to close the copy of a database's descriptor would drop the database's lock
        with socket.socket(fileno=copy) as found:
            try:
                if _peer(found) == (connection.host, connection.port):
                    found.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed by the client since
                return

    def _connection(self, descriptor: int) -> Connection | None:
        with _borrowed(descriptor) as found:
            try:
                if found is None or not self._is_ours(found):
                    return None
                return Connection(descriptor, *_peer(found))
            except OSError:  # no peer: it listens, or is closed
                return None

    def _is_ours(self, found: socket.socket) -> bool:
        try:
            return found.family in _INTERNET and found.getsockname()[1] == self._port
        except OSError:
            return False


def idle_ms(connection: Connection) -> int:
    """How long nothing was sent or received on a connection; 0 where the system does not say."""
    with _borrowed(connection.descriptor) as found:
        if found is None or not hasattr(socket, "TCP_INFO"):
            return 0
        try:
            info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED + 4)
        except OSError:
            return 0
    if len(info) < _LAST_RECEIVED + 4:
        return 0
    sent_ms: int = struct.unpack_from("I", info, _LAST_SENT)[0]
    received_ms: int = struct.unpack_from("I", info, _LAST_RECEIVED)[0]
    return min(sent_ms, received_ms)


def _open_sockets() -> Iterator[tuple[int, int]]:
    """The sockets among the open files, each with its inode; 0 where the system has none for sockets."""
    for descriptor in open_files():
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            yield descriptor, status.st_ino


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket | None]:
    """A socket object over a descriptor that stays open; None where it is no socket any more."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        yield None
        return
    try:
        yield found
    finally:
        found.detach()


def _peer(found: socket.socket) -> tuple[str, int]:
    host, port = found.getpeername()[:2]
    return host.partition("%")[0], port  # without the zone of a link-local address, as granian has it
