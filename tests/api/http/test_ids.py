"""Ids with control characters and line breaks are refused, wherever a client can put one."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jwt
import pytest

from api.auth.policy import ROUTE_POLICIES
from api.embedded_memory import open_memory
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.models.hosted.settings import Secret
from tests.support.api_client import OPERATOR_KEY, ApiClient
from tests.support.fixture_types import OpenApp

BAD = ("a\0b", "a\r\nb", "a\n", "\tb", "a\x7f", "a\x85b", "a\u2028b")
WORDS = "cannot contain control characters|without control characters|no name"
GOOD = ("ana@example.org", "telegram:42", "ü nï cödé", "中文", "a b", "a/b", "👩\u200d🚀")
ELSE = {"session_id": "6f1c2a52-6c55-4b7e-9d6e-0c1f7f3f7a11", "turn": "0", "version": "1", "script_id": "visit"}


def places() -> Iterator[tuple[str, str]]:
    """Return each parameter that is a text, of each path; the others are what some session could be."""
    for route in ROUTE_POLICIES:
        method, path = route.split(" ")
        for name in re.findall(r"{(\w+)}", path):
            if name not in {"turn", "version"}:
                yield method, re.sub(r"{(\w+)}", lambda m: "{}" if m[1] == name else ELSE.get(m[1], "x"), path)  # noqa: B023


def assert_refused(answer: Any, what: object = "") -> None:
    assert answer.status_code == 400, (what, answer.text)
    error = answer.json()["error"]
    assert error["code"] == "REQUEST_INVALID"
    assert re.search(WORDS, error["message"]), error["message"]
    assert "regex" not in answer.text


async def test_an_id_in_a_path_has_no_control_character(api: ApiClient) -> None:
    found = list(places())
    assert len(found) > 40
    for method, path in found:
        for bad in BAD:
            body = {"json": {}} if method in {"POST", "PATCH"} else {}
            assert_refused(await api.request(method, path.format(quote(bad, safe="")), **body), path)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/sessions", "userId"),
        ("/api/sessions", "key"),
        ("/api/sessions", "keyPrefix"),
        ("/api/sessions", "scriptId"),
        ("/api/sessions", "cursor"),
        ("/api/sessions", "metadata.a"),
        ("/api/sessions/by-key", "key"),
        ("/api/memory/units", "userId"),
        ("/api/memory/groups", "userId"),
        ("/api/scripts", "tag"),
    ],
)
async def test_an_id_in_a_query_has_no_control_character(api: ApiClient, path: str, name: str) -> None:
    for bad in BAD:
        assert_refused(await api.get(path, params={name: bad}), bad)
        assert_refused(await api.get(f"{path}?{quote(bad, safe='')}=x"), bad)


async def test_bytes_that_are_not_utf_8_name_nobody(api: ApiClient) -> None:
    body = {"variables": {"name": "Zhang"}}
    await api.patch("/api/users/%EF%BF%BD/variables", json=body)  # U+FFFD itself, to which other bytes were decoded
    for method, path, name in [
        ("GET", "/api/users/%D5%C5/variables", "userId"),
        ("DELETE", "/api/users/%C0%EE", "userId"),
        ("GET", "/api/users/a%2F%ff/variables", "userId"),
        ("GET", "/api/sessions?limit=3&userId=%ff", "userId"),
        ("GET", "/api/sessions/by-key?key=%ff", "key"),
        ("GET", "/api/sessions/search?q=%ff", "q"),
    ]:
        answer = await api.request(method, path)
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, f"{name}: this is not UTF-8"), path
    assert (await api.read("/api/users/%EF%BF%BD/variables"))["variables"]["name"]["value"] == "Zhang"
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "X-Cuebook-Tenant": "%ff"}
    assert (await api.get("/api/sessions", headers=headers)).status_code == 400


async def test_texts_in_a_query_may_have_several_lines(api: ApiClient) -> None:
    assert (await api.get("/api/sessions/search", params={"q": "a\nb\tc"})).status_code == 200
    assert (await api.get("/api/scripts", params={"search": "a\nb"})).status_code == 200


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/api/sessions", {"userId": "BAD", "scriptId": "visit"}),
    ("/api/sessions", {"userId": "ana", "scriptId": "BAD"}),
    ("/api/sessions", {"userId": "ana", "scriptId": "visit", "key": "BAD"}),
    ("/api/sessions", {"userId": "ana", "scriptId": "visit", "locale": "BAD"}),
    ("/api/sessions/by-key", {"userId": "ana", "key": "BAD"}),
    ("/api/memory/units", {"userId": "BAD", "units": [{"content": "x"}]}),
    ("/api/memory/units", {"userId": "ana", "units": [{"content": "x", "unitId": "BAD"}]}),
    ("/api/memory/units", {"userId": "ana", "units": [{"content": "x", "source": "BAD"}]}),
    ("/api/memory/units", {"userId": "ana", "group": "BAD", "units": [{"content": "x"}]}),
    ("/api/memory/search", {"userId": "BAD", "text": "x"}),
    ("/api/keys", {"name": "x", "userId": "BAD"}),
    ("/api/scripts", {"yamlContent": "script: x", "tags": ["BAD"]}),
]


@pytest.mark.gate
@pytest.mark.parametrize(("path", "body"), BODIES, ids=lambda each: each if isinstance(each, str) else "")
async def test_an_id_in_a_body_has_no_control_character(api: ApiClient, path: str, body: dict[str, Any]) -> None:
    for bad in BAD:
        sent = json.loads(json.dumps(body).replace('"BAD"', json.dumps(bad)))
        answer = await api.post(path, json=sent)
        assert answer.status_code == 400, answer.text
        assert "regex" not in answer.text


async def test_a_header_has_no_control_character(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        body = {"userId": "ana", "scriptId": "visit"}
        for bad in (b"a\tb", b"a\x7fb", b"a\x01"):
            assert_refused(await api.post("/api/sessions", json=body, headers={"Idempotency-Key": bad}), bad)
        assert (
            await api.post("/api/sessions", json=body, headers={"Idempotency-Key": "ÀÉ".encode()})
        ).status_code == 200
        with pytest.raises(AssertionError, match="cannot contain control characters"):
            await api.create_key("admin", tenant="a\nb")


async def test_a_token_names_no_control_character(app: OpenApp, tmp_path: Path) -> None:
    secret = "a secret of thirty-two bytes or more"  # noqa: S105
    async with app(tmp_path, auth_jwt_algorithm="HS256", auth_jwt_key=Secret(secret)) as api:
        for bad in BAD:
            token = jwt.encode({"sub": bad, "roles": ["app"], "exp": time.time() + 60}, secret, "HS256")
            refused = await api.get("/api/sessions", headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 401


async def test_ids_of_all_languages_and_signs_are_taken(api: ApiClient) -> None:
    for good in GOOD:
        session = await api.create_session("visit", user=good, key=good)
        assert (await api.read("/api/sessions/by-key", key=good))["sessionId"] == session["sessionId"]
        assert (await api.get(f"/api/users/{quote(good, safe='')}/sessions")).json()[0]["key"] == good


async def test_a_document_names_no_control_character(api: ApiClient) -> None:
    session = await api.create_session("visit")
    document = await api.read(f"/api/sessions/{session['sessionId']}/export")
    for part in ("user_id", "key"):
        document["session"][part] = "a\nb"
        refused = await api.post("/api/sessions/import", json=document, params={"copy": "true"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "DOCUMENT_INVALID"), refused.text
        document["session"][part] = "ana"


def test_a_memory_is_of_no_user_with_a_line_break(tmp_path: Path) -> None:
    with pytest.raises(InvalidMemoryRequest, match="line break"), open_memory(tmp_path, "a\nb"):
        pass
