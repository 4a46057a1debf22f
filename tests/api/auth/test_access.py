"""Who may come in, by which key, and what it may do there; each route by each role: `test_role_table.py`."""

import asyncio
import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from api.auth.api_keys import ApiKeys
from api.auth.policy import ROUTE_POLICIES, policy_of
from api.schemas.keys import ROLES, NewKey
from store.analytics.query import query
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.data_folders import database_file
from tests.support.fixture_types import OpenApp

STRANGERS = {
    "sessionId": str(uuid.uuid4()),
    "userId": "nobody",
    "scriptId": "nothing",
    "keyId": "0" * 16,
    "webhookId": str(uuid.uuid4()),
    "deliveryId": str(uuid.uuid4()),
    "unitId": "nothing",
    "groupId": "nothing",
    "jobId": str(uuid.uuid4()),
    "draftId": "nothing",
    "linkId": "nothing",
    "queryId": "nothing",
    "backupId": "nothing",
    "dashboardId": "nothing",
    "fileName": "nothing",
    "reviewId": "nothing",
    "participantId": "0" * 32,
    "report": "nothing",
    "table": "nothing",
    "turn": "0",
    "version": "1",
}
"""Ids of nothing there is, for every parameter of a path."""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": key}


async def ask(api: ApiClient, method: str, path: str, headers: dict[str, str], **ids: str) -> Any:
    body = {} if method in {"POST", "PUT", "PATCH"} else None
    return await api.request(method, path.format(**(STRANGERS | ids)), json=body, headers=headers)


async def test_every_route_is_in_the_table_and_the_table_has_no_other(api: ApiClient) -> None:
    assert {f"{method} {path}" for method, path in await api.operations()} == ROUTE_POLICIES.keys()


async def test_every_id_in_a_path_is_known(api: ApiClient) -> None:
    """What is about a session or a user is so by the name of its parameter; a new name must be thought about."""
    names = {name for _, path in await api.operations() for name in re.findall(r"{(\w+)}", path)}
    assert names <= STRANGERS.keys()


async def test_a_route_that_is_not_in_the_table_is_for_admin_alone() -> None:
    assert policy_of("DELETE", "/api/everything").roles == {"admin"}


async def test_without_keys_everything_is_open(api: ApiClient) -> None:
    session = await api.create_session("visit")
    assert (await api.read("/api/sessions"))["data"][0]["sessionId"] == session["sessionId"]
    assert (await api.get("/metrics")).status_code == 200


@pytest.mark.gate
@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "127.9.9.9", "app.localhost"])
async def test_without_keys_a_server_answers_to_its_own_machine(api: ApiClient, host: str) -> None:
    assert (await api.get("/api/sessions", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.org", "localhost.evil.org:8000", "10.0.0.1"])
async def test_page_whose_name_resolves_to_this_machine_is_a_stranger(api: ApiClient, host: str) -> None:
    refused = await api.get("/api/sessions", headers={"Host": host})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert (await api.get("/health", headers={"Host": host})).status_code == 200
    key = await api.create_key("app")
    assert (await api.get("/api/sessions", headers={"Host": host} | bearer(key))).status_code == 200


async def test_a_key_that_nobody_asks_for_does_no_harm(api: ApiClient) -> None:
    assert (await api.get("/api/sessions", headers=bearer("Bearer of another server"))).status_code == 200


async def test_with_the_first_key_nobody_comes_without_one(api: ApiClient) -> None:
    made = await api.post("/api/keys", json={"name": "mine", "roles": ["admin"]})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    for method, path in await api.operations():
        if policy_of(method, path).is_open:
            continue
        answer = await ask(api, method, path, {})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED"), (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["x-request-id"] == answer.json()["error"]["context"]["requestId"]
    key = made.json()["key"]
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key}"}, {"X-API-Key": key}):
        assert (await api.get("/api/sessions", headers=headers)).status_code == 200


@pytest.mark.gate
@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "requires a key"),
        ({"Authorization": ""}, "requires a key"),
        ({"Authorization": "Basic YTpi"}, "Bearer"),
        ({"Authorization": "Bearer"}, "requires a key"),
        ({"Authorization": "Bearer cbk_1_2"}, "unknown, revoked or has expired"),
        ({"Authorization": "Bearer ключ".encode()}, "unknown"),
        ({"X-API-Key": "x" * 10_000}, "invalid API key"),
        ([("X-API-Key", "a"), ("X-API-Key", "b")], "sent twice"),
    ],
)
async def test_an_invalid_key_is_reported_as_such(api: ApiClient, headers: Any, why: str) -> None:
    await api.create_key()
    answer = await api.get("/api/sessions", headers=headers)
    assert answer.status_code == 401
    assert why in answer.json()["error"]["message"]


async def test_what_is_seen_of_a_turn_depends_on_the_role(api: ApiClient) -> None:
    app, both = await api.create_key("app"), await api.create_key("app", "author")
    body = {"userId": "ana", "scriptId": "visit"}
    for query_string in ("?debug=true", "?debug=1", "?%64ebug=TRUE", "?debug=false&debug=true"):
        answer = await api.post(f"/api/sessions{query_string}", json=body, headers=bearer(app))
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    seen = await api.post("/api/sessions?debug=true", json=body, headers=bearer(both))
    assert seen.json()["debugInfo"] is not None
    plain = await api.post("/api/sessions?debug=false", json=body, headers=bearer(app))
    assert plain.json()["debugInfo"] is None


# -- what is bound to a user ------------------------------------------------------------------------------------------


async def test_a_bound_key_talks_to_its_own_sessions(api: ApiClient) -> None:
    ana = bearer(await api.create_key("app", user="ana"))
    begun = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"}, headers=ana)
    path = f"/api/sessions/{begun.json()['sessionId']}"
    assert (await api.post(f"{path}/messages", json={"content": "Ana"}, headers=ana)).status_code == 200
    for part in ("", "/messages", "/variables", "/events"):
        assert (await api.get(path + part, headers=ana)).status_code == 200
    assert (await api.get("/api/users/ana/sessions", headers=ana)).status_code == 200
    listed = (await api.get("/api/sessions", headers=ana)).json()["data"]
    assert [row["userId"] for row in listed] == ["ana"]


async def test_a_bound_key_sets_no_session_key(api: ApiClient) -> None:
    """Whether another user's session has the key or not."""
    await api.create_session("visit", user="kate", key="taken")
    own = await api.create_session("visit", user="ana")
    ana = bearer(await api.create_key("app", user="ana"))
    path = f"/api/sessions/{own['sessionId']}"
    for key in ("taken", "free"):
        for method, route, body in [
            ("POST", "/api/sessions", {"userId": "ana", "scriptId": "visit", "key": key}),
            ("PATCH", path, {"key": key}),
            ("POST", f"{path}/fork", {"key": key}),
        ]:
            answer = await api.request(method, route, json=body, headers=ana)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), route


async def test_an_idempotency_key_of_a_bound_key_is_valid_for_its_user(api: ApiClient) -> None:
    own = await api.create_session("visit", user="ana")
    path = f"/api/sessions/{own['sessionId']}/fork"
    ana, ben = bearer(await api.create_key("app", user="ana")), bearer(await api.create_key("app", user="ben"))
    program = bearer(await api.create_key("app"))
    once = {"Idempotency-Key": "one"}

    async def create(user: str, headers: dict[str, str]) -> str:
        body = {"userId": user, "scriptId": "visit"}
        answer = await api.post("/api/sessions", json=body, headers=headers | once)
        assert answer.status_code == 200
        return str(answer.json()["sessionId"])

    created = [await create("ana", ana), await create("ben", ben), await create("ana", program)]
    assert len(set(created)) == 3
    assert created == [await create("ana", ana), await create("ben", ben), await create("ana", program)]
    other = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "visit"}, headers=program | once)
    assert other.json()["error"]["code"] == "IDEMPOTENCY_MISMATCH"

    forks = [await api.post(path, json={}, headers=ana | {"Idempotency-Key": "two"}) for _ in range(2)]
    assert len({fork.json()["sessionId"] for fork in forks}) == 1


async def test_a_bound_key_reaches_nothing_of_another_user(api: ApiClient) -> None:
    """Every route there is, with every role: another's session is as one that does not exist."""
    ben = await api.create_session("visit", user="ben")
    of_ben = {"sessionId": ben["sessionId"], "userId": "ben"}
    ana = bearer(await api.create_key(*ROLES, user="ana"))
    for method, path in await api.operations():
        rule = policy_of(method, path)
        if rule.is_open:
            continue
        answer = await ask(api, method, path, ana, **of_ben)
        if "{sessionId}" in path and rule.allows_bound:
            strange = await ask(api, method, path, ana)
            assert answer.status_code == strange.status_code == 404, (method, path)
            assert answer.json()["error"]["code"] == "SESSION_NOT_FOUND"
        elif "{userId}" in path or not rule.checks_user:
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), (method, path)
        else:
            assert ben["sessionId"] not in answer.text, (method, path)
    for asked in ({"userId": "ben"}, {"userId": "ben", "status": "active"}):
        assert (await api.get("/api/sessions", params=asked, headers=ana)).status_code == 403
    begun = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "visit"}, headers=ana)
    assert begun.json()["error"]["code"] == "FORBIDDEN"
    all_of_them = await api.get("/api/sessions", headers=bearer(await api.create_key("app")))
    assert [row["turn"] for row in all_of_them.json()["data"]] == [0]


async def test_bound_key_sees_only_its_sessions_after_a_reload(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        ben, ana = await api.create_session("visit", user="ben"), await api.create_session("visit", user="ana")
        key = bearer(await api.create_key("app", user="ana"))
        for _ in range(2):
            assert (await api.get(f"/api/sessions/{ben['sessionId']}", headers=key)).status_code == 404
            assert (await api.get(f"/api/sessions/{ana['sessionId']}", headers=key)).status_code == 200


# -- keys -------------------------------------------------------------------------------------------------------------


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_key_is_shown_once_and_stored_as_its_hash(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        made = (await api.post("/api/keys", json={"name": "our app"})).json()
        assert re.fullmatch(r"cbk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made["key"])
        assert made["key"].split("_")[1] == made["keyId"]
        assert made["roles"] == ["app"]
        listed = await api.get("/api/keys", headers=bearer(await api.create_key("admin")))
        assert made["keyId"] in listed.text
        assert made["key"] not in listed.text
        assert "digest" not in listed.text
    secret = made["key"].split("_", 2)[2]
    assert secret.encode() not in all_bytes(tmp_path)
    ((rows,),) = query(database_file(tmp_path), "SELECT digest FROM api_keys WHERE name = 'our app'").rows
    assert re.fullmatch("[0-9a-f]{64}", rows)


async def test_keys_and_the_need_for_them_outlive_a_restart(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        good, bad = await api.create_key("app"), await api.create_key("admin")
        key_id = bad.split("_")[1]
        assert (await api.delete(f"/api/keys/{key_id}", headers=bearer(bad))).status_code == 204
    async with app(tmp_path) as api:
        assert (await api.get("/api/sessions", headers=bearer(good))).status_code == 200
        assert (await api.get("/api/sessions", headers=bearer(bad))).status_code == 401


async def test_a_revoked_key_is_no_key_from_then_on(api: ApiClient) -> None:
    admin, other = bearer(await api.create_key("admin")), bearer(await api.create_key("app"))
    (key_id,) = [
        row["keyId"] for row in (await api.get("/api/keys", headers=admin)).json()["data"] if "app" in row["roles"]
    ]
    assert (await api.get("/api/sessions", headers=other)).status_code == 200
    assert (await api.delete(f"/api/keys/{key_id}", headers=admin)).status_code == 204
    assert (await api.get("/api/sessions", headers=other)).status_code == 401
    again = await api.delete(f"/api/keys/{key_id}", headers=admin)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "KEY_NOT_FOUND")
    listed = (await api.get("/api/keys", headers=admin)).json()["data"]
    assert [row["revokedAt"] is None for row in listed] == [False, True]


async def test_a_server_whose_last_key_is_revoked_is_not_open_again(api: ApiClient) -> None:
    admin = await api.create_key("admin")
    assert (await api.delete(f"/api/keys/{admin.split('_')[1]}", headers=bearer(admin))).status_code == 204
    assert (await api.get("/api/sessions")).status_code == 401


async def test_revoking_a_key_ends_what_it_listens_to(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path, keep_alive_s=30) as api:
        admin, app = bearer(await api.create_key("admin")), await api.create_key("app")
        begun = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"}, headers=bearer(app))
        path = f"/api/sessions/{begun.json()['sessionId']}/events"
        async with api.open_stream(path, headers=bearer(app)) as stream:
            chunks = stream.aiter_raw()
            assert await anext(chunks)
            assert (await api.delete(f"/api/keys/{app.split('_')[1]}", headers=admin)).status_code == 204
            async with asyncio.timeout(20):
                async for _ in chunks:
                    pass


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_a_key_expires_by_itself(tmp_path: Path) -> None:
    store, clock = open_store(tmp_path), Time()
    keys = ApiKeys(store, clock)
    made = await keys.make("default", NewKey(name="for a day", expires_days=1))
    assert keys.holder(made.text) is not None
    clock.now += timedelta(days=1)
    assert keys.holder(made.text) is None
    assert keys.any_made
    assert made.text not in repr(made)
    await keys.close()
    await store.close()


async def test_the_use_of_a_key_is_noted_once_an_hour(tmp_path: Path) -> None:
    store, clock = open_store(tmp_path), Time()
    keys = ApiKeys(store, clock)
    made = await keys.make("default", NewKey(name="ours"))
    noted = []
    for minutes in (0, 30, 59, 60):
        clock.now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
        assert keys.holder(made.text) is not None
        await keys.close()
        (row,) = (await store.keys.page("default")).rows
        noted.append(row.last_used_at)
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    assert noted == [begun, begun, begun, begun + timedelta(hours=1)]
    await store.close()


async def test_what_a_key_cannot_be_is_refused(api: ApiClient) -> None:
    for body in (
        {},
        {"name": ""},
        {"name": "x", "roles": []},
        {"name": "x", "roles": ["root"]},
        {"name": "x", "expiresDays": 0},
    ):
        assert (await api.post("/api/keys", json=body)).status_code == 400
    assert (await api.read("/api/keys"))["data"] == []


async def test_no_key_stands_in_a_log_or_an_error(api: ApiClient) -> None:
    with structlog.testing.capture_logs() as logs:
        key = await api.create_key("app")
        answers = [
            await api.get("/api/sessions", headers=bearer(key + "x")),
            await api.get("/api/keys", headers=bearer(key)),
            await api.get(f"/api/sessions/{uuid.uuid4()}", headers=bearer(key)),
            await api.post("/api/sessions", json={"userId": "ana", "scriptId": "none"}, headers=bearer(key)),
        ]
    secret = key.split("_", 2)[2]
    assert [answer.status_code for answer in answers] == [401, 403, 404, 404]
    assert not [text for text in [*(answer.text for answer in answers), str(logs)] if secret in text]


async def test_ready_tells_its_details_to_those_who_have_a_key(api: ApiClient) -> None:
    key = await api.create_key("app")
    assert await api.read("/ready") == {"ready": True, "checks": {}}
    assert (await api.get("/ready", headers=bearer(key))).json()["checks"]["database"] == "ok"
    assert (await api.get("/ready", headers=bearer("Bearer nonsense"))).json() == {"ready": True, "checks": {}}
    assert (await api.get("/health")).status_code == 200


async def test_the_description_says_how_a_key_is_sent(api: ApiClient) -> None:
    document = await api.read("/schema/openapi.json")
    schemes = document["components"]["securitySchemes"]
    assert (schemes["key"]["scheme"], schemes["apiKey"]["name"]) == ("bearer", "X-API-Key")
    for path, item in document["paths"].items():
        for method, operation in item.items():
            is_open = policy_of(method.upper(), path).is_open
            assert operation["security"] == ([{}] if is_open else [{"key": []}, {"apiKey": []}]), path
            assert ("401" in operation["responses"]) == (not is_open or path == "/api/sign-in"), path
            refuses_origins = method != "get"
            assert ("403" in operation["responses"]) == (not is_open or refuses_origins), path
            limited = operation["responses"].get("429", {"description": ""})["description"]
            assert ("RATE_LIMITED" in limited) == (path not in {"/health", "/ready"}), path


async def test_an_erased_user_has_no_key_any_more(api: ApiClient) -> None:
    admin, ana = bearer(await api.create_key("admin")), bearer(await api.create_key("app", user="ana"))
    assert (await api.get("/api/sessions", headers=ana)).status_code == 200
    erased = await api.delete("/api/users/ana", headers=admin)
    assert (erased.status_code, erased.json()["counts"]["keys"]) == (200, 1)
    assert (await api.get("/api/sessions", headers=ana)).status_code == 401
    assert "ana" not in [row["userId"] for row in (await api.get("/api/keys", headers=admin)).json()["data"]]
