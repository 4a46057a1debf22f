"""Requests and responses about analytics."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, Id, View

Form: TypeAlias = Literal["json", "csv", "parquet", "vega-lite", "svg", "png"]
Language: TypeAlias = Literal["en", "zh"]
"""A language of the texts of reports and charts."""
SQL_CHARS_MAX = 100_000
ROWS_MAX = 1_000_000
ROWS_DEFAULT = 10_000
TIMEOUT_MAX_S = 600.0
TIMEOUT_DEFAULT_S = 60.0
MAX_AGE_DEFAULT_S = 60.0
MAX_AGE_MAX_S = 3_600.0


class NewAnalyticsQuery(Body, frozen=True, kw_only=True):
    """One SELECT over the tables of the model and the reports."""

    sql: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=SQL_CHARS_MAX,
            examples=["SELECT role, count(*) AS messages FROM messages GROUP BY role ORDER BY role"],
        ),
    ]
    format: Form = "json"
    rows_max: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = ROWS_DEFAULT
    timeout_s: Annotated[float, Meta(gt=0, le=TIMEOUT_MAX_S)] = TIMEOUT_DEFAULT_S
    masked: bool = True
    max_age_s: Annotated[float, Meta(ge=0, le=MAX_AGE_MAX_S)] = MAX_AGE_DEFAULT_S
    """The greatest age of the data in seconds; 0: refresh first."""
    title: Annotated[str, Meta(max_length=200)] = ""
    """The title of a chart."""
    language: Language = "en"
    """Of the texts of a chart."""


class ResultColumn(View, frozen=True, kw_only=True):
    """A column of a result: its name, and its DuckDB type."""

    name: str
    type: str


class QueryAnswer(View, frozen=True, kw_only=True):
    """A result as JSON: times are ISO 8601 texts; values that JSON cannot represent are null."""

    columns: list[ResultColumn]
    """In their order."""
    rows: list[dict[str, Any]]
    """By the names of the columns."""
    truncated: bool
    """Whether there were more rows than requested."""
    masked: bool
    """Whether texts, personal values and user ids are left out."""
    as_of: datetime
    """The time of the data in the database."""


class ColumnDescription(View, frozen=True, kw_only=True):
    """A column of the model."""

    name: str
    type: str
    nullable: bool
    means: str


class TableDescription(View, frozen=True, kw_only=True):
    """A table of the model."""

    name: str
    means: str
    columns: list[ColumnDescription]


class ModelView(View, frozen=True, kw_only=True):
    """The tables that analysts query. A change that breaks queries increases the version."""

    model_version: int
    tables: list[TableDescription]


class ParameterView(View, frozen=True, kw_only=True):
    """A parameter of a report."""

    name: str
    kind: Literal["text", "integer", "number", "moment"]
    says: str
    choices: list[str]
    """The permitted values; empty: any value of the type."""
    needed: bool
    default: str | int | None


class ReportView(View, frozen=True, kw_only=True):
    """A report: a predefined query. It is also a table macro of the same name in SQL."""

    name: str
    title: str
    says: str
    reads_words: bool
    """Whether it needs `masked=false`."""
    parameters: list[ParameterView]
    sql: str
    """The macro; its comments define the columns."""


class ReportList(View, frozen=True, kw_only=True):
    """All reports."""

    data: list[ReportView]
    next_cursor: str | None = None


class AnalyticsStatus(View, frozen=True, kw_only=True):
    """The state of the analytics and of their refresh."""

    masked: bool
    as_of: datetime | None
    """Null before the first query."""
    turns_done: int | None
    """The turns that the running refresh has read, of `turns`; both are null if none is running."""
    turns: int | None


class QueryText(Body, frozen=True, kw_only=True):
    """A query to save, under a name for people."""

    name: Id
    sql: Annotated[str, Meta(min_length=1, max_length=SQL_CHARS_MAX)]


class SavedQuery(View, frozen=True, kw_only=True):
    """A saved query."""

    query_id: str
    name: str
    sql: str
    created_at: datetime
    updated_at: datetime


class SavedQueryList(View, frozen=True, kw_only=True):
    """A page of saved queries, the last changed first."""

    data: list[SavedQuery]
    next_cursor: str | None
