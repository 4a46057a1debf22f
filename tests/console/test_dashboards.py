"""Dashboards in a browser: made, arranged, scheduled, downloaded and deleted."""

import asyncio
from urllib.parse import urlsplit

from playwright.async_api import Page, Route, expect

from tests.console.conftest import WAIT_MS, NewKey, OpenPage, sign_in
from tests.support.server_process import ServerProcess


async def add(page: Page, shows: str, **more: str) -> None:
    await page.get_by_role("button", name="Add a part").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("What it shows").select_option(label=shows)
    if "script" in more:
        await dialog.get_by_label("Script").select_option(more["script"])
    await dialog.get_by_label("Title").fill(more.get("title", ""))
    await dialog.get_by_role("button", name="Add a part").click()


async def test_dashboard_is_made_arranged_scheduled_and_deleted(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.create_session("visit")
        query = {"name": "All of them", "sql": "SELECT count(*) AS sessions FROM sessions"}
        assert (await api.post("/api/analytics/queries", json=query)).status_code == 201
    page = await open_page("/dashboards")
    await page.get_by_role("button", name="New dashboard").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Weekly")
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="Weekly")).to_be_visible()
    await add(page, "Activity over time", title="Activity")
    await expect(page.get_by_role("img", name="Activity")).to_be_visible()
    await add(page, "All of them")
    parts = page.get_by_role("heading", level=2)
    await expect(parts).to_have_text(["Activity", "All of them"])
    await expect(page.get_by_role("region", name="All of them", exact=True)).to_contain_text("sessions")
    await page.get_by_role("button", name="Arrange").click()
    await page.get_by_role("button", name="Move back (All of them)").click()
    await expect(parts).to_have_text(["All of them", "Activity"])
    await page.get_by_role("button", name="Remove (Activity)").click()
    await expect(parts).to_have_text(["All of them"])
    await page.get_by_role("button", name="Schedule").click()
    await page.get_by_label("When").select_option(label="Every Monday")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text("None was written yet.")).to_be_visible()
    await page.get_by_label("Language").select_option("zh")
    async with page.expect_download() as started:
        await page.get_by_role("link", name="下载为网页").click()
    written = (await (await started.value).path()).read_text("utf-8")
    assert "All of them" in written
    assert "定义" in written
    await page.get_by_label("语言").select_option("en")
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no dashboards.")).to_be_visible()


async def test_changes_of_somebody_else_are_not_overwritten(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        made = (await api.post("/api/analytics/dashboards", json={"name": "Weekly", "tiles": []})).json()
        path = f"/api/analytics/dashboards/{made['dashboardId']}"
        page = await open_page(f"/dashboards/{made['dashboardId']}")
        await expect(page.get_by_role("heading", name="Weekly")).to_be_visible()
        theirs = {"report": "activity", "title": "Theirs"}
        assert (await api.put(path, json={"name": "Weekly", "tiles": [theirs]})).is_success
        await page.get_by_role("button", name="Rename").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("Daily")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Somebody else changed this dashboard")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", level=1, name="Daily")).to_be_visible()
        await expect(page.get_by_role("heading", level=2, name="Theirs")).to_be_visible()
        saved = await api.read(path)
        assert (saved["name"], [each["title"] for each in saved["tiles"]]) == ("Daily", ["Theirs"])


async def test_two_tabs_that_save_at_once_lose_nothing_silently(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        made = (await api.post("/api/analytics/dashboards", json={"name": "Weekly", "tiles": []})).json()
        path = f"/dashboards/{made['dashboardId']}"
        pages = [await open_page(path), await open_page(path)]
        for page, title in zip(pages, ("One", "Two"), strict=True):
            await page.get_by_role("button", name="Add a part").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("What it shows").select_option(label="Activity over time")
            await dialog.get_by_label("Title").fill(title)
        buttons = [page.get_by_role("dialog").get_by_role("button", name="Add a part") for page in pages]
        await asyncio.gather(*(button.evaluate("button => button.click()") for button in buttons))
        alerts = [page.get_by_role("dialog").get_by_role("alert") for page in pages]
        waiting = [asyncio.create_task(alert.wait_for()) for alert in alerts]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        late = 0 if waiting[0].done() else 1
        waiting[1 - late].cancel()
        await expect(alerts[late]).to_contain_text("Somebody else changed this dashboard")
        await buttons[late].click()
        await expect(pages[late].get_by_role("dialog")).to_have_count(0)
        await expect(pages[late].get_by_role("heading", level=2)).to_have_count(2)
        saved = await api.read(f"/api/analytics{path}")
        assert sorted(each["title"] for each in saved["tiles"]) == ["One", "Two"]


async def test_parts_are_edited_and_arranged_with_the_keyboard(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        query = {"name": "One", "sql": "SELECT 1 AS one"}
        one = (await api.post("/api/analytics/queries", json=query)).json()["queryId"]
        tiles = [{"queryId": one, "title": title} for title in ("A", "B", "C")]
        made = (await api.post("/api/analytics/dashboards", json={"name": "Weekly", "tiles": tiles})).json()
        assert (await api.delete(f"/api/analytics/queries/{one}")).is_success
    page = await open_page(f"/dashboards/{made['dashboardId']}")
    parts = page.get_by_role("heading", level=2)
    await page.get_by_role("button", name="Arrange").press("Enter")
    await expect(page.get_by_role("button", name="Move on (A)")).to_be_enabled()
    await page.get_by_role("button", name="Move on (A)").press("Enter")
    await expect(parts).to_have_text(["B", "A", "C"])
    await expect(page.get_by_role("button", name="Move on (A)")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(parts).to_have_text(["B", "C", "A"])
    await expect(page.get_by_role("button", name="Move back (A)")).to_be_focused()
    await page.get_by_role("button", name="Remove (A)").press("Enter")
    await expect(parts).to_have_text(["B", "C"])
    await expect(page.get_by_role("button", name="Remove (C)")).to_be_focused()
    edit = page.get_by_role("button", name="Edit (B)")
    await edit.press("Enter")
    await page.keyboard.press("Escape")
    await expect(edit).to_be_focused()
    await edit.press("Enter")
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").press("Enter")
    await expect(edit).to_be_focused()
    await edit.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("What it shows").select_option(label="Activity over time")
    await dialog.get_by_label("Title").fill("")
    await dialog.get_by_role("button", name="Save").press("Enter")
    await expect(parts).to_have_text(["Activity over time", "C"])


async def test_part_has_all_parameters_of_its_report(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        session = await api.create_session("visit")
        made = (await api.post("/api/analytics/dashboards", json={"name": "Weekly", "tiles": []})).json()
        page = await open_page(f"/dashboards/{made['dashboardId']}")
        dialog = page.get_by_role("dialog")
        await page.get_by_role("button", name="Add a part").click()
        await dialog.get_by_label("What it shows").select_option("report variables_at")
        await dialog.get_by_label("session *").fill(session["sessionId"])
        await dialog.get_by_label("What it shows").select_option("report activity")
        await dialog.get_by_label("since").fill("2026-01-02")
        await dialog.get_by_label("period").select_option("week")
        await dialog.get_by_role("button", name="Add a part").click()
        await expect(dialog).to_have_count(0)
        await page.get_by_role("button", name="Arrange").click()
        await page.get_by_role("button", name="Edit (Activity over time)").click()
        await expect(dialog.get_by_label("period")).to_have_value("week")
        await dialog.get_by_label("since").fill("2026-01-03")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        (tile,) = (await api.read(f"/api/analytics/dashboards/{made['dashboardId']}"))["tiles"]
    assert tile["parameters"] == {"since": "2026-01-03", "period": "week"}


async def test_parts_run_a_few_at_a_time(open_page: OpenPage, server: ServerProcess) -> None:
    """So that a slow part delays neither changes nor all others, of which the server runs few at once."""
    async with server.client() as api:
        query = {"name": "One", "sql": "SELECT 1 AS one"}
        one = (await api.post("/api/analytics/queries", json=query)).json()["queryId"]
        tiles = [{"queryId": one, "title": "T" * 200} for _ in range(8)]
        assert (await api.post("/api/analytics/dashboards", json={"name": "Weekly", "tiles": tiles})).is_success
    page = await open_page("/dashboards", width=360)
    may_answer = asyncio.Event()
    asked: asyncio.Queue[Route] = asyncio.Queue()

    async def answer_later(route: Route) -> None:
        asked.put_nowait(route)
        await may_answer.wait()
        await route.fulfill(status=503, json={"error": {"code": "SERVER_BUSY", "message": "busy"}})

    await page.route("**/api/analytics/query", answer_later)
    await page.get_by_role("link", name="Weekly").click()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Daily")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1, name="Daily")).to_be_visible()
    async with asyncio.timeout(WAIT_MS / 1_000):
        for _ in range(2):
            await asked.get()
    assert asked.empty()
    may_answer.set()
    await expect(page.get_by_role("alert")).to_have_count(8)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_what_is_typed_in_a_dialog_stays_while_a_key_is_replaced(open_page: OpenPage, new_key: NewKey) -> None:
    key = await new_key("analyst")
    page = await open_page("/dashboards")
    await sign_in(page, key)
    await page.get_by_role("button", name="New dashboard").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Weekly")
    await page.context.clear_cookies()
    sent: list[str] = []
    page.on("request", lambda each: sent.append(f"{each.method} {urlsplit(each.url).path}"))
    await dialog.get_by_role("button", name="Create").click()
    await dialog.get_by_role("alert").get_by_role("button", name="Sign in").click()
    await expect(dialog).to_have_count(0)
    await sign_in(page, key)
    await expect(dialog.get_by_label("Name")).to_have_value("Weekly")
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", level=1, name="Weekly")).to_be_visible()
    assert sent.count("POST /api/analytics/dashboards") == 2, "the refused one, and the one of the new key"
