"""Two tenants with the same users, keys, idempotency keys and scripts: neither sees, changes or learns of the other's.

Every route of the API is called by one with the ids of the other. A route with an id in its path must answer exactly
as it does to an id that nobody has. A new route fails here until its ids and bodies are known.
"""

import json
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.access.rules import rule_of
from api.caller import ROLES

STRANGE = {
    "session_id": "7d0f9f0e-4d0c-4b0e-9f3a-5d1c0a6b7e11",
    "script_id": "5b8a6c1e-1111-4b0e-9f3a-5d1c0a6b7e22",
    "key_id": "0" * 16,
    "webhook_id": "1f3c9d6e-2222-4b0e-9f3a-5d1c0a6b7e33",
    "delivery_id": "1f3c9d6e-3333-4b0e-9f3a-5d1c0a6b7e44",
    "unit_id": "1f3c9d6e-4444-4b0e-9f3a-5d1c0a6b7e55",
    "group_id": "1f3c9d6e-5555-4b0e-9f3a-5d1c0a6b7e66",
    "job_id": "1f3c9d6e-6666-4b0e-9f3a-5d1c0a6b7e77",
    "user_id": "ana",  # the same in both tenants
    "report": "activity",
    "table": "scripts",
    "turn": "0",
    "version": "1",
}
ALIKE = {"user_id", "turn", "version", "report", "table"}  # nobody is known by these
SCRIPT = """\
script: intake
title: "{mark}"
use: [globals.yaml]
phases:
  - phase: main
    topics:
      - topic: start
        actions:
          - ask: "What is it, {mark}?"
            id: ask_it
            output: [{{get: diary_of_ana}}]
          - ask: "And then, {mark}?"
            id: ask_more
            output: [{{get: more}}]
"""
GLOBALS = {"globals.yaml": "globals:\n  - {var: diary_of_ana, type: text}\n"}
NEW_SCRIPT = SCRIPT.format(mark="of the thief").replace("intake", "another")
BODIES: dict[str, Any] = {
    "POST /api/analytics/query": {"sql": "FROM messages", "masked": False},
    "POST /api/sessions": {"userId": "ana", "scriptId": "{script_id}", "key": "the-key-of-a-thief"},
    "POST /api/sessions/{session_id}/messages": {"content": "let me in"},
    "POST /api/sessions/by-key": {"userId": "ana", "scriptId": "intake", "key": "telegram:42"},
    "PATCH /api/sessions/{session_id}": {"metadata": {"note": "of the thief"}},
    "PATCH /api/sessions/{session_id}/variables": {"variables": {"more": "of the thief"}},
    "POST /api/sessions/{session_id}/pause": None,
    "POST /api/sessions/{session_id}/resume": None,
    "POST /api/sessions/{session_id}/end": {"reason": "a theft"},
    "POST /api/sessions/{session_id}/clear": None,
    "POST /api/sessions/{session_id}/compress": {"keep": 1},
    "POST /api/sessions/{session_id}/rewind": {"turn": 0},
    "POST /api/sessions/{session_id}/fork": {"turn": 0},
    "POST /api/sessions/{session_id}/messages/append": {"messages": [{"role": "user", "content": "of the thief"}]},
    "POST /api/sessions/{session_id}/migrate": {"version": 1},
    "POST /api/sessions/{session_id}/migrate/undo": None,
    "POST /api/scripts": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/import": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/validate": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/{script_id}/validate": None,
    "POST /api/sessions/import": {"id": "x", "full_chat_history": [{"role": "user", "content": "of the thief"}]},
    "PATCH /api/scripts/{script_id}": {"scriptName": "of the thief"},
    "POST /api/scripts/{script_id}/publish": {"version": 1},
    "POST /api/scripts/{script_id}/archive": {"version": 1},
    "PATCH /api/users/{user_id}/variables": {"variables": {"diary_of_ana": "of the thief"}},
    "POST /api/memory/units": {"userId": "ana", "group": "diary", "units": [{"content": "of the thief"}]},
    "PATCH /api/memory/units/{unit_id}": {"neverDelete": True},
    "POST /api/memory/search": {"userId": "ana", "text": "my", "group": "{group_id}", "recallContext": 3},
    "POST /api/memory/groups": {"userId": "ana", "group": "LATEST"},
    "POST /api/memory/groups/{group_id}/restore": {"userId": "ana", "source": "LATEST"},
    "POST /api/memory/summarise": {"userId": "ana", "group": "{group_id}"},
    "POST /api/memory/forget": {"userId": "ana", "share": 1.0},
    "POST /api/memory/embed": {"userId": "ana"},
    "POST /api/memory/import": {"format": "cuebook.memory"},
    "POST /api/operations/memory/repair": None,
    "POST /api/operations/compact": None,
    "POST /api/operations/retention": None,
    "POST /api/keys": {"name": "of the thief"},
    "POST /api/webhooks": {"url": "http://127.0.0.1:9/", "events": ["turn"]},
    "PATCH /api/webhooks/{webhook_id}": {"description": "of the thief"},
    "POST /api/webhooks/{webhook_id}/rotate-secret": None,
    "POST /api/webhooks/{webhook_id}/test": None,
    "POST /api/webhooks/{webhook_id}/replay": None,
    "POST /api/webhooks/{webhook_id}/deliveries/{delivery_id}/replay": None,
}
"""What is sent to each route that changes something; ids in braces are those of the path."""


QUERIES = {
    "/api/sessions/by-key": "?key=telegram:42",
    "/api/sessions/search": "?q=my",
    "/api/scripts/{script_id}/diff": "?from=1&to=1",
    "/api/analytics/archive": "?part=scripts",
}
QUERIES |= {
    path: "?userId=ana"
    for group in ("groups", "groups/{group_id}", "groups/{group_id}/context")
    for path in ("units", "units/{unit_id}", group, "status", "export")
    for path in [f"/api/memory/{path}"]
}
"""What a GET cannot do without."""
FILES = {f"/api/analytics/{path}" for path in ("snapshot", "status", "days", "tables/{table}", "archive")}
"""What has other bytes, or tells of another moment, each time, however much it says the same."""


class Tenant:
    """One of two that are alike, but for a mark in all that is theirs."""

    def __init__(self, api: Any, name: str) -> None:
        self.api = api
        self.name = name
        self.mark = f"mark-of-{name}"
        self.ids: dict[str, str] = {}

    async def settle(self) -> "Tenant":
        """Has a script, a session with a turn, a key, and a webhook that is to be told of it."""
        self.headers = {"Authorization": await self.api.key(*ROLES, tenant=self.name)}
        script = await self.ask(
            "POST", "/api/scripts", {"yamlContent": SCRIPT.format(mark=self.mark), "files": GLOBALS}
        )
        body = {"url": "http://127.0.0.1:9/", "events": ["turn"], "description": self.mark}
        webhook = (await self.ask("POST", "/api/webhooks", body)).json()["webhookId"]
        await self.ask("PATCH", f"/api/webhooks/{webhook}", {"status": "paused"})  # its deliveries wait
        begun = await self.begin()
        session_id = begun.json()["sessionId"]
        said = await self.ask(
            "POST",
            f"/api/sessions/{session_id}/messages",
            {"content": f"my {self.mark}"},
            {"Idempotency-Key": "the same of a message"},
        )
        assert said.status_code == 200, said.text
        waiting = (await self.ask("GET", f"/api/webhooks/{webhook}/deliveries")).json()["data"]
        units = {"userId": "ana", "group": f"diary of {self.name}", "units": [{"content": f"my {self.mark}"}]}
        unit = (await self.ask("POST", "/api/memory/units", units)).json()["data"][0]
        summing = await self.ask("POST", "/api/memory/summarise", {"userId": "ana"}, {"Prefer": "wait=60"})
        assert summing.json()["job"]["status"] == "done", summing.text
        self.ids = {
            "session_id": session_id,
            "webhook_id": webhook,
            "delivery_id": waiting[0]["deliveryId"],
            "script_id": script.json()["scriptId"],
            "key_id": self.headers["Authorization"].split("_")[1],
            "unit_id": unit["unitId"],
            "group_id": unit["groupId"],
            "job_id": summing.json()["job"]["jobId"],
            "user_id": "ana",
            "report": "activity",
            "table": "scripts",
            "turn": "0",
            "version": "1",
        }
        return self

    async def begin(self) -> Any:
        """Begins the session, with the keys that both tenants use."""
        body = {"userId": "ana", "scriptId": "intake", "key": "telegram:42", "metadata": {"note": "the same"}}
        answer = await self.ask("POST", "/api/sessions", body, {"Idempotency-Key": "the same"})
        assert answer.status_code == 200, answer.text
        return answer

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        return await self.api.request(method, path, json=body, headers=self.headers | (headers or {}))

    async def world(self) -> dict[str, Any]:
        """All that the tenant can see of its own."""
        seen = {}
        for method, path in await operations(self.api):
            rule = rule_of(method, path)
            if method == "GET" and not rule.is_open and not rule.is_of_server and path not in FILES:
                answer = await self.ask("GET", path.format(**self.ids) + QUERIES.get(path, ""))
                assert answer.status_code == 200, path
                seen[path] = plain(answer, {})
        return seen


async def operations(api: Any) -> list[tuple[str, str]]:
    paths = (await api.read("/schema/openapi.json"))["paths"]
    return [(method.upper(), path) for path, item in paths.items() for method in item if method != "parameters"]


def body_of(method: str, path: str, ids: dict[str, str]) -> Any:
    if method in {"GET", "DELETE"}:
        return None
    body = BODIES[f"{method} {path}"]  # a new route: say what is sent to it
    return json.loads(re.sub(r"{(\w+)}", lambda found: ids.get(found[1], found[0]), json.dumps(body)))


def plain(answer: Any, ids: dict[str, str]) -> tuple[int, str]:
    """An answer without what is different each time: ids that were sent, times, the id of the request."""
    text = answer.text
    for name, value in ids.items():
        if name in ALIKE - {"user_id"}:
            continue
        text = text.replace(value, f"<{name}>")
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)", "<time>", text)
    request_id = answer.headers["x-request-id"]
    return answer.status_code, text.replace(request_id, "<request>")


@pytest.fixture
async def api(app: Any, tmp_path: Path) -> AsyncIterator[Any]:
    """With webhooks to this machine, where nobody listens."""
    async with app(tmp_path / "data", webhook_private_targets=["127.0.0.1:9"]) as api:
        yield api


@pytest.fixture
async def tenants(api: Any) -> AsyncIterator[tuple[Tenant, Tenant]]:
    yield await Tenant(api, "clinic").settle(), await Tenant(api, "school").settle()


async def test_no_route_lets_a_tenant_reach_anothers(api: Any, tenants: tuple[Tenant, Tenant]) -> None:
    victim, thief = tenants
    before = await victim.world()
    for method, path in await operations(api):
        names = set(re.findall(r"{(\w+)}", path))
        assert names <= STRANGE.keys(), f"say what another tenant's {names} are"
        for query in (QUERIES.get(path, ""), "?debug=true&limit=1", "?userId=ana", "?strict=true"):
            if path.startswith("/api/memory") and "userId" not in query:
                query = f"{query}&userId=ana".replace("&", "&" if query else "?")
            asked = f"{path.format(**victim.ids)}{query}"
            answer = await thief.ask(method, asked, body_of(method, path, victim.ids))
            assert victim.mark not in answer.text, (method, path)
            for name in victim.ids.keys() - ALIKE:
                sent = name in names or victim.ids[name] in json.dumps(body_of(method, path, victim.ids))
                assert sent or victim.ids[name] not in answer.text, (method, path)
            if names - ALIKE:
                strange = await thief.ask(method, f"{path.format(**STRANGE)}{query}", body_of(method, path, STRANGE))
                assert plain(answer, victim.ids) == plain(strange, STRANGE), (method, path)
                assert answer.status_code == 404, (method, path)
    assert await victim.world() == before


async def test_another_tenants_headers_and_cursors_lead_nowhere(api: Any, tenants: tuple[Tenant, Tenant]) -> None:
    victim, thief = tenants
    session_id = victim.ids["session_id"]
    for headers in ({"Last-Event-ID": f"{session_id}:1"}, {"Accept": "text/event-stream"}, {"Prefer": "wait=1"}):
        answer = await thief.ask("GET", f"/api/sessions/{session_id}/events", headers=headers)
        assert answer.status_code == 404
    for headers in ({"Idempotency-Key": "the same of a message"}, {"If-Match": '"1"'}, {"Accept": "text/event-stream"}):
        answer = await thief.ask("POST", f"/api/sessions/{session_id}/messages", {"content": "x"}, headers)
        assert answer.status_code == 404
    for _ in range(3):
        body = {"userId": "ana", "scriptId": "intake"}
        assert (await victim.ask("POST", "/api/sessions", body)).status_code == 200
    for path in ("/api/sessions", "/api/scripts", "/api/keys", f"/api/webhooks/{victim.ids['webhook_id']}/deliveries"):
        cursor = (await victim.ask("GET", f"{path}?limit=1")).json()["nextCursor"]
        if cursor is not None:
            answer = await thief.ask("GET", f"{path}?cursor={cursor}")
            assert victim.mark not in answer.text
            assert victim.ids["session_id"] not in answer.text


async def test_the_same_request_of_two_tenants_is_two_requests(tenants: tuple[Tenant, Tenant]) -> None:
    """Same idempotency key, same key of the session, same body: each has its own session, and only that again."""
    one, other = tenants
    assert one.ids["session_id"] != other.ids["session_id"]
    for tenant in tenants:
        assert (await tenant.begin()).json()["sessionId"] == tenant.ids["session_id"]


async def test_a_user_of_the_same_name_is_somebody_else(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        seen = (await tenant.ask("GET", f"/api/sessions/{tenant.ids['session_id']}/variables")).json()
        assert seen["diary_of_ana"] == f"my {tenant.mark}"
        listed = (await tenant.ask("GET", "/api/users/ana/sessions")).json()
        assert [row["sessionId"] for row in listed] == [tenant.ids["session_id"]]


async def test_scripts_of_the_folder_belong_to_the_tenant_of_the_server(
    api: Any, tenants: tuple[Tenant, Tenant]
) -> None:
    own = {"Authorization": await api.key("app")}
    assert (await api.post("/api/sessions", json={"userId": "a", "scriptId": "visit"}, headers=own)).status_code == 200
    refused = await tenants[0].ask("POST", "/api/sessions", {"userId": "a", "scriptId": "visit"})
    assert refused.json()["error"]["code"] == "SCRIPT_NOT_FOUND"


async def test_what_the_server_counts_is_for_its_own_tenant(api: Any, tenants: tuple[Tenant, Tenant]) -> None:
    assert (await tenants[0].ask("GET", "/metrics")).status_code == 403
    own = await api.get("/metrics", headers={"Authorization": await api.key("admin")})
    assert own.status_code == 200
    ids = [value for tenant in tenants for name, value in tenant.ids.items() if name not in ALIKE]
    names = [tenant.mark for tenant in tenants] + ids
    assert not [name for name in names if name in own.text]


async def test_the_header_for_a_tenant_is_only_for_who_runs_the_machine(tenants: tuple[Tenant, Tenant]) -> None:
    one, other = tenants
    answer = await other.ask("GET", "/api/sessions", headers={"X-Cuebook-Tenant": one.name})
    assert [row["sessionId"] for row in answer.json()["data"]] == [other.ids["session_id"]]


async def test_an_id_that_is_made_up_is_nobodys(api: Any, tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        assert (await tenant.ask("GET", f"/api/sessions/{uuid.uuid4()}")).status_code == 404
