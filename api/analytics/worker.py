"""The process that works for analysts: `python -m api.analytics.worker` takes one order, does it, answers and ends.

It uses no more than it may, and ends with the server that started it.
"""

import os
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from api.analytics.answering import Question, answer
from api.analytics.jobs import (
    SPARE_S,
    Bring,
    Brought,
    CutParts,
    Done,
    Failed,
    Job,
    ListParts,
    Order,
    Rewrite,
    Rewritten,
    read_frame,
    write_frame,
)
from store.analytics.bringing import bring
from store.analytics.file import Place
from store.analytics.parquet import cut, parts
from store.analytics.storage import rewrite
from store.errors import DatabaseLocked, QueryStopped, StoreError

LONG_CPU_S = 2.0
ROOM_BYTES = 1_000_000_000
"""Of address space, beyond what the job may use: libraries, stacks, arenas, and the answer."""


def main() -> None:
    """Takes one order from standard input and answers it on standard output."""
    orders, answers = _pipes()
    signal.alarm(SPARE_S)  # which ends this process, were there no order by then
    sent = read_frame(orders)
    signal.alarm(0)
    if sent is None:  # the server does not need it any more
        return
    order = msgspec.msgpack.decode(sent, type=Order)
    threading.Thread(target=_end_with, args=(orders,), daemon=True).start()
    threading.Thread(target=_step_back, daemon=True).start()
    _bound(order)
    write_frame(answers, _said(order.job))
    os._exit(0)  # nothing here is worth waiting for


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Where orders come from and answers go; what any library prints goes into the void."""
    answers = os.fdopen(os.dup(1), "wb")
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, 1)
    os.close(void)
    return sys.stdin.buffer, answers


def _end_with(orders: BinaryIO) -> None:
    """Ends this process when the server does, whatever it is doing."""
    orders.read(1)
    os._exit(1)


def _step_back() -> None:
    """Comes last of all on the machine once it has worked for long: then turns do not feel it at all."""
    while time.process_time() < LONG_CPU_S:
        time.sleep(0.2)
    with suppress(OSError):  # a container may forbid it
        os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)  # on Linux of the main thread, which does all the work


def _bound(order: Order) -> None:
    """Past these the process gets no memory, or is killed; the query's own bounds are below them."""
    space = order.memory_bytes_max + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    # with a soft limit below the hard one it is SIGXCPU that ends the process, and SIGKILL is from somebody else
    resource.setrlimit(resource.RLIMIT_CPU, (order.cpu_s, order.cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _said(job: Job) -> Done | Failed:
    try:
        return Done(msgspec.Raw(msgspec.msgpack.encode(work(job))))
    except MemoryError:
        return Failed(QueryStopped.__name__, "it needs more memory than there may be")
    except StoreError as error:
        return Failed(type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - the outermost of this process
        traceback.print_tb(error.__traceback__)
        print(type(error).__qualname__, file=sys.stderr)  # without its message, which may hold words of users
        return Failed("", "")


def work(job: Job) -> Struct:
    """Do a job. A file that another program has open for writing, as DuckDB's own shell does, is replaced by a copy.

    Raises StoreError.
    """
    try:
        return _done(job)
    except DatabaseLocked:
        Place(Path(job.path)).replace_by_copy()
        return _done(job)


def _done(job: Job) -> Struct:
    match job:
        case Question():
            return answer(job)
        case Bring():
            delta = bring(Place(Path(job.path)), Path(job.folder), job.masking)
            return Brought(delta.turns)
        case ListParts():
            return parts(Path(job.path), Path(job.folder), job.since)
        case CutParts():
            return cut(Path(job.path), job.places, Path(job.folder))
        case Rewrite():
            target = Path(job.target)
            rewrite(Path(job.path), target, job.version, Path(job.folder))
            return Rewritten(target.stat().st_size)


if __name__ == "__main__":
    main()
