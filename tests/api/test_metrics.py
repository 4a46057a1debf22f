"""What a server counts of itself."""

import asyncio
import re
from pathlib import Path

import pytest

from runtime.models.recorded_models import ScriptedModel
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

SCRIPT = """\
script: talk
phases:
  - phase: main
    topics:
      - topic: start
        actions:
          - ai_say: Greet them
            id: greet
          - ask: More?
            id: ask_more
"""


async def counted(api: ApiClient, name: str, headers: dict[str, str] | None = None) -> dict[str, float]:
    """Return the values of a metric, by its labels as they are written."""
    text = (await api.get("/metrics", headers=headers)).text
    return {found[1]: float(found[2]) for found in re.finditer(rf"^cuebook_{name}({{.*}})? (\S+)$", text, re.MULTILINE)}


async def test_turns_requests_and_errors_are_counted(api: ApiClient) -> None:
    session = await api.create_session("visit")
    await api.send_texts(session, "Ana")
    await api.get("/api/sessions/none")
    await api.get("/nowhere")
    assert (await counted(api, "turns_total"))['{outcome="done"}'] == 2
    assert (await counted(api, "turn_seconds_count"))[None] == 2
    requests = await counted(api, "http_requests_total")
    assert requests['{method="POST",route="/api/sessions/{sessionId}/messages",status="200"}'] == 1
    assert requests['{method="GET",route="/api/sessions/{sessionId}",status="404"}'] == 1
    assert requests['{method="",route="",status="404"}'] == 1
    errors = await counted(api, "errors_total")
    assert errors == {'{code="SESSION_NOT_FOUND"}': 1, '{code="NOT_FOUND"}': 1}
    assert (await counted(api, "cached_sessions"))[None] == 1
    assert (await counted(api, "streams"))[None] == 0
    for name in ("writer_lag_seconds", "writer_queue"):
        assert (await counted(api, name))[None] >= 0


@pytest.mark.database_file
async def test_the_size_of_the_database_file_is_known(api: ApiClient) -> None:
    await api.create_session("visit")
    assert (await counted(api, "database_bytes"))[None] > 10_000


async def test_calls_of_models_are_counted_with_what_came_of_them(app: OpenApp, tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("replies:\n  greet: [Hello]\n")
    async with app(tmp_path / "data", ScriptedModel.from_file(tmp_path / "replies.yaml")) as api:
        await api.publish_script(SCRIPT, strict=False)
        await api.create_session("talk")
        assert await counted(api, "model_calls_total") == {'{outcome="done",purpose="say"}': 1}


async def test_turns_that_fail_are_counted_by_their_code(app: OpenApp, tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("replies:\n  another: [Hello]\n")
    async with app(tmp_path / "data", ScriptedModel.from_file(tmp_path / "replies.yaml")) as api:
        await api.publish_script(SCRIPT, strict=False)
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "talk"})
        code = answer.json()["error"]["code"]
        assert await counted(api, "turns_total") == {f'{{outcome="{code}"}}': 1}
        assert await counted(api, "errors_total") == {f'{{code="{code}"}}': 1}


@pytest.mark.database_file
async def test_turns_that_are_not_committed_are_counted_as_failures(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await api.create_session("visit")
        await asyncio.to_thread(lambda: [each.unlink() for each in tmp_path.glob("cuebook.duckdb*")])
        assert (await api.send_message(session, {"content": "Ana"})).status_code == 503
        assert await counted(api, "turns_total") == {'{outcome="done"}': 1, '{outcome="DATABASE_FILE_LOST"}': 1}


async def test_a_refusal_is_counted_by_its_route(api: ApiClient) -> None:
    admin = {"Authorization": await api.create_key("admin")}
    await api.get("/api/sessions")
    requests = await counted(api, "http_requests_total", admin)
    assert requests['{method="GET",route="/api/sessions",status="401"}'] == 1


async def test_nothing_counted_names_anybody(api: ApiClient) -> None:
    session = await api.create_session("visit", user="ana of the clinic", key="telegram:42")
    await api.send_texts(session, "a secret")
    text = (await api.get("/metrics")).text
    assert not [each for each in ("clinic", "telegram", "secret", session["sessionId"]) if each in text]


async def test_two_applications_count_by_themselves(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "a") as one, app(tmp_path / "b") as other:
        await one.create_session("visit")
        assert (await counted(one, "turns_total"))['{outcome="done"}'] == 1
        assert await counted(other, "turns_total") == {}
