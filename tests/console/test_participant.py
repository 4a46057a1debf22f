"""A participant of a study on a phone: agrees, answers, closes the page, comes back tomorrow and finishes."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import OpenPage, Restart
from tests.support.faulty_files import Faults

pytestmark = pytest.mark.gate

STUDY = """\
cuebook: 1
script: sleep_study
title: Sleep in two days
locale: en
declare:
  - {var: agrees, define: whether the participant takes part, type: boolean}
actions:
  - say: We ask you three questions today and one tomorrow. In a crisis, call 112.
  - {ask: Do you want to take part?, into: {var: agrees, type: boolean}, id: consent}
  - {ask: How did you sleep?, into: sleep, id: sleep}
  - choose: Did you dream?
    id: dream
    into: dream
    choices: [{key: "yes", text: "Yes"}, {key: "no", text: "No"}]
  - {ask: When did you get up?, into: up, id: up}
  - say: Thank you. Come back tomorrow.
  - wait: 1 day
    id: night
  - {ask: And how did you sleep last night?, into: again, id: again}
  - say: That was all. Thank you.
"""
BEGIN = """
- main:
  - heading "Sleep in two days" [level=1]
  - paragraph: /When you come back on this device/
  - button "Begin"
"""
CHOICE = """
- banner:
  - heading "Sleep in two days" [level=1]
- main:
  - log "Conversation":
    - text: "Assistant:"
    - paragraph: We ask you three questions today and one tomorrow. In a crisis, call 112.
    - text: "Assistant:"
    - paragraph: Do you want to take part?
    - text: "User:"
    - paragraph: "yes"
    - text: "Assistant:"
    - paragraph: How did you sleep?
    - text: "User:"
    - paragraph: Well
    - text: "Assistant:"
    - paragraph: Did you dream?
- contentinfo:
  - group "Choose one":
    - button "Yes"
    - button "No"
  - textbox "Message"
  - button "Send" [disabled]
"""
"""The page as a screen reader presents it."""


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log").get_by_text(text, exact=True)).to_be_visible()


async def test_participant_comes_back_tomorrow_and_finishes(
    open_page: OpenPage, restart: Restart, tmp_path: Path
) -> None:
    page = await open_page("/", width=360)
    faults = Faults(tmp_path)
    study = await restart(**faults.environment)
    async with study.client() as api:
        await api.publish_script(STUDY, strict=False)
        await api.post("/api/links", json={"scriptId": "sleep_study", "linkId": "sleep-study"})
        await page.goto(f"{study.url}/chat/sleep-study")
        await expect(page.locator("body")).to_match_aria_snapshot(BEGIN)
        await page.get_by_role("button", name="Begin").click()
        await expect(page.get_by_role("log")).to_contain_text("Do you want to take part?")
        await say(page, "yes")
        await expect(page.get_by_role("log")).to_contain_text("How did you sleep?")
        await say(page, "Well")
        await expect(page.get_by_role("button", name="Yes")).to_be_visible()
        await expect(page.locator("body")).to_match_aria_snapshot(CHOICE)
        await page.get_by_role("button", name="No", exact=True).click()
        await say(page, "At seven")
        await expect(page.get_by_role("log")).to_contain_text("Come back tomorrow.")
        session = (await api.read("/api/participants"))["data"][0]["sessionId"]
        await page.goto("about:blank")  # the page is closed
        faults.begin(seconds_wrong=25 * 3_600)
        await api.post(f"/api/sessions/{session}/timers/arm")  # the scheduler sleeps by another clock
        await page.goto(f"{study.url}/chat/sleep-study")
        await expect(page.get_by_role("log")).to_contain_text("And how did you sleep last night?")
        await say(page, "Badly")
        await expect(page.get_by_role("log")).to_contain_text("That was all. Thank you.")
        await expect(page.get_by_text("The conversation is over.")).to_be_visible()
        said = (await api.read(f"/api/sessions/{session}/messages"))["data"]
        answers = [each["content"] for each in said if each["role"] == "user"]
        assert answers == ["yes", "Well", "No", "At seven", "Badly"]
