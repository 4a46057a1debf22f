"""Scripts: the catalogue of versions, and their texts by digest."""

from store.fetch import Cursor, Page, Parameters, after, bounded, fetch, fetch_one, page, utc
from store.insert import insert
from store.rows import ScriptRow, ScriptStatus, ScriptTextRow

_VERSIONS = f"SELECT * {utc('created_at', 'updated_at')} FROM scripts WHERE tenant = $tenant"  # noqa: S608


def save_script(cursor: Cursor, script: ScriptRow, text: ScriptTextRow) -> None:
    """Add a version, or replace what is known of it; its text is added unless it is there. Within a transaction."""
    cursor.execute(
        "DELETE FROM scripts WHERE tenant = ? AND script_uuid = ? AND version = ?",
        [script.tenant, script.script_uuid, script.version],
    )
    insert(cursor, "scripts", script)
    if script_text(cursor, text.tenant, text.digest) is None:
        insert(cursor, "script_texts", text)


def scripts(
    cursor: Cursor,
    tenant: str,
    status: ScriptStatus | None,
    search: str | None,
    tag: str | None,
    limit: int,
    page_cursor: str | None,
) -> Page[ScriptRow]:
    """A page of scripts, the last changed first: of each the latest version that has the status, if one is asked for.

    `search` is found in names, ids and descriptions, in either case.
    """
    select = f"""
        SELECT * {utc("created_at", "updated_at")} FROM (
            SELECT * FROM scripts WHERE tenant = $tenant AND ($status IS NULL OR status = $status)
            QUALIFY row_number() OVER (PARTITION BY script_uuid ORDER BY version DESC) = 1
        ) AS latest
        WHERE ($tag IS NULL OR list_contains(tags, $tag))
            AND ($search IS NULL OR contains(lower(concat_ws(chr(10), name, script_id, description)), lower($search)))
            AND ($after_time IS NULL OR (updated_at, script_uuid) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY latest.updated_at DESC, script_uuid DESC LIMIT $limit"""  # noqa: S608
    limit = bounded(limit)
    filters: Parameters = {"tenant": tenant, "status": status, "search": search, "tag": tag, "limit": limit + 1}
    rows = fetch(cursor, ScriptRow, select, filters | after(page_cursor))
    return page(rows, limit, lambda row: (row.updated_at, row.script_uuid))


def script(cursor: Cursor, tenant: str, script_uuid: str, version: int | None) -> ScriptRow | None:
    """One version of a script, the latest unless it is named."""
    select = f"""{_VERSIONS} AND script_uuid = $script_uuid AND ($version IS NULL OR version = $version)
        ORDER BY version DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script_uuid": script_uuid, "version": version})


def script_versions(cursor: Cursor, tenant: str, script_uuid: str) -> list[ScriptRow]:
    """Every version of a script, the latest first; at most 1,000."""
    select = f"{_VERSIONS} AND script_uuid = $script_uuid ORDER BY version DESC LIMIT 1000"
    return fetch(cursor, ScriptRow, select, {"tenant": tenant, "script_uuid": script_uuid})


def latest_published(cursor: Cursor, tenant: str, script_id: str) -> ScriptRow | None:
    """The latest published version of the script its author calls `script_id`."""
    select = f"""{_VERSIONS} AND script_id = $script_id AND status = 'published'
        ORDER BY version DESC, scripts.updated_at DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script_id": script_id})


def script_text(cursor: Cursor, tenant: str, digest: str) -> ScriptTextRow | None:
    """A text by its digest."""
    select = "SELECT * FROM script_texts WHERE tenant = $tenant AND digest = $digest"
    return fetch_one(cursor, ScriptTextRow, select, {"tenant": tenant, "digest": digest})
