"""Requests and responses about analytics, and dashboards: reports and saved queries that analysts see together."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, Id, PageView, View
from store.interface.analyst_rows import Interval, Limit

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
    """Whether the query has more rows than the answer."""
    truncated_by: Limit | None
    """The limit that was reached: `rows`, as requested, or `bytes`, 200 MB; null if all rows are there."""
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
    has_chart: bool = False
    """Whether it has a chart; others are lists."""
    parameters: list[ParameterView]
    sql: str
    """The macro; its comments define the columns."""


class ReportList(PageView, frozen=True, kw_only=True):
    """A page of the reports."""

    data: list[ReportView]


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


class SavedQueryList(PageView, frozen=True, kw_only=True):
    """A page of saved queries, the last changed first."""

    data: list[SavedQuery]


TILES_MAX = 50
PARAMETERS_MAX = 50


class Tile(Body, frozen=True, kw_only=True):
    """A part of a dashboard: a report with its parameters, or a saved query."""

    title: Annotated[str, Meta(max_length=200)] = ""
    """Empty: the title of the report, or the name of the query."""
    report: Id | None = None
    """The name of the report."""
    parameters: Annotated[dict[str, Annotated[str, Meta(max_length=1_000)]], Meta(max_length=PARAMETERS_MAX)] = {}
    """Of the report, by name."""
    query_id: Id | None = None
    """The id of the saved query."""
    is_wide: bool = False
    """Whether it takes the whole width."""


class Schedule(Body, frozen=True, kw_only=True):
    """When a dashboard is written to a file: every day, every Monday, or every first day of a month."""

    every: Interval
    """How often."""
    hour: Annotated[int, Meta(ge=0, le=23)]
    """In the time zone of the server."""


class DashboardText(Body, frozen=True, kw_only=True):
    """A dashboard to save, under a name for people."""

    name: Id
    tiles: Annotated[list[Tile], Meta(max_length=TILES_MAX)]
    """Its reports and queries, in order."""
    schedule: Schedule | None = None
    """Null: it is written to no files."""


class DashboardView(View, frozen=True, kw_only=True):
    """A dashboard."""

    dashboard_id: str
    name: str
    tiles: list[Tile]
    """Its reports and queries, in order."""
    schedule: Schedule | None
    """When it is written to a file; null: only on request."""
    created_at: datetime
    updated_at: datetime


class DashboardList(PageView, frozen=True, kw_only=True):
    """A page of dashboards, the last changed first."""

    data: list[DashboardView]


class DashboardFile(View, frozen=True, kw_only=True):
    """A dashboard as it was written to a file: one HTML page that needs nothing else."""

    file_name: str
    """The time as a name."""
    written_at: datetime
    """When it was written."""
    bytes: int
    """Its size."""


class DashboardFileList(PageView, frozen=True, kw_only=True):
    """A page of the files of a dashboard, the newest first."""

    data: list[DashboardFile]
