"""The variables of the global scope: a user's, in every session."""

from store.errors import VariablesFull
from store.fetch import Cursor, Parameters, bounded, fetch, iso, utc
from store.insert import as_list, encode, insert_statement, typed_rows
from store.rows import UserHistoryRow, UserVariableRow, UserWriteRow


def user_variables(cursor: Cursor, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Every variable of a user that is set, by name."""
    select = f"""SELECT * {utc("updated_at")} FROM user_variables
        WHERE tenant = $tenant AND user_id = $user_id ORDER BY name"""  # noqa: S608
    return fetch(cursor, UserVariableRow, select, {"tenant": tenant, "user_id": user_id})


def user_history(cursor: Cursor, tenant: str, user_id: str, offset: int, limit: int) -> list[UserHistoryRow]:
    """At most `limit` writes of a user's global variables, in sessions and outside, the oldest first."""
    select = f"""
        SELECT * REPLACE (session_id::VARCHAR AS session_id, {iso("written_at")} AS written_at) FROM variable_history
        WHERE tenant = $tenant AND user_id = $user_id AND scope = 'global'
        ORDER BY variable_history.written_at, variable_history.session_id, turn, name LIMIT $limit OFFSET $offset"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "user_id": user_id, "offset": offset, "limit": bounded(limit)}
    return fetch(cursor, UserHistoryRow, select, parameters)


def set_user_variables(cursor: Cursor, rows: list[UserVariableRow], count_max: int) -> list[UserVariableRow]:
    """Set variables of one user, unset those whose value is null, and keep what was there before. Within a transaction.

    All that are set then, by name. Raises VariablesFull where those would be more than `count_max`.
    """
    tenant, user_id = rows[0].tenant, rows[0].user_id
    old = {row.name: row for row in user_variables(cursor, tenant, user_id)}
    rows = [row for row in rows if row.value is not None or row.name in old]
    new = old | {row.name: row for row in rows}
    kept = [row for _, row in sorted(new.items()) if row.value is not None]
    if len(kept) > max(count_max, len(old)):
        raise VariablesFull(f"a user has at most {count_max} variables, these would be {len(kept)}")
    if rows:
        writes = [encode(_write(row, old.get(row.name))) for row in rows]
        cursor.execute(insert_statement(cursor, "user_variable_writes"), [as_list(writes)])
        cursor.execute(merge_statement(cursor), [as_list(map(encode, rows))])
    return kept


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
    """The statement that takes the last write of each user's variable; one with a null is deleted."""
    return _MERGE.format(rows=typed_rows(cursor, "user_variables"))


# Without a primary key: an index on 200,000 variables makes an upsert of one row four times slower than this scan.
_MERGE = """
MERGE INTO user_variables AS kept USING ({rows}) AS written
ON kept.tenant = written.tenant AND kept.user_id = written.user_id AND kept.name = written.name
WHEN MATCHED AND written.value IS NULL THEN DELETE
WHEN MATCHED THEN
    UPDATE SET value = written.value, type = written.type, source = written.source, updated_at = written.updated_at
WHEN NOT MATCHED AND written.value IS NOT NULL THEN INSERT BY NAME
"""
