"""Memory: what is remembered of a user, searched with reasons, pinned and forgotten in a browser."""

import asyncio
import re

from playwright.async_api import Page, Route, expect

from tests.console.conftest import NewKey, OpenPage, sign_in
from tests.support.server_process import ServerProcess

UNITS = ["In May I moved to Lisbon.", "My cat is called Mo.", "I play the cello.", "<img src=x onerror=alert(1)>"]


async def add_units(server: ServerProcess) -> None:
    """Add the units in a group, and one in another: what was said last in a memory is not forgotten."""
    async with server.client() as api:
        for group, texts in (("diary", UNITS), ("today", ["Good morning."])):
            units = [{"content": each, "source": "Kim"} for each in texts]
            answer = await api.post("/api/memory/units", json={"userId": "kim", "group": group, "units": units})
            assert answer.status_code in {200, 201}, answer.text


async def open_memory(open_page: OpenPage) -> Page:
    page = await open_page("/memory")
    await page.get_by_label("User").fill("kim")
    await page.get_by_role("button", name="Open").click()
    await expect(page.get_by_role("article").filter(has_text="Lisbon").first).to_be_visible()
    return page


async def test_search_says_why_a_unit_was_found(open_page: OpenPage, server: ServerProcess) -> None:
    await add_units(server)
    page = await open_memory(open_page)
    await expect(page.get_by_role("main")).to_contain_text("Messages and notes: 5 · groups: 2")
    await page.get_by_label("Search").fill("Where did Kim move to?")
    await page.get_by_role("button", name="Search").click()
    first = page.get_by_role("region", name="Results").get_by_role("article").filter(has_text="score").first
    await expect(first).to_contain_text("In May I moved to Lisbon.")
    await first.get_by_text("Why this score").click()
    await expect(first.locator("dl")).to_contain_text("words")
    least = page.get_by_role("region", name="Results").get_by_role("article").filter(has_text="Good morning.")
    await expect(least).to_contain_text(re.compile(r"score 0\.00+[1-9]\d\b"))


async def test_memory_of_a_user_who_was_left_does_not_come_back(open_page: OpenPage, server: ServerProcess) -> None:
    await add_units(server)
    page = await open_page("/memory/kim")
    await expect(page.get_by_role("article").first).to_be_visible()

    async def delay(route: Route) -> None:
        answer = await route.fetch()
        await leave.wait()
        await route.fulfill(response=answer)

    leave = asyncio.Event()
    await page.route("**/api/memory/status?userId=kim", delay)
    await page.get_by_label("Show").select_option(label="Messages and notes")
    await page.get_by_label("User").fill("lee")
    await page.get_by_role("button", name="Open").click()
    await expect(page.get_by_text("Nothing is remembered of this user.")).to_be_visible()
    async with page.expect_response("**/api/memory/status?userId=kim"):
        leave.set()
    await page.wait_for_timeout(200)
    await expect(page.get_by_text("Nothing is remembered of this user.")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("Messages and notes: 0")


async def test_unit_is_pinned_and_forgotten(open_page: OpenPage, server: ServerProcess) -> None:
    await add_units(server)
    page = await open_memory(open_page)
    cat = page.get_by_role("article").filter(has_text="My cat is called Mo.")
    await cat.get_by_role("button", name="Never forget").click()
    await expect(cat).to_contain_text("never forgotten")
    await page.get_by_role("article").filter(has_text="cello").get_by_role("button", name="Forget", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    await expect(page.get_by_role("article").filter(has_text="cello")).to_have_count(0)


async def test_part_of_a_memory_is_shown_before_it_is_forgotten(open_page: OpenPage, server: ServerProcess) -> None:
    await add_units(server)
    page = await open_memory(open_page)
    await page.get_by_label("Percent of the units").fill("50")
    await page.get_by_role("button", name="Show what would go").click()
    await expect(page.get_by_text("2 units would be forgotten.")).to_be_visible()
    async with server.client() as api:
        assert len((await api.read("/api/memory/units", userId="kim"))["data"]) == 5
        await page.get_by_role("button", name="Forget 2 units").click()
        await expect(page.get_by_role("article")).to_have_count(3)
        assert len((await api.read("/api/memory/units", userId="kim"))["data"]) == 3


async def test_summary_opens_what_it_summarises(open_page: OpenPage, server: ServerProcess) -> None:
    await add_units(server)
    async with server.client() as api:
        made = await api.post("/api/memory/summarise", json={"userId": "kim"}, headers={"Prefer": "wait=60"})
        assert made.json()["job"]["status"] == "done", made.text
    page = await open_memory(open_page)
    await page.get_by_label("Show").select_option(label="Summaries of groups")
    summary = page.get_by_role("article").first
    await expect(summary).to_contain_text("Summaries of groups")
    await summary.get_by_role("button", name="Show what it summarises").click()
    await expect(summary.get_by_role("article").filter(has_text="My cat is called Mo.")).to_be_visible()


async def test_reader_sees_and_changes_nothing(open_page: OpenPage, server: ServerProcess, new_key: NewKey) -> None:
    await add_units(server)
    key = await new_key("reader")
    page = await open_page("/memory/kim")
    await sign_in(page, key)
    await expect(page.get_by_role("article").filter(has_text="Lisbon")).to_be_visible()
    await expect(page.get_by_role("button", name="Forget", exact=True)).to_have_count(0)
    await expect(page.get_by_role("button", name="Search")).to_have_count(0)
