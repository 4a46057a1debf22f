"""The variables of the global scope: set outside any session, and the history of their writes."""

from datetime import datetime

import msgspec

from store.interface.errors import VariablesFull
from store.interface.global_writes import values_after
from store.interface.pages import clamp_limit
from store.interface.rows import UserHistoryRow, UserVariableRow, UserWriteRow, VariableRow
from store.sql.connection import Connection

_OF_USER = "tenant = $tenant AND user_id = $user_id"


def set_user_variables(connection: Connection, rows: list[UserVariableRow], count_max: int) -> list[UserVariableRow]:
    """Set variables of one user, unset those whose value is null, and add the writes to the history.

    Within a transaction. Returns all variables that are then set, ordered by name. Raises VariablesFull if there would
    be more than `count_max`, RowRefused for an invalid row.
    """
    user = {"tenant": rows[0].tenant, "user_id": rows[0].user_id}
    connection.prepare_change(rows[0].tenant, [])
    old = {row.name: row for row in stored_values(connection, **user)}
    rows = [row for row in rows if row.value is not None or row.name in old]
    stored = values_after(old.values(), rows)
    if len(stored) > max(count_max, len(old)):
        raise VariablesFull(f"a user has at most {count_max} variables, but this would set {len(stored)}")
    if rows:
        connection.insert("user_variable_writes", [_write(row, old.get(row.name)) for row in rows])
        statement = f"DELETE FROM user_variable_values WHERE {_OF_USER} AND name IN (SELECT unnest($names::VARCHAR[]))"  # noqa: S608
        connection.change(statement, {**user, "names": [row.name for row in rows]})
        connection.insert("user_variable_values", [row for row in rows if row.value is not None])
    return stored


def stored_values(connection: Connection, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Return the variables of a user in the table, ordered by name."""
    select = f"SELECT * FROM user_variable_values WHERE {_OF_USER} ORDER BY name"  # noqa: S608
    return connection.fetch(UserVariableRow, select, {"tenant": tenant, "user_id": user_id})


def _write(row: UserVariableRow, before: UserVariableRow | None) -> UserWriteRow:
    old = None if before is None else before.value
    return UserWriteRow(row.tenant, row.user_id, row.name, old, row.value, row.type, row.source, row.updated_at)


class _Writes(msgspec.Struct, frozen=True):
    session_id: str
    turn: int
    finished_at: datetime
    variables: list[VariableRow]


def user_history(
    connection: Connection, tenant: str, user_id: str, *, offset: int = 0, limit: int = 100
) -> list[UserHistoryRow]:
    """Return at most `limit` writes of a user's global variables, in sessions and outside, the oldest first.

    All writes up to these are read, from turns that wrote any.
    """
    user = {"tenant": tenant, "user_id": user_id}
    with connection.snapshot():
        in_turns = connection.fetch(
            _Writes,
            f"""SELECT session_id, turn, finished_at, variables FROM turns
            WHERE {_OF_USER} AND strpos(variables::text, '"scope":"global"') > 0""",  # noqa: S608
            user,
        )
        outside_turns = connection.fetch(
            UserHistoryRow,
            f"""SELECT NULL AS session_id, NULL AS turn, name, old, new, type, source, NULL AS action_id, written_at
            FROM user_variable_writes WHERE {_OF_USER} ORDER BY written_at, {connection.row_number}""",  # noqa: S608
            user,
        )
    rows = outside_turns + [
        _history_row(found, write) for found in in_turns for write in found.variables if write.scope == "global"
    ]
    rows.sort(key=_order)
    return rows[offset : offset + clamp_limit(limit)]


def _history_row(found: _Writes, write: VariableRow) -> UserHistoryRow:
    written = (write.name, write.old, write.new, write.type, write.source, write.action_id)
    return UserHistoryRow(found.session_id, found.turn, *written, found.finished_at)


def _order(row: UserHistoryRow) -> tuple[datetime, bool, str, int, str]:
    """Order by time, session, turn and name; writes outside sessions are after those of a session at the same time."""
    return row.written_at, row.session_id is None, row.session_id or "", row.turn or 0, row.name
