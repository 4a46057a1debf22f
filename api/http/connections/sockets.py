"""The server's sockets, found among the open files of the process because granian gives no access to them."""

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from api.http.connections.files import open_files

_INTERNET = {socket.AF_INET, socket.AF_INET6}
_LAST_SENT, _LAST_RECEIVED = 44, 52  # offsets in Linux' struct tcp_info, each a 32-bit number of milliseconds


class Connection(Struct, frozen=True):
    """An accepted connection: its file descriptor, and the address and port of the client."""

    descriptor: int
    host: str
    port: int


class Sockets:
    """The sockets bound to one local port. Not thread-safe."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cache: dict[int, tuple[int, Connection | None]] = {}  # by descriptor, with the inode

    def connections(self) -> list[Connection]:
        """List the accepted connections."""
        known: dict[int, tuple[int, Connection | None]] = {}
        for descriptor, inode in _open_sockets():
            before = self._cache.get(descriptor)
            if before is not None and inode and before[0] == inode:
                known[descriptor] = before
            else:
                known[descriptor] = (inode, self._connection(descriptor))
        self._cache = known
        return [connection for _, connection in known.values() if connection is not None]

    def limit_unread(self, seconds: float) -> bool:
        """Have the kernel close connections whose client reads none of the sent data for `seconds`.

        Set on the listening socket, from which Linux copies it to accepted sockets, and on the sockets accepted before;
        on other systems nothing is set. Return whether the port is listened to.
        """
        is_listened_to = False
        for descriptor, _ in _open_sockets():
            with _borrowed(descriptor) as sock:
                if sock is None or not self._is_ours(sock):
                    continue
                with suppress(OSError):  # closed since
                    is_listened_to |= bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
                    if hasattr(socket, "TCP_USER_TIMEOUT"):
                        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(seconds * 1_000)))
        return is_listened_to

    def close(self, connection: Connection) -> None:
        """Close a connection; the owner of its descriptor then reads the end of the stream."""
        try:
            copy = os.dup(connection.descriptor)
        except OSError:  # closed since
            return
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            return  # reused for a file; closing a copy of the database's descriptor would release its lock
        with socket.socket(fileno=copy) as sock:
            try:
                if _peer(sock) == (connection.host, connection.port):
                    sock.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed by the client since
                return

    def _connection(self, descriptor: int) -> Connection | None:
        with _borrowed(descriptor) as sock:
            try:
                if sock is None or not self._is_ours(sock):
                    return None
                return Connection(descriptor, *_peer(sock))
            except OSError:  # no peer: it listens or is closed
                return None

    def _is_ours(self, sock: socket.socket) -> bool:
        try:
            return sock.family in _INTERNET and sock.getsockname()[1] == self._port
        except OSError:
            return False


def idle_ms(connection: Connection) -> int:
    """Return for how long a connection sent and received nothing, in milliseconds; 0 if the system does not tell."""
    with _borrowed(connection.descriptor) as sock:
        if sock is None or not hasattr(socket, "TCP_INFO"):
            return 0
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED + 4)
        except OSError:
            return 0
    if len(info) < _LAST_RECEIVED + 4:
        return 0
    sent_ms: int = struct.unpack_from("I", info, _LAST_SENT)[0]
    received_ms: int = struct.unpack_from("I", info, _LAST_RECEIVED)[0]
    return min(sent_ms, received_ms)


def _open_sockets() -> Iterator[tuple[int, int]]:
    """Yield the sockets among the open files, each with its inode; 0 on systems without inodes of sockets."""
    for descriptor in open_files():
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            yield descriptor, status.st_ino


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket | None]:
    """Yield a socket object for a descriptor without taking ownership; None if it is not a socket any more."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        yield None
        return
    try:
        yield sock
    finally:
        sock.detach()


def _peer(sock: socket.socket) -> tuple[str, int]:
    host, port = sock.getpeername()[:2]
    return host.partition("%")[0], port  # without the zone of a link-local address, as granian has it
