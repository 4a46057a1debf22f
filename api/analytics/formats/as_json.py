"""A table as JSON: an array of objects, a row a line."""

from typing import Any

import msgspec

from store.analytics.table import Table

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def as_json(table: Table) -> bytes:
    """An array of objects.

    Times are ISO 8601 (with `Z` where they are moments), lengths of time too (`PT90S`), bytes base64, numbers numbers
    however large; what JSON has no number for (nan, inf) is null. A column of JSON is no text: it stands as it is.
    """
    columns = [
        (_ENCODER.encode(name) + b": ", _stands if column.type == "JSON" else encoded)
        for name, column in zip(table.names(), table.columns, strict=True)
    ]
    rows = (
        b"{" + b", ".join(name + as_bytes(value) for (name, as_bytes), value in zip(columns, row, strict=True)) + b"}"
        for row in table.rows
    )
    return b"[\n" + b",\n".join(rows) + b"\n]\n" if table.rows else b"[]\n"


def encoded(value: Any) -> bytes:
    """A value of any type of DuckDB's as JSON."""
    return _ENCODER.encode(_keyed(value))


def _stands(value: str | None) -> bytes:
    return b"null" if value is None else value.encode()


def _keyed(value: Any) -> Any:
    """A value whose maps have texts as keys, as objects of JSON must."""
    match value:
        case dict():
            return {key if isinstance(key, str) else _key(key): _keyed(part) for key, part in value.items()}
        case list() | tuple():
            return [_keyed(part) for part in value]
        case _:
            return value


def _key(key: Any) -> str:
    text = encoded(key).decode()
    return text[1:-1] if text.startswith('"') else text
