"""What a detector consists of, as authors write it."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.nodes import Node

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Span: TypeAlias = Annotated[int, Meta(ge=2, le=50)]
SIGNIFICANT = 0.3


class Rule(Node, frozen=True, kw_only=True):
    """Words that set a detector off without any model."""

    words: tuple[str, ...]
    label: str = ""  # what it is that was seen; the detector's own id where none is given
    score: Share = 1.0  # how sure it is; below the detector's threshold nothing happens
    severity: Share | None = None  # how grave it is; as the score where none is given
    always: bool | None = None  # also within the cooldown; true for a severity of 1

    @property
    def gravity(self) -> float:
        """How grave it is, from 0 to 1."""
        return self.score if self.severity is None else self.severity

    @property
    def ignores_cooldown(self) -> bool:
        """Whether it acts although the detector acted a moment ago: the gravest words are never passed over."""
        return self.gravity >= 1 if self.always is None else self.always


class Measure(Node, frozen=True, kw_only=True):
    """Something that each message has more or less of. A message without any sign of it tells nothing about it."""

    name: str = field(name="measure")
    define: str = ""
    min: float = -1.0
    max: float = 1.0
    lexicon: Literal["valence", "arousal"] | None = None  # takes the runtime's own words as signs besides
    significant: float = SIGNIFICANT  # a difference below this means nothing

    @property
    def neutral(self) -> float:
        """The value of what has nothing of it: 0 where it is in range, else the end nearest to it."""
        return min(max(0.0, self.min), self.max)

    def strength(self, value: float) -> float:
        """How far a value is from neutral, from 0 to 1 at the end of its side."""
        side = self.max - self.neutral if value >= self.neutral else self.neutral - self.min
        return min(1.0, abs(value - self.neutral) / side) if side > 0 else 0.0

    def within(self, value: float) -> float:
        """The value, or the end of the range that it is beyond."""
        return min(max(value, self.min), self.max)


class Sign(Node, frozen=True, kw_only=True):
    """Words by which a message has some value of one or more measures."""

    words: tuple[str, ...]
    values: Mapping[str, float]
    label: str = ""


class Course(Node, frozen=True, kw_only=True):
    """One thing that must hold of the values a measure took in the last messages that say something about it.

    All that is given must hold; `span` is how many of these messages count (all in the window where it is not given).
    """

    of: str
    span: Span | None = None
    change: float | None = None  # at least so far from one value to another; with `trend`, from first to last
    trend: Literal["rising", "falling"] | None = None  # steadily, over three values or more
    swings: Annotated[int, Meta(ge=1, le=50)] | None = None  # at least so many moves up and down in turn
    amplitude: float = SIGNIFICANT  # each of them at least so large
    average_min: float | None = None
    average_max: float | None = None
    range_min: float | None = None
    range_max: float | None = None
    last_min: float | None = None
    last_max: float | None = None


class Pattern(Node, frozen=True, kw_only=True):
    """A course that measures may take over several messages; one without `all` only a model can see."""

    id: str = field(name="pattern")
    define: str = ""
    note: str = ""  # what it may mean, for whoever reads the record
    score: Share = 1.0
    severity: Share | None = None  # else as strong as the last value of its first measure
    courses: tuple[Course, ...] = field(name="all", default=())


class Line(Node, frozen=True, kw_only=True):
    """One message of an example."""

    role: Literal["user", "assistant"] = "user"
    content: str


class Example(Node, frozen=True, kw_only=True):
    """A conversation and what the detector makes of its last message that it watches.

    `measured` holds, for a measure, the values of the last messages watched; null is not compared. A value agrees
    where it differs by no more than the measure's `significant` and a clear sign (plus or minus) is the same.
    """

    name: str = ""
    messages: tuple[Line, ...]
    detected: bool = True
    label: str | None = None
    score: Share | None = None  # at least
    severity: Share | None = None  # at least
    measured: Mapping[str, tuple[float | None, ...]] = {}
    needs_model: bool | None = None  # else it is seen from what the detector can do without one
