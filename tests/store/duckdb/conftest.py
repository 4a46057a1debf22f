"""Database files that are opened and closed as a server does it."""

import pytest

from store.duckdb import database_file as files
from tests.support.duckdb_instances import new_instance


@pytest.fixture(autouse=True)
def instance_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open each database with a new instance of DuckDB, which ends when it is closed."""
    monkeypatch.setattr(files, "_instance", new_instance)
