"""A table of rows that people of a tenant create, change and delete, such as keys, reviews and saved queries."""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from store.interface.analyst_rows import AnalystRow
from store.interface.errors import RowConflict, RowRefused
from store.interface.pages import Page
from store.interface.participant_rows import LinkRow
from store.interface.review_rows import ReviewRow
from store.interface.rows import DraftRow, KeyRow
from store.sql.connection import Connection, count, delete_rows, fetch_page, find_row

R = TypeVar("R", bound=KeyRow | LinkRow | DraftRow | ReviewRow | AnalystRow)
A = TypeVar("A", bound=AnalystRow)


class TenantTable(Struct, Generic[R]):
    """The rows of a table."""

    table: str
    key: str
    """The column of their ids."""
    row: type[R]
    by: str = "created_at"
    """The column by which pages are ordered, the latest first."""
    rows_max: int = 1_000
    """Maximum number of rows of one tenant that meet the condition `counted`."""
    counted: str = "true"
    remedy: str = "delete some"
    """What to do if there are as many."""

    def require_room(self, connection: Connection, tenant: str) -> None:
        """Raise RowRefused if a tenant has as many rows as it may."""
        counted = f"{self.table} WHERE tenant = $tenant AND {self.counted}"
        if count(connection, counted, {"tenant": tenant}) >= self.rows_max:
            name = self.table.removeprefix("api_").replace("_", " ")
            raise RowRefused(f"there are {self.rows_max} {name} already; {self.remedy}")

    def add(self, connection: Connection, row: R) -> None:
        """Add a row. Raises RowRefused if its tenant has as many as it may. Within a transaction."""
        self.require_room(connection, row.tenant)
        connection.insert(self.table, [row])

    def delete(self, connection: Connection, tenant: str, key: str) -> bool:
        """Delete a row; return whether there was one. Within a transaction."""
        return delete_rows(connection, self.table, {"tenant": tenant, self.key: key}) == 1

    def find(self, connection: Connection, tenant: str, key: str) -> R | None:
        """Return a row of a tenant."""
        return find_row(connection, self.row, self.table, {"tenant": tenant, self.key: key})

    def page(self, connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[R]:
        """Return a page of a tenant's rows. Raises CursorInvalid."""
        order = {self.by: datetime, self.key: str}
        return fetch_page(connection, self.row, self.table, {"tenant": tenant}, order, limit, cursor)

    def all(self, connection: Connection) -> list[R]:
        """Return the rows of all tenants, for the server itself."""
        return connection.fetch(self.row, f"SELECT * FROM {self.table} ORDER BY tenant, {self.key}")  # noqa: S608


class AnalystTable(TenantTable[A]):
    """Rows that analysts change; pages begin with the last changed."""

    by: str = "updated_at"

    def change(self, connection: Connection, row: A, expected: int | None = None) -> A | None:
        """Replace a row; return it as stored, with a later time than before, or None if there is none.

        Raises RowConflict unless it has the `expected` revision (None: any). Within a transaction.
        """
        key: str = getattr(row, self.key)
        before = self.find(connection, row.tenant, key)
        if before is None:
            return None
        if expected not in (None, before.revision):
            raise RowConflict(expected, before.revision)
        later = before.updated_at + timedelta(microseconds=1)
        changed = replace(row, created_at=before.created_at, updated_at=max(row.updated_at, later))
        self.delete(connection, row.tenant, key)
        connection.insert(self.table, [changed])
        return changed
