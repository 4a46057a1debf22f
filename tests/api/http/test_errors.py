"""Every refused request: one shape, the right status and code, nothing of the inside, and sessions that go on."""

import gzip
import json
import re
from typing import Any
from uuid import uuid4

import pytest

from api.errors import CODES
from tests.support.api_client import ApiClient

BODY = {"userId": "ana", "scriptId": "diary"}
NOBODY = str(uuid4())
DEEP = "[" * 100_000 + "]" * 100_000
TYPES = {"syntax", "configuration", "runtime", "session", "system"}
INSIDE = re.compile(r"/(work|root|home|tmp|usr)/|Traceback|SELECT |\.py\b|msgspec|duckdb|litestar", re.IGNORECASE)


def assert_refused(answer: Any, status: int, code: str) -> Any:
    """Return the one shape of an error; its `error`."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
    body = answer.json()
    assert set(body) == {"success", "error"}
    assert body["success"] is False
    error = body["error"]
    assert set(error) == {"code", "type", "message", "details", "context", "recovery"}
    assert (error["code"], error["type"]) == (code, CODES[code].type)
    assert error["type"] in TYPES
    assert error["message"]
    assert error["context"]["requestId"] == answer.headers["x-request-id"]
    assert error["context"]["timestamp"]
    assert set(error["recovery"]) == {"canRetry", "retryAction", "suggestion"}
    assert error["recovery"]["canRetry"] is bool(error["recovery"]["retryAction"])
    assert error["recovery"]["suggestion"]
    assert not INSIDE.search(answer.text), answer.text
    assert len(answer.text) < 4_000
    return error


async def assert_goes_on(api: ApiClient, session: Any) -> None:
    """Assert that the session is unchanged and still answers."""
    answer = await api.send_texts(session, "still there")
    assert answer["turn"] == 1
    assert answer["messages"][0]["content"] == "Entry 1: still there"


CREATIONS = [
    ("", 400, "REQUEST_INVALID"),
    ("{", 400, "REQUEST_INVALID"),
    ("null", 400, "REQUEST_INVALID"),
    ("[]", 400, "REQUEST_INVALID"),
    ("{}", 400, "REQUEST_INVALID"),
    ("\x00\xff", 400, "REQUEST_INVALID"),
    (b'{"userId": "\xff", "scriptId": "diary"}', 400, "REQUEST_INVALID"),
    (DEEP, 400, "REQUEST_INVALID"),
    (json.dumps({**BODY, "metadata": {"x": 0}}).replace("0", DEEP), 400, "REQUEST_INVALID"),
    ({**BODY, "metadata": {"x": "\ud800"}}, 400, "REQUEST_INVALID"),
    ({**BODY, "userId": "\udfff"}, 400, "REQUEST_INVALID"),
    ({**BODY, "userId": ""}, 400, "REQUEST_INVALID"),
    ({**BODY, "userId": 7}, 400, "REQUEST_INVALID"),
    ({**BODY, "userId": "x" * 201}, 400, "REQUEST_INVALID"),
    ({**BODY, "user": "ana"}, 400, "REQUEST_INVALID"),
    ({**BODY, "user_id": "ana"}, 400, "REQUEST_INVALID"),
    ({**BODY, "seed": -1}, 400, "REQUEST_INVALID"),
    ({**BODY, "seed": 10**30}, 400, "REQUEST_INVALID"),
    ({**BODY, "seed": 1.5}, 400, "REQUEST_INVALID"),
    ({**BODY, "locale": "de_DE"}, 400, "REQUEST_INVALID"),
    ({**BODY, "metadata": {"x": 10**400}}, 400, "REQUEST_INVALID"),
    (json.dumps({**BODY, "metadata": {"x": 0}}).replace("0", "1e999"), 400, "REQUEST_INVALID"),
    (json.dumps({**BODY, "metadata": {"x": 0}}).replace("0", "NaN"), 400, "REQUEST_INVALID"),
    ({**BODY, "metadata": {"x": "y" * 20_001}}, 400, "REQUEST_INVALID"),
    ({**BODY, "metadata": {"x": "y" * 2_000_000}}, 413, "PAYLOAD_TOO_LARGE"),
    ({**BODY, "scriptId": "unknown"}, 404, "SCRIPT_NOT_FOUND"),
    ({**BODY, "scriptId": NOBODY}, 404, "SCRIPT_NOT_FOUND"),
    ({**BODY, "scriptId": "'; DROP TABLE turns; --"}, 404, "SCRIPT_NOT_FOUND"),
]


@pytest.mark.gate
@pytest.mark.parametrize(("body", "status", "code"), CREATIONS, ids=range(len(CREATIONS)))
async def test_refused_creations(api: ApiClient, body: Any, status: int, code: str) -> None:
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = await api.post("/api/sessions", content=content, headers={"Content-Type": "application/json"})
    assert_refused(answer, status, code)
    assert (await api.read("/api/sessions"))["data"] == []
    await assert_goes_on(api, await api.create_session("diary"))


MESSAGES = [
    ({}, {}, 400, "REQUEST_INVALID"),
    ({"content": "a", "choice": "b"}, {}, 400, "REQUEST_INVALID"),
    ({"content": None}, {}, 400, "REQUEST_INVALID"),
    ({"content": 7}, {}, 400, "REQUEST_INVALID"),
    ({"content": "\ud800"}, {}, 400, "REQUEST_INVALID"),
    ({"content": "x" * 20_001}, {}, 400, "REQUEST_INVALID"),
    ({"content": "x" * 2_000_000}, {}, 413, "PAYLOAD_TOO_LARGE"),
    ({"text": "a"}, {}, 400, "REQUEST_INVALID"),
    ({"choice": "A"}, {}, 400, "REQUEST_INVALID"),
    ({"choice": ""}, {}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"If-Match": "abc"}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"If-Match": '"-1"'}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"If-Match": '"²"'.encode()}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"If-Match": "9" * 5_000}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"If-Match": '"7"'}, 412, "TURN_CONFLICT"),
    ({"content": "a"}, {"Idempotency-Key": " "}, 400, "REQUEST_INVALID"),
    ({"content": "a"}, {"Idempotency-Key": "x" * 256}, 400, "REQUEST_INVALID"),
]


@pytest.mark.gate
@pytest.mark.parametrize(("message", "headers", "status", "code"), MESSAGES, ids=range(len(MESSAGES)))
async def test_refused_messages_leave_the_session_where_it_was(
    api: ApiClient, message: Any, headers: Any, status: int, code: str
) -> None:
    session = await api.create_session("diary")
    path = f"/api/sessions/{session['sessionId']}/messages"
    given = {name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in headers.items()}
    content = json.dumps(message).encode()
    answer = await api.post(path, content=content, headers={b"Content-Type": b"application/json", **given})
    assert_refused(answer, status, code)
    await assert_goes_on(api, session)


def test_no_condition_that_failed_is_worth_the_same_request() -> None:
    assert [code for code, kind in CODES.items() if kind.status == 412 and kind.retry_action] == []
    assert {kind.retry_action for kind in CODES.values()} == {"", "wait", "resend"}


async def test_a_body_that_is_missing_is_named(api: ApiClient) -> None:
    answer = await api.post("/api/sessions", headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (error["message"], error["details"]) == ("the body is empty", [{"message": "the body is empty"}])


@pytest.mark.parametrize(
    "time", ["yesterday", "2026", "1e9", "2026-01-31", "2026-01-31T09:00:00", "2026-01-31T09:00:00+01:00"]
)
async def test_a_time_that_cannot_be_read_is_answered_with_an_example(api: ApiClient, time: str) -> None:
    answer = await api.get(f"/api/sessions?createdAfter={time}")
    assert_refused(answer, 400, "REQUEST_INVALID")
    assert "createdAfter: expected a time such as 2026-01-31T09:00:00Z" in answer.json()["error"]["message"]


@pytest.mark.parametrize("query", ["zone=Nowhere", "script=visit&name=1", "script=visit&zone=1"])
async def test_a_parameter_that_a_report_refuses_is_named(api: ApiClient, query: str) -> None:
    error = assert_refused(await api.get(f"/api/analytics/reports/funnel?{query}"), 400, "REPORT_INVALID")
    (detail,) = error["details"]
    assert (f"`{detail['field']}`" in error["message"], detail["message"]) == (True, error["message"])


OTHERS = [
    ("GET", f"/api/sessions/{NOBODY}", 404, "SESSION_NOT_FOUND"),
    ("GET", "/api/sessions/not-a-uuid", 404, "SESSION_NOT_FOUND"),
    ("GET", f"/api/sessions/{NOBODY}/messages", 404, "SESSION_NOT_FOUND"),
    ("GET", f"/api/sessions/{NOBODY}/variables", 404, "SESSION_NOT_FOUND"),
    ("GET", f"/api/scripts/{NOBODY}", 404, "SCRIPT_NOT_FOUND"),
    ("GET", "/api/scripts/unknown", 404, "SCRIPT_NOT_FOUND"),
    ("GET", "/api/sessions?limit=0", 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?limit=201", 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?limit=many", 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?limit=" + "9" * 5_000, 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?cursor=rubbish", 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?cursor=%C3%A9", 400, "REQUEST_INVALID"),
    ("GET", "/api/sessions?status=done", 400, "REQUEST_INVALID"),
    ("GET", "/api/users/ana/sessions?cursor=rubbish", 400, "REQUEST_INVALID"),
    ("GET", "/api/scripts?cursor=rubbish", 400, "REQUEST_INVALID"),
    ("GET", "/api/scripts?status=done", 400, "REQUEST_INVALID"),
    ("GET", "/api/scripts?search=" + "x" * 201, 400, "REQUEST_INVALID"),
    ("GET", "/nowhere", 404, "NOT_FOUND"),
    ("GET", "/api/sessions/a/b/c", 404, "NOT_FOUND"),
    ("DELETE", "/api/sessions", 405, "METHOD_NOT_ALLOWED"),
    ("PUT", "/health", 405, "METHOD_NOT_ALLOWED"),
]


@pytest.mark.gate
@pytest.mark.parametrize(("method", "path", "status", "code"), OTHERS, ids=range(len(OTHERS)))
async def test_refused_reads(api: ApiClient, method: str, path: str, status: int, code: str) -> None:
    assert_refused(await api.request(method, path), status, code)


async def test_a_path_or_method_without_a_route_is_named(api: ApiClient) -> None:
    assert (await api.get("/api/api/sessions")).json()["error"]["message"] == "no route has this path"
    refused = await api.put("/api/sessions")
    assert refused.json()["error"]["message"] == "the route does not take PUT; `Allow` lists what it takes"
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS, POST"


async def test_null_in_an_optional_field_is_as_if_it_were_absent(api: ApiClient) -> None:
    nothing = {"metadata": None, "key": None}
    session = await api.create_session("diary", initialVariables=None, context=None, seed=None, **nothing)
    path = f"/api/sessions/{session['sessionId']}"
    said = {"role": "user", "content": "a", "toolCalls": None, "toolCallId": None, "name": None, "metadata": None}
    requests = [
        ("PATCH", path, nothing),
        ("POST", f"{path}/fork", {"turn": None, **nothing}),
        ("POST", f"{path}/messages/append", {"messages": [said]}),
        ("POST", "/api/memory/units", {"userId": "ana", "units": [{"content": "a", "metadata": None}]}),
        ("POST", "/api/memory/search", {"userId": "ana", "text": "a", "external": None, "filters": None}),
        ("POST", "/api/scripts/validate", {"yamlContent": "script: a", "files": None}),
    ]
    for method, where, body in requests:
        answer = await api.request(method, where, json=body)
        assert answer.is_success, (where, answer.text)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=" + "9" * 30, "limit=0"])
async def test_refused_pages_of_messages(api: ApiClient, query: str) -> None:
    session = await api.create_session("diary")
    answer = await api.get(f"/api/sessions/{session['sessionId']}/messages?{query}")
    assert_refused(answer, 400, "REQUEST_INVALID")


async def test_a_message_to_nobody(api: ApiClient) -> None:
    error = assert_refused(await api.send_message({"sessionId": NOBODY}, {"content": "a"}), 404, "SESSION_NOT_FOUND")
    assert error["context"]["sessionId"] == NOBODY


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_a_body_must_say_that_it_is_json(api: ApiClient, kind: str) -> None:
    """A page in a browser can send these to a server on the same machine without asking."""
    headers = {"Content-Type": kind}
    answer = await api.post("/api/sessions", content=json.dumps(BODY), headers=headers)
    assert_refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert (await api.read("/api/sessions"))["data"] == []


async def test_a_compressed_body_is_refused_with_what_is_accepted(api: ApiClient) -> None:
    content = gzip.compress(json.dumps(BODY).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await api.post("/api/sessions", content=content, headers=headers)
    error = assert_refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert error["message"] == "a compressed body is not read; send it without `Content-Encoding`"
    assert answer.headers["accept-encoding"] == "identity"
    as_it_is = {**headers, "Content-Encoding": "identity"}
    assert (await api.post("/api/sessions", content=json.dumps(BODY), headers=as_it_is)).status_code == 200


async def test_an_id_has_one_spelling(api: ApiClient) -> None:
    session = await api.create_session("diary")
    name = session["sessionId"]
    for other in (name.upper(), name.replace("-", ""), f"{{{name}}}", f"urn:uuid:{name}"):
        if other != name:
            answer = await api.send_message({"sessionId": other}, {"content": "a"})
            assert_refused(answer, 404, "SESSION_NOT_FOUND")
    await assert_goes_on(api, session)


async def test_a_message_names_the_field_that_is_wrong(api: ApiClient) -> None:
    answer = await api.post("/api/sessions", json={**BODY, "user": "ana"})
    assert "user: there is no such field" in answer.json()["error"]["message"]
    answer = await api.post("/api/sessions", json={**BODY, "seed": "x"})
    assert "seed" in answer.json()["error"]["message"]


async def test_an_empty_reply_is_taken(api: ApiClient) -> None:
    answer = await api.send_message(await api.create_session("diary"), {"content": ""})
    assert answer.status_code == 200
    assert answer.json()["messages"][0]["content"] == "What comes after 0?"


@pytest.mark.parametrize(
    ("path", "parameters", "named"),
    [
        ("", {"createdAfter": "yesterday"}, "createdAfter"),
        ("/{}/history", {"maxMessages": 0}, "maxMessages"),
        ("/{}/messages", {"limit": 0}, "limit"),
    ],
)
async def test_a_parameter_is_named_as_it_was_sent(
    api: ApiClient, path: str, parameters: dict[str, Any], named: str
) -> None:
    session = await api.create_session("diary")
    answer = await api.get("/api/sessions" + path.format(session["sessionId"]), params=parameters)
    error = assert_refused(answer, 400, "REQUEST_INVALID")
    assert error["message"].startswith(f"{named}: ")
    assert error["details"][0]["field"] == named


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("POST", "messages", {"choice": "a"}, "choice"),
        ("POST", "messages", {"form": {"a": 1}}, "form"),
        ("PATCH", "variables", {"variables": {"age": "old"}}, "variables"),
    ],
)
async def test_the_part_of_an_input_that_a_session_refuses_is_named(
    api: ApiClient, method: str, path: str, body: dict[str, Any], named: str
) -> None:
    phases = "phases: [{phase: a, topics: [{topic: b, actions: [{ask: x, id: c}]}]}]"
    await api.publish_script(f"script: who\ndeclare: [{{var: age, type: number}}]\n{phases}")
    session = await api.create_session("who")
    answer = await api.request(method, f"/api/sessions/{session['sessionId']}/{path}", json=body)
    error = assert_refused(answer, 400, "REQUEST_INVALID")
    assert error["details"] == [{"message": error["message"], "field": named}]


async def test_a_header_is_named_as_it_was_sent(api: ApiClient) -> None:
    session = await api.create_session("diary")
    answer = await api.post(f"/api/sessions/{session['sessionId']}/clear", headers={"Idempotency-Key": "k" * 256})
    assert assert_refused(answer, 400, "REQUEST_INVALID")["message"].startswith("Idempotency-Key: ")
