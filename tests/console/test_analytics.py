"""Analytics: an analyst runs reports and queries in a browser."""

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.conftest import NewKey, OpenPage, sign_in
from tests.support.server_process import ServerProcess

RESULT_MS = 150_000  # the process of the analytics has a low priority and waits for other tests
QUERY = "SELECT role, count(*) AS n FROM messages GROUP BY role ORDER BY role"


async def two_sessions(server: ServerProcess) -> None:
    async with server.client() as api:
        for name in ("Ana", "Ben"):
            await api.send_texts(await api.create_session("visit", user=name), name)


async def server_sessions(server: ServerProcess) -> list[str]:
    async with server.client() as api:
        return [each["sessionId"] for each in (await api.read("/api/sessions"))["data"]]


async def rows(page: Page) -> list[list[str]]:
    return [await row.locator("td").all_inner_texts() for row in await page.locator("tbody tr").all()]


async def test_a_report_is_a_chart_and_a_table(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page("/analytics")
    may_draw = asyncio.Event()

    async def draw_later(route: Route) -> None:
        await may_draw.wait()
        await route.continue_()

    await page.route("**format=svg**", draw_later)
    await page.get_by_role("link", name="Progress of sessions").click()
    await page.get_by_label("script *").select_option("visit")
    await page.get_by_label("level").select_option("topic")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_text("data of")).to_be_visible(timeout=RESULT_MS)
    assert (await rows(page))[0][1] == "hello/who"
    await expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    may_draw.set()
    chart = page.get_by_role("img", name="Progress of sessions")
    await expect(chart).to_be_visible(timeout=RESULT_MS)
    assert await chart.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    assert "script=visit" in page.url
    assert "level=topic" in page.url
    async with page.expect_download(timeout=RESULT_MS) as download:
        await page.get_by_role("link", name="CSV").click()
    assert (await (await download.value).path()).read_text("utf-8").startswith("position,step,")
    await page.get_by_text("Definition and SQL").click()
    await expect(page.get_by_text("CREATE OR REPLACE MACRO funnel")).to_be_visible()


async def test_a_report_in_an_address_runs_at_once(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page("/analytics/funnel?script=visit&level=topic")
    await expect(page.get_by_label("level")).to_have_value("topic")
    await expect(page.locator("tbody tr").first).to_contain_text("hello", timeout=RESULT_MS)


async def test_a_report_has_user_ids_once_it_has_run_with_them(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    session = (await server_sessions(server))[0]
    page = await open_page(f"/analytics/session_at?session={session}")
    await expect(page.get_by_text("without texts and user ids")).to_be_visible(timeout=RESULT_MS)
    await page.get_by_label("With texts and user ids").check()
    file = page.get_by_role("link", name="CSV")
    await expect(file).to_have_attribute("href", re.compile("masked=true"))  # as what is shown
    await page.get_by_role("button", name="Run").click()
    await expect(file).to_have_attribute("href", re.compile("masked=false"), timeout=RESULT_MS)
    assert (await rows(page))[0][1] in {"Ana", "Ben"}


async def test_a_report_is_in_the_language_of_the_page(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page("/analytics")
    await page.get_by_label("Language").select_option("zh")
    await page.get_by_role("link", name="会话进展").click()
    await page.get_by_label("脚本 *").select_option("visit")
    await page.get_by_label("层级").select_option(label="主题")
    await page.get_by_role("button", name="运行").click()
    await expect(page.get_by_role("columnheader", name="占前一步的比例")).to_be_visible(timeout=RESULT_MS)
    chart = page.get_by_role("img", name="会话进展")
    await expect(chart).to_be_visible(timeout=RESULT_MS)
    drawn = await (await page.request.get(server.url + str(await chart.get_attribute("src")))).text()
    assert all(text in drawn for text in ("会话进展", "到达 (会话)", "步骤"))


async def test_a_report_that_is_chosen_on_a_phone_is_in_view(open_page: OpenPage) -> None:
    page = await open_page("/analytics", width=390)
    await page.get_by_role("link", name="Progress of sessions").click()
    await expect(page.get_by_role("heading", name="Progress of sessions")).to_be_in_viewport()


async def test_a_report_says_what_it_lacks(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/analytics/funnel?script=nothing")
    await expect(page.get_by_role("alert")).to_contain_text("nothing", timeout=RESULT_MS)
    page = await open_page("/analytics/no_such_report")
    await expect(page.get_by_role("heading", name="There is no such page.")).to_be_visible()


async def test_a_query_is_a_table_and_a_chart(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page("/sql")
    box = page.get_by_role("textbox", name="SQL")
    await box.fill(QUERY)
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("tbody tr")).to_have_count(2, timeout=RESULT_MS)
    assert (await rows(page))[1] == ["user", "2"]
    await page.get_by_role("button", name="Chart").click()
    await expect(page.get_by_role("img", name="Chart")).to_be_visible(timeout=RESULT_MS)
    async with page.expect_download(timeout=RESULT_MS) as download:
        await page.get_by_role("button", name="CSV").click()
    assert (await (await download.value).path()).read_text("utf-8").splitlines()[0] == "role,n"
    await page.reload()
    await expect(box).to_have_value(QUERY)
    await box.fill("SELECT 1")  # not run yet
    await page.get_by_role("link", name="Dashboards").click()
    await page.get_by_role("link", name="SQL").click()
    await expect(box).to_have_value("SELECT 1")


async def test_an_error_of_a_query_is_shown(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/sql")
    await page.get_by_role("textbox", name="SQL").fill("SELECT nothing FROM messages")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("alert")).to_contain_text("nothing", timeout=RESULT_MS)


@pytest.mark.parametrize("address", ["/analytics/completion", "/sql?sql=SELECT+42+AS+answer"])
async def test_pages_wait_until_the_tables_are_built(open_page: OpenPage, server: ServerProcess, address: str) -> None:
    await two_sessions(server)
    page = await open_page("/analytics")
    refusals = 0

    async def refuse_twice(route: Route) -> None:
        nonlocal refusals
        refusals += 1
        error = {"code": "ANALYTICS_NOT_READY", "message": "not yet", "recovery": {"suggestion": ""}}
        await route.fulfill(status=503, json={"success": False, "error": error})

    for path in ("**/reports/completion?**", "**/analytics/query"):
        await page.route(path, refuse_twice, times=2)
    await page.goto(page.url.replace("/analytics", address))
    if "sql" in address:
        await page.get_by_role("button", name="Run").click()
    await expect(page.locator("tbody tr").first).to_be_visible(timeout=RESULT_MS)
    await expect(page.get_by_role("alert")).to_have_count(0)
    assert refusals == 2


async def test_running_query_is_stopped(open_page: OpenPage) -> None:
    page = await open_page("/sql")
    box = page.get_by_role("textbox", name="SQL")
    await box.fill("SELECT sum(a.range) FROM range(100000000) a, range(10000) b")
    await page.get_by_role("button", name="Run").click()
    async with page.expect_event("requestfailed"):
        await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(box).to_be_focused()
    await box.fill("SELECT 42 AS answer")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("cell", name="42")).to_be_visible(timeout=RESULT_MS)


async def test_texts_need_the_role_reader(open_page: OpenPage, server: ServerProcess, new_key: NewKey) -> None:
    await two_sessions(server)
    analyst = await new_key("analyst")
    page = await open_page("/sql")
    await sign_in(page, analyst)
    await page.get_by_role("textbox", name="SQL").fill("SELECT content FROM messages WHERE role = 'user'")
    await expect(page.get_by_label("With texts and user ids")).to_have_count(0)
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_text("without texts and user ids")).to_be_visible(timeout=RESULT_MS)
    await expect(page.locator("table")).not_to_contain_text("Ana")


async def test_query_is_saved_and_opened_again(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/sql?sql=SELECT+42+AS+answer")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_label("Name").fill("The answer")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_role("button", name="The answer")).to_be_visible()
    again = await open_page("/sql")
    await again.get_by_role("button", name="The answer").click()
    await expect(again.get_by_role("cell", name="42")).to_be_visible(timeout=RESULT_MS)
    await again.get_by_role("button", name="Delete").click()
    await again.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(again.get_by_text("No query is saved yet.")).to_be_visible()


async def test_chart_of_a_query_is_in_the_language_of_the_page(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page(f"/sql?sql={quote(QUERY)}")
    await page.get_by_label("Language").select_option("zh")
    await page.get_by_role("button", name="运行").click()
    await expect(page.get_by_role("cell", name="user")).to_be_visible(timeout=RESULT_MS)
    await page.get_by_role("button", name="图表").click()
    picture = page.get_by_role("img", name="图表")
    await expect(picture).to_be_visible(timeout=RESULT_MS)
    assert quote("统计的") in (await picture.get_attribute("src") or "")


async def test_query_of_somebody_else_is_not_overwritten(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        saved = (await api.post("/api/analytics/queries", json={"name": "The answer", "sql": "SELECT 42"})).json()
        page = await open_page("/sql")
        await page.get_by_role("button", name="The answer").click()
        theirs = {"name": "The answer", "sql": "SELECT 43"}
        await api.put(f"/api/analytics/queries/{saved['queryId']}", json=theirs)
        await page.get_by_role("button", name="Save").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_contain_text("Somebody else changed this query meanwhile.")
        await dialog.get_by_label("Name").fill("My answer")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("button", name="My answer")).to_be_visible()
        stored = (await api.read("/api/analytics/queries"))["data"]
    assert {each["name"]: each["sql"] for each in stored} == {"The answer": "SELECT 43", "My answer": "SELECT 42"}


async def test_moment_with_a_time_of_day_is_shown_and_stays(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/analytics/activity?since=2026-01-02T03:04:05Z")
    await expect(page.get_by_label("since")).to_have_value("2026-01-02T03:04:05Z")
    await page.get_by_role("button", name="Run").click()
    await expect(page).to_have_url(re.compile("since=2026-01-02T03%3A04%3A05Z"))
    await page.goto(page.url.partition("?")[0] + "?since=2026-01-02")
    await expect(page.get_by_label("since")).to_have_attribute("type", "date")


async def test_numbers_are_shown_without_a_loss_that_misleads(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/sql")
    await page.get_by_role("textbox", name="SQL").fill(
        "SELECT 3.2e-9 AS p, 1e303 AS large, 1234.5 AS plain, 2 / 3 AS share, 9007199254740993 AS id, 'a1' AS word"
    )
    await page.get_by_role("button", name="Run").click()
    await expect(page.locator("tbody tr")).to_have_count(1, timeout=RESULT_MS)
    assert (await rows(page))[0] == ["3.2e-9", "1e+303", "1234.5", "0.666667", "≈ 9007199254740992", "a1"]


async def test_files_have_all_rows_of_the_query_that_is_shown(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/sql")
    box = page.get_by_role("textbox", name="SQL")
    await box.fill("SELECT * FROM range(10001) AS t(number)")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_text("10,000 rows · there are more")).to_be_visible(timeout=RESULT_MS)
    await box.fill("SELECT 'another query, which has not run'")
    async with page.expect_download(timeout=RESULT_MS) as download:
        await page.get_by_role("button", name="CSV").click()
    lines = (await (await download.value).path()).read_text("utf-8").splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("number", "10000", 10_002)


async def test_columns_of_one_name_are_all_shown(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    page = await open_page(f"/sql?sql={quote('SELECT 1 AS n, 2 AS n')}")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("columnheader")).to_have_text(["n", "n_2"], timeout=RESULT_MS)
    assert await rows(page) == [["1", "2"]]


async def test_report_that_is_a_list_has_no_chart(open_page: OpenPage, server: ServerProcess) -> None:
    await two_sessions(server)
    session = (await server_sessions(server))[0]
    page = await open_page(f"/analytics/session_at?session={session}")
    await expect(page.get_by_role("link", name="CSV")).to_be_visible(timeout=RESULT_MS)
    await expect(page.get_by_role("link", name="PNG")).to_have_count(0)
    await expect(page.get_by_role("img")).to_have_count(0)
    await page.goto(server.url + "/analytics/outcomes")
    await expect(page.get_by_role("link", name="CSV")).to_be_visible(timeout=RESULT_MS)
