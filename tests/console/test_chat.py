"""The chat page of a link: a participant in a browser, without a key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.conftest import OpenPage
from tests.console.test_quality import HOSTILE, violations
from tests.support.fixture_types import Serve
from tests.support.ports import free_port
from tests.support.server_process import ServerProcess

HOSTILE_SCRIPT = """
cuebook: 1
script: hostile
title: '<b onclick=alert(1)>bold</b>'
actions:
  - show: {image: 'javascript:alert(1)', caption: '<img src=x onerror=alert(2)>'}
  - ask: What?
    into: answer
  - choose: Which?
    into: pick
    choices: ['<svg onload=alert(3)>', other]
"""
LONG_FORM = """
cuebook: 1
script: long_form
forms:
  - form: long_form
    fields:
"""
ARABIC = """
cuebook: 1
script: arabic
locale: ar
title: محادثة
actions:
  - ask: ما اسمك؟
    into: who
"""


async def new_link(server: ServerProcess, script: str = "visit", **body: Any) -> str:
    """Return the address of a new link."""
    async with server.client() as api:
        created = await api.post("/api/links", json={"scriptId": script, **body})
        assert created.status_code == 201, created.text
        return f"/chat/{created.json()['linkId']}"


async def begin(page: Page) -> None:
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_label("Message")).to_be_visible()


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


async def test_a_device_that_cannot_continue_yet_does_not_begin_again(
    open_page: OpenPage, server: ServerProcess
) -> None:
    """Beginning would replace the secret of the conversation, which could never be continued."""
    page = await open_page(await new_link(server))
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await page.route("**/api/links/*/sessions", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    await expect(page.get_by_role("button")).to_have_text(["Try again"])
    await page.unroute("**/api/links/*/sessions")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")


async def test_a_long_form_is_filled_in_on_a_phone(open_page: OpenPage, server: ServerProcess) -> None:
    fields = "".join(f"      - {{field: f{n}, label: Field {n}, pattern: '[0-9]+'}}\n" for n in range(1, 31))
    choices = f"choices: ['{'Unbreakable' * 20}', '{'A long choice ' * 20}']"
    async with server.client() as api:
        await api.publish_script(
            f"{LONG_FORM}{fields}actions:\n  - form: long_form\n  - choose: Which?\n    into: pick\n    {choices}\n"
        )
    page = await open_page(await new_link(server, "long_form"), width=360)
    await begin(page)
    first, second = (page.get_by_label(name, exact=True) for name in ("Field 1", "Field 2"))
    await first.fill("1")
    await expect(first).to_be_in_viewport()  # not above the screen, where it could not be reached
    await second.fill("two")
    await say(page, "Why do you ask?")
    await expect(page.get_by_role("log")).to_contain_text("Why do you ask?")
    await expect(page.get_by_text("Answering…")).to_have_count(0)
    assert (await first.input_value(), await second.input_value()) == ("1", "two")
    await page.get_by_role("button", name="Submit").click()
    await expect(second).to_be_focused()
    assert (await first.input_value(), await second.input_value()) == ("1", "two")
    await second.fill("2")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("button", name="Unbreakable")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.gate
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_conversation_on_a_phone(open_page: OpenPage, server: ServerProcess, theme: str) -> None:
    page = await open_page(await new_link(server), width=360, theme=theme)
    await expect(page.get_by_role("heading", level=1)).to_have_text("First visit")
    assert await violations(page) == []
    await begin(page)
    said = page.get_by_role("log")
    await say(page, "Ana")
    await expect(said).to_contain_text("How old are you, Ana?")
    await say(page, "41")
    await page.get_by_role("button", name="so so").click()
    await expect(said).to_contain_text("Noted as B, Ana.")
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    await page.get_by_role("button", name="Go on, please.").click()
    await say(page, "yes")
    await expect(page.get_by_text("The conversation is over.")).to_be_visible()
    await page.get_by_role("button", name="Begin another conversation").click()
    await begin(page)
    await expect(said).not_to_contain_text("Ana")


@pytest.mark.gate
async def test_the_device_comes_back_and_its_tabs_are_in_step(open_page: OpenPage, server: ServerProcess) -> None:
    address = await new_link(server)
    page = await open_page(address)
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    assert "cbp_" not in str(await page.evaluate("[document.cookie, {...localStorage}, {...sessionStorage}]"))
    await page.get_by_role("textbox").fill("Not yet s")
    await page.reload()
    await expect(page.get_by_role("log")).to_contain_text("What may I call you?")
    await expect(page.get_by_role("textbox")).to_have_value("Not yet s")
    other = await open_page(address)
    await expect(other.get_by_role("textbox")).to_have_value("")
    await expect(other.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await say(other, "41")
    await expect(page.get_by_role("button", name="so so")).to_be_visible()
    texts = await page.get_by_role("log").inner_text()
    assert texts == await other.get_by_role("log").inner_text()
    assert texts.count("41") == 1


@pytest.mark.gate
async def test_a_message_is_taken_once_whatever_the_network_does(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server))
    await begin(page)
    keys: list[str] = []

    async def lose_the_answer(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()  # the server takes it
        if len(keys) < 3:
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await page.route("**/session/messages", lose_the_answer)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await expect(page.get_by_text("Answering…")).to_have_count(0)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert (await page.get_by_role("log").inner_text()).count("How old are you, Ana?") == 1


async def test_offline_page_says_so_and_the_message_arrives_later(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server))
    await begin(page)

    async def answer_never(route: Route) -> None:
        pass

    await page.route("**/session/messages", answer_never)
    await say(page, "Ana")
    await expect(page.get_by_text("Answering…")).to_be_visible()
    await page.context.set_offline(True)
    await expect(page.get_by_text("The connection is interrupted.")).to_be_visible()
    await expect(page.get_by_text("Answering…")).to_have_count(0)
    await page.unroute("**/session/messages")
    await page.context.set_offline(False)
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")


async def test_table_error_is_at_its_cell_and_a_file_says_what_is_sent(
    open_page: OpenPage, server: ServerProcess
) -> None:
    columns = "columns: [{field: drug, label: Drug}, {field: dose, label: Dose, type: number, max: 10}]"
    fields = f"[{{field: drugs, label: Drugs, type: table, {columns}}}, {{field: letter, label: Letter, type: file}}]"
    async with server.client() as api:
        forms = f"forms: [{{form: health, fields: {fields}}}]"
        await api.publish_script(f"cuebook: 1\nscript: health\n{forms}\nactions: [form: health]\n", strict=False)
    page = await open_page(await new_link(server, "health"))
    await begin(page)
    await page.get_by_role("button", name="Add a row").click()
    await page.get_by_role("button", name="Add a row").click()
    for number, drug in enumerate(("Aspirin", "Codeine")):
        await page.get_by_label("Drug", exact=True).nth(number).fill(drug)
    dose = page.get_by_label("Dose").nth(1)
    await dose.fill("11")
    await expect(page.get_by_text("Only the name of the file is sent.")).to_be_visible()
    await page.get_by_role("button", name="Submit").click()
    await expect(dose).to_be_focused()
    await expect(page.get_by_label("Dose").nth(0)).not_to_have_attribute("aria-invalid", "true")
    assert await violations(page) == []


@pytest.mark.gate
async def test_a_refused_message_can_be_sent_again(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server))
    await begin(page)
    await page.route(
        "**/session/messages",
        lambda route: route.fulfill(status=500, json={"error": {"code": "INTERNAL_ERROR", "message": "it failed"}}),
        times=1,
    )
    await say(page, "Ana")
    await expect(page.get_by_role("alert")).to_contain_text("it failed")
    await expect(page.get_by_text("This message was not sent:")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await expect(page.get_by_text("This message was not sent:")).to_have_count(0)


async def test_message_after_the_end_is_shown_but_not_sent_again(open_page: OpenPage, server: ServerProcess) -> None:
    address = await new_link(server)
    page = await open_page(address)
    await begin(page)
    await page.route("**/session/messages", lambda route: route.abort("connectionreset"))
    await say(page, "Ana")
    await expect(page.get_by_text("This message was not sent:")).to_be_visible()
    async with server.client() as api:
        session = (await api.get("/api/sessions")).json()["data"][0]["sessionId"]
        await api.post(f"/api/sessions/{session}/end", json={})
    await expect(page.get_by_text("The conversation is over.")).to_be_visible()
    await expect(page.get_by_text("This message was not sent:")).to_be_visible()
    await expect(page.get_by_role("button", name="Send again")).to_have_count(0)


async def test_error_of_a_stream_has_its_status_and_is_tried_again(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server))
    await begin(page)
    busy = '{"success":false,"error":{"code":"SERVER_BUSY","message":"it is busy"},"status":503}'
    await page.route(
        "**/session/messages",
        lambda route: route.fulfill(content_type="text/event-stream", body=f"event: error\ndata: {busy}\n\n"),
        times=1,
    )
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await expect(page.get_by_text("This message was not sent:")).to_have_count(0)


@pytest.mark.gate
async def test_a_lost_stream_is_restored_without_a_gap(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server))
    is_lost = True

    async def lose(route: Route) -> None:
        await (route.abort("connectionreset") if is_lost else route.continue_())

    await page.route("**/session/events", lose)
    await begin(page)
    await expect(page.get_by_text("The connection is interrupted.")).to_be_visible()
    async with server.client() as api:
        (session,) = (await api.read("/api/sessions", limit=10))["data"]
        await api.send_texts(session, "Ben")
    is_lost = False
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ben?")
    await expect(page.get_by_text("The connection is interrupted.")).to_have_count(0)


async def test_a_code_is_for_one_person(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(await new_link(server, users="named", resumes=False))
    for expected in ("What may I call you?", "This code was used already."):
        await page.get_by_label("Your code").fill("K7")
        await page.get_by_role("button", name="Begin").click()
        await expect(page.get_by_text(expected).first).to_be_visible()
        if "code" not in expected:
            await page.get_by_role("textbox").fill("Not yet s")
            assert await page.evaluate("localStorage.length + sessionStorage.length") == 0
            await page.reload()


@pytest.mark.gate
async def test_what_a_link_refuses_is_explained(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/chat/nothing")
    await expect(page.get_by_role("alert")).to_contain_text("This link does not exist, or it was withdrawn.")
    full = await new_link(server, sessionsMax=1)
    page = await open_page(full)
    await begin(page)
    await page.evaluate("localStorage.clear()")
    await page.reload()
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("alert")).to_contain_text("All places of this link are taken.")
    address = await new_link(server)
    page = await open_page(address)
    await begin(page)
    async with server.client() as api:
        assert (await api.delete(f"/api/links/{address.removeprefix('/chat/')}")).is_success
    await expect(page.get_by_role("alert")).to_contain_text("Your access has ended.")


async def test_texts_of_scripts_and_people_are_texts(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HOSTILE_SCRIPT)
    page = await open_page(await new_link(server, "hostile"))
    await begin(page)
    await say(page, " ".join(HOSTILE))
    await expect(page.get_by_role("button", name="<svg onload=alert(3)>")).to_be_visible()
    await expect(page.get_by_role("log")).to_contain_text("onerror=\"alert('image')\"")
    assert await page.evaluate("document.querySelectorAll('main img, main svg, main script, h1 b').length") == 0
    assert await page.locator("a[href^=javascript]").count() == 0


async def test_the_page_has_the_language_of_the_script(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(ARABIC)
        await api.publish_script(ARABIC.replace("arabic", "chinese").replace("ar\n", "zh\n").replace("محادثة", "对话"))
    page = await open_page(await new_link(server, "arabic"), width=360)
    await begin(page)
    log = page.get_by_role("log")
    assert await log.evaluate("each => [getComputedStyle(each).direction, each.lang]") == ["rtl", "ar"]
    assert await violations(page) == []
    page = await open_page(await new_link(server, "chinese"))
    await page.get_by_role("button", name="开始").click()
    await expect(page.get_by_label("消息")).to_be_visible()
    assert await page.evaluate("[document.documentElement.lang, localStorage.getItem('cuebook.language')]") == [
        "zh",
        None,
    ]


@asynccontextmanager
async def shop(port: int, server: str, link: str) -> AsyncIterator[str]:
    """Serve a page of another origin, with a strict security policy, that shows the chat page of a link."""
    page = (
        '<!doctype html><html lang="en"><title>A shop</title><main><h1>A shop</h1></main>'
        f'<script src="{server}/widget.js" data-link="{link}" data-label="Ask us" defer></script>'
    )
    policy = f"default-src 'none'; script-src {server}; frame-src {server}"
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: {policy}\r\nConnection: close\r\n\r\n"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write((head + page).encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield f"http://127.0.0.1:{port}/"


async def test_a_page_of_another_site_has_the_chat_in_a_frame(
    open_page: OpenPage, serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = free_port()
    server = serve(folder=tmp_path_factory.mktemp("framed"), CUEBOOK_CORS_ORIGINS=f"http://127.0.0.1:{port}")
    await server.ready()
    async with shop(port, server.url, (await new_link(server)).removeprefix("/chat/")) as address:
        page = await open_page("/sign-in")
        await page.goto(address)
        button = page.get_by_role("button", name="Ask us")
        await button.click()
        frame = page.frame_locator("iframe")
        await frame.get_by_role("button", name="Begin").click()
        await frame.get_by_label("Message").fill("Ana")
        await page.keyboard.press("Enter")
        await expect(frame.get_by_role("log")).to_contain_text("How old are you, Ana?")
        await page.keyboard.press("Escape")
        await expect(button).to_be_focused()
        await button.click()
        await expect(frame.get_by_role("log")).to_contain_text("How old are you, Ana?")
        assert await page.evaluate("Object.keys(localStorage).length") == 0


async def test_a_site_that_is_not_named_shows_no_chat(open_page: OpenPage, server: ServerProcess) -> None:
    link = (await new_link(server)).removeprefix("/chat/")
    async with shop(free_port(), server.url, link) as address:
        page = await open_page("/sign-in")
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text))
        await page.goto(address)
        await page.get_by_role("button", name="Ask us").click()
        await expect(page.get_by_role("button", name="Close")).to_be_visible()
        await expect(page.frame_locator("iframe").get_by_role("button", name="Begin")).to_have_count(0)
        assert "frame-ancestors" in " ".join(refused)
