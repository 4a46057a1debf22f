"""Store and list the drafts of scripts."""

from datetime import datetime

from msgspec.structs import replace

from store.interface.errors import DraftConflict, RowRefused
from store.interface.pages import Page
from store.interface.rows import DraftEntryRow, DraftRow
from store.sql.connection import Connection, count, fetch_one, fetch_page

DRAFTS_MAX = 1_000
"""Maximum number of drafts of one tenant."""

_ENTRY = ", ".join(DraftEntryRow.__struct_fields__)
_ONE = "tenant = $tenant AND script_id = $script_id"


def save_draft(connection: Connection, draft: DraftRow, expected: int | None) -> DraftRow:
    """Add or replace the draft of a script; return it as stored, with a revision above the one before.

    Raises DraftConflict unless there is the `expected` revision (0: no draft; None: any), RowRefused if the tenant has
    DRAFTS_MAX. Within a transaction.
    """
    before = draft_of(connection, draft.tenant, draft.script_id)
    actual = before.revision if before is not None else 0
    if expected is not None and expected != actual:
        raise DraftConflict(draft.script_id, expected, actual)
    if before is None and count(connection, "drafts WHERE tenant = $tenant", {"tenant": draft.tenant}) >= DRAFTS_MAX:
        raise RowRefused(f"there are {DRAFTS_MAX} drafts already; publish or delete some")
    created_at = before.created_at if before is not None else draft.created_at
    saved = replace(draft, revision=max(draft.revision, actual + 1), created_at=created_at)
    _remove(connection, draft.tenant, draft.script_id)
    connection.insert("drafts", [saved])
    return saved


def delete_draft(connection: Connection, tenant: str, script_id: str, expected: int | None = None) -> bool:
    """Delete the draft of a script, if it has the `expected` revision; return whether there was one.

    Raises DraftConflict. Within a transaction.
    """
    before = draft_of(connection, tenant, script_id)
    if before is not None and expected is not None and expected != before.revision:
        raise DraftConflict(script_id, expected, before.revision)
    _remove(connection, tenant, script_id)
    return before is not None


def draft_of(connection: Connection, tenant: str, script_id: str) -> DraftRow | None:
    """Return the draft of a script."""
    select = f"SELECT * FROM drafts WHERE {_ONE}"  # noqa: S608
    return fetch_one(connection, DraftRow, select, {"tenant": tenant, "script_id": script_id})


def drafts(connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[DraftEntryRow]:
    """Return a page of a tenant's drafts without their texts, the last saved first. Raises CursorInvalid."""
    select = f"SELECT {_ENTRY} FROM drafts WHERE tenant = $tenant"  # noqa: S608
    order = {"updated_at": datetime, "script_id": str}
    return fetch_page(connection, DraftEntryRow, select, {"tenant": tenant}, order, limit, cursor)


def _remove(connection: Connection, tenant: str, script_id: str) -> None:
    connection.change(f"DELETE FROM drafts WHERE {_ONE}", {"tenant": tenant, "script_id": script_id})  # noqa: S608
