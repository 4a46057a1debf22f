"""``cuebook keys``, and a server that asks for one: on this machine, and on others."""

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from api.app import create_app
from api.cli.backend import backend
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from store.open_store import open_store
from tests.support.fixture_types import Serve

Command = Callable[..., Result]


def test_a_key_is_made_listed_and_revoked_without_a_server(cuebook: Command, tmp_path: Path) -> None:
    made = cuebook("keys", "create", "--name", "our app", "--data", "new")
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    assert key.startswith("cbk_")
    key_id = key.split("_")[1]
    assert key_id in made.stderr
    (row,) = json.loads(cuebook("keys", "list", "--data", "new", "--json").stdout)["data"]
    assert (row["keyId"], row["roles"], row["userId"], row["revokedAt"]) == (key_id, ["app"], None, None)
    assert cuebook("keys", "revoke", key_id, "--data", "new").exit_code == 0
    (row,) = json.loads(cuebook("keys", "list", "--data", "new", "--json").stdout)["data"]
    assert row["revokedAt"] is not None
    again = cuebook("keys", "revoke", key_id, "--data", "new")
    assert (again.exit_code, "no such key" in again.stderr) == (2, True)


def test_what_a_key_may_do_is_said_when_it_is_made(cuebook: Command) -> None:
    options = ["--role", "author", "--role", "analyst", "--user", "ana", "--expires", "30", "--tenant", "诊所"]
    made = json.loads(cuebook("keys", "create", "--name", "x", *options, "--json").stdout)
    assert (made["roles"], made["userId"]) == (["analyst", "author"], "ana")
    assert made["expiresAt"] > made["createdAt"]
    assert json.loads(cuebook("keys", "list", "--json").stdout) == {"data": [], "nextCursor": None}
    (row,) = json.loads(cuebook("keys", "list", "--tenant", "诊所", "--json").stdout)["data"]
    assert row["keyId"] == made["keyId"]
    table = cuebook("keys", "list", "--tenant", "诊所").stdout.splitlines()
    assert table[0].split("\t")[:3] == ["keyId", "name", "roles"]
    assert table[1].split("\t")[:3] == [made["keyId"], "x", "analyst author"]


def test_a_key_that_cannot_be_is_refused(cuebook: Command) -> None:
    assert cuebook("keys", "create", "--name", "").exit_code == 2
    assert cuebook("keys", "create", "--name", "x", "--role", "root").exit_code == 2
    assert cuebook("keys", "list", "--data", "nowhere").exit_code == 2


def test_a_key_of_no_tenant_is_refused(cuebook: Command) -> None:
    refused = cuebook("keys", "create", "--name", "app", "--tenant", "", "--data", "new")
    assert refused.exit_code != 0
    assert "--tenant is empty" in refused.stderr


def test_commands_need_no_key_on_the_machine_itself(cuebook: Command) -> None:
    cuebook("keys", "create", "--name", "our app")
    listed = cuebook("sessions", "list", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)["data"]) == (0, [])


def mode_of(file: Path) -> int:
    return file.stat().st_mode


@pytest.mark.database_file
async def test_a_running_server_takes_keys_from_the_command_line(serve: Serve, tmp_path: Path) -> None:
    """The server asks for a key from the moment there is one; commands beside it go on without."""
    server = serve()
    await server.ready()
    async with server.client() as api:
        await api.create_session("visit")
        secret = tmp_path / "data" / "server-key"
        assert stat.S_IMODE(await asyncio.to_thread(mode_of, secret)) == 0o600
        settings = Settings(data=tmp_path / "data")
        async with backend(settings, managing=True) as beside:
            made: Any = await beside.send("POST", "/api/keys", {"name": "x"})
            assert (await api.get("/api/sessions")).status_code == 401
            key = {"Authorization": f"Bearer {made['key']}"}
            assert len((await api.get("/api/sessions", headers=key)).json()["data"]) == 1
            assert (await api.get("/metrics", headers=key)).status_code == 403
            seen: Any = await beside.get("/api/sessions")
            assert len(seen["data"]) == 1
            await beside.send("DELETE", f"/api/keys/{made['keyId']}")
            assert (await api.get("/api/sessions", headers=key)).status_code == 401
        async with backend(settings, tenant="clinic") as elsewhere:
            assert await elsewhere.get("/api/keys") == {"data": [], "nextCursor": None}
    assert await server.stop() == 0
    assert not await asyncio.to_thread(secret.exists)
    assert made["key"] not in server.log


async def test_other_machines_are_let_in_only_with_keys(cuebook: Command, serve: Serve, tmp_path: Path) -> None:
    refused = serve("--host", "0.0.0.0")  # noqa: S104
    assert await asyncio.to_thread(refused.process.wait, 60) == 2
    assert "there are no API keys" in refused.log
    assert "cuebook keys create --name NAME" in refused.log
    command = ("keys", "create", "--name", "our app", "--data", tmp_path / "data")
    made = (await asyncio.to_thread(cuebook, *command)).stdout.strip()
    server = serve("--host", "0.0.0.0")  # noqa: S104
    await server.ready()
    async with server.client() as api:
        assert (await api.get("/api/sessions")).status_code == 401
        key = {"Authorization": f"Bearer {made}"}
        assert (await api.get("/api/sessions", headers=key)).status_code == 200
    assert "with an API key, from anywhere" in server.log


def test_unusable_key_for_tokens_stops_the_server_with_a_message(cuebook: Command) -> None:
    settings = {"CUEBOOK_AUTH_JWT_ALGORITHM": "RS256", "CUEBOOK_AUTH_JWT_KEY": "nonsense"}
    for command in (["serve", "--port", "0"], ["keys", "create", "--name", "x"]):
        stopped = cuebook(*command, env=settings)
        assert stopped.exit_code == 2
        assert "not a key for RS256" in stopped.stderr
        assert "nonsense" not in stopped.output


async def test_where_keys_are_needed_there_need_be_none_to_be_refused(tmp_path: Path) -> None:
    """A server for other machines is never open, not even while nobody knows whether there are keys."""
    store = open_store(tmp_path)
    app = create_app(Settings(data=tmp_path), store, OfflineModel(), keys_needed=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.get("/api/sessions")).status_code == 401
        assert (await client.get("/health")).status_code == 200
    await store.close()
