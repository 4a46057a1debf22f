"""Create and change dashboards, and show one as an HTML page that needs nothing else: no script, no other host."""

import asyncio
import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.analytics.charts.chart import chart_words, report_texts
from api.analytics.execute import AnswerDocument
from api.analytics.formats.readable import label
from api.analytics.queries import AnalyticsQueries
from api.console.page_templates import page_template
from api.errors import ApiError, invalid_field, refusing, refusing_field, require_found
from api.schemas.analytics import DashboardText, DashboardView, Language, NewAnalyticsQuery, Tile
from runtime.state.ports import Clock, Ids
from store.analytics.reporting import report_named, statement
from store.interface.analyst_rows import DashboardRow, SavedQueryRow, ScheduleRow, TileRow
from store.interface.errors import QueryRefused, QueryStopped, ReportRefused, RowConflict, RowRefused
from store.store import Store

T = TypeVar("T")
ROWS_SHOWN_MAX = 200
"""Rows of a table on a page."""
PAGE_S = 300.0
"""After it, no further tile of a page is computed."""


class _Part(Struct, frozen=True, kw_only=True):
    """A computed tile, or why it could not be computed."""

    title: str
    about: str = ""
    sql: str = ""
    is_wide: bool = False
    chart: bytes = b""
    """Its chart as Vega-Lite, then as an SVG picture; empty: the result cannot be drawn."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    rows_hidden: int = 0
    """The rows beyond those that are shown."""
    problem: str = ""


class Dashboards(Struct, frozen=True):
    """The dashboards of all tenants."""

    store: Store
    queries: AnalyticsQueries
    clock: Clock
    ids: Ids

    async def get(self, tenant: str, dashboard_id: str) -> DashboardRow:
        """Return a dashboard. Raises ApiError DASHBOARD_NOT_FOUND."""
        return _require(await self.store.analytics.dashboard(tenant, dashboard_id), dashboard_id)

    async def create(self, tenant: str, new: DashboardText) -> DashboardRow:
        """Create a dashboard. Raises ApiError REQUEST_INVALID, REPORT_NOT_FOUND, QUERY_NOT_FOUND, DASHBOARDS_FULL."""
        row = await self._row(tenant, self.ids(), new, [])
        with refusing("DASHBOARDS_FULL", RowRefused):
            await self.store.analytics.add_dashboard(row)
        return row

    async def change(self, tenant: str, dashboard_id: str, new: DashboardText, expected: int | None) -> DashboardRow:
        """Replace a dashboard if it has the `expected` revision (None: any).

        Raises the errors of `create`, and ApiError DASHBOARD_NOT_FOUND, DASHBOARD_CONFLICT.

        Tiles that it has already may stay, also those whose saved query was deleted meanwhile.
        """
        current = await self.get(tenant, dashboard_id)
        row = await self._row(tenant, dashboard_id, new, current.tiles)
        try:
            return _require(await self.store.analytics.change_dashboard(row, expected), dashboard_id)
        except RowConflict as conflict:
            raise ApiError("DASHBOARD_CONFLICT", f"the dashboard was changed meanwhile: {conflict}") from conflict

    async def delete(self, tenant: str, dashboard_id: str) -> None:
        """Delete a dashboard. Raises ApiError DASHBOARD_NOT_FOUND."""
        _require(await self.store.analytics.delete_dashboard(tenant, dashboard_id), dashboard_id)

    async def all(self) -> list[DashboardRow]:
        """Return the dashboards of all tenants. Raises StoreError."""
        return await self.store.analytics.all_dashboards()

    async def html(self, row: DashboardRow, *, masked: bool, language: Language = "en") -> str:
        """Return a dashboard as one HTML page in a language. Raises StoreError.

        A tile that cannot be computed, or not within PAGE_S, says why.
        """
        ends_at = asyncio.get_running_loop().time() + PAGE_S
        parts = [await self._part(row.tenant, tile, ends_at, language, masked=masked) for tile in row.tiles]
        return _page(row.name, await self._with_charts(parts), self.clock(), language)

    async def _with_charts(self, parts: Sequence[_Part]) -> list[_Part]:
        """Return the tiles with the pictures of their charts, which one process draws."""
        charts = [part.chart for part in parts if part.chart]
        try:
            pictures = iter(await self.queries.draw(charts) if charts else ())
        except QueryStopped:
            pictures = iter([b""] * len(charts))
        return [replace(part, chart=next(pictures) if part.chart else b"") for part in parts]

    async def _row(self, tenant: str, dashboard_id: str, new: DashboardText, known: Sequence[TileRow]) -> DashboardRow:
        checked = [(tile.report, tile.query_id, tile.parameters) for tile in known]
        for number, tile in enumerate(new.tiles):
            if (tile.report, tile.query_id, tile.parameters) not in checked:
                await self._check(tenant, tile, f"tiles[{number}]")
        now = self.clock()
        return DashboardRow(
            tenant=tenant,
            dashboard_id=dashboard_id,
            name=new.name,
            tiles=msgspec.convert(new.tiles, list[TileRow], from_attributes=True),
            schedule=msgspec.convert(new.schedule, ScheduleRow | None, from_attributes=True),
            created_at=now,
            updated_at=now,
        )

    async def _check(self, tenant: str, tile: Tile, at: str) -> None:
        """Raise ApiError unless a tile is a report with valid parameters, or a saved query."""
        if (tile.report is None) == (tile.query_id is None):
            raise invalid_field(at, "name a `report` or a `queryId`, not both")
        if tile.report is None:
            await self._query(tenant, tile.query_id or "")
            return
        try:
            definition = report_named(tile.report)
        except ReportRefused as error:
            raise ApiError("REPORT_NOT_FOUND", f"{at}: {error}") from error
        with refusing_field(at, ReportRefused):
            statement(definition, tile.parameters)

    async def _query(self, tenant: str, query_id: str) -> SavedQueryRow:
        return require_query(await self.store.analytics.query(tenant, query_id), query_id)

    async def _part(self, tenant: str, tile: TileRow, ends_at: float, language: Language, *, masked: bool) -> _Part:
        """Compute a tile, unless the time of the page is over."""
        if asyncio.get_running_loop().time() > ends_at:
            return _problem_part(tile, report_texts(language)["page"]["late"].format(seconds=PAGE_S))
        try:
            title, about, sql = await self._definition(tenant, tile, language)
            answer = await self._run(tenant, tile, sql, language, masked=masked)
            document = msgspec.json.decode(answer.content)
        except (ApiError, QueryRefused, QueryStopped, ReportRefused) as error:
            return _problem_part(tile, str(error))
        words = chart_words(language) if tile.report is not None else {}
        return _Part(
            title=title,
            about=about,
            sql=sql,
            is_wide=tile.is_wide,
            chart=answer.chart,
            columns=[words.get(column["name"], column["name"]) for column in document["columns"]],
            rows=[list(row.values()) for row in document["rows"][:ROWS_SHOWN_MAX]],
            rows_hidden=max(len(document["rows"]) - ROWS_SHOWN_MAX, 0),
        )

    async def _definition(self, tenant: str, tile: TileRow, language: Language) -> tuple[str, str, str]:
        """Return the title of a tile, what it says, and its SQL. Raises ApiError, ReportRefused."""
        if tile.report is not None:
            sql = report_named(tile.report).sql
            texts = report_texts(language)["reports"][tile.report]
            return tile.title or texts["title"], texts["says"], sql
        query = await self._query(tenant, tile.query_id or "")
        return tile.title or query.name, "", query.sql

    async def _run(self, tenant: str, tile: TileRow, sql: str, language: Language, *, masked: bool) -> AnswerDocument:
        if tile.report is not None:
            report = report_named(tile.report)
            result = await self.queries.report(
                tenant, report, tile.parameters, "json", masked=masked, language=language, with_chart=True
            )
        else:
            new = NewAnalyticsQuery(sql=sql, format="json", language=language)
            result = await self.queries.query(tenant, new, masked=masked, with_chart=True)
        return result.answer


def dashboard_view(row: DashboardRow) -> DashboardView:
    """Return a dashboard as clients see it."""
    return msgspec.convert(row, DashboardView, from_attributes=True)


def _problem_part(tile: TileRow, problem: str) -> _Part:
    return _Part(title=tile.title or tile.report or "", is_wide=tile.is_wide, problem=problem)


def _require(found: T | None, dashboard_id: str) -> T:
    return require_found(found, "DASHBOARD_NOT_FOUND", f"there is no dashboard {dashboard_id}")


def require_query(found: T | None, query_id: str) -> T:
    """Return what was found of a saved query. Raises ApiError QUERY_NOT_FOUND if there is nothing: None or false."""
    return require_found(found, "QUERY_NOT_FOUND", f"there is no saved query {query_id}")


# -- the page ---------------------------------------------------------------------------------------------------------


def _page(name: str, parts: Sequence[_Part], now: datetime, language: Language) -> str:
    """Return the HTML page. All texts are escaped, and charts are pictures, which run no scripts."""
    written = f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    words = report_texts(language)["page"]
    return page_template(Path(__file__).with_name("page.html")).render(
        name=name, parts=parts, written=written, picture=_picture, label=label, words=words, language=language
    )


def _picture(chart: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(chart).decode()
