"""Fetch the rows of a SELECT: the database builds one JSON object per row, msgspec decodes it into the row's type."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import duckdb
import msgspec

from store.duckdb.insert import roll_back
from store.interface.errors import StoreUnavailable
from store.interface.pages import Page, bounded, cursor_of, position_of

Cursor: TypeAlias = duckdb.DuckDBPyConnection
Parameters: TypeAlias = dict[str, str | int | list[str] | None]
R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(column: str) -> str:
    """Return SQL for a time as ISO 8601 text, which msgspec reads; DuckDB's default format is different."""
    return f"strftime({column}, '%Y-%m-%dT%H:%M:%S.%fZ')"


def utc(*columns: str) -> str:
    """Return the REPLACE clause of a `SELECT *` that returns these times as ISO 8601 text."""
    return f"REPLACE ({', '.join(f'{iso(column)} AS {column}' for column in columns)})"


def fetch(cursor: Cursor, row: type[R], select: str, parameters: Sequence[str | int] | Parameters) -> list[R]:
    """Return the rows of a SELECT whose columns are the row's fields; other columns are ignored."""
    found = cursor.execute(f"SELECT to_json(found)::VARCHAR FROM ({select}) AS found", parameters).fetchall()  # noqa: S608
    return decode(list[row], f"[{','.join(text for (text,) in found)}]")  # type: ignore[valid-type]


def fetch_one(cursor: Cursor, row: type[R], select: str, parameters: Parameters) -> R | None:
    """Return the first row of a SELECT, or None."""
    rows = fetch(cursor, row, select, parameters)
    return rows[0] if rows else None


def exists(cursor: Cursor, table: str, condition: str, parameters: Parameters) -> bool:
    """Return whether a table has a row that meets a condition.

    Asked first where there is rarely one, it saves most of the time of `fetch`, which is planning.
    """
    found = cursor.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters)  # noqa: S608
    return found.fetchone() is not None


def fetch_columns(
    cursor: Cursor, select: str, parameters: Sequence[str | int | list[str]] | Parameters
) -> list[dict[str, Any]]:
    """Return the rows of a SELECT by column, as DuckDB returns them: in less time than with JSON, but without types."""
    found = cursor.execute(select, parameters)
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def from_micros(micros: int) -> datetime:
    """Return the time that `epoch_us` returned; DuckDB returns times with a time zone only if pytz is installed."""
    return _EPOCH + timedelta(microseconds=micros)


@contextmanager
def snapshot(cursor: Cursor) -> Iterator[None]:
    """Let the statements in the block read the same state of the database. Not within a transaction."""
    cursor.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(cursor)


def decode(kind: type[T], text: str) -> T:
    """Decode stored JSON. Raises StoreUnavailable if it cannot be decoded, which means that the file is damaged."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"a stored row cannot be read: {error}") from error


def fetch_page(
    cursor: Cursor,
    row: type[R],
    select: str,
    parameters: Parameters,
    limit: int,
    after: str | None,
    position: Callable[[R], tuple[datetime, str]],
) -> Page[R]:
    """Return a page of the rows of a SELECT.

    The SELECT starts after the position `$after_time` and `$after_id`, which are null for the first page, and has at
    most `$limit` rows: one more than the page, which shows that there is a next page. Raises CursorInvalid.
    """
    limit = bounded(limit)
    start: Parameters = {"after_time": None, "after_id": None, "limit": limit + 1}
    if after is not None:
        moment, last = position_of(after, tuple[datetime, str])
        start |= {"after_time": moment.isoformat(), "after_id": last}
    rows = fetch(cursor, row, select, parameters | start)
    return Page(rows[:limit], cursor_of(position(rows[limit - 1])) if len(rows) > limit else None)
