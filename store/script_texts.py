"""Scripts: the catalogue of versions, and their texts by digest."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

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


class ScriptFilter(Struct, frozen=True, kw_only=True):
    """Which scripts; null for all."""

    status: ScriptStatus | None = None
    search: str | None = None
    """Found in ids, names, descriptions and authors, in either case."""
    in_texts: bool = False
    """Search the texts of the scripts as well."""
    tag: str | None = None
    author: str | None = None
    form: str | None = None


class ScriptChanges(Struct, frozen=True, kw_only=True):
    """What is said of a script otherwise from now on; null stays."""

    name: str | None = None
    tags: list[str] | None = None
    author: str | None = None
    description: str | None = None


def scripts(cursor: Cursor, tenant: str, which: ScriptFilter, limit: int, page_cursor: str | None) -> Page[ScriptRow]:
    """A page of scripts, the last changed first: of each the latest version, or the latest that has the status."""
    about = "concat_ws(chr(10), name, script_id, description, author)"
    searched = f"concat_ws(chr(10), {about}, kept.text)" if which.in_texts else about
    select = f"""
        SELECT found.* EXCLUDE (text, form) {utc("created_at", "updated_at")} FROM (
            SELECT latest.*, kept.text, kept.form FROM (
                SELECT * FROM scripts WHERE tenant = $tenant AND ($status IS NULL OR status = $status)
                QUALIFY row_number() OVER (PARTITION BY script_uuid ORDER BY version DESC) = 1
            ) AS latest JOIN script_texts AS kept USING (tenant, digest)
            WHERE ($tag IS NULL OR list_contains(tags, $tag))
                AND ($author IS NULL OR author = $author)
                AND ($form IS NULL OR form = $form)
                AND ($search IS NULL OR contains(lower({searched}), lower($search)))
                AND ($after_time IS NULL OR (updated_at, script_uuid) < ($after_time::TIMESTAMPTZ, $after_id))
        ) AS found
        ORDER BY found.updated_at DESC, script_uuid DESC LIMIT $limit"""  # noqa: S608
    limit = bounded(limit)
    filters: Parameters = {
        "tenant": tenant,
        "status": which.status,
        "search": which.search,
        "tag": which.tag,
        "author": which.author,
        "form": which.form,
        "limit": limit + 1,
    }
    rows = fetch(cursor, ScriptRow, select, filters | after(page_cursor))
    return page(rows, limit, lambda row: (row.updated_at, row.script_uuid))


def set_statuses(
    cursor: Cursor, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
) -> None:
    """Give versions of a script another status. Within a transaction."""
    for version, status in statuses.items():
        cursor.execute(
            """UPDATE scripts SET status = $status, updated_at = $at::TIMESTAMPTZ
            WHERE tenant = $tenant AND script_uuid = $script_uuid AND version = $version""",
            {
                "tenant": tenant,
                "script_uuid": script_uuid,
                "version": version,
                "status": status,
                "at": at.isoformat(),
            },
        )


def describe(cursor: Cursor, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
    """Say something else of a script, which is said of all its versions. Within a transaction."""
    values = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
    said = "".join(f", {name} = ${name}" for name in values)
    cursor.execute(
        f"UPDATE scripts SET updated_at = $at::TIMESTAMPTZ{said} WHERE tenant = $tenant AND script_uuid = $script_uuid",  # noqa: S608
        {"tenant": tenant, "script_uuid": script_uuid, "at": at.isoformat(), **values},
    )


def script(cursor: Cursor, tenant: str, script_uuid: str, version: int | None) -> ScriptRow | None:
    """One version of a script, the latest unless it is named."""
    select = f"""{_VERSIONS} AND script_uuid = $script_uuid AND ($version IS NULL OR version = $version)
        ORDER BY version DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script_uuid": script_uuid, "version": version})


def script_versions(cursor: Cursor, tenant: str, script: str) -> list[ScriptRow]:
    """Every version of a script, named by its uuid or its author's id, the latest first; at most 1,000."""
    select = f"{_VERSIONS} AND $script IN (script_uuid, script_id) ORDER BY version DESC LIMIT 1000"
    return fetch(cursor, ScriptRow, select, {"tenant": tenant, "script": script})


def latest_published(cursor: Cursor, tenant: str, script: str) -> ScriptRow | None:
    """The latest published version of a script, named by its uuid or its author's id."""
    select = f"""{_VERSIONS} AND $script IN (script_uuid, script_id) AND status = 'published'
        ORDER BY version DESC, scripts.updated_at DESC LIMIT 1"""
    return fetch_one(cursor, ScriptRow, select, {"tenant": tenant, "script": script})


def script_text(cursor: Cursor, tenant: str, digest: str) -> ScriptTextRow | None:
    """A text by its digest."""
    select = "SELECT * FROM script_texts WHERE tenant = $tenant AND digest = $digest"
    return fetch_one(cursor, ScriptTextRow, select, {"tenant": tenant, "digest": digest})


def texts_after(cursor: Cursor, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
    """At most `limit` texts of all tenants after a tenant and digest, in order."""
    tenant, digest = after or (None, None)
    select = """SELECT * FROM script_texts WHERE $tenant IS NULL OR (tenant, digest) > ($tenant, $digest)
        ORDER BY tenant, digest LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant, "digest": digest, "limit": bounded(limit)}
    return fetch(cursor, ScriptTextRow, select, parameters)
