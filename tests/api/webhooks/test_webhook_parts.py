"""What webhooks are made of: signatures, secrets, permitted addresses, waits, and when one is paused."""

import asyncio
import ipaddress
import itertools
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from standardwebhooks import Webhook

from api.errors import ApiError
from api.local_files.settings_file import load_settings
from api.schemas.webhooks import NewWebhook, WebhookPatch
from api.settings import Settings, SettingsInvalid
from api.webhooks.backoff import Backoff, delay_s
from api.webhooks.registry import WebhookRegistry
from api.webhooks.sender import DeliveryOutcome
from api.webhooks.signing import InvalidSignature, Keyring, sign, verify_webhook
from api.webhooks.ssrf import AddressPolicy
from store.open_store import open_store
from tests.support.fixture_types import OpenApp

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECRET = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="  # noqa: S105


# -- signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "message_id", "at", "body", "signature"),
    [  # worked out with openssl: printf '%s' ID.TIME.BODY | openssl dgst -sha256 -mac HMAC -macopt hexkey:… | base64
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            '{"test": 2432232314}',
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (SECRET, "d-1", 1_700_000_000, '{"wort":"grüß"}', "v1,BZOgYqHGfNJCbOifIrvHa50v/p9kyS/RmzBJ2XlxtZo="),
    ],
)
def test_signatures_are_those_of_standard_webhooks(
    secret: str, message_id: str, at: int, body: str, signature: str
) -> None:
    headers = sign([secret], message_id, datetime.fromtimestamp(at + 0.9, UTC), body.encode())
    assert headers == {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": signature}


def test_each_of_the_secrets_can_verify() -> None:
    headers, body = sign([SECRET, "whsec_b2xkIG9sZCBvbGQ="], "d", datetime.now(UTC), b"{}"), b"{}"
    verify_webhook(SECRET, headers, body)
    verify_webhook("whsec_b2xkIG9sZCBvbGQ=", {name.title(): value for name, value in headers.items()}, body)
    with pytest.raises(InvalidSignature):
        verify_webhook("whsec_YW5vdGhlciBvbmU=", headers, body)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("value", [None, "", "x", "v1", "v1,", "v1,é", "v2,AAAA", "1", "inf", "9" * 30, "v1,AAAA"])
def test_a_request_with_other_headers_is_not_genuine(name: str, value: str | None) -> None:
    headers: dict[str, Any] = sign([SECRET], "d", datetime.now(UTC), b"{}")
    headers = {key: text for key, text in (headers | {name: value}).items() if text is not None}
    with pytest.raises(InvalidSignature):
        verify_webhook(SECRET, headers, b"{}")


def test_an_old_request_is_not_genuine_nor_one_that_is_no_text() -> None:
    old = sign([SECRET], "d", datetime.now(UTC) - timedelta(minutes=6), b"{}")
    with pytest.raises(InvalidSignature):
        verify_webhook(SECRET, old, b"{}")
    with pytest.raises(InvalidSignature):
        verify_webhook(SECRET, sign([SECRET], "d", datetime.now(UTC), b"{}"), b"\xff")


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_belong_to_the_key_of_the_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    secret = Keyring(here).secret("1")
    assert len(Webhook(secret)._whsecret) == 32
    assert Keyring(here).secret("1") == secret != Keyring(here).secret("2")
    assert Keyring(there).secret("1") != secret
    shutil.copy(here / "webhook-key", there)
    assert Keyring(there).secret("1") == secret


async def test_a_record_that_lost_its_key_says_so(
    app: OpenApp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with app(tmp_path) as api:
        webhook = (await api.post("/api/webhooks", json={"url": "http://127.0.0.1:9/", "events": ["*"]})).json()
    (tmp_path / "webhook-key").unlink()
    async with app(tmp_path) as api:
        assert "rotate" in capsys.readouterr().out
        rotated = await api.post(f"/api/webhooks/{webhook['webhookId']}/rotate-secret")
        assert rotated.json()["secret"].startswith("whsec_")


# -- addresses ---------------------------------------------------------------------------------------------------------

PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"]
PRIVATE = [
    "10.0.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "100.64.0.1",
    "fd12::1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "fec0::1",
    "64:ff9b:1::1",
]
LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
NEVER = ["169.254.169.254", "192.0.0.192", "168.63.129.16", "::ffff:168.63.129.16", "fd20:ce::254",
         "fe80::1", str(ipaddress.IPv4Address(0)), "::", "224.0.0.1", "ff02::1", "fd00:ec2::254",
         "100.100.100.200", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]  # fmt: skip


EVERYWHERE = ["0.0.0.0/0", "::/0"]


def rules_of(*targets: str, is_open: bool = False, http: bool = False) -> AddressPolicy:
    return AddressPolicy.of(Settings(webhook_private_targets=[*targets], webhooks_http=http), lambda: is_open)


@pytest.mark.parametrize(
    ("rules", "permitted"),
    [
        (rules_of(), PUBLIC),
        (rules_of(is_open=True), [*PUBLIC, *LOOPBACK]),
        (rules_of("10.0.0.0/8"), [*PUBLIC, "10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"]),
        (rules_of("127.0.0.1"), [*PUBLIC, "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]),
        (rules_of("127.0.0.1:444", "[::1]:443"), [*PUBLIC, "::1"]),
        (rules_of("hooks.internal", "there.internal:1"), [*PUBLIC, *PRIVATE, *LOOPBACK]),
        (rules_of(*EVERYWHERE), [*PUBLIC, *PRIVATE, *LOOPBACK]),
    ],
)
def test_what_is_permitted_depends_on_the_rules(rules: AddressPolicy, permitted: list[str]) -> None:
    every = [*PUBLIC, *PRIVATE, *LOOPBACK, *NEVER]
    found = [text for text in every if rules.permits("hooks.internal", 443, ipaddress.ip_address(text))]
    assert found == permitted


@pytest.mark.parametrize(
    "target", ["", "10.0.0.1/8", "https://x", "a b", "10.0.0.1:0", "10.0.0.1:99999", "1.2.3", "x:y"]
)
def test_a_target_that_is_none_is_refused_at_start(target: str) -> None:
    with pytest.raises(SettingsInvalid, match="webhook_private_targets"):
        load_settings(flags={"webhook_private_targets": [target]}, environment={})


@pytest.mark.parametrize("url", ["https://example.org", "https://müller.example/ä?b=1", "https://93.184.216.34:8443/x"])
def test_urls_of_the_internet_can_be_used(url: str) -> None:
    assert rules_of().problem_of(url) == ""


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org", "http://example.org", "https://", "https://a b/", "https://u:p@example.org",
     "https://example.org/#x", "https://10.0.0.1/", "https://[fd12::1]/", "https://[::1", "https://example.org:99999/",
     "https://exa\nmple.org", "https://" + "a" * 2_000, "http://localhost/", "https://127.0.0.1/", "https://a.localhost/",
     "https://localhost./"],
)  # fmt: skip
def test_other_urls_cannot(url: str) -> None:
    assert rules_of().problem_of(url)


def test_plain_http_reaches_only_this_machine_or_allowed_hosts() -> None:
    assert rules_of(is_open=True).problem_of("http://localhost:9/") == ""
    assert rules_of("127.0.0.1:9").problem_of("http://localhost:9/") == ""
    assert rules_of("127.0.0.1:9").problem_of("http://localhost:10/") != ""
    assert "`webhooks_http`" in rules_of(is_open=True).problem_of("http://example.org/")
    assert rules_of("localhost:9").problem_of("http://localhost:9/") == ""
    assert rules_of("10.0.0.0/8").problem_of("http://10.0.0.1/") != ""
    assert rules_of("10.0.0.0/8", http=True).problem_of("http://10.0.0.1/") == ""
    assert rules_of(http=True).problem_of("http://example.org/") == ""


# -- waits -------------------------------------------------------------------------------------------------------------

ANSWERED, REFUSED, DOWN = (
    DeliveryOutcome(200, None),
    DeliveryOutcome(400, "status"),
    DeliveryOutcome(None, "connection"),
)


def test_ten_attempts_take_about_a_day() -> None:
    waits = [delay_s(5.0, attempts, None, Random(1)) for attempts in range(1, 10)]
    assert 4 <= waits[0] <= 6
    assert 16 * 3_600 < sum(waits) < 24 * 3_600
    assert all(wait <= 6 * 3_600 * 1.2 for wait in waits)


def test_what_a_receiver_asks_for_is_heard_within_bounds() -> None:
    assert delay_s(5.0, 1, 120.0, Random(1)) == 120.0
    assert delay_s(5.0, 1, 1.0, Random(1)) > 1.0
    assert delay_s(5.0, 1, 1e9, Random(1)) == 6 * 3_600


def test_receiver_that_is_down_rests_until_one_delivery_tries_it() -> None:
    pace = Backoff(5.0)
    for _ in range(4):
        pace.note(DOWN, NOW)
    assert pace.places(NOW, 8) == 8
    for _ in range(4):  # they were under way already
        pace.note(DOWN, NOW)
    assert pace.paused_until == NOW + timedelta(seconds=15)
    assert pace.places(NOW + timedelta(seconds=14), 8) == 0
    later = NOW + timedelta(seconds=15)
    assert pace.places(later, 8) == 1
    pace.note(DOWN, later)
    assert pace.places(later + timedelta(seconds=29), 8) == 0
    assert pace.places(later + timedelta(seconds=30), 8) == 1
    pace.note(ANSWERED, later + timedelta(seconds=31))
    assert pace.places(later + timedelta(seconds=31), 8) == 8


def test_rests_have_a_bound_and_what_a_receiver_asks_for_is_one() -> None:
    pace, now = Backoff(5.0), NOW
    for _ in range(20):
        pace.note(DOWN, now)
        now = pace.paused_until or now
    pace.note(DOWN, now)
    assert pace.paused_until == now + timedelta(seconds=300)
    asked = Backoff(5.0)
    asked.note(DeliveryOutcome(503, "status", 60.0), NOW)
    assert asked.paused_until == NOW + timedelta(seconds=60)


def test_a_receiver_that_refuses_a_delivery_is_not_down() -> None:
    pace = Backoff(5.0)
    for outcome in itertools.islice(itertools.cycle([DOWN, DOWN, REFUSED]), 30):
        pace.note(outcome, NOW)
    assert pace.paused_until is None


# -- health ------------------------------------------------------------------------------------------------------------


async def test_after_a_day_of_failures_only_a_webhook_is_paused(tmp_path: Path) -> None:
    store, now = open_store(tmp_path), [NOW]
    ids = (f"00000000-0000-4000-8000-{number:012}" for number in itertools.count())
    webhooks = WebhookRegistry(store, Settings(data=tmp_path), rules_of(), lambda: now[0], lambda: next(ids))
    webhook = await webhooks.create("clinic", NewWebhook(url="https://example.org/", events=["*"]))

    async def note(health: Any, hours: float) -> Any:
        now[0] = NOW + timedelta(hours=hours)
        await webhooks.note_health("clinic", webhook.webhook_id, health)
        found = webhooks.find("clinic", webhook.webhook_id)
        assert await store.delivery.webhooks_of_all() == [found]
        return found

    assert (await note("failing", 0)).failing_since == NOW
    assert (await note("well", 20)).failing_since is None
    assert (await note("failing", 21)).status == "active"
    assert (await note("failing", 44)).failing_since == NOW + timedelta(hours=21)
    paused = await note("failing", 46)
    assert (paused.status, paused.paused_because) == ("paused", "failing")
    assert webhooks.active() == {}
    assert (await note("well", 47)) == paused  # what was under way then
    await store.close()


async def test_changes_of_a_webhook_by_another_server_remain(tmp_path: Path) -> None:
    store, ids = open_store(tmp_path), (f"00000000-0000-4000-8000-{number:012}" for number in itertools.count())
    one, two = (
        WebhookRegistry(store, Settings(data=tmp_path), rules_of(), lambda: NOW, lambda: next(ids)) for _ in range(2)
    )
    made = await one.create("clinic", NewWebhook(url="https://example.org/", events=["*"]))
    await two.load()
    await two.change("clinic", made.webhook_id, WebhookPatch(url="https://example.org/new"))
    await one.note_health("clinic", made.webhook_id, "failing")
    await two.change("clinic", made.webhook_id, WebhookPatch(description="appointments"))
    renewed = [await each.rotate("clinic", made.webhook_id) for each in (one, two)]
    assert renewed[1].old_secret_id == renewed[0].secret_id
    (found,) = await store.delivery.webhooks_of_all()
    assert (found.url, found.description, found.failing_since) == ("https://example.org/new", "appointments", NOW)
    await two.change("clinic", made.webhook_id, WebhookPatch(status="paused"))
    await one.note_health("clinic", made.webhook_id, "gone")
    (found,) = await store.delivery.webhooks_of_all()
    assert found.paused_because == "asked"
    await two.remove("clinic", made.webhook_id)
    with pytest.raises(ApiError, match="not found"):
        await one.rotate("clinic", made.webhook_id)
    assert await store.delivery.webhooks_of_all() == one.of("clinic") == []
    await store.close()


async def test_webhooks_are_known_while_they_are_read_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ids = (f"00000000-0000-4000-8000-{number:012}" for number in itertools.count())
    webhooks = WebhookRegistry(store, Settings(data=tmp_path), rules_of(), lambda: NOW, lambda: next(ids))
    webhook = await webhooks.create("clinic", NewWebhook(url="https://example.org/", events=["*"]))
    reading = asyncio.create_task(webhooks.reload())
    looks = 0
    while not reading.done():
        assert webhooks.of("clinic") == [webhook]
        looks += 1
        await asyncio.sleep(0)
    await reading
    assert looks > 1
    await store.close()
