"""Named points at which a server kills itself with SIGKILL; for the tests of durability."""

import os
import signal
import threading
from functools import wraps
from importlib import import_module
from typing import Any, Literal, NamedTuple

SMALL_LOG_BYTES = 64_000
"""A log that soon needs a checkpoint."""


class Point(NamedTuple):
    """A call of the product before, during or after which the process dies."""

    module: str
    name: str
    when: Literal["before", "during", "after"]


_COMMIT = ("store.duckdb.committer", "TurnCommitter.commit")
_MAINTENANCE = "store.duckdb.repositories"
POINTS = {
    "before the commit": Point(*_COMMIT, "before"),
    "during the commit": Point(*_COMMIT, "during"),
    "after the commit": Point(*_COMMIT, "after"),
    "before the answer": Point("store.duckdb.commit_mark", "CommitMark.write", "after"),
    "during a checkpoint": Point("store.duckdb.database", "Database.checkpoint", "during"),
    "during an erasure": Point(_MAINTENANCE, "DuckDBMaintenance.erase_user", "during"),
    "during a compaction": Point(_MAINTENANCE, "DuckDBMaintenance.compact", "during"),
}

_POSTGRES_COMMIT = ("store.postgres.committer", "GroupCommitter.commit")
POSTGRES_POINTS = {
    "before a commit to PostgreSQL": Point(*_POSTGRES_COMMIT, "before"),
    "during a commit to PostgreSQL": Point(*_POSTGRES_COMMIT, "during"),
    "between the commit and the answer": Point(*_POSTGRES_COMMIT, "after"),
}


def kill_at(name: str, passes: int, after_s: float) -> None:
    """Kill this process at the nth call of a point; `after_s` is the time since the call began, for "during"."""
    if name == "during a checkpoint":
        import_module("store.duckdb.database").CHECKPOINT_BYTES = SMALL_LOG_BYTES  # type: ignore[attr-defined]
    point = (POINTS | POSTGRES_POINTS)[name]
    owner: Any = import_module(point.module)
    *path, attribute = point.name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, attribute)
    left = passes

    @wraps(original)
    def watched(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        is_now, left = left == 0, left if left else -1
        if is_now and point.when == "before":
            _kill()
        if is_now and point.when == "during":
            threading.Timer(after_s, _kill).start()
        result = original(*args, **options)
        if is_now and point.when == "after":
            _kill()
        return result

    setattr(owner, attribute, watched)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
