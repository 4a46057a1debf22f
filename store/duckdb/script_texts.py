"""Store and list scripts: the catalogue of versions, and their texts by digest."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.pages import Page, bounded
from store.interface.rows import ScriptRow, ScriptStatus, ScriptTextRow

_VERSIONS = f"SELECT * {utc('created_at', 'updated_at')} FROM scripts WHERE tenant = $tenant"  # noqa: S608


def save_script(cursor: Cursor, script: ScriptRow, text: ScriptTextRow) -> None:
    """Add a version, or replace its row; add its text unless it exists. Within a transaction."""
    cursor.execute(
        "DELETE FROM scripts WHERE tenant = ? AND script_uuid = ? AND version = ?",
        [script.tenant, script.script_uuid, script.version],
    )
    insert(cursor, "scripts", script)
    if script_text(cursor, text.tenant, text.digest) is None:
        insert(cursor, "script_texts", text)


def scripts(
    reader: Cursor, tenant: str, which: ScriptFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[ScriptRow]:
    """Return a page of scripts, last changed first: of each, the latest version, or the latest with the status."""
    which = which or ScriptFilter()
    about = "concat_ws(chr(10), name, script_id, description, author)"
    searched = f"concat_ws(chr(10), {about}, texts.text)" if which.in_texts else about
    select = f"""
        SELECT found.* EXCLUDE (text, form) {utc("created_at", "updated_at")} FROM (
            SELECT latest.*, texts.text, texts.form FROM (
                SELECT * FROM scripts WHERE tenant = $tenant AND ($status IS NULL OR status = $status)
                QUALIFY row_number() OVER (PARTITION BY script_uuid ORDER BY version DESC) = 1
            ) AS latest JOIN script_texts AS texts USING (tenant, digest)
            WHERE ($tag IS NULL OR list_contains(tags, $tag))
                AND ($author IS NULL OR author = $author)
                AND ($form IS NULL OR form = $form)
                AND ($search IS NULL OR contains(lower({searched}), lower($search)))
                AND ($after_time IS NULL OR (updated_at, script_uuid) < ($after_time::TIMESTAMPTZ, $after_id))
        ) AS found
        ORDER BY found.updated_at DESC, script_uuid DESC LIMIT $limit"""  # noqa: S608
    filters: Parameters = {"tenant": tenant, **msgspec.structs.asdict(which)}
    del filters["in_texts"]
    return fetch_page(reader, ScriptRow, select, filters, limit, cursor, lambda row: (row.updated_at, row.script_uuid))


def set_statuses(
    cursor: Cursor, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
) -> None:
    """Set the statuses of versions of a script. Within a transaction."""
    for version, status in statuses.items():
        cursor.execute(
            """UPDATE scripts SET status = ?, updated_at = ?::TIMESTAMPTZ
            WHERE tenant = ? AND script_uuid = ? AND version = ?""",
            [status, at.isoformat(), tenant, script_uuid, version],
        )


def describe(cursor: Cursor, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
    """Change the description of a script in all its versions. Within a transaction."""
    values = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
    assignments = "".join(f", {name} = ${name}" for name in values)
    cursor.execute(
        f"""UPDATE scripts SET updated_at = $at::TIMESTAMPTZ{assignments}
        WHERE tenant = $tenant AND script_uuid = $script_uuid""",  # noqa: S608
        {"tenant": tenant, "script_uuid": script_uuid, "at": at.isoformat(), **values},
    )


def script(cursor: Cursor, tenant: str, script_uuid: str, version: int | None = None) -> ScriptRow | None:
    """Return one version of a script, the latest if `version` is None."""
    select = f"""{_VERSIONS} AND script_uuid = $script_uuid AND ($version IS NULL OR version = $version)
        ORDER BY version DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script_uuid": script_uuid, "version": version})


def script_versions(cursor: Cursor, tenant: str, script: str) -> list[ScriptRow]:
    """Return the latest 1,000 versions of a script, named by its uuid or its author's id, the latest first."""
    select = f"{_VERSIONS} AND $script IN (script_uuid, script_id) ORDER BY version DESC LIMIT 1000"
    return fetch(cursor, ScriptRow, select, {"tenant": tenant, "script": script})


def latest_published(cursor: Cursor, tenant: str, script: str) -> ScriptRow | None:
    """Return the latest published version of a script, named by its uuid or its author's id."""
    select = f"""{_VERSIONS} AND $script IN (script_uuid, script_id) AND status = 'published'
        ORDER BY version DESC, scripts.updated_at DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script": script})


def script_text(cursor: Cursor, tenant: str, digest: str) -> ScriptTextRow | None:
    """Return a text by its digest."""
    select = "SELECT * FROM script_texts WHERE tenant = $tenant AND digest = $digest"
    return fetch_one(cursor, ScriptTextRow, select, {"tenant": tenant, "digest": digest})


def texts_after(cursor: Cursor, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
    """Return at most `limit` texts of all tenants after the tenant and digest `after`, in order."""
    tenant, digest = after or (None, None)
    select = """SELECT * FROM script_texts WHERE $tenant IS NULL OR (tenant, digest) > ($tenant, $digest)
        ORDER BY tenant, digest LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant, "digest": digest, "limit": bounded(limit)}
    return fetch(cursor, ScriptTextRow, select, parameters)
