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
from urllib.parse import parse_qsl, urlencode

import pytest

from api.auth.policy import policy_of
from api.schemas.keys import ROLES
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.query_parameters import QueryParameters

STRANGE = {
    "sessionId": "7d0f9f0e-4d0c-4b0e-9f3a-5d1c0a6b7e11",
    "scriptId": "5b8a6c1e-1111-4b0e-9f3a-5d1c0a6b7e22",
    "keyId": "0" * 16,
    "webhookId": "1f3c9d6e-2222-4b0e-9f3a-5d1c0a6b7e33",
    "deliveryId": "1f3c9d6e-3333-4b0e-9f3a-5d1c0a6b7e44",
    "unitId": "1f3c9d6e-4444-4b0e-9f3a-5d1c0a6b7e55",
    "groupId": "1f3c9d6e-5555-4b0e-9f3a-5d1c0a6b7e66",
    "jobId": "1f3c9d6e-6666-4b0e-9f3a-5d1c0a6b7e77",
    "linkId": "1f3c9d6e22221f3c9d6e2222",
    "reviewId": "1f3c9d6e-8888-4b0e-9f3a-5d1c0a6b7e99",
    "queryId": "1f3c9d6e-7777-4b0e-9f3a-5d1c0a6b7e88",
    "backupId": "2026-11-26T060000Z",
    "dashboardId": "1f3c9d6e-8888-4b0e-9f3a-5d1c0a6b7e88",
    "fileName": "2026-01-01T000000Z.html",
    "participantId": "1f3c9d6e22221f3c9d6e22221f3c9d6e",
    "userId": "ana",  # the same in both tenants
    "draftId": "intake",  # also
    "report": "activity",
    "table": "scripts",
    "turn": "0",
    "version": "1",
}
ALIKE = {"userId", "draftId", "turn", "version", "report", "table"}  # nobody is known by these
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
    "POST /api/sessions": {"userId": "ana", "scriptId": "{scriptId}", "key": "the-key-of-a-thief"},
    "POST /api/sessions/{sessionId}/messages": {"content": "let me in"},
    "POST /api/sessions/by-key": {"userId": "ana", "scriptId": "intake", "key": "telegram:42"},
    "PATCH /api/sessions/{sessionId}": {"metadata": {"note": "of the thief"}},
    "PATCH /api/sessions/{sessionId}/variables": {"variables": {"more": "of the thief"}},
    "POST /api/sessions/{sessionId}/pause": None,
    "POST /api/sessions/{sessionId}/resume": None,
    "POST /api/sessions/{sessionId}/end": {"reason": "a theft"},
    "POST /api/sessions/{sessionId}/clear": None,
    "POST /api/sessions/{sessionId}/compress": {"keep": 1},
    "POST /api/sessions/{sessionId}/rewind": {"turn": 0},
    "POST /api/sessions/{sessionId}/fork": {"turn": 0},
    "POST /api/sessions/{sessionId}/messages/append": {"messages": [{"role": "user", "content": "of the thief"}]},
    "POST /api/sessions/{sessionId}/timers/fire": {"timerId": "0:ask_it:wait:1 day"},
    "POST /api/sessions/{sessionId}/timers/arm": None,
    "POST /api/sessions/{sessionId}/take-over": None,
    "POST /api/sessions/{sessionId}/speak": {"content": "Hello."},
    "POST /api/sessions/{sessionId}/give-back": None,
    "POST /api/sessions/{sessionId}/migrate": {"version": 1},
    "POST /api/sessions/{sessionId}/migrate/undo": None,
    "POST /api/scripts": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/import": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/validate": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/outline": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/scripts/test": {"yamlContent": NEW_SCRIPT, "files": GLOBALS},
    "POST /api/analytics/dashboards": {"name": "of the thief", "tiles": []},
    "PUT /api/analytics/dashboards/{dashboardId}": {"name": "of the thief", "tiles": []},
    "POST /api/analytics/queries": {"name": "of the thief", "sql": "SELECT 1"},
    "PUT /api/analytics/queries/{queryId}": {"name": "of the thief", "sql": "SELECT 1"},
    "POST /api/reviews": {
        "name": "of the thief",
        "questions": [{"questionId": "good", "text": "of the thief", "kind": "text"}],
        "sessionIds": ["{sessionId}"],
    },
    "POST /api/reviews/{reviewId}/close": None,
    "PUT /api/reviews/{reviewId}/ratings": {"sessionId": "{sessionId}", "answers": {"good": "of the thief"}},
    "PUT /api/drafts/{draftId}": {"yamlContent": "of the thief"},
    "POST /api/scripts/{scriptId}/validate": None,
    "POST /api/sessions/import": {"id": "x", "full_chat_history": [{"role": "user", "content": "of the thief"}]},
    "PATCH /api/scripts/{scriptId}": {"scriptName": "of the thief"},
    "POST /api/scripts/{scriptId}/publish": {"version": 1},
    "POST /api/scripts/{scriptId}/archive": {"version": 1},
    "PATCH /api/users/{userId}/variables": {"variables": {"diary_of_ana": "of the thief"}},
    "POST /api/memory/units": {"userId": "ana", "group": "diary", "units": [{"content": "of the thief"}]},
    "PATCH /api/memory/units/{unitId}": {"neverDelete": True},
    "POST /api/memory/search": {"userId": "ana", "text": "my", "group": "{groupId}", "recallContext": 3},
    "POST /api/memory/groups": {"userId": "ana", "group": "LATEST"},
    "POST /api/memory/groups/{groupId}/restore": {"userId": "ana", "source": "LATEST"},
    "POST /api/memory/summarise": {"userId": "ana", "group": "{groupId}"},
    "POST /api/memory/forget": {"userId": "ana", "share": 1.0},
    "POST /api/memory/embed": {"userId": "ana"},
    "POST /api/memory/import": {"format": "cuebook.memory"},
    "POST /api/operations/verify/fix": None,
    "POST /api/operations/compact": None,
    "POST /api/operations/backups": None,
    "POST /api/operations/retention": None,
    "POST /api/keys": {"name": "of the thief"},
    "POST /api/sign-in": {"key": "of the thief"},
    "POST /api/sign-out": None,
    "POST /api/links": {"scriptId": "{scriptId}"},
    "POST /api/participants/tokens": {"userId": "ana", "sessionId": "{sessionId}"},
    "POST /api/participants/renew": None,
    "POST /api/participants/session": None,
    "POST /api/sessions/{sessionId}/model": {"model": "offline"},
    "PUT /api/participants/session/push": {"endpoint": "https://push.invalid/x", "keys": {"p256dh": "A", "auth": "A"}},
    "POST /api/participants/session/messages": {"content": "let me in"},
    "POST /api/webhooks": {"url": "http://127.0.0.1:9/", "events": ["turn"]},
    "PATCH /api/webhooks/{webhookId}": {"description": "of the thief"},
    "POST /api/webhooks/{webhookId}/rotate-secret": None,
    "POST /api/webhooks/{webhookId}/test": None,
    "POST /api/webhooks/{webhookId}/replay": None,
    "POST /api/webhooks/{webhookId}/deliveries/{deliveryId}/replay": None,
}
"""What is sent to each route that changes something; ids in braces are those of the path."""


QUERIES = {
    "/api/sessions/by-key": "?key=telegram:42",
    "/api/sessions/search": "?q=my",
    "/api/scripts/{scriptId}/diff": "?from=1&to=1",
}
QUERIES |= {
    path: "?userId=ana"
    for group in ("groups", "groups/{groupId}", "groups/{groupId}/context")
    for path in ("units", "units/{unitId}", group, "status", "export")
    for path in [f"/api/memory/{path}"]
}
"""What a GET cannot do without."""
FOR_PARTICIPANTS = {"/api/links/{linkId}/page", "/api/links/{linkId}/sessions"}
"""What is for all who have a link, of whatever tenant."""
_FILES = ("snapshot", "status", "dashboards/{dashboardId}/page", "dashboards/{dashboardId}/files/{fileName}")
FILES = {f"/api/analytics/{path}" for path in _FILES}
"""What has other bytes, or tells of another moment, each time, however much it says the same."""


class Tenant:
    """One of two that are alike, but for a mark in all that is theirs."""

    def __init__(self, api: ApiClient, name: str) -> None:
        self.api = api
        self.name = name
        self.mark = f"mark-of-{name}"
        self.ids: dict[str, str] = {}

    async def settle(self) -> "Tenant":
        """Create a script, a session with a turn, a key, and a webhook with a delivery."""
        self.headers = {"Authorization": await self.api.create_key(*ROLES, tenant=self.name)}
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
        link = (await self.ask("POST", "/api/links", {"scriptId": "intake"})).json()["linkId"]
        admitted = await self.ask("POST", "/api/participants/tokens", {"userId": "ana", "sessionId": session_id})
        drafted = await self.ask("PUT", "/api/drafts/intake", {"yamlContent": f"a draft of {self.mark}"})
        assert drafted.status_code == 200, drafted.text
        saved = await self.ask("POST", "/api/analytics/queries", {"name": self.mark, "sql": f"SELECT '{self.mark}'"})
        board = {"name": self.mark, "tiles": [{"queryId": saved.json()["queryId"]}]}
        dashboard = await self.ask("POST", "/api/analytics/dashboards", board)
        assert dashboard.status_code == 201, dashboard.text
        question = {"questionId": "good", "text": self.mark, "kind": "text"}
        review = {"name": self.mark, "questions": [question], "sessionIds": [session_id]}
        reviewed = await self.ask("POST", "/api/reviews", review)
        assert reviewed.status_code == 201, reviewed.text
        self.ids = {
            "reviewId": reviewed.json()["reviewId"],
            "dashboardId": dashboard.json()["dashboardId"],
            "backupId": "2025-01-01T000000Z",
            "fileName": "2026-01-01T000000Z.html",
            "draftId": "intake",
            "linkId": link,
            "queryId": saved.json()["queryId"],
            "participantId": admitted.json()["participantId"],
            "sessionId": session_id,
            "webhookId": webhook,
            "deliveryId": waiting[0]["deliveryId"],
            "scriptId": script.json()["scriptId"],
            "keyId": self.headers["Authorization"].split("_")[1],
            "unitId": unit["unitId"],
            "groupId": unit["groupId"],
            "jobId": summing.json()["job"]["jobId"],
            "userId": "ana",
            "report": "activity",
            "table": "scripts",
            "turn": "0",
            "version": "1",
        }
        return self

    async def begin(self) -> Any:
        """Begin the session, with the keys that both tenants use."""
        body = {"userId": "ana", "scriptId": "intake", "key": "telegram:42", "metadata": {"note": "the same"}}
        answer = await self.ask("POST", "/api/sessions", body, {"Idempotency-Key": "the same"})
        assert answer.status_code == 200, answer.text
        return answer

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        return await self.api.request(method, path, json=body, headers=self.headers | (headers or {}))

    async def world(self) -> dict[str, Any]:
        """Return all that the tenant can see of its own."""
        seen = {}
        for method, path in await self.api.operations():
            rule = policy_of(method, path)
            is_for_keys = not rule.is_open and not rule.is_of_server and rule.roles != {"participant"}
            if method == "GET" and is_for_keys and path not in FILES:
                answer = await self.ask("GET", path.format(**self.ids) + QUERIES.get(path, ""))
                assert answer.status_code == 200, path
                seen[path] = plain(answer, {})
        return seen


def body_of(method: str, path: str, ids: dict[str, str]) -> Any:
    if method in {"GET", "DELETE"}:
        return None
    body = BODIES[f"{method} {path}"]  # a new route: say what is sent to it
    return json.loads(re.sub(r"{(\w+)}", lambda found: ids.get(found[1], found[0]), json.dumps(body)))


def plain(answer: Any, ids: dict[str, str]) -> tuple[int, str]:
    """Return an answer without what is different each time: ids that were sent, times, the id of the request."""
    text = answer.text
    for name, value in ids.items():
        if name in ALIKE - {"userId"}:
            continue
        text = text.replace(value, f"<{name}>")
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)", "<time>", text)
    request_id = answer.headers["x-request-id"]
    return answer.status_code, text.replace(request_id, "<request>")


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path) -> AsyncIterator[Any]:
    """With webhooks to this machine, where nobody listens."""
    async with app(tmp_path / "data", webhook_private_targets=["127.0.0.1:9"]) as api:
        yield api


@pytest.fixture
async def tenants(api: ApiClient) -> AsyncIterator[tuple[Tenant, Tenant]]:
    yield await Tenant(api, "clinic").settle(), await Tenant(api, "school").settle()


@pytest.mark.gate
@pytest.mark.timeout(600)
async def test_no_route_lets_a_tenant_reach_anothers(api: ApiClient, tenants: tuple[Tenant, Tenant]) -> None:
    victim, thief = tenants
    before, parameters = await victim.world(), await QueryParameters.of(api)
    for method, path in await api.operations():
        if path in FOR_PARTICIPANTS:
            continue
        names = set(re.findall(r"{(\w+)}", path))
        assert names <= STRANGE.keys(), f"say what another tenant's {names} are"
        usual = dict(parse_qsl(QUERIES.get(path, "").removeprefix("?")))
        if path.startswith("/api/memory"):
            usual["userId"] = "ana"
        queries = {  # different ones: most routes have none of the parameters
            urlencode(parameters.select(method, path, usual | added))
            for added in ({}, {"debug": "true", "limit": "1"}, {"userId": "ana"}, {"strict": "true"})
        }
        for query in queries:
            asked = f"{path.format(**victim.ids)}?{query}"
            answer = await thief.ask(method, asked, body_of(method, path, victim.ids))
            assert victim.mark not in answer.text, (method, path)
            for name in victim.ids.keys() - ALIKE:
                sent = name in names or victim.ids[name] in json.dumps(body_of(method, path, victim.ids))
                assert sent or victim.ids[name] not in answer.text, (method, path)
            if names - ALIKE:
                strange = await thief.ask(method, f"{path.format(**STRANGE)}?{query}", body_of(method, path, STRANGE))
                assert plain(answer, victim.ids) == plain(strange, STRANGE), (method, path)
                refusal = 403 if policy_of(method, path).is_of_server else 404
                assert answer.status_code == refusal, (method, path)
    assert await victim.world() == before


@pytest.mark.gate
async def test_another_tenants_headers_and_cursors_lead_nowhere(api: ApiClient, tenants: tuple[Tenant, Tenant]) -> None:
    victim, thief = tenants
    session_id = victim.ids["sessionId"]
    for headers in ({"Last-Event-ID": f"{session_id}:1"}, {"Accept": "text/event-stream"}, {"Prefer": "wait=1"}):
        answer = await thief.ask("GET", f"/api/sessions/{session_id}/events", headers=headers)
        assert answer.status_code == 404
    for headers in ({"Idempotency-Key": "the same of a message"}, {"If-Match": '"1"'}, {"Accept": "text/event-stream"}):
        answer = await thief.ask("POST", f"/api/sessions/{session_id}/messages", {"content": "x"}, headers)
        assert answer.status_code == 404
    for _ in range(3):
        body = {"userId": "ana", "scriptId": "intake"}
        assert (await victim.ask("POST", "/api/sessions", body)).status_code == 200
    for path in ("/api/sessions", "/api/scripts", "/api/keys", f"/api/webhooks/{victim.ids['webhookId']}/deliveries"):
        cursor = (await victim.ask("GET", f"{path}?limit=1")).json()["nextCursor"]
        if cursor is not None:
            answer = await thief.ask("GET", f"{path}?cursor={cursor}")
            assert victim.mark not in answer.text
            assert victim.ids["sessionId"] not in answer.text


@pytest.mark.gate
async def test_the_same_request_of_two_tenants_is_two_requests(tenants: tuple[Tenant, Tenant]) -> None:
    """Same idempotency key, same key of the session, same body: each has its own session, and only that again."""
    one, other = tenants
    assert one.ids["sessionId"] != other.ids["sessionId"]
    for tenant in tenants:
        assert (await tenant.begin()).json()["sessionId"] == tenant.ids["sessionId"]


@pytest.mark.gate
async def test_a_user_of_the_same_name_is_somebody_else(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        seen = (await tenant.ask("GET", f"/api/sessions/{tenant.ids['sessionId']}/variables")).json()
        assert seen["diary_of_ana"] == f"my {tenant.mark}"
        listed = (await tenant.ask("GET", "/api/users/ana/sessions")).json()
        assert [row["sessionId"] for row in listed] == [tenant.ids["sessionId"]]


@pytest.mark.gate
async def test_scripts_of_the_folder_belong_to_the_servers_tenant(
    api: ApiClient, tenants: tuple[Tenant, Tenant]
) -> None:
    own = {"Authorization": await api.create_key("app")}
    assert (await api.post("/api/sessions", json={"userId": "a", "scriptId": "visit"}, headers=own)).status_code == 200
    refused = await tenants[0].ask("POST", "/api/sessions", {"userId": "a", "scriptId": "visit"})
    assert refused.json()["error"]["code"] == "SCRIPT_NOT_FOUND"


@pytest.mark.gate
async def test_what_the_server_counts_is_for_its_own_tenant(api: ApiClient, tenants: tuple[Tenant, Tenant]) -> None:
    assert (await tenants[0].ask("GET", "/metrics")).status_code == 403
    own = await api.get("/metrics", headers={"Authorization": await api.create_key("admin")})
    assert own.status_code == 200
    ids = [value for tenant in tenants for name, value in tenant.ids.items() if name not in ALIKE]
    names = [tenant.mark for tenant in tenants] + ids
    assert not [name for name in names if name in own.text]


@pytest.mark.gate
async def test_header_for_a_tenant_is_only_for_the_operator(tenants: tuple[Tenant, Tenant]) -> None:
    one, other = tenants
    answer = await other.ask("GET", "/api/sessions", headers={"X-Cuebook-Tenant": one.name})
    assert [row["sessionId"] for row in answer.json()["data"]] == [other.ids["sessionId"]]


@pytest.mark.gate
async def test_an_id_that_is_made_up_is_nobodys(api: ApiClient, tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        assert (await tenant.ask("GET", f"/api/sessions/{uuid.uuid4()}")).status_code == 404
