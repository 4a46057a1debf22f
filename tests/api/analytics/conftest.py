"""Tables as DuckDB answers them; a record in which everything happens."""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import duckdb
import pytest

from store.analytics.table import Column, Table


def load(name: str) -> ModuleType:
    """A module beside this one; the folders of tests are no packages."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


eventful = load("eventful")
load("bringing")

Ask: TypeAlias = Callable[[str], Table]


@pytest.fixture(scope="session")
def ask() -> Iterator[Ask]:
    """The answer to a SELECT."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def asked(sql: str) -> Table:
            found = connection.execute(sql)
            columns = tuple(Column(name, str(kind)) for name, kind, *_ in found.description or ())
            return Table(columns, found.fetchall())

        yield asked


@pytest.fixture(scope="session")
def made(app: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a record in which everything happened, to be left as it is."""
    folder = tmp_path_factory.mktemp("made")
    asyncio.run(eventful.made(app, folder))
    return folder


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A folder with such a record."""
    return Path(shutil.copytree(made, tmp_path / "cuebook-data"))
