"""Starts commands of `cuebook` again and again without importing it again: each is a fork of this process, which has
registered the routes and has a new database that they copy.

An order is a line of JSON: a command to be started (`arguments`, `folder`, `log`, `environment`), answered with the
process id, or a process that has ended (`reap`), answered with its exit code, as subprocess gives it.
"""

import json
import os
import signal
import sys
import traceback
from typing import Any

import api.cli.serve  # noqa: F401  (what takes the time)
from api.cli.main import main
from api.http.application import openapi_document
from api.settings import Settings
from tests.support.data_folders import new_databases_copied
from tests.support.kill_points import kill_at


def start(order: dict[str, Any]) -> int:
    """Forks a process for a command; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
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


def take_orders() -> None:
    """Until nobody gives any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who give them
    for line in sys.stdin:
        order = json.loads(line)
        if "reap" in order:
            print(os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1]), flush=True)
        else:
            print(start(order), flush=True)


if __name__ == "__main__":
    openapi_document(Settings())  # so that the routes are registered
    with new_databases_copied():
        take_orders()
