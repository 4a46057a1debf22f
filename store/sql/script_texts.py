"""Versions of scripts, the texts of scripts by digest, and drafts."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from store.interface.errors import IdTaken, RowConflict
from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.pages import Page, clamp_limit
from store.interface.rows import DraftEntryRow, DraftRow, ScriptRow, ScriptStatus, ScriptTextRow
from store.sql.connection import Connection, Parameters, fetch_one, fetch_page, find_row, update_rows
from store.sql.tenant_table import TenantTable

DRAFTS = TenantTable("drafts", "script_id", DraftRow, remedy="publish or delete some")
_VERSIONS = "SELECT * FROM scripts WHERE tenant = $tenant"


def save_script(connection: Connection, script: ScriptRow, text: ScriptTextRow) -> None:
    """Add a version; add its text unless it exists. Raises IdTaken. Within a transaction."""
    number: Parameters = {"tenant": script.tenant, "script_uuid": script.script_uuid, "version": script.version}
    if find_row(connection, ScriptRow, "scripts", number) is not None:
        raise IdTaken(f"script {script.script_id} has a version {script.version} already")
    connection.insert("scripts", [script])
    if script_text(connection, text.tenant, text.digest) is None:
        connection.insert("script_texts", [text])


def scripts(
    connection: Connection,
    tenant: str,
    which: ScriptFilter | None = None,
    *,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[ScriptRow]:
    """Return a page of scripts, last changed first: of each, the latest version, or the latest with the status.

    Raises CursorInvalid.
    """
    which = which or ScriptFilter()
    about = "concat_ws(chr(10), name, script_id, description, author)"
    searched = f"concat_ws(chr(10), {about}, texts.text)" if which.in_texts else about
    source = f"""
        (SELECT latest.* FROM (
            SELECT DISTINCT ON (script_uuid) * FROM scripts
            WHERE tenant = $tenant AND ($status::VARCHAR IS NULL OR status = $status)
            ORDER BY script_uuid, version DESC
        ) AS latest JOIN script_texts AS texts USING (tenant, digest)
        WHERE ($tag::VARCHAR IS NULL OR $tag = ANY(tags))
            AND ($author::VARCHAR IS NULL OR author = $author)
            AND ($form::VARCHAR IS NULL OR form = $form)
            AND ($search::VARCHAR IS NULL OR strpos(lower({searched}), lower($search)) > 0)) AS listed"""  # noqa: S608
    filters: dict[str, str | None] = {"tenant": tenant, **msgspec.structs.asdict(which)}
    del filters["in_texts"]
    order = {"updated_at": datetime, "script_uuid": str}
    return fetch_page(connection, ScriptRow, source, {}, order, limit, cursor, parameters=filters)


def set_statuses(
    connection: Connection, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
) -> None:
    """Set the statuses of versions of a script, all or none. Within a transaction."""
    for version, status in statuses.items():
        which: Parameters = {"tenant": tenant, "script_uuid": script_uuid, "version": version}
        update_rows(connection, "scripts", which, {"status": status, "updated_at": at.isoformat()})


def describe(connection: Connection, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
    """Change the description of a script in all its versions. Within a transaction."""
    new = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
    which = {"tenant": tenant, "script_uuid": script_uuid}
    update_rows(connection, "scripts", which, {"updated_at": at.isoformat(), **new})


def script(connection: Connection, tenant: str, script_uuid: str, version: int | None = None) -> ScriptRow | None:
    """Return one version of a script, the latest if `version` is None."""
    select = f"""{_VERSIONS} AND script_uuid = $script_uuid AND ($version::INTEGER IS NULL OR version = $version)
        ORDER BY version DESC LIMIT 1"""
    return fetch_one(connection, ScriptRow, select, {"tenant": tenant, "script_uuid": script_uuid, "version": version})


def script_versions(connection: Connection, tenant: str, script: str) -> list[ScriptRow]:
    """Return the latest 1,000 versions of a script, named by its uuid or its author's id, the latest first."""
    select = f"{_VERSIONS} AND $script IN (script_uuid, script_id) ORDER BY version DESC LIMIT 1000"
    return connection.fetch(ScriptRow, select, {"tenant": tenant, "script": script})


def latest_published(connection: Connection, tenant: str, script: str) -> ScriptRow | None:
    """Return the latest published version of a script, named by its uuid or its author's id."""
    select = f"""{_VERSIONS} AND $script IN (script_uuid, script_id) AND status = 'published'
        ORDER BY version DESC, updated_at DESC LIMIT 1"""
    return fetch_one(connection, ScriptRow, select, {"tenant": tenant, "script": script})


def script_text(connection: Connection, tenant: str, digest: str) -> ScriptTextRow | None:
    """Return a text by its digest."""
    return find_row(connection, ScriptTextRow, "script_texts", {"tenant": tenant, "digest": digest})


def texts_after(connection: Connection, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
    """Return at most `limit` texts of all tenants after the tenant and digest `after`, in order."""
    tenant, digest = after or (None, None)
    select = """SELECT * FROM script_texts WHERE $tenant::VARCHAR IS NULL OR (tenant, digest) > ($tenant, $digest)
        ORDER BY tenant, digest LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant, "digest": digest, "limit": clamp_limit(limit)}
    return connection.fetch(ScriptTextRow, select, parameters)


def save_draft(connection: Connection, draft: DraftRow, expected: int | None) -> DraftRow:
    """Add or replace the draft of a script; return it as stored, with a revision above the one before.

    Raises RowConflict unless there is the `expected` revision (0: no draft; None: any), RowRefused if the tenant has
    as many as it may. Within a transaction.
    """
    before = DRAFTS.find(connection, draft.tenant, draft.script_id)
    actual = before.revision if before is not None else 0
    if expected is not None and expected != actual:
        raise RowConflict(expected, actual)
    if before is None:
        DRAFTS.require_room(connection, draft.tenant)
    created_at = before.created_at if before is not None else draft.created_at
    saved = replace(draft, revision=max(draft.revision, actual + 1), created_at=created_at)
    DRAFTS.delete(connection, draft.tenant, draft.script_id)
    connection.insert("drafts", [saved])
    return saved


def delete_draft(connection: Connection, tenant: str, script_id: str, expected: int | None = None) -> bool:
    """Delete the draft of a script, if it has the `expected` revision; return whether there was one.

    Raises RowConflict. Within a transaction.
    """
    before = DRAFTS.find(connection, tenant, script_id)
    if before is not None and expected is not None and expected != before.revision:
        raise RowConflict(expected, before.revision)
    return DRAFTS.delete(connection, tenant, script_id)


def drafts(connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[DraftEntryRow]:
    """Return a page of a tenant's drafts without their texts, the last saved first. Raises CursorInvalid."""
    order = {"updated_at": datetime, "script_id": str}
    return fetch_page(connection, DraftEntryRow, "drafts", {"tenant": tenant}, order, limit, cursor)
