"""Base types of requests and responses: camelCase names and bounds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self, TypeAlias

from msgspec import Meta, Struct

from api.schemas.ids import ID_PATTERN
from scripts.expressions.values import TEXT_CHARS_MAX
from scripts.model.base import ID_CHARS_MAX
from scripts.yaml.parser import FILE_CHARS_MAX

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ID_CHARS_MAX, pattern=ID_PATTERN)]
Content: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
NUMBER_MAX = 2**31
Number: TypeAlias = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
"""The number of a version, from 1."""
Index: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""The number of a turn, or of a message of the user, from 0."""
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time with its offset."""
ScriptText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=FILE_CHARS_MAX)]


class Body(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A request body; an unknown field is an error, so that a misspelt one is noticed."""


class View(Struct, frozen=True, rename="camel", kw_only=True):
    """A response body."""

    @classmethod
    def of(cls, *rows: object, **others: Any) -> Self:
        """Return the view with `others` and the fields that rows have under the same names; the first row counts."""
        for row in rows:
            names = (name for name in cls.__struct_fields__ if name not in others and hasattr(row, name))
            others |= {name: getattr(row, name) for name in names}
        return cls(**others)


class PageView(View, frozen=True, kw_only=True):
    """A page of a list; `nextCursor` is null on the last one."""

    data: Sequence[View]  # each list names their type
    next_cursor: str | None
