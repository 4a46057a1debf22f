"""Encodes a table as JSON, an array of objects with one row per line, and as CSV (RFC 4180)."""

from typing import Any

import msgspec

from store.analytics.query import Table

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_QUOTED = frozenset('",\r\n')


def as_json(table: Table) -> bytes:
    """Encode a table as an array of objects.

    Times are ISO 8601 (with `Z` for points in time), and so are durations (`PT90S`); bytes are base64; numbers are
    numbers of any size; nan and inf are null. The values of a JSON column are embedded, not encoded as text.
    """
    columns = [
        (_ENCODER.encode(name) + b": ", _stands if column.type == "JSON" else encode)
        for name, column in zip(table.names(), table.columns, strict=True)
    ]
    rows = (
        b"{" + b", ".join(name + as_bytes(value) for (name, as_bytes), value in zip(columns, row, strict=True)) + b"}"
        for row in table.rows
    )
    return b"[\n" + b",\n".join(rows) + b"\n]\n" if table.rows else b"[]\n"


def encode(value: Any) -> bytes:
    """Encode a value of any DuckDB type as JSON."""
    return _ENCODER.encode(_with_text_keys(value))


def _stands(value: str | None) -> bytes:
    return b"null" if value is None else value.encode()


def _with_text_keys(value: Any) -> Any:
    """Convert the keys of maps to texts, as JSON objects require."""
    match value:
        case dict():
            return {key if isinstance(key, str) else _key(key): _with_text_keys(part) for key, part in value.items()}
        case list() | tuple():
            return [_with_text_keys(part) for part in value]
        case _:
            return value


def _key(key: Any) -> str:
    text = encode(key).decode()
    return text[1:-1] if text.startswith('"') else text


# -- CSV --------------------------------------------------------------------------------------------------------------


def as_csv(table: Table) -> bytes:
    """Encode a table as CSV: UTF-8, a header, lines that end in CRLF. Null is an empty field, an empty text is `""`.

    A field is the JSON value without quotes, so times are ISO 8601 and lists are JSON; nan and inf are written as such.
    Texts are unchanged, also those that a spreadsheet takes for a formula (`=1+1`): import columns as text.
    """
    lines = [",".join(_field(column.name) for column in table.columns)]
    lines.extend(",".join(_field(value) for value in row) for row in table.rows)
    return ("\r\n".join(lines) + "\r\n").encode()


def as_text(value: Any) -> str:
    """Return the text of a value in a field, before quoting."""
    match value:
        case None:
            return ""
        case str():
            return value
        case float():
            return repr(value)
        case _:
            text = encode(value).decode()
            return text[1:-1] if text.startswith('"') else text  # a time, an id, bytes: nothing in them is escaped


def _field(value: Any) -> str:
    text = as_text(value)
    if (not text and value is not None) or not _QUOTED.isdisjoint(text):
        return '"' + text.replace('"', '""') + '"'
    return text
