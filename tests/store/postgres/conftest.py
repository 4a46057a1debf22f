"""Two servers' stores on one PostgreSQL database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.open_store import open_store
from store.store import Store


@pytest.fixture
async def stores(tmp_path: Path, postgres_url: str) -> AsyncIterator[tuple[Store, Store]]:
    one, two = (open_store(tmp_path / name, postgres_url) for name in ("one", "two"))
    yield one, two
    await one.close()
    await two.close()
