"""Review: people rate conversations in a browser, blind to each other, and see how well they agree."""

import asyncio
import csv
import io
from pathlib import Path

from playwright.async_api import Page, Route, expect

from tests.console.conftest import OpenPage
from tests.support.server_process import ServerProcess


async def talked(server: ServerProcess, count: int) -> list[str]:
    """Return the ids of sessions in which a user has said something, the newest first."""
    sessions = []
    async with server.client() as api:
        for number in range(count):
            session = await api.create_session("visit", user=f"user{number}")
            await api.send_texts(session, f"Ana {number}")
            sessions.append(session["sessionId"])
    return sessions[::-1]


async def create(open_page: OpenPage) -> Page:
    page = await open_page("/reviews")
    await page.get_by_role("button", name="New review").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Warmth")
    await dialog.get_by_label("Question", exact=True).fill("How warm is it?")
    await dialog.get_by_role("button", name="Add a question").click()
    await dialog.get_by_label("Question", exact=True).nth(1).fill("What else?")
    await dialog.get_by_label("Kind").nth(1).select_option(label="Text")
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="Warmth")).to_be_visible()
    return page


async def test_sessions_are_rated_one_after_the_other_and_exported(
    open_page: OpenPage, server: ServerProcess, tmp_path: Path
) -> None:
    sessions = await talked(server, 2)
    page = await create(open_page)
    talk = page.get_by_role("log")
    await expect(page.get_by_text("0 of 2 rated")).to_be_visible()
    await expect(talk).to_contain_text("Ana 1")
    await page.get_by_label("4").check()
    await page.get_by_label("What else?").fill("Kind words.")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("1 of 2 rated")).to_be_visible()
    await expect(talk).to_contain_text("Ana 0")
    await expect(talk).to_be_focused()  # the keyboard continues at the next conversation
    await expect(page.get_by_label("4")).not_to_be_checked()
    await page.get_by_role("button", name="Previous").click()
    await expect(page.get_by_label("4")).to_be_checked()
    await expect(page.get_by_label("What else?")).to_have_value("Kind words.")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Ratings as CSV").click()
    file = tmp_path / "ratings.csv"
    await (await downloading.value).save_as(file)
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [(row["session_id"], row["question"], row["answer"]) for row in rows] == [
        (sessions[0], "how_warm_is_it", "4"),
        (sessions[0], "what_else", "Kind words."),
    ]


async def test_answers_stay_with_their_session_however_fast_a_rater_is(
    open_page: OpenPage, server: ServerProcess
) -> None:
    sessions = await talked(server, 3)
    page = await create(open_page)
    talk, remark = page.get_by_role("log"), page.get_by_label("What else?")
    await expect(talk).to_contain_text("Ana 2")
    await remark.fill("Not saved yet.")
    may_answer = asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route(f"**/api/sessions/{sessions[1]}/messages*", answer_later)
    await page.get_by_role("button", name="Next").click()
    await expect(remark).to_have_value("")
    await page.get_by_role("button", name="Next").click()
    await expect(talk).to_contain_text("Ana 0")
    async with page.expect_response(f"**/api/sessions/{sessions[1]}/messages*"):
        may_answer.set()
    await page.wait_for_timeout(200)
    await expect(talk).to_contain_text("Ana 0")
    await page.get_by_role("button", name="Previous").click()
    await page.get_by_role("button", name="Previous").click()
    await expect(talk).to_contain_text("Ana 2")
    await expect(remark).to_have_value("Not saved yet.")
    await page.get_by_label("3").check()
    await page.reload()
    await expect(remark).to_have_value("Not saved yet.")
    await expect(page.get_by_label("3")).to_be_checked()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("1 of 3 rated")).to_be_visible()


async def test_a_long_conversation_is_shown_to_its_end(open_page: OpenPage, server: ServerProcess) -> None:
    text = "cuebook: 1\nscript: visit\nactions:\n" + "".join(f"  - say: Line {n}.\n" for n in range(210))
    async with server.client() as api:
        await api.publish_script(f"{text}  - ask: The end?\n    into: end\n", strict=False)
    await talked(server, 1)
    page = await create(open_page)
    await expect(page.get_by_role("log")).to_contain_text("The end?")


async def test_agreement_is_shown_and_a_closed_review_takes_no_rating(
    open_page: OpenPage, server: ServerProcess
) -> None:
    await talked(server, 1)
    page = await create(open_page)
    await page.get_by_role("tab", name="Results").click()
    await expect(page.get_by_role("row", name="How warm is it?")).to_contain_text("none yet")
    await page.get_by_role("button", name="Close the review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Close the review").click()
    await expect(page.get_by_text("closed", exact=True)).to_be_visible()
    await page.get_by_role("tab", name="Rate").click()
    await expect(page.get_by_text("This review is closed.")).to_be_visible()
    await expect(page.get_by_role("button", name="Save")).to_be_disabled()


async def test_a_review_is_deleted(open_page: OpenPage, server: ServerProcess) -> None:
    await talked(server, 1)
    page = await create(open_page)
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no reviews.")).to_be_visible()
