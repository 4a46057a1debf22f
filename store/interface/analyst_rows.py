"""The row types of what analysts save, queries and dashboards, and names that the API shares with them."""

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Interval: TypeAlias = Literal["day", "week", "month"]
Limit: TypeAlias = Literal["rows", "bytes"]
"""A limit of the size of a result."""


class AnalystRow(msgspec.Struct, frozen=True, kw_only=True):
    """What an analyst saved under a name, for all analysts of the tenant."""

    tenant: str
    name: str
    created_at: datetime
    updated_at: datetime

    @property
    def revision(self) -> int:
        """Return the microseconds of the last change, which every change increases."""
        return (self.updated_at - _EPOCH) // timedelta(microseconds=1)


class SavedQueryRow(AnalystRow, frozen=True, kw_only=True):
    """A query over the analytics tables."""

    query_id: str
    sql: str


class TileRow(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a dashboard: a report with its parameters, or a saved query."""

    title: str
    report: str | None = None
    parameters: dict[str, str] = {}
    query_id: str | None = None
    is_wide: bool = False
    """Whether it takes the whole width."""


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """When a dashboard is written to a file: every day, every Monday, or every first day of a month."""

    every: Interval
    hour: int
    """In the time zone of the server."""


class DashboardRow(AnalystRow, frozen=True, kw_only=True):
    """Reports and queries that are shown together."""

    dashboard_id: str
    tiles: list[TileRow]
    schedule: ScheduleRow | None = None
