"""The fork server of analytics workers: `python -m api.analytics.fork_server`, which a server starts for its first job.

It has imported all that jobs need, and each worker is a fork of it. So a worker starts in milliseconds, where a new
interpreter needs half a second of CPU. The fork server of Python's multiprocessing would pass on the environment of the
server, which contains keys, and import its main module again.

Standard input is a socket. A message is the number of a job: with a descriptor, the socket of the job, it starts a
worker; without, it kills that worker. The exit code of a worker is written to the socket of its job, after the answer.
When the server closes its end, the fork server and its workers end.
"""

import gc
import os
import selectors
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from api.analytics.jobs import EXIT_CODE, NUMBER
from api.analytics.worker import run

PRIORITY = 10
"""With this lower priority turns get nine tenths of the CPU of a busy machine. With a still lower one short jobs would
not finish; long jobs lower theirs further (see worker.py)."""


class ForkServer:
    """Starts and kills workers as its server says, and reports how they ended."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._ended, woken = socket.socketpair()
        woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        self._woken = woken
        self._workers: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> NoReturn:
        """Follow messages until the server closes its end."""
        selector = selectors.DefaultSelector()
        selector.register(self._server, selectors.EVENT_READ)
        selector.register(self._ended, selectors.EVENT_READ)
        while True:
            for ready, _ in selector.select():
                if ready.fileobj is self._ended:
                    self._ended.recv(1024)
                    self._report_ended()
                else:
                    self._follow_message()

    def _follow_message(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._server, NUMBER.size, 1)
        if not message:
            for pid, _ in self._workers.values():
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        (number,) = NUMBER.unpack(message)
        if descriptors:
            self._start(number, socket.socket(fileno=descriptors[0]))
        elif number in self._workers:  # only this thread reaps, so the process id is still that of the worker
            os.kill(self._workers[number][0], signal.SIGKILL)

    def _start(self, number: int, job: socket.socket) -> None:
        fork_server = os.getpid()
        pid = os.fork()
        if pid:
            self._workers[number] = (pid, job)
            return
        signal.set_wakeup_fd(-1)
        for inherited in (self._server, self._ended, self._woken, *(each for _, each in self._workers.values())):
            inherited.close()  # the other end of each waits for the last process that has it
        run(job, fork_server)

    def _report_ended(self) -> None:
        for number, (pid, job) in list(self._workers.items()):
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                del self._workers[number]
                with job, suppress(ConnectionError):  # the server waits no longer
                    job.sendall(EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))


def main() -> None:
    """Serve the socket on standard input."""
    os.setpgrp()  # Ctrl-C must not reach it; a separate session would undo the lower priority on Linux
    with suppress(OSError):  # a container forbids it
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler of its own, so that the wakeup descriptor is written
    server = socket.socket(fileno=os.dup(0))
    _discard_input_and_output()
    gc.freeze()  # so that the memory of the imports stays shared with the workers
    ForkServer(server).serve()


def _discard_input_and_output() -> None:
    """Replace standard input and output: libraries may write to the latter."""
    void = os.open(os.devnull, os.O_RDWR)
    os.dup2(void, 0)
    os.dup2(void, 1)
    os.close(void)


if __name__ == "__main__":
    main()
