"""API: the routes of the server with forms that send requests, in a browser."""

from playwright.async_api import Request, expect

from tests.console.conftest import NewKey, OpenPage, sign_in
from tests.support.server_process import ServerProcess


async def test_a_route_is_tried_with_the_key_of_the_sign_in(
    open_page: OpenPage, server: ServerProcess, new_key: NewKey
) -> None:
    async with server.client() as api:
        await api.create_session("visit", user="ana")
    key = await new_key("reader")
    page = await open_page("/reference")
    await sign_in(page, key)
    await page.get_by_role("heading", name="Sessions").click()
    await page.locator("#operations-Sessions-listSessions").get_by_role("button").first.click()
    await page.get_by_role("button", name="Try it out").click()
    await page.get_by_placeholder("userId").fill("ana")
    async with page.expect_response("**/api/sessions?*") as answer:
        await page.get_by_role("button", name="Execute").click()
    (session,) = (await (await answer.value).json())["data"]
    assert session["userId"] == "ana"
    await expect(page.locator(".response").first).to_contain_text(session["sessionId"])


async def test_the_page_loads_nothing_from_other_hosts(open_page: OpenPage, server: ServerProcess) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page = await open_page("/sign-in")
    page.on("request", note)
    await page.goto(f"{server.url}/reference#/Memory/searchMemory")
    await expect(page.locator("#operations-Memory-searchMemory")).to_contain_text("Search")
    assert f"{server.url}/schema" in asked
    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []
