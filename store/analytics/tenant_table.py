"""A small table of rows that people of a tenant create, change and delete: saved queries, dashboards."""

from typing import Generic, TypeVar

from msgspec.structs import replace

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.analyst_rows import AnalystRow
from store.interface.errors import RowRefused
from store.interface.pages import Page

R = TypeVar("R", bound=AnalystRow)


class TenantTable(Generic[R]):
    """The rows of a table; `key` is the column of their ids, `rows_max` the most rows of a tenant."""

    def __init__(self, table: str, key: str, row: type[R], rows_max: int) -> None:
        self._table = table
        self._key = key
        self._row = row
        self.rows_max = rows_max
        self._select = f"SELECT * {utc('created_at', 'updated_at')} FROM {table}"  # noqa: S608
        self._one = f"tenant = $tenant AND {key} = $key"

    def add(self, cursor: Cursor, row: R) -> None:
        """Add a row. Raises RowRefused if its tenant has as many as it may. Within a transaction."""
        ((count,),) = cursor.execute(f"SELECT count(*) FROM {self._table} WHERE tenant = ?", [row.tenant]).fetchall()  # noqa: S608
        if count >= self.rows_max:
            raise RowRefused(f"there are {self.rows_max} {self._table.replace('_', ' ')} already; delete some")
        insert(cursor, self._table, row)

    def change(self, cursor: Cursor, row: R) -> R | None:
        """Replace a row; return it as stored, or None if there is none. Within a transaction."""
        key: str = getattr(row, self._key)
        before = self.find(cursor, row.tenant, key)
        if before is None:
            return None
        changed = replace(row, created_at=before.created_at)
        self.delete(cursor, row.tenant, key)
        insert(cursor, self._table, changed)
        return changed

    def delete(self, cursor: Cursor, tenant: str, key: str) -> bool:
        """Delete a row; return whether there was one. Within a transaction."""
        statement = f"DELETE FROM {self._table} WHERE {self._one}"  # noqa: S608
        return cursor.execute(statement, {"tenant": tenant, "key": key}).fetchall() == [(1,)]

    def find(self, cursor: Cursor, tenant: str, key: str) -> R | None:
        """Return a row of a tenant."""
        return fetch_one(cursor, self._row, f"{self._select} WHERE {self._one}", {"tenant": tenant, "key": key})

    def page(self, reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[R]:
        """Return a page of a tenant's rows, the last changed first."""
        table, key = self._table, self._key
        select = f"""
            {self._select} WHERE tenant = $tenant
                AND ($after_time IS NULL OR ({table}.updated_at, {key}) < ($after_time::TIMESTAMPTZ, $after_id))
            ORDER BY {table}.updated_at DESC, {key} DESC LIMIT $limit"""
        parameters: Parameters = {"tenant": tenant}
        return fetch_page(
            reader, self._row, select, parameters, limit, cursor, lambda row: (row.updated_at, getattr(row, key))
        )

    def where(self, cursor: Cursor, condition: str) -> list[R]:
        """Return the rows of all tenants that meet an SQL condition, for the server itself."""
        return fetch(cursor, self._row, f"{self._select} WHERE {condition} ORDER BY tenant, {self._key}", {})
