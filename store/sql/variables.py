"""Set the variables of the global scope outside any session."""

from store.interface.errors import VariablesFull
from store.interface.global_writes import values_after
from store.interface.rows import UserVariableRow, UserWriteRow
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
        connection.change(
            f"DELETE FROM user_variable_values WHERE {_OF_USER} AND name IN (SELECT unnest($names::VARCHAR[]))",  # noqa: S608
            {**user, "names": [row.name for row in rows]},
        )
        connection.insert("user_variable_values", [row for row in rows if row.value is not None])
    return stored


def stored_values(connection: Connection, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Return the variables of a user in the table."""
    select = f"SELECT * FROM user_variable_values WHERE {_OF_USER}"  # noqa: S608
    return connection.fetch(UserVariableRow, select, {"tenant": tenant, "user_id": user_id})


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
