"""A browser signs in with a key, which its cookie then holds; pages of other origins cannot use it."""

from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient

OWN = {"Origin": "http://localhost"}


async def key_of(api: ApiClient, *roles: str, **fields: Any) -> str:
    return (await api.create_key(*roles, **fields)).removeprefix("Bearer ")


async def sign_in(api: ApiClient, key: str, **headers: str) -> httpx.Response:
    answer = await api.post("/api/sign-in", json={"key": key}, headers=OWN | headers)
    api.cookies.clear()  # each request says itself what it sends
    return answer


def cookie_of(answer: httpx.Response) -> Any:
    return SimpleCookie(answer.headers["set-cookie"])["cuebook_key"]


async def test_the_cookie_stands_for_the_key(api: ApiClient) -> None:
    key = await key_of(api, "reader")
    answer = await sign_in(api, key)
    cookie = cookie_of(answer)
    assert (cookie["httponly"], cookie["samesite"].lower(), cookie["path"]) == (True, "strict", "/api")
    assert answer.json()["roles"] == ["reader"]
    found = await api.get("/api/me", headers={"Cookie": f"theme=dark; cuebook_key={cookie.value}"})
    assert (found.json()["roles"], found.json()["tenant"], found.json()["keysRequired"]) == (
        ["reader"],
        "default",
        True,
    )
    assert (await api.get("/api/me")).status_code == 401


@pytest.mark.parametrize(
    "header", ['cuebook_key="{}"; theme=dark', "a=1;cuebook_key={};b=2=3", "b=;  cuebook_key = {} "]
)
async def test_the_cookie_is_found_as_browsers_and_programs_write_it(api: ApiClient, header: str) -> None:
    key = await key_of(api, "reader")
    found = await api.get("/api/me", headers={"Cookie": header.format(key)})
    assert found.json()["roles"] == ["reader"]


async def test_another_cookie_is_no_key(api: ApiClient) -> None:
    key = await key_of(api, "reader")
    assert (await api.get("/api/me", headers={"Cookie": f"theme=cuebook_key={key}; key={key}"})).status_code == 401


async def test_roles_hold_for_the_cookie(api: ApiClient) -> None:
    key = await key_of(api, "reader")
    sent = {"Cookie": f"cuebook_key={key}"} | OWN
    assert (await api.get("/api/sessions", headers=sent)).status_code == 200
    assert (await api.post("/api/scripts", json={}, headers=sent)).json()["error"]["code"] == "FORBIDDEN"


@pytest.mark.parametrize("key", ["cbk_0_wrong", "no key", "ä"])
async def test_a_wrong_key_gets_no_cookie(api: ApiClient, key: str) -> None:
    await key_of(api, "reader")
    answer = await sign_in(api, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    assert "set-cookie" not in answer.headers


async def test_a_server_without_keys_needs_no_cookie(api: ApiClient) -> None:
    answer = await sign_in(api, "schlüssel-钥匙")
    assert (answer.status_code, answer.json()["keysRequired"]) == (200, False)
    assert "set-cookie" not in answer.headers


@pytest.mark.gate
@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://localhost:3000"}, False),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({}, False),
    ],
)
async def test_only_own_pages_change_data(api: ApiClient, headers: dict[str, str], passes: bool) -> None:
    key = await key_of(api, "app")
    body = {"userId": "ana", "scriptId": "visit"}
    answer = await api.post("/api/sessions", json=body, headers={"Cookie": f"cuebook_key={key}"} | headers)
    assert answer.status_code == (200 if passes else 403)


async def test_a_permitted_origin_cannot_use_the_cookie(app: Any, tmp_path: Path) -> None:
    async with app(tmp_path, cors_origins=("https://app.example",)) as api:
        key = await key_of(api, "app")
        body, origin = {"userId": "ana", "scriptId": "visit"}, {"Origin": "https://app.example"}
        by_key = await api.post("/api/sessions", json=body, headers=origin | {"Authorization": f"Bearer {key}"})
        by_cookie = await api.post("/api/sessions", json=body, headers=origin | {"Cookie": f"cuebook_key={key}"})
        assert (by_key.status_code, by_cookie.status_code) == (200, 403)


async def test_a_key_in_a_header_counts_first(api: ApiClient) -> None:
    reader, app_key = await key_of(api, "reader"), await key_of(api, "app")
    sent = {"Cookie": f"cuebook_key={reader}", "Authorization": f"Bearer {app_key}"}
    assert (await api.get("/api/me", headers=sent)).json()["roles"] == ["app"]


async def test_a_revoked_key_ends_the_cookie(api: ApiClient) -> None:
    key = await key_of(api, "reader")
    admin = await key_of(api, "admin")
    await api.delete(f"/api/keys/{key.split('_')[1]}", headers={"Authorization": f"Bearer {admin}"})
    assert (await api.get("/api/me", headers={"Cookie": f"cuebook_key={key}"})).status_code == 401


async def test_signing_out_deletes_the_cookie(api: ApiClient) -> None:
    await key_of(api, "reader")
    answer = await api.post("/api/sign-out", headers=OWN)
    assert (answer.status_code, cookie_of(answer).value, cookie_of(answer)["max-age"]) == (204, "", "0")


async def test_with_tls_the_cookie_is_secure(api: ApiClient) -> None:
    key = await key_of(api, "reader")
    assert not cookie_of(await sign_in(api, key))["secure"]
    assert cookie_of(await sign_in(api, key, Origin="https://localhost"))["secure"]


async def test_without_keys_everybody_is_admin(api: ApiClient) -> None:
    found = await api.read("/api/me")
    assert ("admin" in found["roles"], found["keysRequired"]) == (True, False)


async def test_cookies_of_another_tenant_see_its_data_alone(api: ApiClient) -> None:
    await api.create_session("visit")
    key = await key_of(api, "admin", tenant="clinic")
    sent = {"Cookie": f"cuebook_key={key}"}
    assert (await api.get("/api/me", headers=sent)).json()["tenant"] == "clinic"
    assert (await api.get("/api/sessions", headers=sent)).json()["data"] == []


async def test_tokens_of_participants_do_not_sign_in(api: ApiClient) -> None:
    headers = {"Authorization": f"Bearer {await key_of(api, 'app')}"}
    made = await api.post("/api/participants/tokens", json={"userId": "ana", "scriptId": "visit"}, headers=headers)
    answer = await sign_in(api, made.json()["token"])
    assert (made.status_code, answer.status_code, "set-cookie" in answer.headers) == (201, 401, False)
