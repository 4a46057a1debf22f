"""Versions of scripts, and the texts of scripts by digest."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from store.interface.errors import IdTaken
from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.pages import Page, bounded
from store.interface.rows import ScriptRow, ScriptStatus, ScriptTextRow
from store.sql.connection import Connection, Parameters, exists, fetch_one, fetch_page

_VERSIONS = "SELECT * FROM scripts WHERE tenant = $tenant"


def save_script(connection: Connection, script: ScriptRow, text: ScriptTextRow) -> None:
    """Add a version; add its text unless it exists. Raises IdTaken. Within a transaction."""
    number: Parameters = {"tenant": script.tenant, "script_uuid": script.script_uuid, "version": script.version}
    if exists(connection, "scripts", "tenant = $tenant AND script_uuid = $script_uuid AND version = $version", number):
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
    select = f"""
        SELECT latest.* FROM (
            SELECT DISTINCT ON (script_uuid) * FROM scripts
            WHERE tenant = $tenant AND ($status::VARCHAR IS NULL OR status = $status)
            ORDER BY script_uuid, version DESC
        ) AS latest JOIN script_texts AS texts USING (tenant, digest)
        WHERE ($tag::VARCHAR IS NULL OR $tag = ANY(tags))
            AND ($author::VARCHAR IS NULL OR author = $author)
            AND ($form::VARCHAR IS NULL OR form = $form)
            AND ($search::VARCHAR IS NULL OR strpos(lower({searched}), lower($search)) > 0)"""  # noqa: S608
    filters: dict[str, str | None] = {"tenant": tenant, **msgspec.structs.asdict(which)}
    del filters["in_texts"]
    return fetch_page(
        connection, ScriptRow, select, filters, {"updated_at": datetime, "script_uuid": str}, limit, cursor
    )


def set_statuses(
    connection: Connection, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
) -> None:
    """Set the statuses of versions of a script, all or none. Within a transaction."""
    for version, status in statuses.items():
        connection.change(
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


def describe(connection: Connection, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
    """Change the description of a script in all its versions. Within a transaction."""
    values = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
    assignments = "".join(f", {name} = ${name}" for name in values)
    connection.change(
        f"""UPDATE scripts SET updated_at = $at::TIMESTAMPTZ{assignments}
        WHERE tenant = $tenant AND script_uuid = $script_uuid""",  # noqa: S608
        {"tenant": tenant, "script_uuid": script_uuid, "at": at.isoformat(), **values},
    )


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
    select = "SELECT * FROM script_texts WHERE tenant = $tenant AND digest = $digest"
    return fetch_one(connection, ScriptTextRow, select, {"tenant": tenant, "digest": digest})


def texts_after(connection: Connection, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
    """Return at most `limit` texts of all tenants after the tenant and digest `after`, in order."""
    tenant, digest = after or (None, None)
    select = """SELECT * FROM script_texts WHERE $tenant::VARCHAR IS NULL OR (tenant, digest) > ($tenant, $digest)
        ORDER BY tenant, digest LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant, "digest": digest, "limit": bounded(limit)}
    return connection.fetch(ScriptTextRow, select, parameters)
