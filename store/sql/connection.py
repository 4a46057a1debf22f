"""A connection to a database, as the SQL that every database executes uses it; and reads that are built on it.

Statements have named parameters, `$name`. A time is passed as ISO 8601 text and cast to TIMESTAMPTZ, the id of a
session as text and cast to UUID.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cache
from types import GenericAlias
from typing import Any, Protocol, TypeAlias, TypeVar, get_args, get_type_hints
from uuid import UUID

import msgspec

from store.interface.errors import StoreUnavailable
from store.interface.pages import Page, clamp_limit, cursor_of, position_of

Scalar: TypeAlias = str | int | float | bytes | datetime | None
Parameters: TypeAlias = Mapping[str, Scalar | Sequence[Scalar]]
Values: TypeAlias = dict[str, Scalar | Sequence[Scalar]]
"""Parameters to which others can be added."""
R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

NO_SESSION = str(UUID(int=0))
"""An id that no session has, in place of an id that is not a UUID."""


class Connection(Protocol):
    """A connection within one thread. A method of a repository that writes has it in a transaction."""

    derived_tables: Sequence[str]
    """The tables with a `session_id` that only this database has, derived from other tables."""

    derived_texts: Sequence[str]
    """The derived tables that contain texts of messages."""

    derived_of_users: Sequence[str]
    """The tables with a `user_id` that only this database has."""

    row_number: str
    """The column by which the rows of a table are in the order in which they were inserted."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the statements in the block read the same state of the database. Not within a transaction."""

    def rows(self, select: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""

    def fetch(self, row: type[R], select: str, parameters: Parameters | None = None) -> list[R]:
        """Return the rows of a SELECT whose columns are the fields of a row; other columns are ignored."""

    def change(self, statement: str, parameters: Parameters | None = None) -> int:
        """Execute an INSERT, UPDATE or DELETE; return the number of its rows."""

    def insert(self, table: str, rows: Sequence[msgspec.Struct]) -> None:
        """Insert any number of rows, whose fields are columns of the table. Raises RowRefused."""

    def prepare_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Prepare these sessions for a change or deletion of their turns: no other transaction may add one meanwhile,
        and the table of users' variables must have what they wrote.
        """

    def note_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Note that the key or the metadata of sessions changed, for data that is derived outside the database."""

    def note_memory_change(self, tenant: str, user_ids: Sequence[str]) -> None:
        """Note that memories changed, for other servers that have loaded them."""

    def derive(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Insert the rows of the derived tables for new sessions."""

    def latest_turns(self, condition: str) -> str:
        """Return SQL of a table with the latest turn of each session, whose next turn no server is running: `turn`,
        `active_at` and `status`. Within a transaction only with a condition on the sessions.
        """


def as_uuid(text: str) -> str:
    """Return the id of a session as a parameter; NO_SESSION if it is not a UUID."""
    try:
        return str(UUID(text))
    except ValueError:
        return NO_SESSION


OF_SESSION = "tenant = $tenant AND session_id = $session_id::UUID"
"""SQL condition for the rows of the session of `of_session`."""


def of_session(tenant: str, session_id: str) -> Values:
    """Return the parameters of OF_SESSION."""
    return {"tenant": tenant, "session_id": as_uuid(session_id)}


def fetch_one(connection: Connection, row: type[R], select: str, parameters: Parameters) -> R | None:
    """Return the first row of a SELECT, or None."""
    rows = connection.fetch(row, select, parameters)
    return rows[0] if rows else None


class _Moment(msgspec.Struct, frozen=True):
    moment: datetime | None


def fetch_moment(connection: Connection, select: str, parameters: Parameters) -> datetime | None:
    """Return the time `moment` that a SELECT returns."""
    return connection.fetch(_Moment, select, parameters)[0].moment


def count(connection: Connection, which: str, parameters: Parameters) -> int:
    """Return the number of rows; `which` is a table, and a condition."""
    return int(connection.rows(f"SELECT count(*) FROM {which}", parameters)[0][0])  # noqa: S608


def exists(connection: Connection, table: str, condition: str, parameters: Parameters) -> bool:
    """Return whether a table has a row that meets a condition.

    Asked first where there is rarely one, it saves most of the time of `fetch`, which is planning.
    """
    return bool(connection.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters))  # noqa: S608


def _where(values: Parameters) -> tuple[str, Values]:
    """Return the SQL condition that columns have these values, null for None, and its parameters."""
    given: Values = {name: value for name, value in values.items() if value is not None}
    return " AND ".join(f"{name} = ${name}" if name in given else f"{name} IS NULL" for name in values), given


def find_row(connection: Connection, row: type[R], table: str, values: Parameters) -> R | None:
    """Return the row of a table whose columns have these values, or None."""
    which, given = _where(values)
    return fetch_one(connection, row, f"SELECT * FROM {table} WHERE {which}", given)  # noqa: S608


def delete_rows(connection: Connection, table: str, values: Parameters) -> int:
    """Delete the rows of a table whose columns have these values; return their number. Within a transaction."""
    which, given = _where(values)
    return connection.change(f"DELETE FROM {table} WHERE {which}", given)  # noqa: S608


def update_rows(connection: Connection, table: str, values: Parameters, new: Parameters) -> int:
    """Set `new` values in the rows of a table whose columns have these values; return their number. Within a
    transaction.
    """
    which, given = _where(values)
    given |= {f"new_{name}": value for name, value in new.items()}
    assignments = ", ".join(f"{name} = $new_{name}" for name in new)
    return connection.change(f"UPDATE {table} SET {assignments} WHERE {which}", given)  # noqa: S608


def fetch_page(
    connection: Connection,
    row: type[R],
    source: str,
    values: Parameters,
    order: Mapping[str, type],
    limit: int,
    cursor: str | None,
    *,
    parameters: Parameters | None = None,
    descending: bool = True,
) -> Page[R]:
    """Return a page of the rows of a table, or of `(SELECT …) AS name` with `parameters`, whose columns have these
    values (None: any value), in the order of the columns `order`, which together are unique.

    A cursor has the values of these columns, of these types, in the last row of the page before. Raises CursorInvalid.
    """
    limit = clamp_limit(limit)
    which, given = _where({name: value for name, value in values.items() if value is not None})
    position = dict.fromkeys(order) if cursor is None else dict(zip(order, _position(cursor, order), strict=True))
    after = [f"$after_{name}::{_SQL_TYPES[kind]}" for name, kind in order.items()]
    comparison, direction = ("<", " DESC") if descending else (">", "")
    given |= {f"after_{name}": value for name, value in position.items()}
    rows = connection.fetch(
        row,
        f"""SELECT {", ".join(row.__struct_fields__)} FROM {source} WHERE {which or "true"}
            AND ({after[0]} IS NULL OR ({", ".join(order)}) {comparison} ({", ".join(after)}))
        ORDER BY {", ".join(name + direction for name in order)} LIMIT $limit""",  # noqa: S608
        {**(parameters or {}), **given, "limit": limit + 1},
    )
    last = tuple(getattr(rows[limit - 1], name) for name in order) if len(rows) > limit else None
    return Page(rows[:limit], None if last is None else cursor_of(last))


_SQL_TYPES: Mapping[type, str] = {
    datetime: "TIMESTAMPTZ",
    bool: "BOOLEAN",
    int: "BIGINT",
    msgspec.Raw: "JSON",
    str: "VARCHAR",
    UUID: "UUID",
}


def _position(cursor: str, order: Mapping[str, type]) -> list[Scalar]:
    kind: Any = GenericAlias(tuple, tuple(order.values()))
    return [value if isinstance(value, int) else _text(value) for value in position_of(cursor, kind)]


def decode(kind: type[T], text: str) -> T:
    """Decode stored JSON. Raises StoreUnavailable if it cannot be decoded, which means that the file is damaged."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"a stored row cannot be read: {error}") from error


def decode_rows(row: type[R], found: Iterable[tuple[str]]) -> list[R]:
    """Decode rows that are given as one JSON object each. Raises StoreUnavailable."""
    return decode(list[row], f"[{','.join(text for (text,) in found)}]")  # type: ignore[valid-type]


def rows_select(row: type[R], rows: Sequence[R], **types: str) -> tuple[str, Values]:
    """Return a SELECT of given rows, and its parameters; `types` has the SQL types that differ from those of fields."""
    columns = _sql_types(row) | types
    select = ", ".join(f"unnest($rows_{name}::VARCHAR[])::{kind} AS {name}" for name, kind in columns.items())
    return f"SELECT {select}", {f"rows_{name}": [_text(getattr(each, name)) for each in rows] for name in columns}


@cache
def _sql_types(row: type[msgspec.Struct]) -> dict[str, str]:
    """Return the SQL types of the fields of a row."""
    kinds = {name: (hint, *get_args(hint)) for name, hint in get_type_hints(row).items()}
    return {
        name: next((sql for kind, sql in _SQL_TYPES.items() if kind in kinds[name]), "VARCHAR")
        for name in row.__struct_fields__
    }


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)
