"""Starts commands of `cuebook` again and again without importing it again: each is a fork of this process, which has
registered the routes and has a new database that they copy.

The argument is the path of its socket. A connection starts one command: its client sends the `arguments`, `folder` and
`environment` as JSON, with its standard input, output and error, and gets two messages: the process id, and the exit
code as subprocess gives it, once the process has ended.
"""

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

import api.cli.analytics.queries
import api.cli.serve  # noqa: F401  (what takes the time)
from api.cli.main import main
from api.http.application import openapi_document
from api.settings import Settings
from tests.support.data_folders import new_databases_copied
from tests.support.kill_points import kill_at

ORDER_BYTES = 1_000_000


def run(order: dict[str, Any], streams: list[int]) -> None:
    """Run a command in this process, and end it."""
    code = 1
    try:
        for stream, target in enumerate(streams):
            os.dup2(target, stream)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if "KILL_AT" in os.environ:
            kill_at(**json.loads(os.environ.pop("KILL_AT")))
        main(order["arguments"], prog_name="cuebook")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start(listener: socket.socket) -> tuple[int, socket.socket]:
    """Start what the next client wants; return the process id, and the connection that awaits the exit code."""
    client, _ = listener.accept()
    order, streams, _, _ = socket.recv_fds(client, ORDER_BYTES, 3)
    pid = os.fork()
    if not pid:
        run(json.loads(order), streams)
    for stream in streams:
        os.close(stream)
    client.send(str(pid).encode())
    return pid, client


def report_end(pid: int, client: socket.socket) -> None:
    """Send the exit code of a process that has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with client:
        client.send(str(code).encode())


def take_orders(listener: socket.socket) -> None:
    """Start what the clients want, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who give the orders
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is listener:
                started = start(listener)
                selector.register(os.pidfd_open(started[0]), selectors.EVENT_READ, started)
            else:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                report_end(*key.data)


if __name__ == "__main__":
    openapi_document(Settings())  # so that the routes are registered
    with new_databases_copied(), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        print("listening", flush=True)
        take_orders(listener)
