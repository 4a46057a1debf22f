"""A small table of rows that people of a tenant create, change and delete: saved queries, dashboards."""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from msgspec.structs import replace

from store.interface.analyst_rows import AnalystRow
from store.interface.errors import RowConflict, RowRefused
from store.interface.pages import Page
from store.sql.connection import Connection, count, fetch_one, fetch_page

R = TypeVar("R", bound=AnalystRow)


class TenantTable(Generic[R]):
    """The rows of a table; `key` is the column of their ids, `rows_max` the most rows of a tenant."""

    def __init__(self, table: str, key: str, row: type[R], rows_max: int) -> None:
        self._table = table
        self._key = key
        self._row = row
        self.rows_max = rows_max
        self._select = f"SELECT * FROM {table}"  # noqa: S608
        self._one = f"tenant = $tenant AND {key} = $key"

    def add(self, connection: Connection, row: R) -> None:
        """Add a row. Raises RowRefused if its tenant has as many as it may. Within a transaction."""
        if count(connection, f"{self._table} WHERE tenant = $tenant", {"tenant": row.tenant}) >= self.rows_max:
            raise RowRefused(f"there are {self.rows_max} {self._table.replace('_', ' ')} already; delete some")
        connection.insert(self._table, [row])

    def change(self, connection: Connection, row: R, expected: int | None = None) -> R | None:
        """Replace a row; return it as stored, with a later time than before, or None if there is none.

        Raises RowConflict unless it has the `expected` revision (None: any). Within a transaction.
        """
        key: str = getattr(row, self._key)
        before = self.find(connection, row.tenant, key)
        if before is None:
            return None
        if expected not in (None, before.revision):
            raise RowConflict(expected, before.revision)
        later = before.updated_at + timedelta(microseconds=1)
        changed = replace(row, created_at=before.created_at, updated_at=max(row.updated_at, later))
        self.delete(connection, row.tenant, key)
        connection.insert(self._table, [changed])
        return changed

    def delete(self, connection: Connection, tenant: str, key: str) -> bool:
        """Delete a row; return whether there was one. Within a transaction."""
        statement = f"DELETE FROM {self._table} WHERE {self._one}"  # noqa: S608
        return connection.change(statement, {"tenant": tenant, "key": key}) == 1

    def find(self, connection: Connection, tenant: str, key: str) -> R | None:
        """Return a row of a tenant."""
        return fetch_one(connection, self._row, f"{self._select} WHERE {self._one}", {"tenant": tenant, "key": key})

    def page(self, connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[R]:
        """Return a page of a tenant's rows, the last changed first. Raises CursorInvalid."""
        select, order = f"{self._select} WHERE tenant = $tenant", {"updated_at": datetime, self._key: str}
        return fetch_page(connection, self._row, select, {"tenant": tenant}, order, limit, cursor)

    def all(self, connection: Connection) -> list[R]:
        """Return the rows of all tenants, for the server itself."""
        return connection.fetch(self._row, f"{self._select} ORDER BY tenant, {self._key}")
