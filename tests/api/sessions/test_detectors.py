"""Detectors over HTTP and in `cuebook test`: a crisis is answered, visible in the events, and on record."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from api.cli.main import main
from api.settings import Budgets
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage
from store.analytics.query import query
from tests.support.api_client import ApiClient
from tests.support.data_folders import database_file
from tests.support.fixture_types import OpenApp

SIDE = """
detectors:
  - detector: crisis
    rules: [{words: [suicide], label: danger}]
    do: [{emit: {event: alert, data: {label: detected.label}}, id: alert}]
    replace: Please call 112.
    examples:
      - {messages: [suicide], label: danger}
      - {messages: [all is well], detected: %s}
"""
SCRIPT = """
script: watched
use: [watch.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: "How are you?", id: how, output: [{get: how}]}
          - {ask: "And now?", id: later, output: [{get: later}]}
"""


async def test_a_crisis_over_http(api: ApiClient) -> None:
    await api.publish_script(SCRIPT, files={"watch.yaml": SIDE % "false"})
    session = await api.create_session("watched")
    answer = (await api.send_message(session, {"content": "suicide"}, events=True)).json()
    assert [message["content"] for message in answer["messages"]] == ["Please call 112."]
    assert answer["position"]["actionId"] == "how"
    events = {event["kind"]: event["data"] for event in answer["events"]}
    assert events["detected"]["label"] == "danger"
    assert events["detected"]["words"] == ["suicide"]
    assert events["emitted"]["event"] == "alert"
    answer = await api.send_texts(session, "better")
    assert [message["content"] for message in answer["messages"]] == ["And now?"]


GUARDED = """
script: guarded
detectors:
  - {detector: advice, on: assistant, rules: [{words: [ibuprofen]}], replace: Ask a doctor.}
phases:
  - phase: p
    topics:
      - topic: t
        actions: [{ai_say: Comfort them., id: comfort}, {ask: "And now?", id: later, output: [{get: later}]}]
"""


class Careless(OfflineModel):
    """A language model that says what it must not."""

    def goes_to(self, request: ModelRequest) -> str:
        return "careless"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        return ModelReply(text="Take ibuprofen, 400 mg.", raw='{"text": "Take ibuprofen, 400 mg."}', exit=False)


async def test_what_was_withheld_is_in_no_answer_and_nowhere_on_record(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Careless()) as api:
        await api.publish_script(GUARDED)
        body = {"userId": "ana", "scriptId": "guarded"}
        begun = await api.post("/api/sessions", params={"debug": True, "events": True}, json=body)
        session = begun.json()
        assert [message["content"] for message in session["messages"]] == ["Ask a doctor.", "And now?"]
        shown = await api.send_message(session, {"content": "fine"}, debug=True, events=True)
        looked = await api.get(f"/api/sessions/{session['sessionId']}")
        assert [answer.status_code for answer in (begun, shown, looked)] == [200, 200, 200]
        assert "400 mg" not in begun.text + shown.text + looked.text
    rows = list(query(database_file(tmp_path), "SELECT purpose, to_json(llm_calls)::VARCHAR FROM llm_calls").rows)
    assert [purpose for purpose, _ in rows] == ["say"]
    turns = list(query(database_file(tmp_path), "SELECT to_json(turns)::VARCHAR FROM turns").rows)
    assert len(turns) == 2
    assert "400 mg" not in f"{rows} {turns}"


TWICE = GUARDED.replace("actions: [", "actions: [{ask: Begin?, id: begin}, {ai_say: Comfort them., id: first}, ")


class Halting(Careless):
    """Says each time something else that it must not; fails at its second call."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        if self.calls == 2:
            raise ModelFailed("overloaded")
        return structs.replace(await super().complete(request), usage=Usage(model="careless"))


async def replies(api: ApiClient, session: Any) -> list[tuple[Any, ...]]:
    page = await api.read(f"/api/sessions/{session['sessionId']}/calls", debug=True)
    return [(each["used"], each["reply"]) for each in page["data"]]


async def test_text_of_a_failed_attempt_is_neither_shown_nor_stored(app: OpenApp, tmp_path: Path) -> None:
    model = Halting()
    async with app(tmp_path, model) as api:
        await api.publish_script(TWICE)
        session = await api.create_session("guarded")
        failed = await api.send_message(session, {"content": "go"})
        assert failed.status_code >= 500
        assert await replies(api, session) == [(None, None), (None, None)]
    shown = list(query(database_file(tmp_path), "SELECT to_json(llm_calls)::VARCHAR FROM llm_calls").rows)
    assert "400 mg" not in str(shown)
    async with app(tmp_path, model) as api:
        await api.send_texts(session, "go on then")  # another message: what was made is not used
        reported = await replies(api, session)
        assert [used for used, _ in reported] == [False, False, True, True]
        assert "400 mg" not in str(reported)
    retained = list(
        query(
            database_file(tmp_path), "SELECT withheld, to_json(llm_calls)::VARCHAR FROM llm_calls ORDER BY number"
        ).rows
    )
    assert [withheld for withheld, _ in retained] == [True, False, True, True]
    assert "400 mg" not in str(retained)


async def test_what_a_budget_withholds_is_neither_shown_nor_stored(app: OpenApp, tmp_path: Path) -> None:
    judged = "ai_ask: How old?, id: old, output: [{get: age, type: number}], max_rounds: 1"
    script = GUARDED.replace("ai_say: Comfort them., id: comfort", judged)
    async with app(tmp_path, Careless(), budgets=Budgets(turn_calls=1)) as api:
        await api.publish_script(script)
        session = await api.create_session("guarded")
        shown = await api.send_message(
            session, {"content": "well"}, debug=True, events=True
        )  # what is missing is asked for
        assert [each["data"]["code"] for each in shown.json()["events"] if each["kind"] == "warning"] == [
            "budget_exceeded"
        ]
        assert "400 mg" not in shown.text + str(await replies(api, session))
    rows = list(
        query(database_file(tmp_path), "SELECT used, withheld, to_json(llm_calls)::VARCHAR FROM llm_calls").rows
    )
    assert [each[:2] for each in rows] == [(True, True)] * 2
    assert "400 mg" not in str(rows)


QUOTING = GUARDED.replace(
    "replace: Ask a doctor.", "replace: Ask a doctor., do: [{emit: {event: told, data: {w: detected.words}}}]"
)


async def test_a_judgement_does_not_quote_what_was_withheld(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Careless()) as api:
        await api.publish_script(QUOTING)
        body = {"userId": "ana", "scriptId": "guarded"}
        begun = await api.post("/api/sessions", params={"events": True}, json=body)
        judged = [each["data"] for each in begun.json()["events"] if each["kind"] == "detected"]
        assert [(each["detector"], each["score"], each.get("words")) for each in judged] == [("advice", 1.0, None)]
        assert "ibuprofen" not in begun.text
    assert "ibuprofen" not in str(
        list(query(database_file(tmp_path), "SELECT to_json(turns)::VARCHAR FROM turns").rows)
    )


async def test_a_judgement_of_what_was_said_has_its_words_everywhere(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Careless()) as api:
        await api.publish_script(GUARDED.replace("replace: Ask a doctor.", "do: [{emit: seen}]"))
        body = {"userId": "ana", "scriptId": "guarded"}
        begun = await api.post("/api/sessions", params={"events": True}, json=body)
        assert [each["data"]["words"] for each in begun.json()["events"] if each["kind"] == "detected"] == [
            ["ibuprofen"]
        ]
    rows = list(query(database_file(tmp_path), "SELECT data->>'words' FROM events WHERE kind = 'detected'").rows)
    assert [json.loads(words) for (words,) in rows] == [["ibuprofen"]]


@pytest.mark.gate
def test_the_examples_of_a_folder_are_run_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "false")
    (tmp_path / "watched.yaml").write_text(SCRIPT)
    for path in (".", "watch.yaml", "watched.yaml"):
        ran = CliRunner().invoke(main, ["test", path])
        assert ran.exit_code == 0, ran.output
        assert "2 examples of detectors: 2 passed, 0 failed" in ran.output


def test_an_example_that_fails_is_shown_with_what_was_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "true")
    ran = CliRunner().invoke(main, ["test", "watch.yaml"])
    assert ran.exit_code == 1
    assert "FAIL  watch: crisis: example 2" in ran.output
    document = json.loads(CliRunner().invoke(main, ["test", "watch.yaml", "--json"]).output)["detectors"]
    assert (document["passed"], document["failed"], document["needsModel"]) == (1, 1, 0)
    assert document["results"][1]["failures"] == [{"what": "detected", "expected": True, "got": False}]


def test_playing_shows_what_was_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "false")
    (tmp_path / "watched.yaml").write_text(SCRIPT)
    (tmp_path / "replies.txt").write_text("suicide\n")
    ran = CliRunner().invoke(main, ["play", "watched.yaml", "--inputs", "replies.txt", "--json"])
    assert json.loads(ran.stdout)["turns"][1]["detected"] == [
        {"detector": "crisis", "label": "danger", "score": 1.0, "by": "rule", "words": ["suicide"]}
    ]
