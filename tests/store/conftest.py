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


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(tmp_path)
    yield store
    await store.close()


@pytest.fixture
def environment() -> dict[str, str]:
    """Return an environment in which another process can import the packages and the tests."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
