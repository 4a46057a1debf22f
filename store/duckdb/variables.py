"""The variables of the global scope, which belong to a user and are the same in all of the user's sessions.

A turn is one row, which contains its writes; `user_variable_values` has the values as of an earlier commit. All writes
since are merged into that table from time to time, and before a transaction that changes or deletes such rows.
"""

from store.duckdb.statements import Cursor, as_list, fetch, snapshot, typed_rows
from store.interface.global_writes import TurnWrites, global_writes, values_after
from store.interface.rows import UserVariableRow, encode
from store.sql.connection import Parameters

MERGE_TURNS = 1_024
"""After so many turns, their writes are merged: a merge then costs a turn little, and few turns are read for a user."""
_OF_USER = "tenant = $tenant AND user_id = $user_id"
_UNMERGED = "commit_number > $merged"


def user_variables(cursor: Cursor, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Return all variables of a user that are set, ordered by name.

    The view of the same name returns the same, but takes five times as long, because most of that is planning.
    """
    user: Parameters = {"tenant": tenant, "user_id": user_id}
    with snapshot(cursor):
        return values_after(_merged_values(cursor, user), _unmerged_writes(cursor, f"AND {_OF_USER}", user))


def unmerged_turns(cursor: Cursor) -> int:
    """Return the number of turns whose writes are not merged."""
    counted = cursor.execute(f"SELECT count(*) FROM turns WHERE {_UNMERGED}", _merge_mark(cursor))  # noqa: S608
    return int(counted.fetchall()[0][0])


def merge_writes(cursor: Cursor) -> None:
    """Merge the writes of all turns into `user_variable_values`. Within a transaction."""
    writes = _unmerged_writes(cursor)
    if writes:
        _merge(cursor, writes)
    latest = f"SELECT max(commit_number) FROM turns WHERE {_UNMERGED}"  # noqa: S608
    ((number,),) = cursor.execute(latest, _merge_mark(cursor)).fetchall()
    if number is not None:
        cursor.execute("UPDATE commits SET merged_number = ?", [number])


def _merged_values(cursor: Cursor, user: Parameters) -> list[UserVariableRow]:
    select = f"SELECT * FROM user_variable_values WHERE {_OF_USER}"  # noqa: S608
    return fetch(cursor, UserVariableRow, select, user)


def _unmerged_writes(cursor: Cursor, which: str = "", parameters: Parameters | None = None) -> list[UserVariableRow]:
    """Return the last write of each variable that is not merged. Row numbers are in the order of the writes."""
    select = f"""SELECT tenant, user_id, finished_at, variables FROM turns
        WHERE {_UNMERGED} {which} AND variables <> '[]' ORDER BY turns.rowid"""  # noqa: S608
    return global_writes(fetch(cursor, TurnWrites, select, {**_merge_mark(cursor), **(parameters or {})}))


def _merge_mark(cursor: Cursor) -> Parameters:
    """Return the parameter for `_UNMERGED`: with a subquery in its place, DuckDB reads all turns."""
    ((number,),) = cursor.execute("SELECT merged_number FROM commits").fetchall()
    return {"merged": number}


def _merge(cursor: Cursor, writes: list[UserVariableRow]) -> None:
    """Merge the last write of each variable of each user; a null deletes the variable."""
    statement = _MERGE.format(rows=typed_rows(cursor, "user_variable_values"))
    cursor.execute(statement, [as_list(map(encode, writes))])


# There is no primary key, since an index on 200,000 variables makes an upsert of one row four times slower than a scan.
_MERGE = """
MERGE INTO user_variable_values AS old USING ({rows}) AS written
ON old.tenant = written.tenant AND old.user_id = written.user_id AND old.name = written.name
WHEN MATCHED AND written.value IS NULL THEN DELETE
WHEN MATCHED THEN
    UPDATE SET value = written.value, type = written.type, source = written.source, updated_at = written.updated_at
WHEN NOT MATCHED AND written.value IS NOT NULL THEN INSERT BY NAME
"""
