"""What analysts ask, and are told."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, View

Form: TypeAlias = Literal["json", "csv", "parquet", "svg", "png"]
SQL_CHARS_MAX = 100_000
ROWS_MAX = 1_000_000
ROWS_DEFAULT = 10_000
TIMEOUT_MAX_S = 600.0
TIMEOUT_DEFAULT_S = 60.0
MAX_AGE_DEFAULT_S = 60.0
MAX_AGE_MAX_S = 3_600.0


class NewQuery(Body, frozen=True, kw_only=True):
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
    """How many seconds old the answer may be; 0: the record is looked at first."""
    title: Annotated[str, Meta(max_length=200)] = ""
    """Of a picture."""


class ColumnView(View, frozen=True, kw_only=True):
    """A column of an answer: its name, and its type in the words of DuckDB."""

    name: str
    type: str


class Answered(View, frozen=True, kw_only=True):
    """An answer as JSON: times as ISO 8601 texts, what JSON has no number for as null."""

    columns: list[ColumnView]
    rows: list[dict[str, Any]]
    truncated: bool
    """Whether there were more rows than asked for."""
    masked: bool
    as_of: datetime
    """The moment of the record that the answer is of."""
    success: bool = True


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
    """The tables that analysts query. A change that breaks a query raises the version."""

    model_version: int
    tables: list[TableDescription]
    success: bool = True


class ParameterView(View, frozen=True, kw_only=True):
    """What a report may be told."""

    name: str
    kind: Literal["text", "integer", "number", "moment"]
    says: str
    choices: list[str]
    """Empty: anything of that kind."""
    needed: bool
    default: str | int | None


class ReportView(View, frozen=True, kw_only=True):
    """A report: a question with its answer ready. It is a table macro of the same name in SQL too."""

    name: str
    title: str
    says: str
    reads_words: bool
    """Whether it needs `masked=false`."""
    parameters: list[ParameterView]


class ReportList(View, frozen=True, kw_only=True):
    """All reports."""

    reports: list[ReportView]
    success: bool = True


class AnalyticsStatus(View, frozen=True, kw_only=True):
    """How far the analytics are brought up to date."""

    masked: bool
    as_of: datetime | None
    """Null before the first question."""
    turns_done: int | None
    """Of those that are being brought in now; null where nothing is."""
    turns: int | None
    success: bool = True


class PartView(View, frozen=True, kw_only=True):
    """A Parquet file of the analytics: a table, or a day of it."""

    table: str
    day: str | None
    """In UTC; null where the table is not cut by days."""
    rows: int
    fingerprint: str


class PartList(View, frozen=True, kw_only=True):
    """All Parquet files that the analytics come to."""

    tenant: str
    masked: bool
    model_version: int
    as_of: datetime
    parts: list[PartView]
    success: bool = True
