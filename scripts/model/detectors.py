"""The parts of a detector, as authors write them."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.model.base import Node

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Span: TypeAlias = Annotated[int, Meta(ge=2, le=50)]
SIGNIFICANT = 0.3


class Rule(Node, frozen=True, kw_only=True):
    """Words that trigger a detector without a model."""

    words: tuple[str, ...]
    label: str = ""  # name of the finding; by default the detector's id
    score: Share = 1.0  # confidence; no effect below the detector's threshold
    severity: Share | None = None  # by default the score
    always: bool | None = None  # also within the cooldown; default true for a severity of 1

    @property
    def gravity(self) -> float:
        """The severity, from 0 to 1."""
        return self.score if self.severity is None else self.severity

    @property
    def ignores_cooldown(self) -> bool:
        """Whether it acts within the cooldown; words of the highest severity do by default."""
        return self.gravity >= 1 if self.always is None else self.always


class Measure(Node, frozen=True, kw_only=True):
    """A quantity measured in each message. A message without any sign of it has no value."""

    name: str = field(name="measure")
    define: str = ""
    min: float = -1.0
    max: float = 1.0
    lexicon: Literal["valence", "arousal"] | None = None  # adds the built-in words as signs
    significant: float = SIGNIFICANT  # smaller differences are not significant

    @property
    def neutral(self) -> float:
        """The neutral value: 0 if it is in range, else the bound nearest to it."""
        return min(max(0.0, self.min), self.max)

    def strength(self, value: float) -> float:
        """Return the distance of a value from neutral, from 0 to 1 at the bound of its side."""
        side = self.max - self.neutral if value >= self.neutral else self.neutral - self.min
        return min(1.0, abs(value - self.neutral) / side) if side > 0 else 0.0

    def within(self, value: float) -> float:
        """Return the value, limited to the range."""
        return min(max(value, self.min), self.max)


class Sign(Node, frozen=True, kw_only=True):
    """Words that give a message a value of one or more measures."""

    words: tuple[str, ...]
    values: Mapping[str, float]
    label: str = ""


class Trend(Node, frozen=True, kw_only=True):
    """Conditions on the values of a measure in the last messages that have a value.

    All conditions that are set must hold; `span` is the number of these messages (by default all in the window).
    """

    of: str
    span: Span | None = None
    change: float | None = None  # minimum, between any two values; with `trend`, from first to last
    rise: float | None = None  # minimum, from the lowest value to the last
    drop: float | None = None  # minimum, from the highest value to the last
    trend: Literal["rising", "falling"] | None = None  # steady, over at least three values
    swings: Annotated[int, Meta(ge=1, le=50)] | None = None  # minimum number of alternating moves up and down
    amplitude: float = SIGNIFICANT  # minimum size of each move
    average_min: float | None = None
    average_max: float | None = None
    range_min: float | None = None
    range_max: float | None = None
    last_min: float | None = None
    last_max: float | None = None


class Pattern(Node, frozen=True, kw_only=True):
    """A course of measures over several messages; only a model can detect one without `all`."""

    id: str = field(name="pattern")
    define: str = ""
    note: str = ""  # comment on its meaning, stored with the finding
    score: Share = 1.0
    severity: Share | None = None  # by default the strength of its first measure's last value
    courses: tuple[Trend, ...] = field(name="all", default=())


class Line(Node, frozen=True, kw_only=True):
    """One message of an example."""

    role: Literal["user", "assistant"] = "user"
    content: str


class Example(Node, frozen=True, kw_only=True):
    """A conversation and the expected result of the detector for the last message that it watches.

    `measured` lists, for a measure, the values of the last messages watched; null is not compared. A value matches
    if it differs by at most the measure's `significant` and a significant value has the same sign.
    """

    name: str = ""
    messages: tuple[Line, ...]
    detected: bool = True
    label: str | None = None
    score: Share | None = None  # minimum
    severity: Share | None = None  # minimum
    measured: Mapping[str, tuple[float | None, ...]] = {}
    needs_model: bool | None = None  # by default, whether the detector has no rules for it
