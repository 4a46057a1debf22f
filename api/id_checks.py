"""Refuses ids with control characters in paths, query strings and headers; in bodies their type does."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from api.errors import ApiError
from api.ids import has_control

TEXTS = frozenset({"q", "search", "words"})
"""Query parameters that are texts, which may have several lines."""
_REFUSED_HEADER = re.compile(r"[\u0000-\u001f\u007f]")  # of UTF-8 read as Latin-1 the rest may be letters
_ESCAPED = re.compile(rb"%(?:[01]|7f|c2%[89]|e2%80%a[89])|[\x00-\x1f\x7f-\x9f]", re.IGNORECASE)


def check_id(name: str, value: str) -> None:
    """Raise ApiError REQUEST_INVALID for an id with a control character or a line break."""
    if has_control(value):
        raise _refused(name)


def check_header(name: str, value: str) -> None:
    """Raise ApiError REQUEST_INVALID for an id in a header with a control character."""
    if _REFUSED_HEADER.search(value):
        raise _refused(name)


def check_place(parameters: Mapping[str, object], query: bytes) -> None:
    """Check the ids in a path and in a query string, but for texts. Raises ApiError REQUEST_INVALID."""
    for name, value in parameters.items():
        if isinstance(value, str):
            check_id(name, value)
    if _ESCAPED.search(query):
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in TEXTS:
                check_id("the name of a query parameter" if has_control(name) else name, f"{name}{value}")


def _refused(name: str) -> ApiError:
    return ApiError("REQUEST_INVALID", f"{name}: an id has no control characters and no line breaks")
