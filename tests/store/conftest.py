"""A store in a fresh folder, and conversations to write to it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.open_store import open_store
from store.store import Store
from tests.support.paths import ROOT
from tests.support.store_rows import Conversation


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with a store over each database, except those that are about a database file."""
    is_of_file = metafunc.definition.get_closest_marker("database_file") is not None
    is_of_both = {"contract", "verification"} & set(metafunc.definition.path.parts)
    if "store" in metafunc.fixturenames and is_of_both and not is_of_file:
        metafunc.parametrize("store", ["duckdb", "postgres"], indirect=True)


@pytest.fixture
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Return a new store."""
    url = request.getfixturevalue("postgres_url") if getattr(request, "param", "") == "postgres" else None
    store = open_store(tmp_path, url)
    yield store
    await store.close()


@pytest.fixture
def environment() -> dict[str, str]:
    """Return an environment in which another process can import the packages and the tests."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
