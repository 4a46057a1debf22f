"""Dashboards: reports and saved queries on one page, shown on request and written to files by a schedule."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.analytics.dashboards.dashboards import Dashboards
from api.analytics.dashboards.page_files import DashboardFiles, last_moment
from api.analytics.files import AnalyticsFiles
from api.analytics.process import Processes
from api.analytics.queries import AnalyticsQueries
from api.catalog.catalog import Catalog
from api.metrics import Metrics
from api.schemas.analytics import DashboardText, Schedule, Tile
from api.schemas.ids import TENANT
from api.settings import Settings
from store.analytics import analytics_repository
from store.interface.analyst_rows import ScheduleRow
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

PATH = "/api/analytics/dashboards"
ACTIVITY: dict[str, Any] = {"report": "activity", "title": "How <b>many</b>", "isWide": True}


async def create(api: ApiClient, *tiles: dict[str, Any], status: int = 201, **fields: Any) -> Any:
    answer = await api.post(PATH, json={"name": "Every Monday", "tiles": list(tiles), **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_dashboard_is_created_changed_listed_and_deleted(api: ApiClient) -> None:
    made = await create(api, ACTIVITY, schedule={"every": "week", "hour": 8})
    path = f"{PATH}/{made['dashboardId']}"
    assert (made["tiles"][0]["report"], made["schedule"]) == ("activity", {"every": "week", "hour": 8})
    changed = (await api.put(path, json={"name": "Daily", "tiles": []})).json()
    assert (changed["name"], changed["tiles"], changed["schedule"]) == ("Daily", [], None)
    assert changed["createdAt"] == made["createdAt"]
    assert [each["name"] for each in (await api.read(PATH))["data"]] == ["Daily"]
    assert (await api.delete(path)).status_code == 204
    assert (await api.get(path)).json()["error"]["code"] == "DASHBOARD_NOT_FOUND"


@pytest.mark.parametrize(
    ("tile", "code"),
    [
        ({}, "REQUEST_INVALID"),
        ({"report": "activity", "queryId": "x"}, "REQUEST_INVALID"),
        ({"report": "nothing"}, "REPORT_NOT_FOUND"),
        ({"report": "activity", "parameters": {"colour": "red"}}, "REQUEST_INVALID"),
        ({"queryId": "nothing"}, "QUERY_NOT_FOUND"),
    ],
)
async def test_tile_that_shows_nothing_is_refused(api: ApiClient, tile: dict[str, Any], code: str) -> None:
    status = 404 if code.endswith("FOUND") else 400
    assert (await create(api, ACTIVITY, tile, status=status))["error"]["code"] == code


async def test_change_from_an_older_revision_is_refused(api: ApiClient) -> None:
    path = f"{PATH}/{(await create(api, ACTIVITY))['dashboardId']}"
    revision = (await api.get(path)).headers["ETag"]
    bodies = ({"name": name, "tiles": []} for name in ("First", "Second"))
    answers = await asyncio.gather(*(api.put(path, json=body, headers={"If-Match": revision}) for body in bodies))
    assert sorted(each.status_code for each in answers) == [200, 412]
    refused = next(each for each in answers if each.status_code == 412)
    assert refused.json()["error"]["code"] == "DASHBOARD_CONFLICT"
    latest = (await api.get(path)).headers["ETag"]
    assert (await api.put(path, json={"name": "Third", "tiles": []}, headers={"If-Match": latest})).is_success
    assert (await api.put(path, json={"name": "Fourth", "tiles": []})).is_success


async def test_tile_of_a_deleted_query_does_not_prevent_other_changes(api: ApiClient) -> None:
    query = (await api.post("/api/analytics/queries", json={"name": "One", "sql": "SELECT 1"})).json()
    lost = {"queryId": query["queryId"]}
    path = f"{PATH}/{(await create(api, lost, ACTIVITY))['dashboardId']}"
    assert (await api.delete(f"/api/analytics/queries/{query['queryId']}")).is_success
    moved = await api.put(path, json={"name": "Moved", "tiles": [ACTIVITY, lost | {"title": "Lost"}]})
    assert (moved.status_code, moved.json()["tiles"][1]["title"]) == (200, "Lost")
    other = await api.put(path, json={"name": "Moved", "tiles": [{"queryId": "nothing"}]})
    assert other.json()["error"]["code"] == "QUERY_NOT_FOUND"


async def test_number_of_dashboards_is_bounded(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analytics_repository._DASHBOARDS, "rows_max", 1)
    await create(api)
    assert (await create(api, status=409))["error"]["code"] == "DASHBOARDS_FULL"


async def test_page_has_charts_tables_and_definitions_and_runs_nothing(api: ApiClient) -> None:
    session = await api.create_session("visit")
    await api.send_texts(session, "Ana")
    sql = "SELECT '<script>alert(1)</script>' AS word, count(*) AS sessions FROM sessions"
    query = (await api.post("/api/analytics/queries", json={"name": "Words", "sql": sql})).json()
    broken = (await api.post("/api/analytics/queries", json={"name": "Broken", "sql": "SELECT nothing"})).json()
    tiles = [ACTIVITY, {"queryId": query["queryId"]}, {"queryId": broken["queryId"]}]
    made = await create(api, *tiles)
    answer = await api.get(f"{PATH}/{made['dashboardId']}/page")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    page = answer.text
    assert "How &lt;b&gt;many&lt;/b&gt;" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert "data:image/svg+xml;base64," in page
    assert re.search(r"<h2>Broken|<h2></h2>\s*<p>.*nothing", page)
    assert "count(*)" in page.replace("&#39;", "'")
    chinese = (await api.get(f"{PATH}/{made['dashboardId']}/page", params={"language": "zh"})).text
    assert '<html lang="zh">' in chinese
    assert "<summary>定义</summary>" in chinese
    assert "会话</th>" in chinese


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(hour=7, minute=0, second=0, microsecond=0) + timedelta(days=1)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def dashboards(data: Path, clock: Clock) -> AsyncIterator[Dashboards]:
    """Open the dashboards of a database in which everything happened."""
    store, processes = open_store(data), Processes()
    try:
        files = AnalyticsFiles(store, Catalog(store, clock), processes, data, Metrics())
        ids = iter("de")
        yield Dashboards(store, AnalyticsQueries(files, processes, Metrics()), clock, lambda: next(ids))
    finally:
        processes.close()
        await store.close()


@pytest.fixture
def files(dashboards: Dashboards, clock: Clock, tmp_path: Path) -> DashboardFiles:
    return DashboardFiles(dashboards, Settings(data=tmp_path / "files", dashboard_keep=2), clock)


async def test_schedule_writes_one_file_a_day_and_keeps_the_last(
    dashboards: Dashboards, files: DashboardFiles, clock: Clock
) -> None:
    text = DashboardText(name="Daily", tiles=[Tile(report="activity")], schedule=Schedule(every="day", hour=8))
    await dashboards.create(TENANT, text)
    counts = []
    for hours in (0, 1, 1, 22, 1, 24):
        clock.now += timedelta(hours=hours)
        await files.look()
        counts.append(len(files.list_files(TENANT, "d")))
    assert counts == [0, 1, 1, 1, 2, 2]
    newest = files.list_files(TENANT, "d")[0]
    assert newest.written_at == clock.now
    assert "<title>Daily</title>" in files.path(TENANT, "d", newest.file_name).read_text("utf-8")
    await files.forget("other")
    assert len(files.list_files(TENANT, "d")) == 2
    await files.forget(TENANT)
    assert files.list_files(TENANT, "d") == []


async def test_dashboard_deleted_during_other_writes_leaves_no_file(
    dashboards: Dashboards, files: DashboardFiles, clock: Clock
) -> None:
    for _ in "de":
        text = DashboardText(name="Daily", tiles=[Tile(report="activity")], schedule=Schedule(every="day", hour=8))
        await dashboards.create(TENANT, text)
    clock.now += timedelta(hours=1)
    writing = asyncio.ensure_future(files.look())
    await asyncio.sleep(0.05)  # the first of both is being computed, which takes longer
    first, other = [row.dashboard_id for row in await dashboards.all()]
    await dashboards.delete(TENANT, other)
    await files.forget(TENANT, other)
    await writing
    assert (len(files.list_files(TENANT, first)), files.list_files(TENANT, other)) == (1, [])


async def test_files_of_a_dashboard_deleted_elsewhere_are_removed(
    dashboards: Dashboards, files: DashboardFiles, clock: Clock
) -> None:
    text = DashboardText(name="Daily", tiles=[], schedule=Schedule(every="day", hour=8))
    for _ in "de":
        await dashboards.create(TENANT, text)
    clock.now += timedelta(hours=1)
    await files.look()
    await dashboards.delete(TENANT, "d")
    await files.look(lambda: False)
    assert [len(files.list_files(TENANT, name)) for name in "de"] == [0, 1]


MOMENTS = st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(MOMENTS, st.sampled_from(["day", "week", "month"]), st.integers(0, 23), st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_last_moment_is_the_last_one_that_the_schedule_has(now: datetime, every: Any, hour: int, zone: str) -> None:
    found = last_moment(ScheduleRow(every=every, hour=hour), now, ZoneInfo(zone))
    local = found.astimezone(ZoneInfo(zone))
    assert (local.hour, local.minute) == (hour, 0)
    assert now - {"day": timedelta(1), "week": timedelta(7), "month": timedelta(31)}[every] < found <= now
    assert every != "week" or local.weekday() == 0
    assert every != "month" or local.day == 1


@pytest.mark.slow
async def test_written_pages_are_listed_and_downloaded(app: OpenApp, data: Path, clock: Clock) -> None:
    async with app(data, clock=clock) as api:
        made = await create(api, ACTIVITY, schedule={"every": "day", "hour": 6})
        path = f"{PATH}/{made['dashboardId']}/files"
        assert (await api.read(path))["data"] == []
        unknown = await api.get(f"{path}/..%2Fsecret.html")
        assert unknown.json()["error"]["code"] == "DASHBOARD_NOT_FOUND"
    clock.now += timedelta(days=1)
    async with app(data, clock=clock) as api:
        async with asyncio.timeout(60):
            while not (found := (await api.read(path))["data"]):  # noqa: ASYNC110  (the server writes it)
                await asyncio.sleep(0.1)
        assert found[0]["writtenAt"] == f"{clock.now:%Y-%m-%dT%H:%M:%S}Z"
        page = await api.get(f"{path}/{found[0]['fileName']}")
        assert page.headers["content-type"].startswith("text/html")
        assert len(page.content) == found[0]["bytes"]
        assert (await api.delete(path.removesuffix("/files"))).status_code == 204
    assert not list((data / "dashboards").rglob("*.html"))
