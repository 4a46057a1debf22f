"""Store and list the saved queries of analysts."""

from msgspec.structs import replace

from store.duckdb.fetch import Cursor, Parameters, fetch_one, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.errors import RowRefused
from store.interface.pages import Page
from store.interface.rows import SavedQueryRow

QUERIES_MAX = 1_000
"""Maximum number of saved queries of one tenant."""

_QUERIES = f"SELECT * {utc('created_at', 'updated_at')} FROM saved_queries"  # noqa: S608
_ONE = "tenant = $tenant AND query_id = $query_id"


def add_query(cursor: Cursor, query: SavedQueryRow) -> None:
    """Add a query. Raises RowRefused if its tenant has QUERIES_MAX. Within a transaction."""
    found = cursor.execute("SELECT count(*) FROM saved_queries WHERE tenant = ?", [query.tenant]).fetchone()
    if found is not None and found[0] >= QUERIES_MAX:
        raise RowRefused(f"there are {QUERIES_MAX} saved queries already; delete some")
    insert(cursor, "saved_queries", query)


def change_query(cursor: Cursor, query: SavedQueryRow) -> SavedQueryRow | None:
    """Replace name and text of a query; return it as stored, or None if there is none. Within a transaction."""
    before = saved_query(cursor, query.tenant, query.query_id)
    if before is None:
        return None
    changed = replace(query, created_at=before.created_at)
    delete_query(cursor, query.tenant, query.query_id)
    insert(cursor, "saved_queries", changed)
    return changed


def delete_query(cursor: Cursor, tenant: str, query_id: str) -> bool:
    """Delete a query; return whether there was one. Within a transaction."""
    found = cursor.execute(f"DELETE FROM saved_queries WHERE {_ONE}", {"tenant": tenant, "query_id": query_id})  # noqa: S608
    deleted = found.fetchone()
    return deleted is not None and bool(deleted[0])


def saved_query(cursor: Cursor, tenant: str, query_id: str) -> SavedQueryRow | None:
    """Return a query of a tenant."""
    return fetch_one(cursor, SavedQueryRow, f"{_QUERIES} WHERE {_ONE}", {"tenant": tenant, "query_id": query_id})


def saved_queries(reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[SavedQueryRow]:
    """Return a page of a tenant's queries, the last changed first."""
    select = f"""
        {_QUERIES} WHERE tenant = $tenant
            AND ($after_time IS NULL OR (saved_queries.updated_at, query_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY saved_queries.updated_at DESC, query_id DESC LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant}
    return fetch_page(
        reader, SavedQueryRow, select, parameters, limit, cursor, lambda row: (row.updated_at, row.query_id)
    )
