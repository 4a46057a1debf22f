"""The engine of a store over DuckDB, for tests that look at its threads and its file."""

from store.duckdb.engine import DuckDBEngine
from store.duckdb_store import DuckDBStore
from store.store import Store


def engine_of(store: Store) -> DuckDBEngine:
    """Return the engine of a store over DuckDB."""
    assert isinstance(store, DuckDBStore)
    return store._engine
