"""Every route, asked by an analyst about a conversation full of personal things: not a word of it comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.auth.policy import ROUTE_POLICIES
from api.auth.principal import Principal
from api.schemas.keys import ROLES, Role
from tests.support.private_conversation import OpenConversation, PrivateConversation
from tests.support.query_parameters import QueryParameters

Leaks = Callable[[str], list[str]]

KEY = "telegram:4242"
USER = "mia-the-user"


async def ids_of(reported: PrivateConversation) -> dict[str, str]:
    """Return what there is of everything that a path may name."""
    session = reported.session["sessionId"]
    units = (await reported.api.read("/api/memory/units", userId=USER))["data"]
    groups = (await reported.api.read("/api/memory/groups", userId=USER))["data"]
    hook = await reported.api.post("/api/webhooks", json={"url": "http://localhost:1/", "events": ["turn.completed"]})
    link = await reported.api.post("/api/links", json={"scriptId": "private_life"})
    token = await reported.api.post("/api/participants/tokens", json={"userId": USER, "sessionId": session})
    draft = {"yamlContent": "cuebook: 1\nscript: private_life\nactions: []\n"}
    await reported.api.put("/api/drafts/private_life", json=draft)
    return {
        "draftId": "private_life",
        "queryId": session,
        "reviewId": session,
        "sessionId": session,
        "userId": USER,
        "linkId": link.json()["linkId"],
        "participantId": token.json()["participantId"],
        "scriptId": "private_life",
        "unitId": units[0]["unitId"],
        "groupId": groups[0]["groupId"],
        "backupId": "nothing",
        "dashboardId": "nothing",
        "fileName": "nothing",
        "webhookId": str(hook.json().get("webhookId", session)),
        "deliveryId": session,
        "keyId": "0" * 16,
        "jobId": session,
        "report": "funnel",
        "table": "messages",
        "turn": "1",
        "version": "1",
    }


@pytest.mark.gate
async def test_an_analyst_sees_no_word_of_a_conversation_on_any_route(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks
) -> None:
    questions = {"q": "wilhelmina", "userId": USER, "key": KEY, "scoped": "true", "all": "true", "query": "wilhelmina"}
    async with private_conversation(tmp_path) as conversation:
        ids = await ids_of(conversation)
        headers = {"Authorization": await conversation.api.create_key("analyst")}
        parameters, seen = await QueryParameters.of(conversation.api), 0
        for method, path in await conversation.api.operations():
            plain, unmasked = (
                parameters.select(method, path, asked)
                for asked in (questions, questions | {"debug": "true", "masked": "false"})
            )
            for sent in [plain] if plain == unmasked else [plain, unmasked]:
                body: Any = {} if method in {"POST", "PUT", "PATCH"} else None
                answer = await conversation.api.request(
                    method, path.format(**ids), params=sent, json=body, headers=headers
                )
                text = answer.text + str(answer.headers)
                repeated = set(leaks(str(sent)))  # an answer may repeat the question
                assert [each for each in leaks(text) if each not in repeated or answer.is_success] == [], (method, path)
                seen += answer.is_success
        assert seen > 10
        stats = await conversation.api.get(f"{conversation.path}/stats", headers=headers)
        assert stats.json()["messages"] > 10
    assert "watermelon" not in stats.text


async def test_no_table_of_the_analysts_holds_a_word_of_it(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks
) -> None:
    async with private_conversation(tmp_path) as conversation:
        tables = await conversation.api.read("/api/analytics/model")
        headers = {"Authorization": await conversation.api.create_key("analyst")}
        names = [table["name"] for table in tables["tables"]]
        rows = " UNION ALL ".join(f"SELECT '{name}' AS name, {name}::VARCHAR AS row FROM {name}" for name in names)
        answer = await conversation.api.post(
            "/api/analytics/query", json={"sql": rows, "rowsMax": 10_000}, headers=headers
        )
    found = answer.json()
    assert (answer.status_code, found["truncated"], found["masked"]) == (200, False, True)
    assert {row["name"] for row in found["rows"]} >= {"sessions", "turns", "messages", "variable_history", "llm_calls"}
    assert [row for row in found["rows"] if leaks(str(row))] == []
    assert "watermelon" not in answer.text


async def test_a_reader_may_read_what_an_application_reads(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks
) -> None:
    async with private_conversation(tmp_path) as conversation:
        headers = {"Authorization": await conversation.api.create_key("reader")}
        for path in (
            f"{conversation.path}/messages",
            f"{conversation.path}/variables",
            f"{conversation.path}/events",
            "/api/sessions",
        ):
            answer = await conversation.api.get(path, headers=headers)
            assert answer.status_code == 200
            assert leaks(answer.text)
        refused = await conversation.api.send_message(conversation.session, {"content": "More?"}, headers=headers)
        assert refused.status_code == 403


def test_a_reader_may_do_all_that_an_analyst_may() -> None:
    assert [
        route for route, rule in ROUTE_POLICIES.items() if "analyst" in rule.roles and "reader" not in rule.roles
    ] == []


def test_the_roles_decide_who_may_read() -> None:
    assert {role for role in ROLES if Principal(roles=frozenset[Role]({role})).may_read} == {"reader", "admin"}
