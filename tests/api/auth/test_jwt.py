"""Tokens of another issuer (JWT): what is verified of them, and what they say of who sends them."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from api.auth import jwt as tokens
from api.auth.authenticator import tokens_of
from api.auth.jwt import create_token_verifier
from api.local_files.settings_file import load_settings
from api.settings import Settings, SettingsInvalid
from runtime.models.hosted.settings import Secret
from tests.support.fixture_types import OpenApp

SHARED = "a secret of thirty-two bytes or more"


def private_pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(key: Any) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


RSA, ED = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
PAIRS = {
    "HS256": (SHARED, SHARED),
    "RS256": (private_pem(RSA), public_pem(RSA)),
    "EdDSA": (private_pem(ED), public_pem(ED)),
}
"""What signs, and what verifies, by algorithm."""


def claims(**more: Any) -> dict[str, Any]:
    every = {"exp": time.time() + 600, "roles": ["app"], "sub": "ana"} | more
    return {name: value for name, value in every.items() if value is not None}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def signed(algorithm: str = "HS256", **more: Any) -> dict[str, str]:
    return bearer(jwt.encode(claims(**more), PAIRS[algorithm][0], algorithm))


def settings_for(algorithm: str = "HS256", **more: Any) -> dict[str, Any]:
    return {"auth_jwt_algorithm": algorithm, "auth_jwt_key": Secret(PAIRS[algorithm][1])} | more


@pytest.mark.gate
@pytest.mark.parametrize("algorithm", PAIRS)
async def test_a_token_opens_what_its_claims_say(app: OpenApp, tmp_path: Path, algorithm: str) -> None:
    async with app(tmp_path, **settings_for(algorithm)) as api:
        headers = signed(algorithm)
        assert (await api.get("/api/sessions")).status_code == 401
        for _ in range(2):  # the second time from memory
            assert (await api.get("/api/sessions", headers=headers)).status_code == 200
        begun = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"}, headers=headers)
        assert begun.status_code == 200
        others = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "visit"}, headers=headers)
        assert others.status_code == 403
        assert (await api.get("/api/keys", headers=headers)).status_code == 403
    async with app(tmp_path, **settings_for(algorithm, auth_jwt_user_claim="")) as api:
        admin = signed(algorithm, roles="admin of-something-else")
        assert (await api.get("/api/keys", headers=admin)).status_code == 200


def forged(header: dict[str, Any], key: str = "") -> dict[str, str]:
    """Return a token put together by hand, signed with HMAC where there is a key."""

    def part(content: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")

    signing = part(header) + b"." + part(claims(roles=["admin"], sub=None))
    signature = jwt.get_algorithm_by_name("HS256").sign(signing, key.encode()) if key else b""
    return bearer((signing + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode())


@pytest.mark.parametrize("algorithm", PAIRS)
async def test_no_token_chooses_its_algorithm(app: OpenApp, tmp_path: Path, algorithm: str) -> None:
    async with app(tmp_path, **settings_for(algorithm, auth_jwt_user_claim="")) as api:
        for name in ("none", "None", "NONE", "nOnE", "", "HS512", "ES256"):
            for headers in (forged({"alg": name, "typ": "JWT"}), forged({"alg": name}, "x" * 40), forged({})):
                assert (await api.get("/api/keys", headers=headers)).status_code == 401


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
async def test_a_public_key_is_no_shared_secret(app: OpenApp, tmp_path: Path, algorithm: str) -> None:
    public = PAIRS[algorithm][1]
    async with app(tmp_path, **settings_for(algorithm, auth_jwt_user_claim="")) as api:
        for text in (public, public.strip(), public.replace("\n", "")):
            for name in ("HS256", algorithm):
                refused = await api.get("/api/keys", headers=forged({"alg": name, "typ": "JWT"}, text))
                assert refused.status_code == 401


@pytest.mark.gate
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"exp": time.time() - 3600}, "has expired"),
        ({"exp": None}, "no 'exp'"),
        ({"exp": "soon"}, "cannot be verified"),
        ({"nbf": time.time() + 3600}, "not valid yet"),
        ({"aud": "another"}, "another audience"),
        ({"aud": None}, "no 'aud'"),
        ({"iss": "another"}, "another issuer"),
        ({"iss": None}, "no 'iss'"),
        ({"org": None}, "no 'org'"),
        ({"org": ["clinic"]}, "is not a name"),
        ({"org": ""}, "is not a name"),
        ({"sub": "x" * 300}, "is not a name"),
        ({"sub": None}, "no 'sub'"),
        ({"sub": ""}, "is not a name"),
        ({"sub": 7}, "cannot be verified"),
    ],
)
async def test_an_invalid_token_is_refused_with_the_reason(
    app: OpenApp, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    expected = {"auth_jwt_audience": "cuebook", "auth_jwt_issuer": "https://login", "auth_jwt_tenant_claim": "org"}
    good = {"aud": "cuebook", "iss": "https://login", "org": "clinic"}
    async with app(tmp_path, **settings_for(**expected)) as api:
        assert (await api.get("/api/sessions", headers=signed(**good))).status_code == 200
        refused = await api.get("/api/sessions", headers=signed(**(good | more)))
        assert refused.status_code == 401
        assert why in refused.json()["error"]["message"]


async def test_a_token_with_another_signature_is_refused(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, **settings_for()) as api:
        token = signed()["Authorization"].removeprefix("Bearer ")
        head, body, signature = token.split(".")
        other = jwt.encode(claims(roles=["admin"]), SHARED, "HS256").split(".")
        stranger = jwt.encode(claims(), "another secret of thirty-two bytes", "HS256")
        for each in (
            f"{head}.{other[1]}.{signature}",
            f"{head}.{body}.",
            f"{head}.{body}",
            "a.b.c",
            stranger,
            token[:-2],
        ):
            refused = await api.get("/api/sessions", headers=bearer(each))
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
            assert each not in refused.text


async def test_tokens_are_of_the_tenant_they_name(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, **settings_for(auth_jwt_tenant_claim="org", auth_jwt_user_claim="")) as api:
        body = {"name": "ours"}
        for tenant in ("clinic", "school"):
            headers = signed(org=tenant, roles=["admin"], sub=None)
            assert (await api.post("/api/keys", json=body, headers=headers)).status_code == 201
            assert len((await api.get("/api/keys", headers=headers)).json()["data"]) == 1


async def test_which_claim_says_what_is_set(app: OpenApp, tmp_path: Path) -> None:
    named = {"auth_jwt_roles_claim": "https://cuebook/roles", "auth_jwt_user_claim": ""}
    async with app(tmp_path, **settings_for(**named)) as api:
        body = {"userId": "anybody", "scriptId": "visit"}
        answer = await api.post("/api/sessions", json=body, headers=signed(**{"https://cuebook/roles": ["app"]}))
        assert answer.status_code == 200
        assert (await api.post("/api/sessions", json=body, headers=signed())).status_code == 403


@pytest.mark.parametrize("name", ["sub", "email"])
async def test_a_token_without_its_user_reaches_nobody(app: OpenApp, tmp_path: Path, name: str) -> None:
    more: dict[str, Any] = {"sub": None, "roles": ["app", "reader", "admin"]}
    async with app(tmp_path, **settings_for(auth_jwt_user_claim=name)) as api:
        ana = signed(**{name: "ana"})
        begun = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"}, headers=ana)
        path = f"/api/sessions/{begun.json()['sessionId']}"
        for asked in (path, f"{path}/messages", "/api/sessions", "/api/memory/units?userId=ana", "/metrics"):
            refused = await api.get(asked, headers=signed(**more))
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHENTICATED"), asked
            assert repr(name) in refused.json()["error"]["message"]


async def test_keys_and_tokens_go_together(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, **settings_for()) as api:
        assert (
            await api.get("/api/sessions", headers={"Authorization": await api.create_key("app")})
        ).status_code == 200
        assert (await api.get("/api/sessions", headers=signed())).status_code == 200
        token = signed()["Authorization"].removeprefix("Bearer ")
        assert (await api.get("/api/sessions", headers={"X-API-Key": token})).status_code == 200


def test_a_token_that_was_good_expires() -> None:
    known = create_token_verifier(Settings(**settings_for()), "HS256")
    token, now = signed()["Authorization"].removeprefix("Bearer "), datetime.now(UTC)
    assert known.holder(token, now).user_id == "ana"
    assert known.holder(token, now + timedelta(minutes=10)).user_id == "ana"  # the leeway
    with pytest.raises(Exception, match="expired"):
        known.holder(token, now + timedelta(minutes=11))


@pytest.mark.parametrize(("claim", "name"), [("", "user default/ana"), ("org", "user clinic/ana")])
def test_the_holder_of_a_token_is_named_by_tenant_and_user(claim: str, name: str) -> None:
    known = create_token_verifier(Settings(**settings_for(auth_jwt_tenant_claim=claim)), "HS256")
    token = signed(org="clinic")["Authorization"].removeprefix("Bearer ")
    assert known.holder(token, datetime.now(UTC)).name == name


def test_person_has_one_name_with_all_tokens_bound_to_no_user() -> None:
    known = create_token_verifier(Settings(**settings_for(auth_jwt_user_claim="")), "HS256")
    renewed = [signed(exp=time.time() + later)["Authorization"].removeprefix("Bearer ") for later in (600, 1200)]
    holders = [known.holder(token, datetime.now(UTC)) for token in renewed]
    assert [(holder.user_id, holder.person) for holder in holders] == [(None, "ana")] * 2


def test_what_was_verified_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "KNOWN_MAX", 3)
    known = create_token_verifier(Settings(**settings_for()), "HS256")
    for number in range(10):
        token = jwt.encode(claims(sub=f"user {number}"), SHARED, "HS256")
        assert known.holder(token, datetime.now(UTC)).user_id == f"user {number}"
    assert len(known._cache) == 3


EC = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("algorithm", "key", "why"),
    [
        ("HS256", None, "needs auth_jwt_key"),
        ("HS256", "short", "at least 32 bytes"),
        ("HS256", PAIRS["RS256"][1], "not a key for HS256"),
        ("RS256", SHARED, "not a key for RS256"),
        ("RS256", PAIRS["RS256"][0], "private key"),
        ("RS256", PAIRS["EdDSA"][1], "not a key for RS256"),
        ("RS256", public_pem(EC), "not a key for RS256"),
        ("EdDSA", PAIRS["RS256"][1], "not a key for EdDSA"),
        ("EdDSA", "-----BEGIN PUBLIC KEY-----\nnonsense", "not a key for EdDSA"),
    ],
)
def test_a_key_that_cannot_verify_is_refused_at_the_start(algorithm: str, key: str | None, why: str) -> None:
    settings = Settings(auth_jwt_algorithm=algorithm, auth_jwt_key=Secret(key) if key else None)
    with pytest.raises(SettingsInvalid, match=why) as refused:
        tokens_of(settings)
    assert key is None or key not in str(refused.value)


def test_the_key_may_stand_in_a_file_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "public.pem").write_text(PAIRS["RS256"][1])
    (tmp_path / "cuebook.toml").write_text('auth_jwt_algorithm = "RS256"\nauth_jwt_key_file = "public.pem"\n')
    settings = load_settings(tmp_path / "cuebook.toml", {}, {})
    assert tokens_of(settings) is not None
    (tmp_path / "public.pem").unlink()
    with pytest.raises(SettingsInvalid, match="auth_jwt_key_file"):
        tokens_of(settings)
    both = load_settings(tmp_path / "cuebook.toml", {}, {"CUEBOOK_AUTH_JWT_KEY": SHARED})
    with pytest.raises(SettingsInvalid, match="one of"):
        tokens_of(both)


def test_an_algorithm_that_is_none_is_no_setting() -> None:
    for name in ("none", "HS1", "RS512"):
        with pytest.raises(SettingsInvalid, match="CUEBOOK_AUTH_JWT_ALGORITHM"):
            load_settings(None, {}, {"CUEBOOK_AUTH_JWT_ALGORITHM": name})
