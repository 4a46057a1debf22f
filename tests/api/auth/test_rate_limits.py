"""How often a client may ask, from which pages, and by which methods."""

import itertools
import re
from pathlib import Path

import pytest

from api.auth import rate_limit
from api.auth.policy import ROUTE_POLICIES, policy_of
from api.auth.rate_limit import RateLimiter
from api.local_files.settings_file import load_settings
from api.settings import SettingsInvalid
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

# -- how often --------------------------------------------------------------------------------------------------------


async def test_too_many_requests_of_a_key_wait_others_do_not(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, requests_per_minute=3) as api:
        one, other = {"Authorization": await api.create_key("app")}, {"Authorization": await api.create_key("app")}
        for _ in range(3):
            assert (await api.get("/api/sessions", headers=one)).status_code == 200
        refused = await api.get("/api/sessions", headers=one)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMITED")
        message = "too many requests of this key: at most 3 in a minute (`requests_per_minute`)"
        assert refused.json()["error"]["message"] == message
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert refused.json()["error"]["recovery"]["canRetry"]
        assert (await api.get("/api/sessions", headers=other)).status_code == 200


async def test_what_comes_without_a_key_is_counted_by_its_address(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, requests_per_minute=3) as api:
        paths = ("/api/sessions", "/schema/openapi.json", "/api/scripts", "/api/scripts")
        assert [(await api.get(path)).status_code for path in paths] == [200, 200, 200, 429]


async def test_who_asks_whether_it_lives_is_answered_however_many_ask(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, requests_per_minute=1) as api:
        for path in ("/api/scripts", "/health", "/ready", "/health", "/ready"):
            assert (await api.get(path)).status_code == 200
        assert (await api.get("/api/scripts")).status_code == 429


async def test_wrong_keys_are_counted_too(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, requests_per_minute=2) as api:
        key = {"Authorization": await api.create_key("app")}
        wrong = {"Authorization": "Bearer cbk_0_0"}
        assert [(await api.get("/api/sessions", headers=wrong)).status_code for _ in range(3)] == [401, 401, 429]
        assert (await api.get("/api/sessions", headers=key)).status_code == 200


async def test_the_operator_is_not_rate_limited(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, requests_per_minute=1) as api:
        for _ in range(3):
            await api.create_key("app")


async def test_nothing_is_counted_where_it_is_off(
    app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.auth.authenticator.REQUESTS_PER_MINUTE", 2)
    async with app(tmp_path / "without keys") as api:
        assert [(await api.get("/api/sessions")).status_code for _ in range(4)] == [200] * 4
        key = {"Authorization": await api.create_key("app")}
        assert [(await api.get("/api/sessions", headers=key)).status_code for _ in range(3)] == [200, 200, 429]
    async with app(tmp_path / "off", requests_per_minute=0) as api:
        key = {"Authorization": await api.create_key("app")}
        assert [(await api.get("/api/sessions", headers=key)).status_code for _ in range(4)] == [200] * 4


def test_a_bucket_fills_up_evenly() -> None:
    limit = RateLimiter(60, "requests_per_minute")
    assert [limit.wait_s("a", 100.0) for _ in range(60)] == [0.0] * 60
    assert limit.wait_s("a", 100.0) == pytest.approx(1.0)
    assert limit.wait_s("a", 100.5) == pytest.approx(0.5)
    assert limit.wait_s("a", 101.0) == 0.0
    assert limit.wait_s("a", 101.0) > 0
    assert [limit.wait_s("a", 10_000.0) for _ in range(61)].count(0.0) == 60


def test_there_are_never_more_buckets_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "BUCKETS_MAX", 10)
    limit = RateLimiter(1, "requests_per_minute")
    for number in range(1_000):
        assert limit.wait_s(f"address {number}", 0.0) == 0.0
        assert limit.wait_s("steady", 0.0) == (0.0 if number == 0 else 60.0)
    assert len(limit._buckets) == 10


# -- from which pages -------------------------------------------------------------------------------------------------

PAGE = {"Origin": "https://app.example.com"}
ASKING = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, idempotency-key"}


async def test_pages_of_other_origins_are_not_let_in_unless_it_is_set(api: ApiClient) -> None:
    answer = await api.get("/api/sessions", headers=PAGE)
    asked = await api.options("/api/sessions", headers=PAGE | ASKING)
    for each in (answer, asked):
        assert not [name for name in each.headers if name.startswith("access-control-")]


@pytest.mark.gate
async def test_pages_of_an_origin_that_is_set_are_let_in(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, cors_origins=["https://app.example.com"]) as api:
        key = {"Authorization": await api.create_key("app")}
        asked = await api.options("/api/sessions", headers=PAGE | ASKING)
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == PAGE["Origin"]
        assert "authorization" in asked.headers["access-control-allow-headers"]
        answer = await api.get("/api/sessions", headers=PAGE | key)
        assert answer.headers["access-control-allow-origin"] == PAGE["Origin"]
        readable = answer.headers["access-control-expose-headers"].split(", ")
        assert {"ETag", "Content-Disposition", "X-Cuebook-Truncated", "X-Cuebook-As-Of"} <= set(readable)
        refused = await api.get("/api/sessions", headers=PAGE)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE["Origin"])
        for origin in (
            "https://evil.example.com",
            "https://app.example.com.evil.org",
            "http://app.example.com",
            "null",
        ):
            stranger = await api.get("/api/sessions", headers={"Origin": origin} | key)
            assert "access-control-allow-origin" not in stranger.headers
            assert (await api.options("/api/sessions", headers={"Origin": origin} | ASKING)).status_code == 400


def test_origins_are_a_list_also_as_a_variable() -> None:
    given = {"CUEBOOK_CORS_ORIGINS": "https://a.example.com, https://b.example.com"}
    assert load_settings(None, {}, given).cors_origins == ["https://a.example.com", "https://b.example.com"]
    for wrong in ("app.example.com", "https://app.example.com/", "ftp://x"):
        with pytest.raises(SettingsInvalid, match="not an origin"):
            load_settings(None, {}, {"CUEBOOK_CORS_ORIGINS": wrong})


# -- by which methods -------------------------------------------------------------------------------------------------


async def test_every_get_can_be_asked_for_without_its_body(api: ApiClient) -> None:
    session = await api.create_session("visit")
    path = f"/api/sessions/{session['sessionId']}"
    for each in ("/health", "/ready", "/metrics", "/schema/openapi.json", "/api/sessions", path, f"{path}/events"):
        whole, head = await api.get(each), await api.head(each)
        assert (head.status_code, head.content) == (200, b""), each
        assert head.headers.get("etag") == whole.headers.get("etag")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert (await api.head("/api/sessions/none")).status_code == 404
    assert (await api.head("/api/scripts/validate")).status_code in {404, 405}


async def test_a_head_of_a_stream_ends(api: ApiClient) -> None:
    session = await api.create_session("visit")
    headers = {"Accept": "text/event-stream", "Prefer": "wait=60"}
    assert (await api.head(f"/api/sessions/{session['sessionId']}/events?after=99", headers=headers)).status_code == 200


async def test_a_head_takes_a_key_like_a_get(api: ApiClient) -> None:
    key = await api.create_key("app")
    assert (await api.head("/api/sessions")).status_code == 401
    assert (await api.head("/api/sessions", headers={"Authorization": key})).status_code == 200


async def test_allowed_methods_are_reported(api: ApiClient) -> None:
    refused = await api.delete("/api/sessions")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert refused.headers["x-request-id"] == refused.json()["error"]["context"]["requestId"]
    answer = await api.options("/api/sessions")
    assert answer.status_code == 204
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


# -- what pages may change --------------------------------------------------------------------------------------------

IDS = {
    "turn": "0",
    "version": "1",
    "delivery_id": "6f1c2a52-6c55-4b7e-9d6e-0c1f7f3f7a11",
    "session_id": "6f1c2a52-6c55-4b7e-9d6e-0c1f7f3f7a11",
}
UNSAFE = [tuple(each.split(" ")) for each in ROUTE_POLICIES if not each.startswith("GET ")]
BY_KEY = [(method, path) for method, path in UNSAFE if policy_of(method, path).roles != {"participant"}]
FOREIGN = [
    {"Origin": "https://evil.example.com"},
    {"Origin": "null"},
    {"Origin": "http://localhost:9999"},
    {"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"},
]
OWN: list[dict[str, str]] = [
    {},
    {"Origin": "http://localhost"},
    {"Origin": "http://localhost:80"},
    {"Origin": "https://app.example.com", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]
SIMPLE = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain;application/json",
]


def filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda name: IDS.get(name[1], "nothing"), path)


@pytest.mark.gate
async def test_a_page_of_another_origin_changes_nothing(api: ApiClient) -> None:
    assert len(UNSAFE) > 40
    for (method, path), headers, body in itertools.product(UNSAFE, FOREIGN, ({"json": {}}, {})):
        refused = await api.request(method, filled(path), headers=headers, **body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN"), (path, headers)


async def test_a_simple_content_type_is_refused(api: ApiClient) -> None:
    for (method, path), media_type, content in itertools.product(BY_KEY, SIMPLE, (b"", b'{"userId": "ana"}')):
        refused = await api.request(method, filled(path), headers={"Content-Type": media_type}, content=content)
        assert refused.status_code == 415, (path, media_type, content, refused.text)


@pytest.mark.gate
@pytest.mark.parametrize("headers", OWN)
async def test_its_own_pages_and_programs_may_change_something(api: ApiClient, headers: dict[str, str]) -> None:
    session = await api.create_session("visit")
    path = f"/api/sessions/{session['sessionId']}/pause"
    assert (await api.post(path, headers=headers)).status_code == 200  # without a body, and without a kind of it
    begun = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"}, headers=headers)
    assert begun.status_code == 200


async def test_pages_that_are_set_may_change_something(app: OpenApp, tmp_path: Path) -> None:
    body = {"userId": "ana", "scriptId": "visit"}
    site = {"Sec-Fetch-Site": "cross-site"}
    async with app(tmp_path, cors_origins=["https://app.example.com"]) as api:
        assert (await api.post("/api/sessions", json=body, headers=PAGE | site)).status_code == 200
        key = {"Authorization": await api.create_key("app")}
        assert (await api.post("/api/sessions", json=body, headers=PAGE | key)).status_code == 200
        stranger = {"Origin": "https://evil.example.com"} | site
        assert (await api.post("/api/sessions", json=body, headers=stranger | key)).status_code == 403
    async with app(tmp_path / "all", cors_origins=["*"]) as api:
        assert (await api.post("/api/sessions", json=body, headers=stranger)).status_code == 200


async def test_what_changes_nothing_may_be_asked_by_any_page(api: ApiClient) -> None:
    for headers in FOREIGN:
        assert (await api.get("/api/sessions", headers=headers)).status_code == 200  # which the page cannot read
