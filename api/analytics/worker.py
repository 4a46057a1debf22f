"""An analytics worker: a process that runs one job, answers and ends.

It limits its own memory and CPU time, and ends with the fork server that started it.
"""

import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from api.analytics.charts.chart import ChartRefused
from api.analytics.charts.vega_lite import render
from api.analytics.execute import Question, answer
from api.analytics.jobs import (
    ChartPictures,
    CheckSyntax,
    Done,
    DrawCharts,
    Failed,
    Finished,
    FinishSnapshot,
    Job,
    Refresh,
    WorkRequest,
)
from store.analytics.file import Place
from store.analytics.refresh import refresh
from store.analytics.snapshots import finish_snapshot
from store.analytics.sql_guard import check_syntax
from store.interface.errors import DatabaseLocked, QueryStopped, StoreError

LONG_CPU_S = 2.0
LOOK_S = 0.2  # between two looks at the fork server and at the time of work
REQUEST_S = 60
"""How long it waits for its request."""
MEMORY_BYTES = 1_000_000_000
"""The memory of a job that is no question, whose limits say it."""
ROOM_BYTES = 1_000_000_000
"""Writable memory in addition to the job's limit: imports, stacks, arenas, and the answer."""


def run(connection: socket.socket, fork_server: int) -> NoReturn:
    """Read one request, answer it and end this process, which the process `fork_server` started."""
    code = 1
    try:
        signal.alarm(REQUEST_S)
        with connection.makefile("rb") as requests:
            content = requests.read()
        signal.alarm(0)
        if content:  # else the server has given the job up
            request = msgspec.msgpack.decode(content, type=WorkRequest)
            threading.Thread(target=_watch, args=(fork_server,), daemon=True).start()
            _limit_process(request)
            connection.sendall(msgspec.msgpack.encode(_run_job(request.job)))
        code = 0
    except ConnectionError:
        pass  # the server waits no longer
    except Exception as error:  # noqa: BLE001 - outermost handler of this process
        _print(error)
    finally:
        os._exit(code)  # skip all clean-up


def _watch(fork_server: int) -> None:
    """End this process with the fork server; set the lowest priority after long work, so that turns are not delayed."""
    while os.getppid() == fork_server:
        if time.process_time() > LONG_CPU_S:
            with suppress(OSError):  # a container may forbid it
                os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)  # on Linux of the main thread, which does all the work
        time.sleep(LOOK_S)
    os._exit(1)


def _limit_process(request: WorkRequest) -> None:
    """Set the process limits for memory and CPU time; the query's own limits are below them."""
    job = request.job
    memory = (job.limits.memory_bytes_max if isinstance(job, Question) else MEMORY_BYTES) + ROOM_BYTES
    # not the address space: libraries take 0.7 GB of it, and V8, which renders pictures, reserves 34 GB and uses 0.1 GB
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    # with a soft limit below the hard one SIGXCPU ends the process, so that a SIGKILL is known to come from outside
    resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_s, request.cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run_job(job: Job) -> Done | Failed:
    try:
        return Done(msgspec.Raw(msgspec.msgpack.encode(work(job))))
    except MemoryError:
        return Failed(QueryStopped.__name__, "it needs more memory than its limit")
    except StoreError as error:
        return Failed(type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - outermost handler of this process
        _print(error)
        return Failed("", "")


def _print(error: Exception) -> None:
    """Print an error without its message, which may contain text of users."""
    traceback.print_tb(error.__traceback__)
    print(type(error).__qualname__, file=sys.stderr)


def work(job: Job) -> Struct:
    """Run a job. A file that another program has open for writing, such as DuckDB's shell, is replaced by a copy.

    Raises StoreError.
    """
    if isinstance(job, DrawCharts):
        return ChartPictures(list(map(_picture, job.specs)))
    if isinstance(job, CheckSyntax):
        check_syntax(job.sql)
        return Finished()
    try:
        return _result_of(job)
    except DatabaseLocked:
        Place(Path(job.path)).replace_by_copy()
        return _result_of(job)


def _picture(spec: bytes) -> bytes:
    try:
        return render(msgspec.json.decode(spec), "svg")
    except ChartRefused:
        return b""


def _result_of(job: Question | Refresh | FinishSnapshot) -> Struct:
    match job:
        case Question():
            return answer(job)
        case Refresh():
            refresh(Place(Path(job.path)), Path(job.folder), job.masking)
            return Finished()
        case FinishSnapshot():
            finish_snapshot(Path(job.path), job.version, Path(job.folder))
            return Finished()
