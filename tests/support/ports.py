"""Ports for servers of tests."""

import itertools
import socket
from collections.abc import Iterator

_FIRST, _END, _OF_BLOCK = 20_000, 32_500, 250  # below the ports that systems give to clients, 32,768 and above


def _ports() -> Iterator[int]:
    """Yield the ports of a block that no other process with tests has, again and again."""
    for first in range(_FIRST, _END, _OF_BLOCK):
        with socket.socket() as claim:
            try:
                claim.bind(("127.0.0.1", first))  # until the process ends: the iteration does not
            except OSError:
                continue
            yield from itertools.cycle(range(first + 1, first + _OF_BLOCK))
    raise RuntimeError("all blocks of ports are in use")


_numbers = _ports()


def free_port() -> int:
    """Return a port of this machine that nothing listens on, and that no other process with tests returns.

    A port that the system picks may go to another process before the server listens.
    """
    for port in itertools.islice(_numbers, _OF_BLOCK):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise RuntimeError(f"none of {_OF_BLOCK} ports is free")
