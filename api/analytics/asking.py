"""Analysts' questions: queries, reports and snapshots, over a file that is brought up to date first."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from api.analytics.answering import Answer, Question
from api.analytics.charts import Chart
from api.analytics.files import COPY, AnalyticsFiles
from api.analytics.process import Processes
from api.analytics.reports import chart_of
from api.errors import ApiError
from api.schemas.analytics import ROWS_MAX, TIMEOUT_DEFAULT_S, Form, NewQuery
from store.analytics.query import QueryLimits
from store.analytics.report_list import Report
from store.analytics.reporting import statement
from store.errors import StoreUnavailable

MARGIN_S = 5.0  # for a process that is told to stop, or draws what it was given
UNITS = "memory_units"
BYTES_MAX = 200_000_000  # of an answer


class Told(Struct, frozen=True, kw_only=True):
    """An answer, and the moment of the record that it is of."""

    answer: Answer
    as_of: datetime


class Analytics:
    """What analysts of all tenants may ask."""

    def __init__(self, files: AnalyticsFiles, processes: Processes) -> None:
        self.files = files
        self._processes = processes

    async def query(self, tenant: str, new: NewQuery, *, masked: bool) -> Told:
        """The answer to one SELECT. Raises QueryRefused, QueryStopped, ApiError, StoreError."""
        limits = QueryLimits(rows_max=new.rows_max, bytes_max=BYTES_MAX, timeout_s=new.timeout_s)
        return await self._ask(tenant, new.sql, limits, new.format, masked=masked, title=new.title)

    async def report(self, tenant: str, report: Report, given: Mapping[str, str], form: Form, *, masked: bool) -> Told:
        """The answer of a report. Raises what `query` does, and ReportRefused."""
        limits = QueryLimits(rows_max=ROWS_MAX, bytes_max=BYTES_MAX, timeout_s=TIMEOUT_DEFAULT_S)
        sql = statement(report, given)
        return await self._ask(tenant, sql, limits, form, masked=masked, chart=chart_of(report.name))

    async def _ask(
        self,
        tenant: str,
        sql: str,
        limits: QueryLimits,
        form: Form,
        *,
        masked: bool,
        title: str = "",
        chart: Chart | None = None,
    ) -> Told:
        units = UNITS in sql.lower()
        async with self.files.reading(tenant, masked=masked, units=units) as place:
            as_of = place.as_of()
            if as_of is None:
                raise StoreUnavailable("the analytics file is not there")
            question = Question(path=str(place.path), sql=sql, limits=limits, form=form, title=title, chart=chart)
            answer = await self._processes.run(question, Answer, timeout_s=limits.timeout_s + MARGIN_S)
        return Told(answer=answer, as_of=as_of)

    @asynccontextmanager
    async def snapshot(self, tenant: str, *, masked: bool) -> AsyncIterator[Path]:
        """A copy of the file with everything in it, there meanwhile. Raises ApiError, StoreError."""
        async with self.files.reading(tenant, masked=masked, units=True) as place:
            copy = await asyncio.to_thread(_copy, place.path)
        try:
            yield copy
        finally:
            copy.unlink(missing_ok=True)


def _copy(path: Path) -> Path:
    """A copy of a file beside it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=COPY, suffix=path.suffix)
    try:
        with os.fdopen(descriptor, "wb") as copy, path.open("rb") as whole:
            shutil.copyfileobj(whole, copy, 1 << 20)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ApiError("DISK_TOO_SMALL", "there is no room for a copy of the analytics") from error
    return Path(name)
