"""Before the keys of the database are known, every request needs a key."""

from pathlib import Path

import pytest

from api.auth.api_keys import ApiKeys
from api.auth.authenticator import Authenticator
from api.auth.policy import policy_of
from api.errors import ApiError
from api.schemas.timestamps import utc_now
from api.settings import Settings
from store.open_store import open_store

APP = policy_of("POST", "/api/sessions/{sessionId}/messages")
PROBE = policy_of("GET", "/health")


async def test_a_key_is_required_until_it_is_known_that_there_is_none(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    keys = ApiKeys(store, utc_now)
    authenticator = Authenticator(Settings(data=tmp_path), keys, utc_now, "", always=False)
    with pytest.raises(ApiError, match="this server requires a key"):
        authenticator.authenticate([], "127.0.0.1", APP)
    assert authenticator.authenticate([], "127.0.0.1", PROBE).principal.roles == frozenset()
    await keys.load()
    assert "admin" in authenticator.authenticate([], "127.0.0.1", APP).principal.roles
    await store.close()
