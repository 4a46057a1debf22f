"""The `memory` of a script, as authors write it: what sessions store in memory, and how it is searched."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from scripts.expressions.values import Value, texts_in
from scripts.model.base import Expression, Location, Node, Template

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
    """How weights decrease with age: halved after `half_life_days`, and never below `floor`."""

    half_life_days: Annotated[float, Meta(ge=0.01, le=DAYS_MAX)]
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.8


class MemoryPlan(Node, frozen=True, kw_only=True):
    """What a script's sessions store in the memory of their user, and how it is searched; `off` disables it."""

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
        """Whether sessions neither store nor search memory."""
        return self.strategy == "off"


DEFAULT_PLAN = MemoryPlan()
"""The plan of a script without `memory`."""


def source_of(text: str, at: Location) -> Template | Expression:
    """Parse a text of a filter or of metadata; a text that is only ``{{ … }}`` is an expression with its own type."""
    whole = _WHOLE.fullmatch(text)
    return Expression(whole["expression"].strip(), at) if whole is not None else Template(text, at)


def sources_in(value: Value, at: Location) -> Iterator[Template | Expression]:
    """Return the texts of a filter or of metadata that contain placeholders."""
    return (source_of(text, at) for text in texts_in(value) if "{" in text)


def with_texts(value: Value, convert: Callable[[str], Value]) -> Value:
    """Return a value with each text in it converted; keys stay."""
    match value:
        case str():
            return convert(value)
        case list():
            return [with_texts(each, convert) for each in value]
        case dict():
            return {key: with_texts(each, convert) for key, each in value.items()}
        case _:
            return value
