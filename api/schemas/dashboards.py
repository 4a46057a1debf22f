"""Dashboards: reports and saved queries that analysts see together."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from api.schemas.base import Body, Id, View
from store.interface.analyst_rows import Interval

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


class DashboardList(View, frozen=True, kw_only=True):
    """A page of dashboards, the last changed first."""

    data: list[DashboardView]
    next_cursor: str | None


class DashboardFile(View, frozen=True, kw_only=True):
    """A dashboard as it was written to a file: one HTML page that needs nothing else."""

    file_name: str
    """The time as a name."""
    written_at: datetime
    """When it was written."""
    bytes: int
    """Its size."""


class DashboardFileList(View, frozen=True, kw_only=True):
    """The files of a dashboard, the newest first."""

    data: list[DashboardFile]
