"""Tables as DuckDB returns them; a database in which everything happens."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import duckdb
import pytest

from store.analytics.query import Column, Table
from tests.support import eventful_database
from tests.support.data_folders import copied
from tests.support.fixture_types import OpenApp

Ask: TypeAlias = Callable[[str], Table]


@pytest.fixture(scope="session")
def ask() -> Iterator[Ask]:
    """Run a SELECT."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def asked(sql: str) -> Table:
            found = connection.execute(sql)
            columns = tuple(Column(name, str(kind)) for name, kind, *_ in found.description or ())
            return Table(columns, found.fetchall())

        yield asked


@pytest.fixture(scope="session")
def made(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a database in which everything happened; tests do not change it."""
    folder = tmp_path_factory.mktemp("made")
    asyncio.run(eventful_database.made(app, folder))
    return folder


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder."""
    return copied(made, tmp_path / "cuebook-data")
