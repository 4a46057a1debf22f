"""Store and list the drafts of scripts."""

from msgspec.structs import replace

from store.duckdb.fetch import Cursor, Parameters, fetch_one, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.errors import DraftConflict, RowRefused
from store.interface.pages import Page
from store.interface.rows import DraftEntryRow, DraftRow

DRAFTS_MAX = 1_000
"""Maximum number of drafts of one tenant."""

_DRAFTS = f"SELECT * {utc('created_at', 'updated_at')} FROM drafts"  # noqa: S608
_ONE = "tenant = $tenant AND script_id = $script_id"


def save_draft(cursor: Cursor, draft: DraftRow, expected: int | None) -> DraftRow:
    """Add or replace the draft of a script; return it as stored, with a revision above the one before.

    Raises DraftConflict unless there is the `expected` revision (0: no draft; None: any), RowRefused if the tenant has
    DRAFTS_MAX. Within a transaction.
    """
    before = draft_of(cursor, draft.tenant, draft.script_id)
    actual = before.revision if before is not None else 0
    if expected is not None and expected != actual:
        raise DraftConflict(draft.script_id, expected, actual)
    if before is None and _count(cursor, draft.tenant) >= DRAFTS_MAX:
        raise RowRefused(f"there are {DRAFTS_MAX} drafts already; publish or delete some")
    created_at = before.created_at if before is not None else draft.created_at
    saved = replace(draft, revision=max(draft.revision, actual + 1), created_at=created_at)
    _remove(cursor, draft.tenant, draft.script_id)
    insert(cursor, "drafts", saved)
    return saved


def delete_draft(cursor: Cursor, tenant: str, script_id: str, expected: int | None = None) -> bool:
    """Delete the draft of a script, if it has the `expected` revision; return whether there was one.

    Raises DraftConflict. Within a transaction.
    """
    before = draft_of(cursor, tenant, script_id)
    if before is not None and expected is not None and expected != before.revision:
        raise DraftConflict(script_id, expected, before.revision)
    _remove(cursor, tenant, script_id)
    return before is not None


def draft_of(cursor: Cursor, tenant: str, script_id: str) -> DraftRow | None:
    """Return the draft of a script."""
    return fetch_one(cursor, DraftRow, f"{_DRAFTS} WHERE {_ONE}", {"tenant": tenant, "script_id": script_id})


def drafts(reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[DraftEntryRow]:
    """Return a page of a tenant's drafts without their texts, the last saved first."""
    select = f"""
        SELECT * EXCLUDE (text, files) {utc("created_at", "updated_at")} FROM drafts WHERE tenant = $tenant
            AND ($after_time IS NULL OR (drafts.updated_at, script_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY drafts.updated_at DESC, script_id DESC LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant}
    return fetch_page(
        reader, DraftEntryRow, select, parameters, limit, cursor, lambda row: (row.updated_at, row.script_id)
    )


def _remove(cursor: Cursor, tenant: str, script_id: str) -> None:
    cursor.execute(f"DELETE FROM drafts WHERE {_ONE}", {"tenant": tenant, "script_id": script_id})  # noqa: S608


def _count(cursor: Cursor, tenant: str) -> int:
    found = cursor.execute("SELECT count(*) FROM drafts WHERE tenant = ?", [tenant]).fetchone()
    return found[0] if found is not None else 0
