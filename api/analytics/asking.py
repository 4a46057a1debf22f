"""Analysts' questions: queries, reports and snapshots, over a file that is brought up to date first."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import Struct

from api.analytics.answering import Answer, Question
from api.analytics.charts import Chart
from api.analytics.files import AnalyticsFiles, folder_beside
from api.analytics.jobs import Rewrite, Rewritten
from api.analytics.process import Processes
from api.analytics.reports import chart_of
from api.errors import ApiError
from api.metrics import Metrics
from api.schemas.analytics import MAX_AGE_DEFAULT_S, ROWS_MAX, TIMEOUT_DEFAULT_S, Form, NewQuery
from store.analytics.query import QueryLimits
from store.analytics.report_list import Report
from store.analytics.reporting import statement
from store.analytics.storage import OWN, StorageVersion
from store.errors import QueryRefused, QueryStopped, StoreUnavailable

MARGIN_S = 5.0  # for a process that is told to stop, or draws what it was given
UNITS = "memory_units"
BYTES_MAX = 200_000_000  # of an answer
REWRITE_S = 600.0


class Told(Struct, frozen=True, kw_only=True):
    """An answer, and the moment of the record that it is of."""

    answer: Answer
    as_of: datetime


class Analytics:
    """What analysts of all tenants may ask."""

    def __init__(self, files: AnalyticsFiles, processes: Processes, metrics: Metrics) -> None:
        self.files = files
        self._processes = processes
        self._metrics = metrics

    async def query(self, tenant: str, new: NewQuery, *, masked: bool) -> Told:
        """The answer to one SELECT. Raises QueryRefused, QueryStopped, ApiError, StoreError."""
        limits = QueryLimits(rows_max=new.rows_max, bytes_max=BYTES_MAX, timeout_s=new.timeout_s)
        return await self._ask(
            tenant, new.sql, limits, new.format, masked=masked, max_age_s=new.max_age_s, title=new.title
        )

    async def report(
        self,
        tenant: str,
        report: Report,
        given: Mapping[str, str],
        form: Form,
        *,
        masked: bool,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> Told:
        """The answer of a report. Raises what `query` does, and ReportRefused."""
        limits = QueryLimits(rows_max=ROWS_MAX, bytes_max=BYTES_MAX, timeout_s=TIMEOUT_DEFAULT_S)
        sql = statement(report, given)
        chart = chart_of(report.name)
        return await self._ask(tenant, sql, limits, form, masked=masked, max_age_s=max_age_s, chart=chart)

    async def _ask(
        self,
        tenant: str,
        sql: str,
        limits: QueryLimits,
        form: Form,
        *,
        masked: bool,
        max_age_s: float,
        title: str = "",
        chart: Chart | None = None,
    ) -> Told:
        units = UNITS in sql.lower()
        async with self.files.reading(tenant, masked=masked, units=units, max_age_s=max_age_s) as place:
            as_of = self.files.as_of(tenant, masked=masked)
            if as_of is None:
                raise StoreUnavailable("the analytics file is not there")
            question = Question(path=str(place.path), sql=sql, limits=limits, form=form, title=title, chart=chart)
            with self._metrics.counting_query() as counted:
                try:
                    answer = await self._processes.run(question, Answer, timeout_s=limits.timeout_s + MARGIN_S)
                except QueryRefused:
                    counted.outcome = "refused"
                    raise
                except QueryStopped:
                    counted.outcome = "stopped"
                    raise
                counted.outcome = "done"
        return Told(answer=answer, as_of=as_of)

    async def snapshot(
        self,
        tenant: str,
        *,
        masked: bool,
        storage_version: StorageVersion = OWN,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> BinaryIO:
        """A copy of the file with everything in it, in a storage format of DuckDB, to be closed by who asked; it has no
        name, so that nothing of it is left. Raises ApiError, StoreError.
        """
        async with self.files.reading(tenant, masked=masked, units=True, whole=True, max_age_s=max_age_s) as place:
            if storage_version == OWN:
                return await _nameless(place.path)
            async with folder_beside(place) as folder:
                target = folder / "snapshot.duckdb"
                job = Rewrite(str(place.path), str(target), storage_version, str(folder / "spill"))
                await self._processes.run(job, Rewritten, timeout_s=REWRITE_S)
                return await _nameless(target)


async def _nameless(path: Path) -> BinaryIO:
    """A copy of a file without a name."""
    copy = cast(BinaryIO, tempfile.TemporaryFile(dir=path.parent))  # noqa: SIM115 - given away
    try:
        await asyncio.to_thread(_copy, path, copy)
    except BaseException:
        copy.close()
        raise
    return copy


def _copy(path: Path, copy: BinaryIO) -> None:
    """Fill a file with another one, and go back to its beginning."""
    try:
        with path.open("rb") as whole:
            shutil.copyfileobj(whole, copy, 1 << 20)
        copy.seek(0)
    except OSError as error:
        raise ApiError("DISK_TOO_SMALL", "there is no room for a copy of the analytics") from error
