"""What analysts ask of a server: SQL, reports, and the analytics as a file."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from api.client.errors import CuebookError
from api.client.wire import Wire
from api.files import writing_whole
from api.paths import in_path
from api.schemas.analytics import (
    MAX_AGE_DEFAULT_S,
    ROWS_DEFAULT,
    TIMEOUT_DEFAULT_S,
    AnalyticsStatus,
    Answered,
    Form,
    ModelView,
    NewQuery,
    ReportList,
)
from store.analytics.storage import OWN, StorageVersion

Parameters: TypeAlias = Mapping[str, str | int | float | datetime]

T = TypeVar("T")
READY_S = 3_600.0
"""How long it waits for analytics that are made from the record."""
ROOM_S = 150.0
"""Above what a query may take: others may be before it, and the analytics are brought up to date first."""
_PATH = "/api/analytics"


class Analytics:
    """The analytics of a server. Masked, unless a key of the role `reader` asks for more; all raises CuebookError."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def query(
        self,
        sql: str,
        *,
        masked: bool = True,
        rows_max: int = ROWS_DEFAULT,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> Answered:
        """The answer of one SELECT; `rows` are dicts by column, as they are in JSON. It is at most `max_age_s` old."""
        new = NewQuery(sql=sql, masked=masked, rows_max=rows_max, timeout_s=timeout_s, max_age_s=max_age_s)
        return await _ready(
            lambda: self._wire.ask("POST", f"{_PATH}/query", Answered, body=new, answer_s=timeout_s + ROOM_S)
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
        """The answer as a document: `csv`, `parquet`, or a picture with a title as `svg` or `png`."""
        new = NewQuery(
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
    ) -> Answered:
        """The answer of a report, at most `max_age_s` old."""
        given, answer_s = {**(parameters or {}), "masked": masked, "maxAgeS": max_age_s}, TIMEOUT_DEFAULT_S + ROOM_S
        return await _ready(lambda: self._wire.ask("GET", _report(name), Answered, parameters=given, answer_s=answer_s))

    async def report_as(
        self,
        form: Form,
        name: str,
        parameters: Parameters | None = None,
        *,
        masked: bool = True,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> bytes:
        """The answer of a report as a document, see `query_as`."""
        given = {**(parameters or {}), "masked": masked, "format": form, "maxAgeS": max_age_s}
        answer_s = TIMEOUT_DEFAULT_S + ROOM_S
        return await _ready(lambda: self._wire.content("GET", _report(name), parameters=given, answer_s=answer_s))

    async def reports(self) -> ReportList:
        """The reports there are, with their parameters."""
        return await self._wire.ask("GET", f"{_PATH}/reports", ReportList)

    async def model(self) -> ModelView:
        """The tables that can be asked, and what their columns mean."""
        return await self._wire.ask("GET", f"{_PATH}/model", ModelView)

    async def status(self, *, masked: bool = True) -> AnalyticsStatus:
        """Of which moment they are, and what is being brought in."""
        return await self._wire.ask("GET", f"{_PATH}/status", AnalyticsStatus, parameters={"masked": masked})

    async def snapshot(
        self,
        file: Path | str,
        *,
        masked: bool = True,
        storage_version: StorageVersion = OWN,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> None:
        """Writes all tables and reports into a DuckDB file, whole or not at all. An older `storage_version` is for
        tools with an older DuckDB. Raises OSError too.
        """
        given = {"masked": masked, "storageVersion": storage_version, "maxAgeS": max_age_s}

        async def copy() -> None:
            with writing_whole(Path(file)) as output:
                async with self._wire.stream("GET", f"{_PATH}/snapshot", parameters=given) as answer:
                    async for piece in answer.aiter_bytes():
                        output.write(piece)

        await _ready(copy)


async def _ready(work: Callable[[], Awaitable[T]]) -> T:
    """What work comes to, once the analytics are made; the server says when to ask again."""
    until = time.monotonic() + READY_S
    while True:
        try:
            return await work()
        except CuebookError as failed:
            if failed.code != "ANALYTICS_NOT_READY" or time.monotonic() > until:
                raise


def _report(name: str) -> str:
    return f"{_PATH}/reports/{in_path(name)}"
