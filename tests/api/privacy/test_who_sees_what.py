"""Every route, asked by an analyst about a conversation full of personal things: not a word of it comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.access.rules import RULES
from api.caller import ROLES, Caller, Role

Leaks = Callable[[str], list[str]]

KEY = "telegram:4242"
USER = "mia-the-user"


async def routes(api: Any) -> list[tuple[str, str]]:
    paths = (await api.read("/schema/openapi.json"))["paths"]
    return [(method.upper(), path) for path, item in paths.items() for method in item if method != "parameters"]


async def ids_of(told: Any) -> dict[str, str]:
    """What there is of everything that a path may name."""
    session = told.session["sessionId"]
    units = (await told.api.read("/api/memory/units", userId=USER))["data"]
    groups = (await told.api.read("/api/memory/groups", userId=USER))["data"]
    hook = await told.api.post("/api/webhooks", json={"url": "http://localhost:1/", "events": ["turn.completed"]})
    return {
        "session_id": session,
        "user_id": USER,
        "script_id": "private_life",
        "unit_id": units[0]["unitId"],
        "group_id": groups[0]["groupId"],
        "webhook_id": str(hook.json().get("webhookId", session)),
        "delivery_id": session,
        "key_id": "0" * 16,
        "job_id": session,
        "report": "funnel",
        "table": "messages",
        "turn": "1",
        "version": "1",
    }


async def test_an_analyst_is_told_no_word_of_a_conversation_on_any_route(
    telling: Any, tmp_path: Path, leaks: Leaks
) -> None:
    questions = {"q": "wilhelmina", "userId": USER, "key": KEY, "scoped": "true", "all": "true", "query": "wilhelmina"}
    async with telling(tmp_path) as told:
        ids = await ids_of(told)
        headers = {"Authorization": await told.api.key("analyst")}
        seen = 0
        for method, path in await routes(told.api):
            for asked in (questions, questions | {"debug": "true", "masked": "false"}):
                body: Any = {} if method in {"POST", "PUT", "PATCH"} else None
                answer = await told.api.request(method, path.format(**ids), params=asked, json=body, headers=headers)
                told_of = answer.text + str(answer.headers)
                sent = set(leaks(str(asked)))  # an answer may repeat the question
                assert [each for each in leaks(told_of) if each not in sent or answer.is_success] == [], (method, path)
                seen += answer.is_success
        assert seen > 10
        stats = await told.api.get(f"{told.path}/stats", headers=headers)
        assert stats.json()["messages"] > 10
    assert "watermelon" not in stats.text


async def test_no_table_of_the_analysts_holds_a_word_of_it(telling: Any, tmp_path: Path, leaks: Leaks) -> None:
    async with telling(tmp_path) as told:
        tables = await told.api.read("/api/analytics/model")
        headers = {"Authorization": await told.api.key("analyst")}
        names = [table["name"] for table in tables["tables"]]
        rows = " UNION ALL ".join(f"SELECT '{name}' AS name, {name}::VARCHAR AS row FROM {name}" for name in names)
        answer = await told.api.post("/api/analytics/query", json={"sql": rows, "rowsMax": 10_000}, headers=headers)
    found = answer.json()
    assert (answer.status_code, found["truncated"], found["masked"]) == (200, False, True)
    assert {row["name"] for row in found["rows"]} >= {"sessions", "turns", "messages", "variable_history", "llm_calls"}
    assert [row for row in found["rows"] if leaks(str(row))] == []
    assert "watermelon" not in answer.text


async def test_a_reader_may_read_what_an_application_reads(telling: Any, tmp_path: Path, leaks: Leaks) -> None:
    async with telling(tmp_path) as told:
        headers = {"Authorization": await told.api.key("reader")}
        for path in (f"{told.path}/messages", f"{told.path}/variables", f"{told.path}/events", "/api/sessions"):
            answer = await told.api.get(path, headers=headers)
            assert answer.status_code == 200
            assert leaks(answer.text)
        refused = await told.api.message(told.session, {"content": "More?"}, headers=headers)
        assert refused.status_code == 403


def test_a_reader_may_do_all_that_an_analyst_may() -> None:
    assert [route for route, rule in RULES.items() if "analyst" in rule.roles and "reader" not in rule.roles] == []


def test_who_may_read_is_told_by_its_roles() -> None:
    assert {role for role in ROLES if Caller(roles=frozenset[Role]({role})).may_read} == {"reader", "admin"}
