"""Analytics over HTTP: SQL queries, reports and snapshots."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from api.client.transport import CuebookError, HttpTransport
from api.local_files.atomic_files import writing_whole
from api.schemas.analytics import (
    MAX_AGE_DEFAULT_S,
    ROWS_DEFAULT,
    TIMEOUT_DEFAULT_S,
    AnalyticsStatus,
    Form,
    ModelView,
    NewAnalyticsQuery,
    QueryAnswer,
    ReportList,
)
from api.schemas.ids import in_path
from store.analytics.snapshots import OWN, StorageVersion

Parameters: TypeAlias = Mapping[str, str | int | float | datetime]

T = TypeVar("T")
READY_S = 3_600.0
"""How long the client waits for analytics that are built for the first time."""
ROOM_S = 150.0
"""Above the timeout of a query, because it may wait for other queries and for a refresh."""
_REPORT_S = TIMEOUT_DEFAULT_S + ROOM_S
_PATH = "/api/analytics"


class Analytics:
    """The analytics of a server. Masked, unless a key of the role `reader` requests otherwise; raises CuebookError."""

    def __init__(self, wire: HttpTransport) -> None:
        self._wire = wire

    async def query(
        self,
        sql: str,
        *,
        masked: bool = True,
        rows_max: int = ROWS_DEFAULT,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> QueryAnswer:
        """Return the result of one SELECT; `rows` are dicts by column. The data is at most `max_age_s` old."""
        new = NewAnalyticsQuery(sql=sql, masked=masked, rows_max=rows_max, timeout_s=timeout_s, max_age_s=max_age_s)
        return await _ready(
            lambda: self._wire.ask("POST", f"{_PATH}/query", QueryAnswer, body=new, answer_s=timeout_s + ROOM_S)
        )

    async def query_as(
        self,
        form: Form,
        sql: str,
        *,
        masked: bool = True,
        rows_max: int = ROWS_DEFAULT,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        title: str = "",
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> bytes:
        """Return the result as a document: `csv`, `parquet`, or a chart with a title as `svg`, `png` or `vega-lite`."""
        new = NewAnalyticsQuery(
            sql=sql,
            format=form,
            masked=masked,
            rows_max=rows_max,
            timeout_s=timeout_s,
            title=title,
            max_age_s=max_age_s,
        )
        return await _ready(lambda: self._wire.content("POST", f"{_PATH}/query", body=new, answer_s=timeout_s + ROOM_S))

    async def report(
        self,
        name: str,
        parameters: Parameters | None = None,
        *,
        masked: bool = True,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> QueryAnswer:
        """Return the result of a report; the data is at most `max_age_s` old."""
        query = {**(parameters or {}), "masked": masked, "maxAgeS": max_age_s}
        return await _ready(
            lambda: self._wire.ask("GET", _report(name), QueryAnswer, parameters=query, answer_s=_REPORT_S)
        )

    async def report_as(
        self,
        form: Form,
        name: str,
        parameters: Parameters | None = None,
        *,
        masked: bool = True,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> bytes:
        """Return the result of a report as a document, see `query_as`."""
        query = {**(parameters or {}), "masked": masked, "format": form, "maxAgeS": max_age_s}
        return await _ready(lambda: self._wire.content("GET", _report(name), parameters=query, answer_s=_REPORT_S))

    async def reports(self) -> ReportList:
        """Return the reports with their parameters."""
        return await self._wire.get(f"{_PATH}/reports", ReportList)

    async def model(self) -> ModelView:
        """Return the tables that can be queried, and the meaning of their columns."""
        return await self._wire.get(f"{_PATH}/model", ModelView)

    async def status(self, *, masked: bool = True) -> AnalyticsStatus:
        """Return the time of the data, and the progress of a running refresh."""
        return await self._wire.get(f"{_PATH}/status", AnalyticsStatus, masked=masked)

    async def snapshot(
        self,
        file: Path | str,
        *,
        masked: bool = True,
        storage_version: StorageVersion = OWN,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> None:
        """Write all tables and reports to a DuckDB file, atomically. An older `storage_version` is for tools with an
        older DuckDB. Raises OSError too.
        """
        query = {"masked": masked, "storageVersion": storage_version, "maxAgeS": max_age_s}

        async def copy() -> None:
            with writing_whole(Path(file)) as output:
                async with self._wire.stream("GET", f"{_PATH}/snapshot", parameters=query) as answer:
                    async for piece in answer.aiter_bytes():
                        output.write(piece)

        await _ready(copy)


async def _ready(work: Callable[[], Awaitable[T]]) -> T:
    """Run a request; while the analytics are being built, repeat it when the server says."""
    until = time.monotonic() + READY_S
    while True:
        try:
            return await work()
        except CuebookError as failed:
            if failed.code != "ANALYTICS_NOT_READY" or time.monotonic() > until:
                raise


def _report(name: str) -> str:
    return f"{_PATH}/reports/{in_path(name)}"
