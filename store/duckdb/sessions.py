"""Read the head of a session."""

from operator import itemgetter
from typing import Any

import msgspec

from store.duckdb.connection import DuckDBConnection
from store.duckdb.statements import Cursor, execute, fetch_columns, from_micros, snapshot
from store.interface.rows import PositionRow, SessionHead, is_uuid
from store.sql.connection import decode


def session_head(connection: DuckDBConnection, tenant: str, session_id: str) -> SessionHead | None:
    """Return a session with the state after its latest turn; None also for an id that is not a UUID.

    Plain statements of one table each take less than half the time of one statement that joins the tables and builds
    JSON, because planning that takes longer than reading the rows.
    """
    if not is_uuid(session_id):
        return None
    cursor, which = connection.cursor, [tenant, session_id]
    latest = connection.heads.find(cursor, tenant, session_id)
    if latest is not None:
        started = fetch_columns(cursor, _STARTED, which)
        turn = fetch_columns(cursor, _AT, [*which, latest.turn, latest.finished_at])
        if started and turn:
            return _head(tenant, started[0] | (_last_move(cursor, which) if latest.is_moved else {}) | turn[0])
    with snapshot(cursor):
        started = fetch_columns(cursor, _STARTED, which)
        ((row_id,),) = execute(cursor, _LATEST_ROW, which).fetchall()
        if not started or row_id is None:
            return None
        (turn_row,) = fetch_columns(cursor, f"{_LATEST} WHERE rowid = ?", [row_id])
        return _head(tenant, started[0] | _last_move(cursor, which) | turn_row)


def _last_move(cursor: Cursor, which: list[str]) -> dict[str, Any]:
    """Return the version of the script that a session was last moved to, if any."""
    return max(fetch_columns(cursor, _MOVES, which), key=itemgetter("turn"), default={})


START_COLUMNS = """s.session_id::VARCHAR AS session_id, s.user_id, s.key, s.script_uuid, s.script_id, s.script_version,
    s.digest, s.locale, s.seed, s.metadata, epoch_us(s.created_at) AS created_at, s.idempotency_key,
    epoch_us(s.redacted_at) AS redacted_at"""
MOVE_COLUMNS = "turn, script_uuid, script_id, script_version, digest"
_STARTED = f"SELECT {START_COLUMNS} FROM session_starts AS s WHERE tenant = ? AND session_id = ?"  # noqa: S608
# This scan reads three columns. The other columns are read for one row, found by its number, which is valid within the
# snapshot only.
_LATEST_ROW = "SELECT arg_max(rowid, turn) FROM turns WHERE tenant = ? AND session_id = ?"
_LATEST = f"""
SELECT turn, {", ".join(PositionRow.__struct_fields__)}, message_count, event_count, state,
    epoch_us(finished_at) AS updated_at
FROM turns"""  # noqa: S608
# Few turns finished at that time: the scan skips the row groups of other times.
_AT = f"{_LATEST} WHERE tenant = ? AND session_id = ? AND turn = ? AND finished_at = ?::TIMESTAMPTZ"
# Not ORDER BY and LIMIT 1, which double the time of the statement: nearly all sessions have no migration.
_MOVES = f"SELECT {MOVE_COLUMNS} FROM session_migrations WHERE tenant = ? AND session_id = ?"  # noqa: S608


def convert(columns: dict[str, Any]) -> dict[str, Any]:
    """Convert DuckDB's values of START_COLUMNS to those of a row."""
    redacted = columns["redacted_at"]
    return columns | {
        "created_at": from_micros(columns["created_at"]),
        "redacted_at": None if redacted is None else from_micros(redacted),
        "metadata": decode(dict[str, Any], columns["metadata"]),
    }


def _head(tenant: str, columns: dict[str, Any]) -> SessionHead:
    """Return the columns as a row, with DuckDB's values converted."""
    columns = convert(columns)
    # a fork is newer than its turns
    columns["updated_at"] = max(from_micros(columns["updated_at"]), columns["created_at"])
    columns["state"] = msgspec.Raw(columns["state"].encode())
    completed_at = columns["updated_at"] if columns["status"] == "completed" else None
    return SessionHead(tenant=tenant, completed_at=completed_at, **columns)
