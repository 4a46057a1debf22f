"""Dashboards in a browser: made, arranged, scheduled, downloaded and deleted."""

from playwright.async_api import Page, expect

from tests.console.conftest import OpenPage
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
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download as a page").click()
    written = (await (await started.value).path()).read_text("utf-8")
    assert "All of them" in written
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no dashboards.")).to_be_visible()
