"""Runs queries, reports and snapshots over an analytics file, which is refreshed first if needed."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from api.analytics.charts.chart import chart_of, chart_words
from api.analytics.execute import PICTURES, AnswerDocument, Question
from api.analytics.files import AnalyticsFiles, folder_beside
from api.analytics.jobs import ChartPictures, CheckSyntax, DrawCharts, Finished, FinishSnapshot
from api.analytics.process import Processes
from api.errors import ApiError
from api.metrics import Metrics
from api.schemas.analytics import MAX_AGE_DEFAULT_S, ROWS_MAX, TIMEOUT_DEFAULT_S, Form, Language, NewAnalyticsQuery
from store.analytics.query import QueryLimits
from store.analytics.reporting import Report, statement
from store.analytics.snapshots import OWN, StorageVersion
from store.interface.errors import QueryRefused, QueryStopped, StoreUnavailable

MARGIN_S = 5.0  # for a process to stop
RENDER_S = 15.0  # for a picture of the largest table; a first one starts V8
RENDER_MORE_S = 3.0  # for each further picture of a process
UNITS = "memory_units"
SNAPSHOT_S = 600.0


class QueryResult(Struct, frozen=True, kw_only=True):
    """A result, and the time of its data."""

    answer: AnswerDocument
    as_of: datetime


class AnalyticsQueries(Struct, frozen=True):
    """The analytics use cases for all tenants."""

    files: AnalyticsFiles
    processes: Processes
    metrics: Metrics

    async def query(
        self, tenant: str, new: NewAnalyticsQuery, *, masked: bool, with_chart: bool = False
    ) -> QueryResult:
        """Run one SELECT. Raises QueryRefused, QueryStopped, ApiError, StoreError."""
        question = Question(
            sql=new.sql,
            limits=QueryLimits(rows_max=new.rows_max, timeout_s=new.timeout_s),
            form=new.format,
            title=new.title,
            words=chart_words(new.language),
            with_chart=with_chart,
        )
        return await self._ask(tenant, question, masked=masked, max_age_s=new.max_age_s)

    async def report(
        self,
        tenant: str,
        report: Report,
        parameters: Mapping[str, str],
        form: Form,
        *,
        masked: bool,
        max_age_s: float = MAX_AGE_DEFAULT_S,
        language: Language = "en",
        with_chart: bool = False,
    ) -> QueryResult:
        """Run a report, with its chart in a language, if it has one. Raises the errors of `query`, ReportRefused."""
        limits = QueryLimits(rows_max=ROWS_MAX, timeout_s=TIMEOUT_DEFAULT_S)
        chart = chart_of(report.name, language)
        sql = statement(report, parameters)
        draws = with_chart and chart is not None
        question = Question(sql=sql, limits=limits, form=form, chart=chart, with_chart=draws)
        return await self._ask(tenant, question, masked=masked, max_age_s=max_age_s)

    async def check_syntax(self, sql: str) -> None:
        """Check that a text is one SELECT, without reading a table. Raises QueryRefused, QueryStopped, StoreError."""
        await self.processes.run(CheckSyntax(sql), Finished, timeout_s=MARGIN_S)

    async def draw(self, charts: Sequence[bytes]) -> list[bytes]:
        """Return the pictures (SVG) of charts (Vega-Lite), in the same order; an empty one could not be drawn.

        Raises QueryStopped, StoreError.
        """
        timeout_s = MARGIN_S + RENDER_S + RENDER_MORE_S * len(charts)
        return (await self.processes.run(DrawCharts(list(charts)), ChartPictures, timeout_s=timeout_s)).pictures

    async def _ask(self, tenant: str, question: Question, *, masked: bool, max_age_s: float) -> QueryResult:
        """Answer a question over the file of a tenant."""
        units = UNITS in question.sql.lower()
        async with self.files.reading(tenant, masked=masked, units=units, max_age_s=max_age_s) as place:
            as_of = self.files.as_of(tenant, masked=masked)
            if as_of is None:
                raise StoreUnavailable("the analytics file does not exist")
            timeout_s = question.limits.timeout_s + MARGIN_S + (RENDER_S if question.form in PICTURES else 0.0)
            outcome = "failed"
            try:
                asked = replace(question, path=str(place.path))
                answer = await self.processes.run(asked, AnswerDocument, timeout_s=timeout_s)
                outcome = "done"
            except (QueryRefused, QueryStopped) as error:
                outcome = "refused" if isinstance(error, QueryRefused) else "stopped"
                raise
            finally:
                self.metrics.queries.labels(outcome).inc()
        return QueryResult(answer=answer, as_of=as_of)

    async def snapshot(
        self, tenant: str, *, masked: bool, storage_version: StorageVersion = OWN, max_age_s: float = MAX_AGE_DEFAULT_S
    ) -> BinaryIO:
        """Return a complete copy of the file in a storage version of DuckDB, which the caller closes.

        Its name is removed already, so that it disappears when closed. Raises ApiError, StoreError.
        """
        async with AsyncExitStack() as folders:
            async with self.files.reading(tenant, masked=masked, units=True, max_age_s=max_age_s) as place:
                folder = await folders.enter_async_context(folder_beside(place))
                copy = folder / "snapshot.duckdb"
                await asyncio.to_thread(_copy, place.path, copy)
            job = FinishSnapshot(str(copy), storage_version, str(folder / "spill"))
            await self.processes.run(job, Finished, timeout_s=SNAPSHOT_S)
            return await asyncio.to_thread(copy.open, "rb")


def _copy(path: Path, copy: Path) -> None:
    try:
        shutil.copyfile(path, copy)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ApiError("DISK_TOO_SMALL", "the disk has no space for a copy of the analytics file") from error
