"""Ports for servers of tests."""

import itertools
import os
import socket

_FIRST, _OF_WORKER, _WORKERS = 20_000, 1_500, 8  # below the ports that systems give to clients, 32,768 and above
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
# starts somewhere in the range, so that ports of the run before, still waiting to be closed, are rarely tried
_numbers = itertools.count(os.getpid())


def free_port() -> int:
    """Return a port of this machine that nothing listens on, and that no other worker of this run returns.

    A port that the system picks may go to another worker before the server listens: two servers then share it, as they
    set SO_REUSEPORT, and a test talks to the wrong one.
    """
    for number in itertools.islice(_numbers, _OF_WORKER):
        port = _FIRST + _worker * _OF_WORKER + number % _OF_WORKER
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise RuntimeError(f"worker {_worker} has no free port")
