"""The `memory` of a script, as authors write it: what of its sessions is remembered, and how it is called up again."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from scripts.nodes import Expression, Location, Node, Template
from scripts.values import Value

K_MAX = 50
K_DEFAULT = 5
NEIGHBOURS_MAX = 5
SHORT_TERM_MAX = 1_000
CHARS_MIN, CHARS_MAX = 100, 20_000
DAYS_MAX = 36_500

K: TypeAlias = Annotated[int, Meta(ge=1, le=K_MAX)]
Score: TypeAlias = Annotated[float, Meta(ge=-1_000, le=1_000)]
Strategy: TypeAlias = Literal["hybrid", "lexical", "dense", "off"]

_WHOLE = re.compile(r"\s*\{\{(?P<expression>(?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)


class Decay(Node, frozen=True, kw_only=True):
    """How what is older counts for less: half of it after so many days, and never less than the floor."""

    half_life_days: Annotated[float, Meta(ge=0.01, le=DAYS_MAX)]
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.8


class MemoryPlan(Node, frozen=True, kw_only=True):
    """What of a script's sessions becomes memory of their user, and how it is called up; `off`: none of it."""

    strategy: Strategy = "hybrid"
    k: K = K_DEFAULT
    decay: Decay | None = None
    remember: Literal["messages", "notes", "nothing"] = "messages"
    recall: Literal["asked", "always"] = "asked"
    context: Annotated[int, Meta(ge=0, le=NEIGHBOURS_MAX)] = 0
    short_term: Annotated[int, Meta(ge=0, le=SHORT_TERM_MAX)] = 50
    restore: Literal["latest", "none"] = "none"
    chars_max: Annotated[int, Meta(ge=CHARS_MIN, le=CHARS_MAX)] = 2_000

    @property
    def is_off(self) -> bool:
        """Whether sessions neither remember nor recall."""
        return self.strategy == "off"


DEFAULT_PLAN = MemoryPlan()
"""Where a script says nothing of memory."""


def source_of(text: str, at: Location) -> Template | Expression:
    """A text within a filter or metadata: one that is nothing but ``{{ … }}`` is an expression, and keeps its type."""
    whole = _WHOLE.fullmatch(text)
    return Expression(whole["expression"].strip(), at) if whole is not None else Template(text, at)


def sources_in(value: Value, at: Location) -> Iterator[Template | Expression]:
    """The texts of a filter or of metadata that have something to fill in."""
    match value:
        case str() if "{" in value:
            yield source_of(value, at)
        case list():
            for each in value:
                yield from sources_in(each, at)
        case dict():
            for each in value.values():
                yield from sources_in(each, at)
        case _:
            pass


class Recollections(list[Value]):
    """What a `recall` in a text or expression gives: a list of records, and as a text their texts, one a line."""

    @property
    def as_text(self) -> str:
        """The texts, one a line."""
        return "\n".join(str(each["text"]) for each in self if isinstance(each, Mapping))
