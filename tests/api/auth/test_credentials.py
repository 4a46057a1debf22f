"""Who a request is from, at the bounds: the longest credential and tenant, and the moment a key expires."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.auth.api_keys import ApiKeys
from api.auth.authenticator import CREDENTIAL_CHARS_MAX, TENANT_CHARS_MAX, Authenticated, Authenticator
from api.auth.middleware import check_role
from api.auth.policy import ADMIN, policy_of
from api.auth.principal import Principal
from api.errors import ApiError
from api.schemas.keys import NewKey
from api.settings import Settings
from store.open_store import open_store
from store.store import Store

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
OPERATOR_KEY = "the operator's key"

APP = policy_of("POST", "/api/sessions/{sessionId}/messages")
OWN_APP = policy_of("POST", "/api/memory/units")
SERVER = policy_of("GET", "/metrics")


class Access:
    """The keys of a database and an authenticator, at a time that the test sets."""

    def __init__(self, store: Store, folder: Path, **settings: Any) -> None:
        self.now = NOON
        self.store = store
        self.keys = ApiKeys(store, lambda: self.now)
        self._authenticator = Authenticator(
            Settings(data=folder, **settings), self.keys, lambda: self.now, OPERATOR_KEY, always=False
        )

    def sender(self, credential: str, **headers: str) -> Authenticated:
        """Authenticate a request with a credential."""
        sent = {"authorization": f"Bearer {credential}"} | {name.replace("_", "-"): headers[name] for name in headers}
        return self._authenticator.authenticate(
            [(name.encode(), value.encode()) for name, value in sent.items()], "127.0.0.1", APP
        )

    def refusal(self, credential: str, **headers: str) -> tuple[str, str]:
        """Return the code and message with which a request is refused."""
        with pytest.raises(ApiError) as refused:
            self.sender(credential, **headers)
        return refused.value.code, str(refused.value)


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    store = open_store(tmp_path)
    access = Access(store, tmp_path)
    await access.keys.load()
    yield access
    await access.keys.close()
    await store.close()


UNKNOWN = ("UNAUTHENTICATED", "the key is unknown, revoked or has expired")


async def test_only_a_credential_of_a_possible_length_is_looked_up(access: Access) -> None:
    await access.keys.make("default", NewKey(name="app", roles=["app"]))
    assert access.refusal("x" * CREDENTIAL_CHARS_MAX) == UNKNOWN
    assert access.refusal("x" * (CREDENTIAL_CHARS_MAX + 1)) == ("UNAUTHENTICATED", "invalid API key")


async def test_operator_has_every_role_in_the_tenant_of_the_header(access: Access) -> None:
    for sent, tenant in (("", "default"), ("school", "school"), ("%E5%AD%A6", "学"), ("t" * TENANT_CHARS_MAX,) * 2):
        sender = access.sender(OPERATOR_KEY, x_cuebook_tenant=sent)
        assert (sender.principal.tenant, sender.principal.name, sender.known) == (tenant, "operator", None)
        assert "admin" in sender.principal.roles
    refused = access.refusal(OPERATOR_KEY, x_cuebook_tenant="t" * (TENANT_CHARS_MAX + 1))
    assert refused == ("REQUEST_INVALID", "x-cuebook-tenant: the name of a tenant has at most 200 characters")


async def test_a_key_acts_for_its_own_tenant_whatever_the_header_names(access: Access) -> None:
    made = await access.keys.make("clinic", NewKey(name="app", roles=["app"], user_id="ana"))
    sender = access.sender(made.text, x_cuebook_tenant="school")
    assert sender.principal == Principal("clinic", frozenset({"app"}), "ana", f"key {made.row.key_id}", "app")
    assert sender.known is not None
    assert sender.known.row == made.row


async def test_a_key_is_valid_until_the_moment_it_expires(access: Access) -> None:
    made = await access.keys.make("default", NewKey(name="app", roles=["app"], expires_days=1))
    access.now = NOON + timedelta(days=1) - timedelta(microseconds=1)
    assert access.sender(made.text).principal.roles == {"app"}
    access.now = NOON + timedelta(days=1)
    assert access.refusal(made.text) == UNKNOWN


async def test_erased_user_loses_only_their_keys_in_the_tenant(access: Access) -> None:
    bound = {
        (tenant, user): await access.keys.make(tenant, NewKey(name="app", roles=["app"], user_id=user))
        for tenant in ("clinic", "school")
        for user in ("ana", "ben", None)
    }
    known = {of: access.sender(made.text).known for of, made in bound.items()}
    access.keys.forget("clinic", "ana")
    for of, made in bound.items():
        key = known[of]
        assert key is not None
        assert key.revoked.is_set() == (of == ("clinic", "ana"))
        if of == ("clinic", "ana"):
            assert access.refusal(made.text) == UNKNOWN
        else:
            assert access.sender(made.text).known is key


async def test_a_key_is_revoked_by_its_own_tenant_once(access: Access) -> None:
    made = await access.keys.make("clinic", NewKey(name="app", roles=["app"]))
    with pytest.raises(ApiError, match="there is no such key"):
        await access.keys.revoke("school", made.row.key_id)
    key = access.sender(made.text).known
    assert key is not None
    assert not key.revoked.is_set()
    await access.keys.revoke("clinic", made.row.key_id)
    assert key.revoked.is_set()
    assert access.refusal(made.text) == UNKNOWN
    with pytest.raises(ApiError) as refused:
        await access.keys.revoke("clinic", made.row.key_id)
    assert refused.value.code == "KEY_NOT_FOUND"


@pytest.mark.parametrize(
    ("rule", "principal", "parameters", "says"),
    [
        (APP, Principal(roles=frozenset({"reader", "author"})), {}, "this requires the role admin or app"),
        (ADMIN, Principal(roles=frozenset({"app"})), {}, "this requires the role admin"),
        (SERVER, Principal("clinic"), {}, "this is only for the tenant default"),
        (APP, Principal(user_id="ana"), {"userId": "ben"}, "this key is bound to another user"),
        (OWN_APP, Principal(user_id="ana"), {"userId": "ben"}, "this key is bound to another user"),
        (APP, Principal(user_id="ana"), {}, "this cannot be used with a key or token that is bound to a user"),
        (APP, Principal(user_id=""), {}, "this cannot be used with a key or token that is bound to a user"),
    ],
)
def test_a_refusal_says_what_is_missing(rule: Any, principal: Principal, parameters: Any, says: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_role(rule, principal, parameters)
    assert (refused.value.code, str(refused.value)) == ("FORBIDDEN", says)


@pytest.mark.parametrize(
    ("rule", "principal", "parameters"),
    [
        (APP, Principal("clinic", frozenset({"app"})), {"userId": "ben"}),
        (SERVER, Principal(), {}),
        (APP, Principal(user_id="ana"), {"userId": "ana"}),
        (APP, Principal(user_id="ana"), {"sessionId": "any"}),  # whose it is, is looked up afterwards
        (OWN_APP, Principal(user_id="ana"), {}),
    ],
)
def test_who_has_the_role_the_tenant_and_the_user_may(rule: Any, principal: Principal, parameters: Any) -> None:
    check_role(rule, principal, parameters)
