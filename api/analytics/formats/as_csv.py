"""A table as CSV by RFC 4180."""

from typing import Any

from api.analytics.formats.as_json import encoded
from store.analytics.table import Table

_QUOTED = frozenset('",\r\n')


def as_csv(table: Table) -> bytes:
    """UTF-8, a header, lines that end in CRLF. A null is an empty field, an empty text is `""`.

    A field is what stands in JSON without its quotes, so times are ISO 8601 and lists are JSON; nan and inf stand as
    such. No text is changed, not even one that a spreadsheet takes for a formula (`=1+1`): import columns as text.
    """
    lines = [",".join(_field(column.name) for column in table.columns)]
    lines.extend(",".join(_field(value) for value in row) for row in table.rows)
    return ("\r\n".join(lines) + "\r\n").encode()


def as_text(value: Any) -> str:
    """A value as it stands in a field, before quotes."""
    match value:
        case None:
            return ""
        case str():
            return value
        case float():
            return repr(value)
        case _:
            text = encoded(value).decode()
            return text[1:-1] if text.startswith('"') else text  # a time, an id, bytes: nothing in them is escaped


def _field(value: Any) -> str:
    text = as_text(value)
    if (not text and value is not None) or not _QUOTED.isdisjoint(text):
        return '"' + text.replace('"', '""') + '"'
    return text
