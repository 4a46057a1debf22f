"""Fetch the rows of a SELECT: the database builds one JSON object per row, msgspec decodes it into the row's type."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from store.duckdb.insert import roll_back
from store.duckdb.statements import Cursor, Values, execute
from store.sql.connection import decode

R = TypeVar("R", bound=msgspec.Struct)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fetch(cursor: Cursor, row: type[R], select: str, parameters: Values) -> list[R]:
    """Return the rows of a SELECT whose columns are the row's fields; other columns are ignored."""
    found = execute(
        cursor,
        f"SELECT to_json(found)::VARCHAR FROM (SELECT * {_iso_times(row)} FROM ({select}) AS selected) AS found",  # noqa: S608
        parameters,
    ).fetchall()
    return decode(list[row], f"[{','.join(text for (text,) in found)}]")  # type: ignore[valid-type]


@cache
def _iso_times(row: type[msgspec.Struct]) -> str:
    """Return the REPLACE clause that turns the times of a row into ISO 8601 text, unlike DuckDB's own format."""
    hints = get_type_hints(row)
    times = [name for name in row.__struct_fields__ if datetime in (hints[name], *get_args(hints[name]))]
    iso = ", ".join(f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" for name in times)
    return f"REPLACE ({iso})" if times else ""


def fetch_one(cursor: Cursor, row: type[R], select: str, parameters: Values) -> R | None:
    """Return the first row of a SELECT, or None."""
    rows = fetch(cursor, row, select, parameters)
    return rows[0] if rows else None


def fetch_columns(cursor: Cursor, select: str, parameters: Values) -> list[dict[str, Any]]:
    """Return the rows of a SELECT by column, as DuckDB returns them: in less time than with JSON, but without types."""
    found = execute(cursor, select, parameters)
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
