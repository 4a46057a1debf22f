"""Detectors over HTTP and in `cuebook test`: a crisis is answered, visible in the events, and on record."""

import json

from click.testing import CliRunner

from api.cli.main import main
from runtime.models.offline import OfflineModel
from runtime.ports import Hear, ModelReply, ModelRequest
from store.analytics import query

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


async def test_a_crisis_over_http(api):
    await api.keep(SCRIPT, files={"watch.yaml": SIDE % "false"})
    session = await api.begin("watched")
    answer = (await api.message(session, {"content": "suicide"}, events=True)).json()
    assert [message["content"] for message in answer["messages"]] == ["Please call 112."]
    assert answer["position"]["actionId"] == "how"
    events = {event["kind"]: event["data"] for event in answer["events"]}
    assert events["detected"]["label"] == "danger"
    assert events["detected"]["words"] == ["suicide"]
    assert events["emitted"]["event"] == "alert"
    answer = await api.say(session, "better")
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

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        return ModelReply(text="Take ibuprofen, 400 mg.", raw='{"text": "Take ibuprofen, 400 mg."}', exit=False)


async def test_what_was_withheld_is_in_no_answer_and_nowhere_on_record(app, tmp_path):
    async with app(tmp_path, Careless()) as api:
        await api.keep(GUARDED)
        body = {"userId": "ana", "scriptId": "guarded"}
        begun = await api.post("/api/sessions", params={"debug": True, "events": True}, json=body)
        session = begun.json()
        assert [message["content"] for message in session["messages"]] == ["Ask a doctor.", "And now?"]
        shown = await api.message(session, {"content": "fine"}, debug=True, events=True)
        looked = await api.get(f"/api/sessions/{session['sessionId']}")
        assert [answer.status_code for answer in (begun, shown, looked)] == [200, 200, 200]
        assert "400 mg" not in begun.text + shown.text + looked.text
    kept = list(query(tmp_path, "SELECT purpose, to_json(llm_calls)::VARCHAR FROM llm_calls").rows)
    assert [purpose for purpose, _ in kept] == ["say"]
    turns = list(query(tmp_path, "SELECT to_json(turns)::VARCHAR FROM turns").rows)
    assert len(turns) == 2
    assert "400 mg" not in f"{kept} {turns}"


def test_the_examples_of_a_folder_are_run_once_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "false")
    (tmp_path / "watched.yaml").write_text(SCRIPT)
    for path in (".", "watch.yaml", "watched.yaml"):
        ran = CliRunner().invoke(main, ["test", path])
        assert ran.exit_code == 0, ran.output
        assert "2 examples of detectors: 2 passed, 0 failed" in ran.output


def test_an_example_that_fails_is_shown_with_what_was_expected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "true")
    ran = CliRunner().invoke(main, ["test", "watch.yaml"])
    assert ran.exit_code == 1
    assert "FAIL  watch: crisis: example 2" in ran.output
    document = json.loads(CliRunner().invoke(main, ["test", "watch.yaml", "--json"]).output)["detectors"]
    assert (document["passed"], document["failed"], document["needsModel"]) == (1, 1, 0)
    assert document["results"][1]["failures"] == [{"what": "detected", "expected": True, "got": False}]


def test_playing_shows_what_was_detected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch.yaml").write_text(SIDE % "false")
    (tmp_path / "watched.yaml").write_text(SCRIPT)
    (tmp_path / "replies.txt").write_text("suicide\n")
    ran = CliRunner().invoke(main, ["play", "watched.yaml", "--inputs", "replies.txt", "--json"])
    assert json.loads(ran.stdout)["turns"][1]["detected"] == [
        {"detector": "crisis", "label": "danger", "score": 1.0, "by": "rule", "words": ["suicide"]}
    ]
