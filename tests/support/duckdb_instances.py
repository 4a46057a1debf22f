"""Instances of DuckDB for one database file after another: a new one takes 20 ms of CPU to register all functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from pytest import MonkeyPatch

from store.duckdb import database_file as files
from store.duckdb.session_heads import TABLE

new_instance = files._instance


class Connection:
    """A connection whose instance another file can be attached to once it is closed."""

    def __init__(self, instance: duckdb.DuckDBPyConnection, idle: list[duckdb.DuckDBPyConnection]) -> None:
        self._instance = instance
        self._idle = idle
        self._cursor = instance.cursor()
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def close(self) -> None:
        """Detach the file. An instance that does not let go of it is not used again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._cursor.close()
        try:
            self._instance.execute(f"DETACH DATABASE IF EXISTS cuebook; DROP TABLE IF EXISTS {TABLE}")
        except duckdb.Error:
            self._instance.close()
        else:
            self._idle.append(self._instance)


@contextmanager
def instances_used_again() -> Iterator[None]:
    """Attach the files of the block to instances that earlier ones were attached to."""
    idle: list[duckdb.DuckDBPyConnection] = []

    def next_instance() -> Connection:
        instance = idle.pop() if idle else new_instance()
        for name, value in files.CONFIG.items():
            instance.execute(f"SET GLOBAL {name} = '{value}'")
        instance.execute("RESET GLOBAL memory_limit")
        return Connection(instance, idle)

    with MonkeyPatch.context() as reusing:
        reusing.setattr(files, "_instance", next_instance)
        yield
    for instance in idle:
        instance.close()
