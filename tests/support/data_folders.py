"""Data folders of tests: each has a database file, or with TEST_ENGINE=postgres a database of PostgreSQL instead."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import duckdb
import psycopg
from pytest import MonkeyPatch

from store.analytics.postgres_mirror import ALL, PostgresMirror
from store.duckdb import database_file as files
from store.duckdb.database import Database
from store.duckdb.engine import READ_TIMEOUT_S
from store.interface.private_files import FILE_NAME, MIRROR_FOLDER
from store.postgres.engine import PostgresEngine
from store.postgres_store import PostgresStore
from tests.support.postgres_server import PostgresServer, running_until_exit

_names: dict[Path, str] = {}


def is_postgres_chosen() -> bool:
    """Return whether the tests of the API run over PostgreSQL."""
    return os.environ.get("TEST_ENGINE") == "postgres"


def url_of(folder: Path) -> str:
    """Return the address of the database that a folder has instead of a file."""
    place = folder.resolve()
    if place not in _names:
        _names[place] = _server().new_database()
    return _names[place]


def open_postgres(folder: Path, *, read_only: bool = False, read_timeout_s: float = READ_TIMEOUT_S) -> PostgresStore:
    """Open the database that a folder has instead of a file."""
    return PostgresStore.open(url_of(folder), folder, read_only=read_only, read_timeout_s=read_timeout_s)


@contextmanager
def new_databases_copied() -> Iterator[None]:
    """Copy one new database wherever the block creates a file, because creating its tables takes half a second."""
    connect = files._connect
    with tempfile.TemporaryDirectory() as folder:
        Database.open(Path(folder)).close()
        new = (Path(folder) / FILE_NAME).read_bytes()

    def connect_to_copy(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        if not read_only and not path.exists():
            path.write_bytes(new)
        return connect(path, read_only=read_only)

    with MonkeyPatch.context() as copying:
        copying.setattr(files, "_connect", connect_to_copy)
        yield


def copied(folder: Path, target: Path) -> Path:
    """Copy a data folder with its database, which nothing has open; return the target."""
    shutil.copytree(folder, target)
    if is_postgres_chosen():
        template = url_of(folder).partition("?")[0].rpartition("/")[2]
        _names[target.resolve()] = _server().new_database(template)
    return target


@contextmanager
def databases_dropped() -> Iterator[None]:
    """Drop the databases that folders get in the block: each has some megabytes, and a run thousands of them."""
    before = frozenset(_names)
    yield
    for folder in _names.keys() - before:
        _server().drop_database(_names.pop(folder))


def database_file(folder: Path) -> Path:
    """Return a database file with the rows of a data folder, for reading past the store."""
    if not is_postgres_chosen():
        return folder / FILE_NAME
    copy = folder / f"rows-{uuid4().hex}"
    with closing(PostgresEngine.open(url_of(folder), read_only=True, read_timeout_s=READ_TIMEOUT_S)) as engine:
        mirror = PostgresMirror(engine, copy)
        with closing(mirror), mirror.open(ALL):
            return copy / MIRROR_FOLDER / FILE_NAME


def change_rows(folder: Path, statement: str) -> int:
    """Execute a statement that both databases understand, past the store; return the number of rows that it changed."""
    if is_postgres_chosen():
        with psycopg.connect(url_of(folder)) as connection:
            return connection.execute(statement.encode()).rowcount
    with duckdb.connect(str(folder / FILE_NAME)) as file:
        ((changed,),) = file.execute(statement).fetchall()
        return int(changed)


@cache
def _server() -> PostgresServer:
    return running_until_exit()
