"""Reminders: what a browser gets when its session speaks by itself, as a push service sees it."""

from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from api.notifications import web_push
from store.duckdb.database import Database
from store.interface.retention_rows import Policy
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.push_browser import BrowserSubscription, encoded
from tests.support.webhook_receiver import Delivery, Receiver

PUSH = "/api/participants/session/push"
CONTACT = "mailto:operator@example.org"
SAID = "The appointment at the clinic is today."
DIARY = f"""\
cuebook: 1
script: diary_study
title: A diary
actions:
  - say: Until tomorrow.
  - wait: 1 day
    id: pause
  - say: {SAID}
  - {{ask: How are you?, into: mood, id: mood}}
"""


def claims_of(delivery: Delivery, audience: str) -> Any:
    """Return what the server says of itself, after verifying its signature."""
    scheme, _, parameters = delivery.headers["authorization"].partition(" ")
    assert scheme == "vapid"
    named = dict(each.split("=", 1) for each in parameters.split(", "))
    point = urlsafe_b64decode(named["k"] + "=")
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return named["k"], jwt.decode(named["t"], key, algorithms=["ES256"], audience=audience)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_push, "FIRST_DELAY_S", 0.001)


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path) -> AsyncIterator[ApiClient]:
    async with app(tmp_path, web_push_contact=CONTACT) as client:
        await client.publish_script(DIARY)
        yield client


async def enter(api: ApiClient) -> tuple[dict[str, Any], dict[str, str]]:
    """Begin a session through a link; return the entry, and the headers of the participant."""
    body = {"scriptId": "diary_study", "linkId": "our-study"}
    assert (await api.post("/api/links", json=body)).status_code in {201, 409}
    entry = (await api.post("/api/links/our-study/sessions", json={"locale": "en"})).json()
    headers = {"Authorization": f"Bearer {entry['token']}"}
    assert (await api.post("/api/participants/session", headers=headers)).status_code == 200
    return entry, headers


async def fire(api: ApiClient, session_id: str) -> None:
    timer = (await api.read("/api/timers", sessionId=session_id))["data"][0]["timerId"]
    fired = await api.post(f"/api/sessions/{session_id}/timers/fire", json={"timerId": timer})
    assert fired.status_code == 200, fired.text


async def test_browser_is_reminded_without_any_text(api: ApiClient, receiver: Receiver) -> None:
    entry, headers = await enter(api)
    browser = BrowserSubscription(f"{receiver.url}of-ana")
    assert (await api.put(PUSH, json=browser.json(), headers=headers)).status_code == 204
    receiver.will(201)
    await fire(api, entry["sessionId"])
    [sent] = await receiver.wait_for(1)
    assert browser.read(sent) == {"title": "A diary", "link": "our-study", "locale": "en"}
    assert SAID.encode() not in sent.body
    assert (sent.path, sent.headers["ttl"], sent.headers["urgency"]) == ("/of-ana", "86400", "normal")
    key, claims = claims_of(sent, receiver.url.rstrip("/"))
    assert (key, claims["sub"]) == (entry["pushKey"], CONTACT)


async def test_person_who_talks_reaches_a_browser(api: ApiClient, receiver: Receiver) -> None:
    entry, headers = await enter(api)
    browser = BrowserSubscription(receiver.url)
    await api.put(PUSH, json=browser.json(), headers=headers)
    path = f"/api/sessions/{entry['sessionId']}"
    await fire(api, entry["sessionId"])
    await receiver.wait_for(1)
    await api.post(f"{path}/take-over")
    assert (await api.post(f"{path}/speak", json={"content": "I am Ines."})).status_code == 200
    assert browser.read((await receiver.wait_for(2))[1])["link"] == "our-study"


async def test_answers_to_the_participant_are_no_reminders(api: ApiClient, receiver: Receiver) -> None:
    entry, headers = await enter(api)
    await api.put(PUSH, json=BrowserSubscription(receiver.url).json(), headers=headers)
    await fire(api, entry["sessionId"])
    await receiver.wait_for(1)
    await api.post("/api/participants/session/messages", json={"content": "Fine"}, headers=headers)
    assert (await api.delete(PUSH, headers=headers)).status_code == 204
    assert len(receiver.deliveries) == 1


@pytest.mark.gate
async def test_service_that_is_down_is_tried_again(api: ApiClient, receiver: Receiver) -> None:
    entry, headers = await enter(api)
    browser = BrowserSubscription(receiver.url)
    await api.put(PUSH, json=browser.json(), headers=headers)
    receiver.will(503, times=2)
    receiver.will(201)
    await fire(api, entry["sessionId"])
    sent = await receiver.wait_for(3)
    assert [each.status for each in sent] == [503, 503, 201]
    assert browser.read(sent[2]) == browser.read(sent[0])
    assert sent[0].body != sent[2].body  # each is encrypted with keys of its own


async def test_browser_that_is_gone_is_forgotten(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, web_push_contact=CONTACT) as api:
        await api.publish_script(DIARY)
        entry, headers = await enter(api)
        await api.put(PUSH, json=BrowserSubscription(receiver.url).json(), headers=headers)
        receiver.will(410)
        await fire(api, entry["sessionId"])
        await receiver.wait_for(1)
    assert subscriptions(tmp_path) == []


def subscriptions(folder: Path) -> list[Any]:
    database = Database.open(folder)
    cursor = database.cursor()
    found = cursor.execute("SELECT push FROM participants WHERE push IS NOT NULL").fetchall()
    cursor.close()
    database.close()
    return found


async def test_browsers_are_remembered_over_a_restart(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, web_push_contact=CONTACT) as api:
        await api.publish_script(DIARY)
        entry, headers = await enter(api)
        browser = BrowserSubscription(receiver.url)
        await api.put(PUSH, json=browser.json(), headers=headers)
    async with app(tmp_path, web_push_contact=CONTACT) as api:
        again = (await api.post("/api/links/our-study/sessions", json={"resume": entry["resume"]})).json()
        assert again["pushKey"] == entry["pushKey"]
        await fire(api, entry["sessionId"])
        assert browser.read((await receiver.wait_for(1))[0])["title"] == "A diary"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"endpoint": "http://push.example.com/x"}, "https://"),
        ({"endpoint": "https://10.0.0.8/x"}, "not permitted"),
        ({"endpoint": "https://169.254.169.254/x"}, "not permitted"),
        ({"endpoint": "no address"}, "url"),
        ({"keys": {"p256dh": "AAAA", "auth": encoded(bytes(16))}}, "P-256"),
        ({"keys": {"p256dh": "ä", "auth": "ä"}}, "P-256"),
    ],
)
async def test_addresses_and_keys_that_are_none_are_refused(
    api: ApiClient, changed: dict[str, Any], problem: str
) -> None:
    _, headers = await enter(api)
    body = BrowserSubscription("https://push.example.com/x").json() | changed
    refused = await api.put(PUSH, json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")
    assert problem in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "address", ["https://10.1.2.3/push", "https://127.0.0.1:9000/push", "http://push.example.org/"]
)
async def test_targets_of_webhooks_are_none_of_reminders(app: OpenApp, tmp_path: Path, address: str) -> None:
    """Anybody with a link names the address of a browser; the operator permits targets for the webhooks of admins."""
    own: dict[str, Any] = {"webhook_private_targets": ["10.0.0.0/8", "127.0.0.1:9000"], "webhooks_http": True}
    own["host"] = "0.0.0.0"  # noqa: S104  (not only from this machine, which a server may always reach)
    async with app(tmp_path, web_push_contact=CONTACT, **own) as api:
        await api.publish_script(DIARY)
        _, headers = await enter(api)
        answer = await api.put(PUSH, json=BrowserSubscription(address).json(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")
        assert answer.json()["error"]["details"][0]["field"] == "endpoint"
        assert "webhook" not in answer.text


async def test_without_a_contact_none_are_offered(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(DIARY)
        entry, headers = await enter(api)
        assert entry["pushKey"] is None
        body = BrowserSubscription("https://push.example.com/x").json()
        assert (await api.put(PUSH, json=body, headers=headers)).status_code == 400
    assert not (tmp_path / web_push.KEY_FILE).exists()


async def test_redacted_session_keeps_no_address_of_a_browser(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    async with app(tmp_path, web_push_contact=CONTACT, retention=[Policy(after_days=30)], clock=lambda: now) as api:
        await api.publish_script(DIARY)
        entry, headers = await enter(api)
        await api.put(PUSH, json=BrowserSubscription(receiver.url).json(), headers=headers)
        await fire(api, entry["sessionId"])  # a session that waits for a moment is not idle
        assert (await api.read("/api/participants"))["data"][0]["isReminded"]
        now += timedelta(days=31)
        assert (await api.post("/api/operations/retention")).json()["redacted"] == 1
        assert not (await api.read("/api/participants"))["data"][0]["isReminded"]
    assert subscriptions(tmp_path) == []
