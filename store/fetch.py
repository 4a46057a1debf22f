"""From a SELECT to rows: the database builds one JSON object a row, msgspec decodes it straight into the row's type."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import duckdb
import msgspec

from store.errors import CursorInvalid, StoreUnavailable

Cursor: TypeAlias = duckdb.DuckDBPyConnection
Parameters: TypeAlias = dict[str, str | int | list[str] | None]
R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
PAGE_MAX = 1_000
"""Rows in one answer, whatever was asked."""


class Page(msgspec.Struct, Generic[R], frozen=True):
    """Some rows of a list, and the cursor of the page after them; null on the last page."""

    rows: list[R]
    next: str | None


def iso(column: str) -> str:
    """SQL for a time as ISO 8601 text, which is what msgspec reads; DuckDB's own text of a time is not."""
    return f"strftime({column}, '%Y-%m-%dT%H:%M:%S.%fZ')"


def utc(*columns: str) -> str:
    """What follows `SELECT *` to give these times as ISO 8601 text."""
    return f"REPLACE ({', '.join(f'{iso(column)} AS {column}' for column in columns)})"


def fetch(cursor: Cursor, row: type[R], select: str, parameters: Parameters) -> list[R]:
    """The rows of a SELECT whose columns are the row's fields; other columns are ignored."""
    found = cursor.execute(f"SELECT to_json(found)::VARCHAR FROM ({select}) AS found", parameters).fetchall()  # noqa: S608
    return decode(list[row], f"[{','.join(text for (text,) in found)}]")  # type: ignore[valid-type]


def fetch_one(cursor: Cursor, row: type[R], select: str, parameters: Parameters) -> R | None:
    """The first row of a SELECT, if there is one."""
    rows = fetch(cursor, row, select, parameters)
    return rows[0] if rows else None


def decode(kind: type[T], text: str) -> T:
    """Decode stored JSON; what the record wrote it can read, so anything else is a damaged file."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"a stored row cannot be read: {error}") from error


def bounded(limit: int) -> int:
    """A limit within 1 and PAGE_MAX."""
    return max(1, min(limit, PAGE_MAX))


def page(rows: Sequence[R], limit: int, position: Callable[[R], tuple[datetime, str]]) -> Page[R]:
    """Cut the one row too many that a page was asked with, and tell where the next page begins."""
    kept = list(rows[:limit])
    return Page(kept, cursor_of(position(kept[-1])) if len(rows) > limit else None)


def cursor_of(position: tuple[object, ...]) -> str:
    """A place in a list, as text that clients send back."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode()


def position_of(cursor: str, kind: type[T]) -> T:
    """The place in a list that a cursor tells; `kind` is what its rows are ordered by. Raises CursorInvalid."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor), type=kind)
    except ValueError as error:  # msgspec's and base64's errors are both kinds of it
        raise CursorInvalid(f"{cursor!r} is not a cursor of this list") from error


def after(cursor: str | None) -> Parameters:
    """Where a page begins, as the parameters `after_time` and `after_id`; nulls for the first. Raises CursorInvalid."""
    if cursor is None:
        return {"after_time": None, "after_id": None}
    moment, last = position_of(cursor, tuple[datetime, str])
    return {"after_time": moment.isoformat(), "after_id": last}
