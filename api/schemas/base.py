"""What the shapes of requests and answers have in common: camelCase, and bounds."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from api.ids import ID_PATTERN
from scripts.nodes import ID_CHARS_MAX
from scripts.source import FILE_CHARS_MAX
from scripts.values import TEXT_CHARS_MAX

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ID_CHARS_MAX, pattern=ID_PATTERN)]
Content: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
ScriptText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=FILE_CHARS_MAX)]


class Body(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What a client sends; an unknown field is an error, so that a misspelt one is noticed."""


class View(Struct, frozen=True, rename="camel", kw_only=True):
    """What a client gets."""
