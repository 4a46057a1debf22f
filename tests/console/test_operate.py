"""Operate: links, webhooks, keys, timers and the database in a browser."""

import re

from playwright.async_api import Page, Route, expect

from tests.console.conftest import NewKey, OpenPage, Restart, sign_in
from tests.support.openai_server import Endpoint
from tests.support.server_process import ServerProcess

WAITS = "cuebook: 1\nscript: waits\nactions:\n  - say: Until then.\n  - wait: 3 days\n  - say: There you are.\n"


async def create(page: Page, button: str, **fields: str) -> None:
    await page.get_by_role("button", name=button).click()
    for label, text in fields.items():
        await page.get_by_role("dialog").get_by_label(label.replace("_", " ")).fill(text)
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()


async def test_health_says_whether_turns_can_be_taken(open_page: OpenPage) -> None:
    page = await open_page("/operate")
    await expect(page.get_by_role("status")).to_have_text("Ready")
    await expect(page.get_by_role("main")).to_contain_text("no endpoint")


async def test_health_is_in_the_language_of_the_page(open_page: OpenPage) -> None:
    page = await open_page("/operate")
    await page.get_by_label("Language").select_option("zh")
    await expect(page.get_by_role("definition")).to_have_text([re.compile("^[^A-Za-z]+$")] * 6)
    await expect(page.get_by_role("main")).to_contain_text("0 个等待中")


async def test_link_is_created_and_revoked(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/operate/links")
    await create(page, "New link", Name_in_the_address="spring-2026")
    await expect(page.get_by_role("link", name="/chat/spring-2026")).to_be_visible()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy: spring-2026").click()
    await expect(page.get_by_role("status")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == f"{server.url}/chat/spring-2026"
    async with server.client() as api:
        assert (await api.get("/api/links/spring-2026/page")).status_code == 200
        await page.get_by_role("button", name="Revoke: spring-2026").click()
        assert (await api.get("/api/links/spring-2026/page")).status_code == 200
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(page.get_by_text("revoked", exact=True)).to_be_visible()
        assert (await api.get("/api/links/spring-2026/page")).status_code == 404
    await create(page, "New link", Name_in_the_address="spring-2026")
    await expect(page.get_by_role("alert")).to_contain_text("Choose another id")


async def test_webhook_is_created_tested_paused_and_deleted(open_page: OpenPage) -> None:
    page = await open_page("/operate/webhooks")
    await create(page, "New webhook", Address="https://receiver.invalid/hook")
    await expect(page.get_by_text("The secret with which deliveries are signed")).to_be_visible()
    test = page.get_by_role("button", name="Send a test")
    await test.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("The test did not arrive")
    await expect(test).to_be_focused()  # although it was disabled meanwhile
    await page.get_by_role("button", name="Deliveries").click()
    await expect(page.get_by_text("Nothing was sent yet.")).to_be_visible()
    await expect(page.get_by_role("heading", name="Deliveries to")).to_be_focused()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("Paused", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no webhooks.")).to_be_visible()


async def test_first_key_has_every_right_and_signs_in(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/operate/keys")
    await create(page, "New key", Name="the console")
    await expect(page.get_by_role("alert")).to_contain_text("It must have the role admin")
    await page.get_by_label("admin").check()
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    key = await page.get_by_role("textbox", name="the console").input_value()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    async with server.client() as api:
        assert (await api.get("/api/keys")).status_code == 401
        listed = await api.get("/api/keys", headers={"Authorization": f"Bearer {key}"})
        assert [each["name"] for each in listed.json()["data"]] == ["the console"]
    await create(page, "New key", Name="our app")
    await page.get_by_role("button", name="Revoke: our app").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_text("revoked", exact=True)).to_be_visible()


async def test_timer_is_fired_by_hand(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(WAITS)
        session = await api.create_session("waits")
        page = await open_page("/operate/timers")
        await page.get_by_role("button", name="Fire now").click()
        await expect(page.get_by_text("No session waits for a moment.")).to_be_visible()
        assert (await api.transcript(session))[-1] == ("assistant", "There you are.")


async def test_database_is_verified_and_compacted(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.send_texts(await api.create_session("visit"), "Ana")
    page = await open_page("/operate/database")
    await expect(page.get_by_role("main")).to_contain_text("can be reclaimed")
    await expect(page.get_by_role("main")).to_contain_text("no retention policy")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.get_by_text("1 session checked: no damage.")).to_be_visible()
    await page.get_by_role("button", name="Compact").click()
    await page.get_by_role("dialog").get_by_role("button", name="Compact").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_progress_of_a_compaction_is_in_the_language_of_the_page(open_page: OpenPage) -> None:
    page = await open_page("/operate/database")
    await page.get_by_label("Language").select_option("zh")
    await expect(page.get_by_role("button", name="压缩")).to_be_visible()

    async def run(route: Route) -> None:
        answer = await route.fetch()
        running = {"step": "copying turns", "bytesWritten": 1, "bytesExpected": 2}
        await route.fulfill(response=answer, json=await answer.json() | {"running": running})

    await page.route("**/api/operations/compact", run)
    await page.reload()
    await expect(page.get_by_text("正在复制 turns")).to_be_visible()


async def test_backup_is_written_and_deleted(open_page: OpenPage) -> None:
    page = await open_page("/operate/database")
    await expect(page.get_by_text("There are no backups.")).to_be_visible()
    await page.get_by_role("button", name="Back up now").click()
    await expect(page.get_by_text("cuebook backups restore")).to_be_visible()
    await page.get_by_role("listitem").get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no backups.")).to_be_visible()


async def test_roles_decide_which_tabs_there_are(open_page: OpenPage, new_key: NewKey) -> None:
    key = await new_key("author")
    page = await open_page("/")
    await sign_in(page, key)
    await expect(page.get_by_role("heading", name="Write")).to_be_visible()  # the first screen that is permitted
    await page.get_by_role("link", name="Operate").click()
    tabs = page.get_by_role("navigation", name="Operate").get_by_role("link")
    await expect(tabs).to_have_text(["Health", "Links"])


async def test_budgets_show_what_is_used_today(open_page: OpenPage) -> None:
    page = await open_page("/operate/budgets")
    await expect(page.get_by_role("row").filter(has_text="Tokens")).to_contain_text("none")


async def test_timers_of_several_sessions_have_different_links(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(WAITS, strict=False)
        for user in ("ana", "ben"):
            await api.create_session("waits", user=user)
    page = await open_page("/operate/timers")
    links = page.get_by_role("table").get_by_role("link")
    await expect(links).to_have_count(2)
    assert len(set(await links.all_inner_texts())) == 2


async def test_server_that_does_not_answer_is_not_called_ready(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/operate")
    await expect(page.get_by_role("status")).to_have_text("Ready")
    await server.stop()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await expect(page.get_by_text("Ready", exact=True)).to_have_count(0)


async def test_health_names_a_model_that_answers(
    open_page: OpenPage, restart: Restart, endpoint: Endpoint, server: ServerProcess
) -> None:
    page = await open_page("/operate")
    again = await restart(CUEBOOK_MODEL="openai:tiny", CUEBOOK_MODEL_URL=endpoint.url)
    await page.goto(f"{again.url}/operate")
    await expect(page.get_by_role("main")).to_contain_text("in use")
