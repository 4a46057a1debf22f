"""What a picture shows of a table: the kind of picture, and which columns it is made of."""

from typing import TypeAlias

from msgspec import Struct


class Funnel(Struct, frozen=True, kw_only=True, tag_field="kind", tag="funnel"):
    """How many got how far: a bar a row, in the order of the rows, each with its share and the step to it."""

    title: str
    labels: tuple[str, ...]
    """The columns that name a bar together."""
    value: str
    """The column with its length."""
    share: str | None = None
    """The column with its share, from 0 to 1; without one the share of the first bar is reckoned."""
    previous: str | None = None
    """The column with how many could have come to it, and `share_of_previous` with the share of those that did; without
    them it is the step before in the table.
    """
    share_of_previous: str | None = None
    unit: str = ""
    """See Bars.unit."""


class Bars(Struct, frozen=True, kw_only=True, tag_field="kind", tag="bars"):
    """Sizes side by side: a horizontal bar a row, or a group of bars a label where there are series."""

    title: str
    labels: tuple[str, ...]
    """The columns that name a bar (a group of bars) together."""
    values: tuple[str, ...]
    """The columns with lengths; several are series named by their columns."""
    series: str | None = None
    """The column that says which series a row is of; only beside a single value column."""
    stacked: bool = False
    """Whether the series of a name are parts of one whole: one bar in pieces instead of bars beside each other."""
    unit: str = ""
    """What is counted, as it is printed. Two are understood: `%` for shares from 0 to 1, `s` for lengths of time."""


class Lines(Struct, frozen=True, kw_only=True, tag_field="kind", tag="lines"):
    """How something went: points joined by lines over times, dates or numbers."""

    title: str
    x: str
    """The column with times, dates or numbers."""
    values: tuple[str, ...]
    """The columns with heights; several are series named by their columns."""
    series: str | None = None
    """The column that says which series a row is of; only beside a single value column."""
    unit: str = ""
    """See Bars.unit."""


class Heat(Struct, frozen=True, kw_only=True, tag_field="kind", tag="heat"):
    """A matrix of shaded cells, such as cohorts by the week they came back in; the rows of the table are its cells."""

    title: str
    row: str
    """The column that says which line of the matrix a cell is in."""
    column: str
    """The column that says which column of the matrix a cell is in."""
    value: str
    """The column with the value of the cell."""
    unit: str = ""
    """See Bars.unit."""


Chart: TypeAlias = Funnel | Bars | Lines | Heat
"""Any picture; closed, to be matched to the end."""
