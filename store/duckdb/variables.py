"""The variables of the global scope, which belong to a user and are the same in all of the user's sessions."""

from store.duckdb.fetch import Cursor, Parameters, fetch, iso, utc
from store.duckdb.insert import as_list, insert_statement, typed_rows
from store.interface.encoding import encode
from store.interface.errors import VariablesFull
from store.interface.pages import bounded
from store.interface.rows import UserHistoryRow, UserVariableRow, UserWriteRow


def user_variables(cursor: Cursor, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Return all variables of a user that are set, ordered by name."""
    select = f"""SELECT * {utc("updated_at")} FROM user_variables
        WHERE tenant = $tenant AND user_id = $user_id ORDER BY name"""  # noqa: S608
    return fetch(cursor, UserVariableRow, select, {"tenant": tenant, "user_id": user_id})


def user_history(
    cursor: Cursor, tenant: str, user_id: str, *, offset: int = 0, limit: int = 100
) -> list[UserHistoryRow]:
    """Return at most `limit` writes of a user's global variables, in sessions and outside, the oldest first."""
    select = f"""
        SELECT * REPLACE (session_id::VARCHAR AS session_id, {iso("written_at")} AS written_at) FROM variable_history
        WHERE tenant = $tenant AND user_id = $user_id AND scope = 'global'
        ORDER BY variable_history.written_at, variable_history.session_id, turn, name LIMIT $limit OFFSET $offset"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "user_id": user_id, "offset": offset, "limit": bounded(limit)}
    return fetch(cursor, UserHistoryRow, select, parameters)


def set_user_variables(cursor: Cursor, rows: list[UserVariableRow], count_max: int) -> list[UserVariableRow]:
    """Set variables of one user, unset those whose value is null, and add the writes to the history.

    Within a transaction. Returns all variables that are then set, ordered by name. Raises VariablesFull if there would
    be more than `count_max`.
    """
    tenant, user_id = rows[0].tenant, rows[0].user_id
    old = {row.name: row for row in user_variables(cursor, tenant, user_id)}
    rows = [row for row in rows if row.value is not None or row.name in old]
    new = old | {row.name: row for row in rows}
    stored = [row for _, row in sorted(new.items()) if row.value is not None]
    if len(stored) > max(count_max, len(old)):
        raise VariablesFull(f"a user has at most {count_max} variables, but this would set {len(stored)}")
    if rows:
        writes = [encode(_write(row, old.get(row.name))) for row in rows]
        cursor.execute(insert_statement(cursor, "user_variable_writes"), [as_list(writes)])
        cursor.execute(merge_statement(cursor), [as_list(map(encode, rows))])
    return stored


def _write(row: UserVariableRow, before: UserVariableRow | None) -> UserWriteRow:
    return UserWriteRow(
        tenant=row.tenant,
        user_id=row.user_id,
        name=row.name,
        old=None if before is None else before.value,
        new=row.value,
        type=row.type,
        source=row.source,
        written_at=row.updated_at,
    )


def merge_statement(cursor: Cursor) -> str:
    """Return the statement that merges the last write of each variable of each user; a null deletes the variable."""
    return _MERGE.format(rows=typed_rows(cursor, "user_variables"))


# There is no primary key, since an index on 200,000 variables makes an upsert of one row four times slower than a scan.
_MERGE = """
MERGE INTO user_variables AS old USING ({rows}) AS written
ON old.tenant = written.tenant AND old.user_id = written.user_id AND old.name = written.name
WHEN MATCHED AND written.value IS NULL THEN DELETE
WHEN MATCHED THEN
    UPDATE SET value = written.value, type = written.type, source = written.source, updated_at = written.updated_at
WHEN NOT MATCHED AND written.value IS NOT NULL THEN INSERT BY NAME
"""
