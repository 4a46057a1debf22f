"""What the answer to an invalid request says: what is possible instead, and where."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

ZONED = "cuebook: 1\nscript: zoned\nuse: [globals.yaml]\nactions: [{ask: Well?, into: a}]\n"
GLOBALS = {"globals.yaml": "globals: [{var: timezone}]\n"}
BODY = {"userId": "ana", "scriptId": "diary"}


async def detail_of(api: ApiClient, method: str, path: str, body: Any = None) -> tuple[str, str, str]:
    """Return the message of the error, and the field and message of its first detail."""
    answer = await (api.request(method, path) if body is None else api.request(method, path, json=body))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "REQUEST_INVALID"
    [detail] = error["details"]
    return error["message"], detail["field"], detail["message"]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        ("/api/sessions", {**BODY, "userid": "bo"}, "userid", "there is no such field; did you mean `userId`?"),
        ("/api/keys", {"name": "a", "role": "app"}, "role", "there is no such field; did you mean `roles`?"),
        (
            "/api/keys",
            {"name": "a", "zzzz": 1},
            "zzzz",
            "there is no such field; there are expiresDays, name, roles, userId",
        ),
        (
            "/api/memory/units",
            {"userId": "ana", "units": [{"content": "x"}, {"content": "x", "metdata": {}}]},
            "units[1].metdata",
            "there is no such field; did you mean `metadata`?",
        ),
        ("/api/sessions", {"scriptId": "visit"}, "userId", "this field is missing"),
        (
            "/api/memory/units",
            {"userId": "ana", "units": [{"source": "a"}]},
            "units[0].content",
            "this field is missing",
        ),
        ("/api/sessions", {**BODY, "timezone": "Mars/X"}, "timezone", "there is no time zone 'Mars/X'"),
        ("/api/sessions", {**BODY, "timezone": ""}, "timezone", "there is no time zone ''"),
        ("/api/keys", {"name": "a", "roles": ["app", "boss"]}, "roles[1]", "'boss' is not one of "),
        ("/api/sessions", {**BODY, "seed": "7"}, "seed", "expected a whole number or null, not a text"),
        (
            "/api/scripts/import",
            {"yamlContent": "script: a", "publish": "false"},
            "publish",
            "expected true or false, not a text",
        ),
        (
            "/api/scripts/import",
            {"yamlContent": "script: a", "publish": 0},
            "publish",
            "expected true or false, not a whole number",
        ),
        ("/api/memory/search", {"userId": "ana", "text": "x", "k": "2"}, "k", "expected a whole number, not a text"),
        ("/api/memory/search", {"userId": "ana", "k": 0.5}, "k", "expected a whole number, not a decimal number"),
        ("/api/memory/search", {"userId": "ana", "k": 1_001}, "k", "expected a whole number of at most 1000"),
        ("/api/memory/search", {"userId": "ana", "ranks": []}, "ranks", "expected a list of 1 or more items"),
        ("/api/sessions", {**BODY, "userId": "x" * 201}, "userId", "expected a text of 200 or fewer characters"),
        ("/api/sessions", {**BODY, "userId": None}, "userId", "expected a text, not null"),
    ],
)
async def test_invalid_field_is_named_with_what_is_possible(
    api: ApiClient, path: str, body: Any, field: str, message: str
) -> None:
    whole, found, problem = await detail_of(api, "POST", path, body)
    assert (whole, found) == (f"{field}: {problem}", field)
    assert problem.startswith(message)


@pytest.mark.parametrize("zone", ["Mars", "", 7])
async def test_a_user_has_no_time_zone_that_does_not_exist(api: ApiClient, zone: Any) -> None:
    await api.publish_script(ZONED, files=GLOBALS)
    session = await api.create_session("zoned", user="bo")
    values = {"variables": {"timezone": zone}}
    wanted = (f"there is no time zone {zone!r}", "variables.timezone")
    for path in ("/api/users/bo/variables", f"/api/sessions/{session['sessionId']}/variables"):
        message, field, problem = await detail_of(api, "PATCH", path, values)
        assert (problem, field, message) == (*wanted, f"{wanted[1]}: {wanted[0]}")
    started = {"userId": "bo", "scriptId": "zoned", "initialVariables": {"timezone": zone}}
    assert (await detail_of(api, "POST", "/api/sessions", started))[1] == "initialVariables.timezone"


async def test_a_user_has_a_time_zone_that_exists_or_none(api: ApiClient) -> None:
    await api.publish_script(ZONED, files=GLOBALS)
    session = await api.create_session("zoned", user="bo")
    for path in ("/api/users/bo/variables", f"/api/sessions/{session['sessionId']}/variables"):
        for zone in ("Europe/Berlin", None):
            assert (await api.patch(path, json={"variables": {"timezone": zone}})).status_code == 200
    of_session = {"variables": {"timezone": "Mars"}, "scope": "session"}  # a variable like any other
    assert (await api.patch(f"/api/sessions/{session['sessionId']}/variables", json=of_session)).status_code == 200


async def test_value_outside_the_possible_ones_is_answered_with_them(api: ApiClient) -> None:
    assert (await detail_of(api, "GET", "/api/sessions?status=done"))[0] == (
        "status: 'done' is not one of active, completed, paused"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/sessions?stauts=active", "stauts: there is no such parameter; did you mean `status`?"),
        ("/api/sessions?limit=3&userID=ana", "userID: there is no such parameter; did you mean `userId`?"),
        ("/api/scripts?zzzz=1", "zzzz: there is no such parameter"),
        ("/api/sessions/x?debug=true", "debug: there is no such parameter"),
        ("/api/sessions?status=active&status=paused", "status: sent twice"),
        ("/api/sessions?createdAfter=2026-01-01&createdAfter=2026-02-01", "createdAfter: sent twice"),
        ("/api/users/ana/sessions?limit=1&limit=1", "limit: sent twice"),
    ],
)
async def test_a_parameter_that_would_have_no_effect_is_refused(api: ApiClient, path: str, message: str) -> None:
    assert (await detail_of(api, "GET", path))[0].startswith(message)


@pytest.mark.parametrize(("header", "values"), [("Idempotency-Key", ("a", "b")), ("If-Match", ('"1"', '"1"'))])
async def test_a_second_value_of_a_condition_is_refused(api: ApiClient, header: str, values: tuple[str, str]) -> None:
    session = await api.create_session("diary")
    path = f"/api/sessions/{session['sessionId']}/messages"
    answer = await api.post(path, json={"content": "hi"}, headers=[(header, each) for each in values])
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, f"{header}: sent twice")
    assert len((await api.get(path)).json()["data"]) == len(session["messages"])


async def test_options_request_may_have_the_parameters_of_the_route(api: ApiClient) -> None:
    answer = await api.options("/api/sessions/by-key?key=telegram:1")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize(
    ("path", "headers", "field"),
    [
        ("/api/sessions/search", {}, "q"),
        ("/api/memory/units", {}, "userId"),
        ("/api/sessions?cursor=x", {}, "cursor"),
        ("/api/sessions/SESSION/messages?cursor=x", {}, "cursor"),
        ("/api/sessions/SESSION/events", {"accept": "text/event-stream", "last-event-id": "x"}, "Last-Event-ID"),
    ],
)
async def test_missing_or_invalid_parameter_or_header_is_named(
    api: ApiClient, path: str, headers: dict[str, str], field: str
) -> None:
    session = await api.create_session("diary")
    answer = await api.get(path.replace("SESSION", session["sessionId"]), headers=headers)
    assert answer.status_code == 400
    [detail] = answer.json()["error"]["details"]
    assert (detail["field"], answer.json()["error"]["message"]) == (field, f"{field}: {detail['message']}")


async def test_an_etag_that_is_none_is_named(api: ApiClient) -> None:
    session = await api.create_session("diary")
    answer = await api.send_message(session, {"content": "hello"}, {"if-match": '"x"'})
    assert [detail["field"] for detail in answer.json()["error"]["details"]] == ["If-Match"]


@pytest.mark.parametrize(
    ("path", "limit", "setting"),
    [
        ("/api/sessions", "1,000,000", "body_bytes_max"),
        ("/api/sessions/import", "2,000,000", "import_bytes_max"),
        ("/api/memory/import?userId=ana", "2,000,000", "import_bytes_max"),
    ],
)
async def test_too_large_body_is_refused_with_limit_and_setting(
    app: OpenApp, tmp_path: Path, path: str, limit: str, setting: str
) -> None:
    async with app(tmp_path, import_bytes_max=2_000_000) as api:
        answer = await api.post(path, content=b" " * 2_000_001, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert f"{limit} bytes" in answer.json()["error"]["message"]
    assert f"`{setting}`" in answer.json()["error"]["message"]


async def test_what_was_created_is_read_at_its_location(api: ApiClient) -> None:
    session = await api.create_session("diary")
    for path, body in (
        ("/api/participants/tokens", {"userId": "ana", "sessionId": session["sessionId"]}),
        ("/api/memory/units", {"userId": "a b", "units": [{"content": "tea"}]}),
        ("/api/memory/groups", {"userId": "a b", "group": "trip / 2026"}),
        ("/api/keys", {"name": "first", "roles": ["admin"]}),
    ):
        created = await api.post(path, json=body)
        assert created.status_code == 201, created.text
        headers = {"authorization": f"Bearer {created.json()['key']}"} if "key" in created.json() else {}
        found = await api.get(created.headers["location"], headers=headers)
        assert found.status_code == 200, found.text
    unknown = await api.get("/api/keys/0000000000000000", headers=headers)
    assert unknown.json()["error"]["code"] == "KEY_NOT_FOUND"


async def test_nothing_is_carried_out_with_an_unknown_parameter(api: ApiClient) -> None:
    session = await api.create_session("diary")
    answer = await api.delete(f"/api/sessions/{session['sessionId']}?dryRun=true")
    assert answer.status_code == 400
    assert (await api.get(f"/api/sessions/{session['sessionId']}")).status_code == 200


async def test_request_with_an_undocumented_body_changes_nothing(api: ApiClient) -> None:
    session = await api.create_session("diary")
    path = f"/api/sessions/{session['sessionId']}"
    for route in ("/api/operations/compact", "/api/operations/retention", f"{path}/clear", f"{path}/pause"):
        assert await detail_of(api, "POST", route, {"dryRun": True}) == (
            "dryRun: there is no such field; this request has no body",
            "dryRun",
            "there is no such field; this request has no body",
        )
    assert (await detail_of(api, "DELETE", path, {"dryRun": True}))[1] == "dryRun"
    assert (await api.post(f"{path}/pause", json=["dryRun"])).status_code == 400
    for number in (b"1e400", b'{"limit": 1e400}', b"9" * 5000):
        answer = await api.post(f"{path}/pause", content=number, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
    assert (await api.read(path))["status"] == "active"
    assert (await api.post(f"{path}/pause", json={})).status_code == 200
    assert (await api.post(f"{path}/resume", json=None)).status_code == 200


async def test_pages_ignore_parameters_that_they_do_not_know(api: ApiClient) -> None:
    assert (await api.get("/health?utm_source=mail")).status_code == 200


async def test_half_of_a_surrogate_pair_is_named(api: ApiClient) -> None:
    body = b'{"scriptId": "diary", "userId": "\\ud83d"}'
    answer = await api.post("/api/sessions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "half of a surrogate pair" in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b'{"userId": NaN}', b'{"userId": -Infinity}', b'\xef\xbb\xbf{"userId": "ana"}'])
async def test_a_body_that_is_almost_json_has_the_byte_named(api: ApiClient, body: bytes) -> None:
    answer = await api.post("/api/sessions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "invalid character (byte " in answer.json()["error"]["message"]
