"""Reminders of the chat page: turned on by a participant, shown while the page is closed."""

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import OpenPage, Restart
from tests.support.push_browser import BrowserSubscription
from tests.support.server_process import ServerProcess
from tests.support.webhook_receiver import Receiver

pytestmark = pytest.mark.gate

CONTACT = "mailto:operator@example.org"
DIARY = """\
cuebook: 1
script: diary_study
title: A diary
actions:
  - say: Until tomorrow.
  - wait: 1 day
  - say: The appointment is today.
  - {ask: How are you?, into: mood, id: mood}
"""
# the browser of the tests reaches no push service, so that its subscription is ours
SUBSCRIPTION = """
const subscription = { toJSON: () => (%s), unsubscribe: async () => localStorage.removeItem("subscribed") }
const found = async () => (localStorage.getItem("subscribed") ? subscription : null)
PushManager.prototype.getSubscription = found
PushManager.prototype.subscribe = async (options) => {
  localStorage.setItem("subscribed", options.applicationServerKey)
  return subscription
}
"""
ARE_SHOWN = """async (expected) => {
  const registration = await navigator.serviceWorker.getRegistration("/chat/")
  const shown = (await registration.getNotifications()).map((each) => [each.title, each.body, each.data])
  return JSON.stringify(shown) === JSON.stringify(expected)
}"""


async def deliver(page: Page, reminder: dict[str, Any]) -> None:
    """Hand a reminder to the worker, as the browser does with what comes from its push service."""
    session = await page.context.new_cdp_session(page)
    registered: asyncio.Queue[str] = asyncio.Queue()

    def note(event: dict[str, Any]) -> None:
        for each in event["registrations"]:
            registered.put_nowait(each["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", note)
    await session.send("ServiceWorker.enable")
    origin = await page.evaluate("location.origin")
    message = {"origin": origin, "registrationId": await registered.get(), "data": json.dumps(reminder)}
    await session.send("ServiceWorker.deliverPushMessage", message)
    await session.detach()


async def test_participant_is_reminded_while_the_page_is_closed(open_page: OpenPage, restart: Restart) -> None:
    page = await open_page("/")
    reminding = await restart(CUEBOOK_WEB_PUSH_CONTACT=CONTACT)
    async with Receiver().serving() as receiver, reminding.client() as api:
        browser = BrowserSubscription(receiver.url)
        await page.context.grant_permissions(["notifications"], origin=reminding.url)
        await page.context.add_init_script(SUBSCRIPTION % json.dumps(browser.json()))
        await api.publish_script(DIARY, strict=False)
        await api.post("/api/links", json={"scriptId": "diary_study", "linkId": "our-study"})
        await page.goto(f"{reminding.url}/chat/our-study")
        await page.get_by_role("button", name="Begin").click()
        await page.get_by_role("button", name="Remind me").click()
        await expect(page.get_by_text("This device reminds you of new messages.")).to_be_visible()
        timer = (await api.read("/api/timers"))["data"][0]
        await page.reload()  # what was turned on stays on
        await expect(page.get_by_text("This device reminds you of new messages.")).to_be_visible()
        await api.post(f"/api/sessions/{timer['sessionId']}/timers/fire", json={"timerId": timer["timerId"]})
        reminder = browser.read((await receiver.wait_for(1))[0])
        await expect(page.get_by_role("log")).to_contain_text("The appointment is today.")
        await page.goto(f"{reminding.url}/operate")  # the chat page is closed
        await deliver(page, reminder)
        shown = ["A diary", "There is a new message for you.", "our-study"]
        await page.wait_for_function(ARE_SHOWN, arg=[shown])
        await page.goto(f"{reminding.url}/chat/our-study")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("button", name="Remind me")).to_be_visible()
        assert not (await api.read("/api/participants"))["data"][0]["isReminded"]


async def test_server_without_a_contact_offers_none(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(DIARY, strict=False)
        await api.post("/api/links", json={"scriptId": "diary_study", "linkId": "our-study"})
    page = await open_page("/chat/our-study")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("log")).to_contain_text("Until tomorrow.")
    await expect(page.get_by_role("button", name="Remind me")).to_have_count(0)


async def test_script_that_only_answers_offers_none(open_page: OpenPage, restart: Restart) -> None:
    page = await open_page("/")
    reminding = await restart(CUEBOOK_WEB_PUSH_CONTACT=CONTACT)
    async with reminding.client() as api:
        await api.post("/api/links", json={"scriptId": "visit", "linkId": "our-visit"})
    await page.goto(f"{reminding.url}/chat/our-visit")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("log")).to_contain_text("What may I call you?")
    await expect(page.get_by_role("button", name="Remind me")).to_have_count(0)
