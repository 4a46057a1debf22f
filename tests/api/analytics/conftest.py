"""Tables as DuckDB answers them."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import duckdb
import pytest

from store.analytics.table import Column, Table

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
