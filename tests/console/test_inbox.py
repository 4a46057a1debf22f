"""The inbox in a browser: a person takes a session over, talks to a participant, and gives it back."""

import asyncio
import re

import pytest
from playwright.async_api import Route, expect

from tests.console.conftest import OpenPage, begin_long_session
from tests.support.server_process import ServerProcess

HELP = """\
cuebook: 1
script: help
title: Help
actions:
  - {ask: What is wrong?, into: problem}
  - {emit: hand_over}
  - {ask: How bad is it?, into: pain}
  - {say: "Noted: {{ pain }}."}
"""


async def test_person_talks_to_a_participant_and_returns_the_session(
    open_page: OpenPage, server: ServerProcess
) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        link = (await api.post("/api/links", json={"scriptId": "help"})).json()["linkId"]
    chat, inbox = await open_page(f"/chat/{link}"), await open_page("/inbox")
    await chat.get_by_role("button", name="Begin").click()
    await chat.get_by_role("textbox").fill("My knee hurts.")
    await chat.keyboard.press("Enter")
    await expect(chat.get_by_text("How bad is it?")).to_be_visible()
    await expect(inbox.get_by_text("waits for a person")).to_be_visible(timeout=15_000)  # the list renews itself
    await inbox.get_by_role("table").get_by_role("link").click()
    await inbox.get_by_role("button", name="Take over").click()
    await expect(inbox.get_by_text("You talk")).to_be_visible()
    await expect(inbox.get_by_role("textbox", name="Message")).to_be_focused()
    await inbox.route("**/speak", lambda route: route.abort("connectionreset"), times=1)
    await inbox.get_by_role("textbox", name="Message").fill("Hello, this is Kim.")
    await inbox.keyboard.press("Enter")
    await expect(inbox.get_by_text("This message was not sent:")).to_be_visible()
    await inbox.get_by_role("button", name="Send again").click()
    await expect(chat.get_by_text("Hello, this is Kim.")).to_be_visible()
    await expect(chat.get_by_text("A person")).to_be_visible()
    await chat.get_by_role("textbox").fill("It hurts a lot.")
    await chat.keyboard.press("Enter")
    await expect(inbox.get_by_role("log")).to_contain_text("It hurts a lot.")
    await inbox.get_by_role("button", name="Give back").click()
    await expect(inbox.get_by_text("The script talks")).to_be_visible()
    await expect(inbox.get_by_role("main")).to_be_focused()  # the button is gone
    await expect(chat.get_by_text("How bad is it?")).to_have_count(2)
    await chat.get_by_role("textbox").fill("Seven")
    await chat.keyboard.press("Enter")
    await expect(chat.get_by_text("Noted: Seven.")).to_be_visible()
    await expect(inbox.get_by_role("status").filter(has_text=re.compile("over"))).to_be_visible()


async def test_messages_before_the_last_200_are_read_on_request(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/inbox/{await begin_long_session(server)}")
    said = page.get_by_role("log")
    await expect(said).to_contain_text("Line 230.")
    await page.get_by_role("button", name="Take over").click()
    await expect(said.get_by_text("Line 1.", exact=True)).to_have_count(0)
    await expect(page.get_by_text("You talk")).to_be_visible()
    earlier = page.get_by_role("button", name="Show earlier messages")
    await expect(earlier).to_be_enabled()  # not while the session is read
    await earlier.press("Enter")
    await expect(said.get_by_text("Line 1.", exact=True)).to_be_visible()
    await expect(said.get_by_text("Line 34.", exact=True)).to_be_in_viewport()  # what was read stays where it is
    await page.get_by_role("textbox", name="Message").fill("Hello, this is Kim.")
    await page.keyboard.press("Enter")
    await expect(said).to_contain_text("Hello, this is Kim.")
    assert await said.get_by_text("Line ").count() == 230
    await expect(page.get_by_role("button", name="Show earlier messages")).to_have_count(0)


async def test_sessions_that_wait_are_counted_on_every_screen(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        ended, waiting = await api.create_session("help"), await api.create_session("help")
        for session in (ended, waiting):
            await api.send_texts(session, "My knee hurts.")
        await api.send_texts(ended, "Seven")
        page = await open_page("/sessions")
        await expect(page).to_have_title("(1) Sessions · Cuebook")
        await expect(page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
        await api.post(f"/api/sessions/{waiting['sessionId']}/take-over")
        await expect(page).to_have_title("Sessions · Cuebook", timeout=20_000)
    await expect(page.get_by_role("link", name="Inbox", exact=True)).to_be_visible()


async def test_typed_text_is_there_after_the_page_was_loaded_again(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        session = await api.create_session("help")
        await api.send_texts(session, "My knee hurts.")
    page = await open_page(f"/inbox/{session['sessionId']}")
    await page.get_by_role("button", name="Take over").click()
    typed = page.get_by_role("textbox", name="Message")
    await typed.fill("Hello, this is")
    await page.reload()
    await expect(typed).to_have_value("Hello, this is")
    await page.goto(page.url.replace("/inbox/", "/sessions/"))
    await page.go_back()
    await expect(typed).to_have_value("Hello, this is")
    await typed.fill("Hello, this is Kim.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_contain_text("Hello, this is Kim.")
    await page.reload()
    await expect(page.get_by_role("log")).to_contain_text("Hello, this is Kim.")
    await expect(typed).to_have_value("")


async def test_double_click_takes_over_and_does_not_give_back(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        session = await api.create_session("help")
    page = await open_page(f"/inbox/{session['sessionId']}")
    await expect(page.get_by_text("The script talks")).to_be_visible()
    await page.get_by_role("button", name="Take over").dblclick(delay=150)
    await expect(page.get_by_text("You talk")).to_be_visible()
    await page.wait_for_timeout(500)
    await expect(page.get_by_text("You talk")).to_be_visible()


async def test_ended_conversation_cannot_be_taken_over(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        session = await api.create_session("help")
        await api.send_texts(session, "My knee hurts.", "Seven")
    page = await open_page("/inbox")
    await page.get_by_role("table").get_by_role("link").click()
    await expect(page.get_by_text("wanted a person; the conversation is over")).to_be_visible()
    await expect(page.get_by_role("button", name="Take over")).to_have_count(0)
    await page.get_by_role("link", name="Timeline").click()
    await expect(page.get_by_role("link", name="Continue in Play")).to_be_visible()
    await expect(page.get_by_role("link", name="Take over")).to_have_count(0)
    await page.go_back()
    await page.get_by_role("button", name="Nobody is needed").click()
    await expect(page.get_by_role("status")).to_have_text("The conversation is over.")


async def test_request_that_needs_nobody_is_dismissed(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        session = await api.create_session("help")
        await api.send_texts(session, "My knee hurts.")
    page = await open_page("/inbox")
    await page.get_by_label("Language").select_option("zh")
    await page.get_by_role("table").get_by_role("link").click()
    await page.get_by_role("button", name="不需要人工").click()
    await expect(page.get_by_text("脚本正在对话")).to_be_visible()
    await page.get_by_role("link", name="← 收件箱").click()
    await expect(page.get_by_text("没有人在等待人工服务。")).to_be_visible()


async def test_pictures_are_links_for_the_person_who_talks(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        show = "  - show: {image: 'https://example.org/lake', caption: A lake}\n  - ask: Well?\n"
        await api.publish_script(f"cuebook: 1\nscript: picture\nactions:\n{show}", strict=False)
        session = await api.create_session("picture")
    page = await open_page(f"/inbox/{session['sessionId']}")
    await expect(page.get_by_role("link", name="https://example.org/lake")).to_be_visible()


@pytest.mark.parametrize(("screen", "last"), [("inbox", "**/snapshots?*"), ("play", "**/api/scripts/*")])
async def test_session_that_is_left_while_it_is_read_has_no_stream(
    open_page: OpenPage, server: ServerProcess, screen: str, last: str
) -> None:
    async with server.client() as api:
        await api.publish_script(HELP, strict=False)
        session = await api.create_session("help")
    page = await open_page("/operate")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    may_answer = asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/snapshots?*", answer_later, times=1)
    async with page.expect_request("**/snapshots?*"):
        await page.evaluate("address => history.pushState(null, '', address)", f"/{screen}/{session['sessionId']}")
        await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    await page.get_by_role("link", name="Review", exact=True).click()
    await expect(page.get_by_role("heading", name="Review")).to_be_visible()
    async with page.expect_response(last):
        may_answer.set()
    await page.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert [url for url in asked if "/events" in url] == []


async def test_person_who_reads_earlier_messages_stays_there(open_page: OpenPage, server: ServerProcess) -> None:
    session = await begin_long_session(server)
    page = await open_page(f"/inbox/{session}")
    said = page.get_by_role("log")
    await expect(said.get_by_text("Line 230.")).to_be_in_viewport()
    await said.get_by_text("Line 100.", exact=True).scroll_into_view_if_needed()
    async with server.client() as api:
        await api.send_texts({"sessionId": session}, "Very well.")
    await expect(said).to_contain_text("Very well.")
    await expect(said.get_by_text("Line 100.", exact=True)).to_be_in_viewport()
