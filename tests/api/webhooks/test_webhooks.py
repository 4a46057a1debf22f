"""Webhooks: events are delivered in order, signed and repeated until accepted; none is lost, no secret is shown."""

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.cli.backend import backend
from api.settings import Settings
from api.webhooks import dispatcher
from api.webhooks.sender import Sender
from api.webhooks.signing import verify_webhook
from api.webhooks.ssrf import AddressPolicy
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.ports import free_port
from tests.support.webhook_receiver import Receiver

QUICK = {"webhook_retry_s": 0.01}
SETTLED_S = 200.0  # of a busy machine, on which the lease of a delivery, a minute, may end before it is sent
BOOKING = """
script: booking
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - emit: {event: opened, data: {by: "'visitor'"}}
            id: opened
          - {ask: Which day?, id: day, output: [{get: day}]}
          - emit: {event: booked, data: {day: day}}
            id: booked
          - {say: Done., id: done}
"""


async def hooked(api: ApiClient, receiver: Any, *events: str, path: str = "", **fields: Any) -> Any:
    """Return a new webhook to the receiver."""
    body = {"url": receiver.url + path, "events": list(events or ["*"]), **fields}
    answer = await api.post("/api/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def at(webhook: Any, *more: str) -> str:
    return "/".join([f"/api/webhooks/{webhook['webhookId']}", *more])


async def listed(api: ApiClient, webhook: Any, **query: Any) -> list[Any]:
    """Return the deliveries to a webhook, the oldest first."""
    found: list[Any] = (await api.read(at(webhook, "deliveries"), limit=200, **query))["data"]
    return found[::-1]


async def settled(api: ApiClient, webhook: Any, status: str, count: int) -> list[Any]:
    """Wait until so many deliveries came to this."""
    until = time.monotonic() + SETTLED_S
    while len(found := await listed(api, webhook, status=status)) < count:
        assert time.monotonic() < until, await listed(api, webhook)
        await asyncio.sleep(0.01)
    return found


async def became(api: ApiClient, webhook: Any, **wanted: Any) -> Any:
    """Wait until a webhook is like this."""
    until = time.monotonic() + SETTLED_S
    while True:
        found = await api.read(at(webhook))
        if wanted.items() <= found.items():
            return found
        assert time.monotonic() < until, found
        await asyncio.sleep(0.01)


def holding(folder: Path, text: str) -> list[str]:
    """Return the files of a folder that hold a text, or that others may read though they hold a key."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    keys = [file for file in files if file.name.endswith("-key") and file.stat().st_mode & 0o077]
    return [file.name for file in [*keys, *(file for file in files if text.encode() in file.read_bytes())]]


# -- deliveries -------------------------------------------------------------------------------------------------------


async def test_a_session_is_delivered_from_its_start_to_its_end(api: ApiClient, receiver: Receiver) -> None:
    await api.publish_script(BOOKING)
    webhook = await hooked(api, receiver)
    session = await api.create_session("booking", key="telegram:42")
    await api.send_texts(session, "Monday")
    await receiver.wait_for(6)
    events = [each.json for each in receiver.deliveries]
    assert [each.event for each in receiver.deliveries] == [
        "0:1 session.created",
        "0:2 emit:opened",
        "0:3 turn",
        "1:1 emit:booked",
        "1:2 turn",
        "1:3 session.completed",
    ]
    turn, booked = events[4], events[3]
    assert turn.keys() == booked.keys() == {"id", "type", "timestamp", "data"}
    assert turn["id"] == f"{session['sessionId']}:1:2"
    common = {
        "sessionId": session["sessionId"],
        "userId": "ana",
        "key": "telegram:42",
        "script": "booking",
        "scriptVersion": 1,
        "turn": 1,
        "status": "completed",
        "executionStatus": "completed",
    }
    assert common.items() <= turn["data"].items()
    assert common.items() <= booked["data"].items()
    assert [(each["role"], each["content"]) for each in turn["data"]["messages"]] == [
        ("user", "Monday"),
        ("assistant", "Done."),
    ]
    assert (turn["data"]["wait"], events[2]["data"]["wait"]) == (None, {"kind": "text"})
    assert events[2]["data"]["position"]["actionId"] == "day"
    assert booked["data"]["event"]["name"] == "booked"
    assert booked["data"]["event"]["data"] == {"day": "Monday"}
    assert "messages" not in booked["data"]
    delivered = await settled(api, webhook, "delivered", 6)
    assert [each["deliveryId"] for each in delivered] == [each.id for each in receiver.deliveries]
    assert {each["attempts"] for each in delivered} == {1}
    one = await api.read(at(webhook, "deliveries", delivered[4]["deliveryId"]))
    assert one["payload"] == turn


@pytest.mark.gate
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["turn"], ["0:3 turn", "1:2 turn"]),
        (["session.*"], ["0:1 session.created", "1:3 session.completed"]),
        (["emit:booked"], ["1:1 emit:booked"]),
        (["emit:*"], ["0:2 emit:opened", "1:1 emit:booked"]),
        (["emit:*ed", "session.completed"], ["0:2 emit:opened", "1:1 emit:booked", "1:3 session.completed"]),
    ],
)
async def test_a_webhook_receives_the_events_it_subscribed_to(
    api: ApiClient, receiver: Receiver, events: list[str], expected: list[str]
) -> None:
    await api.publish_script(BOOKING)
    webhook = await hooked(api, receiver, *events)
    await api.send_texts(await api.create_session("booking"), "Monday")
    assert [each.event for each in await receiver.wait_for(len(expected))] == expected
    assert len(await settled(api, webhook, "delivered", len(expected))) == len(await listed(api, webhook))


async def test_events_before_a_webhook_was_created_are_not_delivered(api: ApiClient, receiver: Receiver) -> None:
    session = await api.create_session("diary")
    await hooked(api, receiver)
    await api.send_texts(session, "one")
    assert [each.event for each in await receiver.wait_for(1)] == ["1:1 turn"]


async def test_a_turn_that_fails_is_not_delivered(api: ApiClient, receiver: Receiver) -> None:
    await api.publish_script("script: broken\nphases: [{phase: p, topics: [{topic: t, actions: [{ask: A?, id: a}, "
                   "{set: {x: 1 / 0}, id: b}, {ask: B?, id: b2}]}]}]", strict=False)  # fmt: skip
    webhook = await hooked(api, receiver, "turn")
    session = await api.create_session("broken")
    assert (await api.send_message(session, {"content": "go"})).status_code == 500
    await api.create_session("diary")
    assert [each.event for each in await receiver.wait_for(2)] == ["0:2 turn", "0:2 turn"]
    assert len(await listed(api, webhook)) == 2


# -- signatures --------------------------------------------------------------------------------------------------------


async def test_deliveries_are_signed(api: ApiClient, receiver: Receiver) -> None:
    webhook = await hooked(api, receiver)
    await api.create_session("diary")
    for each in await receiver.wait_for(2):
        verify_webhook(webhook["secret"], each.headers, each.body)
        with pytest.raises(ValueError, match="not a valid delivery"):
            verify_webhook(webhook["secret"], each.headers, each.body + b" ")


async def test_while_a_secret_is_rotated_both_sign(api: ApiClient, receiver: Receiver) -> None:
    webhook = await hooked(api, receiver)
    rotated = (await api.post(at(webhook, "rotate-secret"))).json()
    assert rotated["secret"] != webhook["secret"]
    assert rotated["oldSecretUntil"] > datetime.now(UTC).isoformat()
    await api.create_session("diary")
    (delivery, *_) = await receiver.wait_for(1)
    assert len(delivery.headers["webhook-signature"].split(" ")) == 2
    for secret in (webhook["secret"], rotated["secret"]):
        verify_webhook(secret, delivery.headers, delivery.body)


async def test_secret_is_shown_once_and_stored_beside_the_database(
    app: OpenApp, receiver: Receiver, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with app(tmp_path, **QUICK) as api:
        webhook = await hooked(api, receiver)
        secret = webhook["secret"]
        receiver.will(500, times=2)
        await api.create_session("diary")
        await settled(api, webhook, "delivered", 2)
        shown = [await api.get(path) for path in ("/api/webhooks", at(webhook), at(webhook, "deliveries"))]
        shown.append(await api.patch(at(webhook), json={"status": "paused"}))
        assert not [answer.text for answer in shown if secret in answer.text or "secret_id" in answer.text]
    printed = capfd.readouterr()
    assert secret not in printed.out + printed.err
    assert holding(tmp_path, secret) == []
    async with app(tmp_path) as api:
        await api.patch(at(webhook), json={"status": "active"})
        answer = await api.post(at(webhook, "test"))
        assert answer.json() == {"delivered": True, "status": 204, "error": None}
        verify_webhook(secret, receiver.deliveries[-1].headers, receiver.deliveries[-1].body)


# -- again until it is heard -------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize("failure", [{"status": 500}, {"status": 404}, {"status": 302}, {"cut": True}])
async def test_what_failed_is_sent_again_with_the_same_id(
    app: OpenApp, receiver: Receiver, tmp_path: Path, failure: dict[str, Any]
) -> None:
    async with app(tmp_path, **QUICK) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(**failure, headers={"Location": receiver.url + "elsewhere"})
        await api.create_session("diary")
        first, second = await receiver.wait_for(2)
        assert (first.id, first.body) == (second.id, second.body)
        (delivered,) = await settled(api, webhook, "delivered", 1)
        assert (delivered["attempts"], delivered["lastStatus"], delivered["lastError"]) == (2, 204, None)
        metrics = (await api.get("/metrics")).text.splitlines()
        attempts = [line for line in metrics if line.startswith("cuebook_webhook_attempts_total")]
        assert attempts == [
            'cuebook_webhook_attempts_total{status="pending"} 1.0',
            'cuebook_webhook_attempts_total{status="delivered"} 1.0',
        ]
        assert "/elsewhere" not in {each.path for each in receiver.deliveries}
        await became(api, webhook, failingSince=None)


async def test_a_failing_delivery_holds_back_its_session_and_no_other(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path, **QUICK) as api:
        await hooked(api, receiver, "turn")
        fails: list[str] = []
        receiver.refuses = lambda reported: reported["data"]["sessionId"] in fails
        held, free = await api.create_session("diary"), await api.create_session("diary")
        await receiver.wait_for(2)
        fails.append(held["sessionId"])
        await api.send_texts(held, "one", "two")
        await api.send_texts(free, "one", "two")
        others = await receiver.wait_for(3, lambda each: each.json["data"]["sessionId"] == free["sessionId"])
        assert [each.event for each in others] == ["0:2 turn", "1:1 turn", "2:1 turn"]
        tried = {each.event for each in receiver.deliveries if each.status == 500}
        assert tried <= {"1:1 turn"}
        fails.clear()
        heard = await receiver.wait_for(
            3, lambda each: each.json["data"]["sessionId"] == held["sessionId"] and each.status == 204
        )
        assert [each.event for each in heard] == ["0:2 turn", "1:1 turn", "2:1 turn"]


async def logged(lines: list[Any], event: str) -> None:
    """Wait for a line of the log."""
    async with asyncio.timeout(SETTLED_S):
        while event not in {line["event"] for line in lines}:  # noqa: ASYNC110 - the log does not say when
            await asyncio.sleep(0.01)


@pytest.mark.gate
async def test_given_up_after_its_attempts_it_can_be_replayed(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, webhook_attempts=3, **QUICK) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(400, times=3)
        with capture_logs() as lines:
            session = await api.create_session("diary")
            await api.send_texts(session, "one")
            (dead,) = await settled(api, webhook, "dead", 1)
            await logged(lines, "deliveries failed permanently")
        assert (dead["turn"], dead["attempts"], dead["lastStatus"], dead["lastError"]) == (0, 3, 400, "status")
        assert dead["nextAttemptAt"] is None
        await settled(api, webhook, "delivered", 1)  # those after it go on
        answer = await api.post(at(webhook, "deliveries", dead["deliveryId"], "replay"))
        assert (answer.status_code, answer.json()["attempts"]) == (202, 0)
        await settled(api, webhook, "delivered", 2)
        assert receiver.deliveries[-1].id == dead["deliveryId"]
        receiver.will(400, times=6)
        await api.create_session("diary")
        await api.create_session("diary")
        await settled(api, webhook, "dead", 2)
        assert (await api.post(at(webhook, "replay"))).json() == {"replayed": 2}
        await settled(api, webhook, "delivered", 4)
        assert (await api.post(at(webhook, "replay"))).json() == {"replayed": 0}


async def test_it_waits_for_as_long_as_it_is_asked_to(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, **QUICK) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(503, headers={"Retry-After": "3600"})
        await api.create_session("diary")
        await receiver.wait_for(1)
        (waits,) = await settled(api, webhook, "pending", 1)
        while waits["lastStatus"] is None:
            await asyncio.sleep(0.01)
            (waits,) = await listed(api, webhook)
        later = datetime.now(UTC) + timedelta(seconds=3_500)
        assert datetime.fromisoformat((await api.read(at(webhook)))["restingUntil"]) > later
        assert (waits["status"], waits["lastStatus"]) == ("pending", 503)
        assert datetime.fromisoformat(waits["nextAttemptAt"]) > later


async def test_a_wait_of_a_year_that_does_not_exist_is_no_wait(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path, **QUICK) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(503, headers={"Retry-After": f"Wed, 04 Mar {10**20} 12:00:00 GMT"})
        tried = (await api.post(at(webhook, "test"))).json()
        assert tried == {"delivered": False, "status": 503, "error": "status"}


async def test_a_receiver_that_is_gone_is_paused_and_nothing_is_lost(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path, **QUICK) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(410)
        with capture_logs() as lines:
            session = await api.create_session("diary")
            assert (await became(api, webhook, status="paused"))["pausedBecause"] == "gone"
            await logged(lines, "webhook paused")
        await api.send_texts(session, "one")
        assert [each["status"] for each in await listed(api, webhook)] == ["pending", "pending"]
        changed = await api.patch(at(webhook), json={"status": "active"})
        assert (changed.json()["pausedBecause"], changed.json()["failingSince"]) == (None, None)
        assert [each.event for each in await receiver.wait_for(3)] == ["0:2 turn", "0:2 turn", "1:1 turn"]


async def test_while_it_is_paused_its_deliveries_wait_for_it(api: ApiClient, receiver: Receiver) -> None:
    webhook = await hooked(api, receiver, "turn")
    paused = (await api.patch(at(webhook), json={"status": "paused"})).json()
    assert (paused["status"], paused["pausedBecause"]) == ("paused", "asked")
    other = await hooked(api, receiver, "turn", path="other")
    await api.create_session("diary")
    assert [each.path for each in await receiver.wait_for(1)] == ["/other"]
    await settled(api, other, "delivered", 1)
    await api.patch(at(webhook), json={"status": "active"})
    assert [each.path for each in await receiver.wait_for(2)] == ["/other", "/"]


async def test_once_it_is_paused_the_next_deliveries_wait(
    api: ApiClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SERIES_S", 60.0)
    webhook = await hooked(api, receiver, "turn")
    await api.patch(at(webhook), json={"status": "paused"})
    await api.send_texts(await api.create_session("diary"), "one", "two")
    receiver.will(wait_s=2)
    await api.patch(at(webhook), json={"status": "active"})  # the three are read together
    await receiver.wait_for(1)
    await api.patch(at(webhook), json={"status": "paused"})
    await settled(api, webhook, "delivered", 1)
    assert [each["status"] for each in await listed(api, webhook)] == ["delivered", "pending", "pending"]
    assert len(receiver.deliveries) == 1
    await api.patch(at(webhook), json={"status": "active"})
    assert [each.event for each in await receiver.wait_for(3)] == ["0:2 turn", "1:1 turn", "2:1 turn"]


async def test_after_a_restart_what_waited_is_sent(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(500)
        session = await api.create_session("diary")
        await api.send_texts(session, "one")
        await receiver.wait_for(1)
    async with app(tmp_path) as api:
        first = (await listed(api, webhook))[0]
        await api.post(at(webhook, "deliveries", first["deliveryId"], "replay"))  # not in 5 seconds, but now
        assert [each.event for each in await receiver.wait_for(3)] == ["0:2 turn", "0:2 turn", "1:1 turn"]


async def test_a_turn_of_a_command_without_a_server_is_delivered_too(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path) as api:
        webhook = await hooked(api, receiver, "turn")
        session = await api.create_session("diary")
        await settled(api, webhook, "delivered", 1)
    async with backend(Settings(data=tmp_path), writing=True) as way:
        await way.send("POST", f"/api/sessions/{session['sessionId']}/messages", {"content": "one"})
    async with app(tmp_path):
        assert [each.event for each in await receiver.wait_for(2)] == ["0:2 turn", "1:1 turn"]


@pytest.mark.parametrize("answer", [{"endless": True}, {"body": "x" * 100_000}])
async def test_of_an_answer_only_the_beginning_is_read(
    app: OpenApp, receiver: Receiver, tmp_path: Path, answer: dict[str, Any]
) -> None:
    async with app(tmp_path) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(200, **answer)
        await api.create_session("diary")
        await settled(api, webhook, "delivered", 1)


async def test_an_answer_that_does_not_come_is_not_waited_for(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, webhook_timeout_s=0.2) as api:
        webhook = await hooked(api, receiver, "turn")
        receiver.will(wait_s=30)
        tried = await api.post(at(webhook, "test"))
        assert tried.json() == {"delivered": False, "status": None, "error": "timeout"}


@pytest.mark.gate
async def test_what_goes_wrong_within_the_server_is_tried_again_too(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path) as api:
        webhook = await hooked(api, receiver, "turn")
    key = (tmp_path / "webhook-key").read_text()
    (tmp_path / "webhook-key").write_text("no key")
    async with app(tmp_path, webhook_attempts=2, **QUICK) as api:
        session = await api.create_session("diary")
        (dead,) = await settled(api, webhook, "dead", 1)
        assert (dead["lastStatus"], dead["lastError"]) == (None, "internal")
        (tmp_path / "webhook-key").write_text(key)
        await api.send_texts(session, "one")
        (delivery,) = await receiver.wait_for(1)
        verify_webhook(webhook["secret"], delivery.headers, delivery.body)


async def test_nobody_listens_there(api: ApiClient) -> None:
    webhook = (
        await api.post("/api/webhooks", json={"url": f"http://127.0.0.1:{free_port()}/", "events": ["*"]})
    ).json()
    assert (await api.post(at(webhook, "test"))).json()["error"] == "connection"


# -- webhooks ----------------------------------------------------------------------------------------------------------


async def test_webhooks_are_made_listed_changed_and_deleted(api: ApiClient, receiver: Receiver) -> None:
    one = await hooked(api, receiver, "turn", description="CRM")
    other = await hooked(api, receiver, "emit:*")
    found = (await api.read("/api/webhooks"))["data"]
    assert [each["webhookId"] for each in found] == [one["webhookId"], other["webhookId"]]
    one.pop("secret")
    assert found[0] == one == await api.read(at(one))
    changed = (await api.patch(at(one), json={"events": ["session.*"], "description": ""})).json()
    assert (changed["events"], changed["description"], changed["url"]) == (["session.*"], "", one["url"])
    await api.create_session("diary")
    assert [each.event for each in await receiver.wait_for(1)] == ["0:1 session.created"]
    await settled(api, one, "delivered", 1)
    assert (await api.delete(at(one))).status_code == 204
    for path in (at(one), at(one, "deliveries")):
        assert (await api.get(path)).json()["error"]["code"] == "WEBHOOK_NOT_FOUND"
    assert [each["webhookId"] for each in (await api.read("/api/webhooks"))["data"]] == [other["webhookId"]]


async def test_webhooks_outlive_the_server(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        webhook = await hooked(api, receiver, "turn")
    async with app(tmp_path) as api:
        await api.create_session("diary")
        (delivery,) = await receiver.wait_for(1)
        verify_webhook(webhook["secret"], delivery.headers, delivery.body)


async def test_what_is_not_there_is_not_found(api: ApiClient, receiver: Receiver) -> None:
    webhook = await hooked(api, receiver)
    nowhere = {"webhookId": "00000000-0000-4000-8000-000000000000"}
    for method, *path in [
        ("GET",), ("PATCH",), ("DELETE",), ("POST", "rotate-secret"), ("POST", "test"), ("POST", "replay"),
        ("GET", "deliveries"), ("GET", "deliveries", "x"), ("POST", "deliveries", "x", "replay"),
    ]:  # fmt: skip
        body = {"json": {"status": "paused"}} if method == "PATCH" else {}
        answer = await api.request(method, at(nowhere, *path), **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "WEBHOOK_NOT_FOUND"), (method, path)
    for method, *path in [("GET", "deliveries", "x"), ("POST", "deliveries", "x", "replay")]:
        answer = await api.request(method, at(webhook, *path))
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "DELIVERY_NOT_FOUND")


async def test_there_are_so_many_webhooks_and_no_more(app: OpenApp, receiver: Receiver, tmp_path: Path) -> None:
    async with app(tmp_path, webhooks_max=2) as api:
        body = {"url": receiver.url, "events": ["*"]}
        answers = await asyncio.gather(*(api.post("/api/webhooks", json=body) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409]


@pytest.mark.gate
@pytest.mark.parametrize("events", [[], ["turns"], ["emit:"], ["ping"], ["session.*x"], ["emit:****"], [""]])
async def test_a_misspelt_event_is_refused(api: ApiClient, receiver: Receiver, events: list[str]) -> None:
    answer = await api.post("/api/webhooks", json={"url": receiver.url, "events": events})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")


async def test_deliveries_are_paged_and_chosen_by_status(api: ApiClient, receiver: Receiver) -> None:
    webhook = await hooked(api, receiver, "turn")
    session = await api.create_session("diary")
    await api.send_texts(session, *map(str, range(4)))
    await settled(api, webhook, "delivered", 5)
    turns: list[int] = []
    cursor: str | None = None
    while True:
        query = {"limit": 2, "status": "delivered"} | ({"cursor": cursor} if cursor else {})
        page = await api.read(at(webhook, "deliveries"), **query)
        turns += [each["turn"] for each in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert turns == [4, 3, 2, 1, 0]
    assert await listed(api, webhook, status="dead") == []
    assert (await api.get(at(webhook, "deliveries"), params={"cursor": "x"})).status_code == 400


# -- where deliveries may go -------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_a_receiver_with_an_untrusted_certificate_gets_nothing(api: ApiClient, https_url: str) -> None:
    webhook = (await api.post("/api/webhooks", json={"url": https_url, "events": ["*"]})).json()
    assert (await api.post(at(webhook, "test"))).json()["error"] == "tls"


def self_signed(folder: Path) -> ssl.SSLContext:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", *kind, *name, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.fixture
async def https_url(tmp_path: Path) -> AsyncIterator[str]:
    """Return where somebody listens with a certificate that they made themselves."""
    context = await asyncio.to_thread(self_signed, tmp_path)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    yield f"https://localhost:{server.sockets[0].getsockname()[1]}/"
    server.close()
    await asyncio.sleep(0.1)  # for the connection whose handshake failed to be closed


async def test_public_server_does_not_reach_into_its_own_machine(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    async with app(tmp_path, host="192.0.2.7", webhooks_http=True) as api:
        by_name = receiver.url.replace("127.0.0.1", "localhost")
        for url in (receiver.url, by_name, "http://127.1.2.3/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"):
            refused = await api.post("/api/webhooks", json={"url": url, "events": ["*"]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")
        # a name, or a number that is one in disguise, is looked up when a connection is made
        for host in ("2130706433", "0x7f.1"):
            url = receiver.url.replace("127.0.0.1", host)
            webhook = (await api.post("/api/webhooks", json={"url": url, "events": ["*"]})).json()
            assert (await api.post(at(webhook, "test"))).json() == {
                "delivered": False,
                "status": None,
                "error": "refused",
            }
    assert receiver.deliveries == []


async def test_with_keys_this_machine_must_be_listed_as_a_target(
    app: OpenApp, receiver: Receiver, tmp_path: Path
) -> None:
    new = {"url": receiver.url, "events": ["*"]}
    async with app(tmp_path) as api:
        webhook = (await api.post("/api/webhooks", json=new)).json()
        assert (await api.post(at(webhook, "test"))).json()["delivered"]
        admin = {"Authorization": await api.create_key("admin")}
        refused = await api.post("/api/webhooks", json=new, headers=admin)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")
        assert "webhook_private_targets" in refused.json()["error"]["message"]
        changed = await api.patch(at(webhook), json={"url": receiver.url}, headers=admin)
        assert changed.status_code == 400
        paused = await api.patch(at(webhook), json={"status": "paused"}, headers=admin)
        assert (paused.status_code, paused.json()["status"]) == (200, "paused")
        # one made before does not lead there any more, nor does a connection that was open
        assert (await api.post(at(webhook, "test"), headers=admin)).json()["error"] == "refused"
    async with app(tmp_path) as api:
        assert (await api.post(at(webhook, "test"), headers=admin)).json()["error"] == "refused"
    port = receiver.url.rstrip("/").rpartition(":")[2]
    async with app(tmp_path, webhook_private_targets=[f"127.0.0.1:{port}"]) as api:
        assert (await api.post(at(webhook, "test"), headers=admin)).json()["delivered"]
        other = {"url": "http://127.0.0.1:9/", "events": ["*"]}
        assert (await api.post("/api/webhooks", json=other, headers=admin)).status_code == 400
    assert len(receiver.deliveries) == 2


async def test_connections_close_when_a_server_closes_again(receiver: Receiver) -> None:
    """Without keys after it had some: connections to this machine that were opened since then are not used on."""
    open_now = [False]
    sender = Sender(Settings(), AddressPolicy(http=True, is_open=lambda: open_now[0]))
    for is_open, error in ((False, "refused"), (True, None), (False, "refused")):
        open_now[0] = is_open
        assert (await sender.send(receiver.url, {}, b"{}")).trouble == error
    await sender.close()


async def test_a_redirect_is_not_followed(api: ApiClient, receiver: Receiver) -> None:
    webhook = (await api.post("/api/webhooks", json={"url": receiver.url, "events": ["*"]})).json()
    receiver.will(302, headers={"Location": f"{receiver.url}elsewhere"})
    assert (await api.post(at(webhook, "test"))).json() == {"delivered": False, "status": 302, "error": "status"}
    assert len(receiver.deliveries) == 1
