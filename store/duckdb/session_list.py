"""List sessions by last activity or by creation, filtered, each with its title and a preview of its messages.

The heads of sessions, which are in memory, have what most filters need.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from store.duckdb.connection import DuckDBConnection
from store.duckdb.session_heads import TABLE
from store.duckdb.sessions import MOVE_COLUMNS, START_COLUMNS, convert
from store.duckdb.statements import Cursor, execute, fetch_columns, from_micros
from store.interface.list_rows import ListedSession, Order, SessionFilter
from store.interface.rows import PositionRow
from store.sql.connection import decode
from store.sql.list_pages import CONDITIONS, ListStart, ListTexts, list_conditions, list_page, time_range
from store.sql.sessions import LAST_MOVES
from store.sql.turns import outside


class _PageSession(NamedTuple):
    """A session of the page."""

    session_id: str
    turn: int
    """Its latest turn."""
    finished_at: str
    """When that finished."""
    updated_at: datetime
    is_moved: bool
    """Whether it was moved to another version of its script."""


def _find(
    connection: DuckDBConnection, tenant: str, which: SessionFilter, order: Order, start: ListStart | None, limit: int
) -> list[_PageSession]:
    """Return the first `limit` sessions after the start that match."""
    pointers = [("/" + name.replace("~", "~0").replace("/", "~1"), value) for name, value in which.metadata]
    by = "active_at" if order == "activity" else "created_at"
    named = replace(which, metadata=pointers)
    conditions, parameters = list_conditions(tenant, named, start, (f"latest.{by}", "latest.session_id"), _CONDITIONS)
    # the outer SELECT converts the rows of the page only
    select = f"""
    SELECT session_id::VARCHAR, turn, finished_at::VARCHAR, epoch_us(active_at), is_moved FROM (
        SELECT latest.* FROM {TABLE} AS latest{_joins(which)}
        WHERE {conditions} ORDER BY latest.{by} DESC, latest.session_id DESC LIMIT $limit
    ) AS page ORDER BY {by} DESC, session_id DESC"""  # noqa: S608
    rows = execute(connection.cursor, select, parameters | {"limit": limit}).fetchall()
    return [
        _PageSession(session_id, turn, finished_at, from_micros(micros), is_moved)
        for session_id, turn, finished_at, micros, is_moved in rows
    ]


_CONDITIONS = CONDITIONS | time_range("latest.created_at", "created_after", "created_before")
_STARTED = " JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = latest.session_id"
_MOVED = f"{_STARTED} LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = latest.session_id"


def _joins(which: SessionFilter) -> str:
    """Return what the filters need besides the heads of sessions. Each join takes time to plan."""
    is_of_script = which.script is not None or which.script_version is not None
    is_of_start = which.metadata or any(value is not None for value in (which.user_id, which.key, which.key_prefix))
    return _MOVED if is_of_script else _STARTED if is_of_start else ""


# Plain statements of one table each, as for the head of a session: one statement with all joins takes longer to plan
# than all of these to run.
_STARTS = f"SELECT {START_COLUMNS}, nullif(trim(s.metadata ->> '$.title'), '') AS title FROM session_starts AS s"  # noqa: S608
_MOVES = f"SELECT session_id::VARCHAR AS session_id, {MOVE_COLUMNS} FROM session_migrations"  # noqa: S608
_FAILURES = "SELECT session_id::VARCHAR AS session_id, turn_attempted - 1 AS turn FROM turn_failures"
_TURNS = f"""SELECT session_id::VARCHAR AS session_id, turn, {", ".join(PositionRow.__struct_fields__)}, message_count,
    event_count, state -> '$.gaps' AS gaps FROM turns"""  # noqa: S608
_TEXTS = """SELECT session_id::VARCHAR AS session_id, arg_max(messages, turn) AS last,
    arg_min(messages, turn) FILTER (contains(messages, '"role":"user","content":')) AS asked,
    arg_min(messages, turn) FILTER (contains(messages, '"role":"assistant","content":')) AS opened
    FROM turns"""
_THESE = "tenant = ? AND session_id IN (SELECT unnest(?::UUID[]))"
# The times bound what is read: the scan skips the row groups of other times.
_PLACES = """(session_id, turn, finished_at) IN (
    SELECT unnest(?::UUID[]), unnest(?::INTEGER[]), unnest(?::TIMESTAMPTZ[]))"""


def _describe(connection: DuckDBConnection, tenant: str, found: list[_PageSession]) -> list[ListedSession]:
    """Return the sessions of a page in the same order, without those that were just deleted. Within a transaction."""
    if not found:
        return []
    cursor = connection.cursor
    which: list[str | list[str]] = [tenant, [each.session_id for each in found]]
    starts = _by_session(fetch_columns(cursor, f"{_STARTS} WHERE {_THESE}", which))
    if not starts:
        return []
    moves = _moves(cursor, which) if any(each.is_moved for each in found) else {}
    numbers, times = [each.turn for each in found], [each.finished_at for each in found]
    turns = _by_session(fetch_columns(cursor, f"{_TURNS} WHERE tenant = ? AND {_PLACES}", [*which, numbers, times]))
    failed = _find_failed(cursor, which)
    select = f"{_TEXTS} WHERE {_THESE} AND messages <> '[]' {_outside_gaps(turns.values())} GROUP BY session_id"
    texts = _by_session(fetch_columns(cursor, select, which))
    names = _names(cursor, tenant, {each["script_uuid"] for each in (*starts.values(), *moves.values())})
    listed = []
    for each in found:
        if each.session_id not in starts or each.session_id not in turns:
            continue
        turn = turns[each.session_id]
        if (each.session_id, turn["turn"]) in failed:
            turn["execution_status"] = "error"
        columns = {"tenant": tenant} | starts[each.session_id] | moves.get(each.session_id, {}) | turn
        name = names.get((columns["script_uuid"], columns["script_version"]))
        said = texts.get(each.session_id, {})
        spoken = ListTexts(said.get("last"), said.get("asked"), said.get("opened"))
        listed.append(_list_entry(columns, name, each.updated_at, spoken))
    return listed


list_sessions = partial(
    list_page, _find, _describe, prepare=lambda connection: connection.heads.refresh(connection.cursor)
)


def _moves(cursor: Cursor, which: list[str | list[str]]) -> dict[str, dict[str, Any]]:
    """Return the last migrations of sessions."""
    return _by_session(sorted(fetch_columns(cursor, f"{_MOVES} WHERE {_THESE}", which), key=itemgetter("turn")))


def _find_failed(cursor: Cursor, which: list[str | list[str]]) -> set[tuple[str, int]]:
    """Return the sessions with failed turns, and the turns before these. Nearly always there are none at all."""
    if not execute(cursor, "SELECT 1 FROM turn_failures LIMIT 1", []).fetchall():
        return set()
    rows = fetch_columns(cursor, f"{_FAILURES} WHERE {_THESE}", which)
    return {(each["session_id"], each["turn"]) for each in rows}


def _by_session(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["session_id"]: row for row in rows}


def _outside_gaps(turns: Iterable[dict[str, Any]]) -> str:
    """Return an SQL condition for turns whose messages are still in the conversation of their session."""
    gaps = {
        each["session_id"]: decode(list[tuple[int, int]], each["gaps"]) for each in turns if each["gaps"] is not None
    }
    return "".join(
        f" AND (session_id <> '{session_id}' OR (true {outside(of_session)}))"
        for session_id, of_session in gaps.items()
        if of_session
    )


def _names(cursor: Cursor, tenant: str, scripts: set[str]) -> dict[tuple[str, int], str]:
    """Return the names of all versions of scripts."""
    these = ", ".join("?" * len(scripts))  # not `SELECT unnest(?)`, a join that takes five times as long to plan
    select = f"SELECT script_uuid, version, name FROM scripts WHERE tenant = ? AND script_uuid IN ({these})"  # noqa: S608
    rows = execute(cursor, select, [tenant, *scripts]).fetchall()
    return {(script_uuid, version): name for script_uuid, version, name in rows}


def _list_entry(columns: dict[str, Any], name: str | None, updated_at: datetime, texts: ListTexts) -> ListedSession:
    """Return a session of the list from the columns of its start, its last migration and its latest turn."""
    columns = convert(columns)
    del columns["gaps"]
    columns["title"] = columns["title"] or name or columns["script_id"]
    texts = texts if columns["redacted_at"] is None else ListTexts()
    return ListedSession(
        **columns,
        updated_at=updated_at,
        completed_at=updated_at if columns["status"] == "completed" else None,
        preview=texts.preview(),
        last_message=texts.last_message(),
    )
