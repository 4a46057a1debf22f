"""Cassettes: replies of a model, stored by action, visit and round, written to a file and replayed."""

from pathlib import Path

import msgspec
import pytest

from runtime.engine.engine import TurnFailed
from runtime.models.cassette_file import (
    CassetteUnwritable,
    ScriptedFileInvalid,
    ScriptedReply,
    cassette_text,
    read_cassette,
)
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import RecordingModel, ScriptedModel
from runtime.state.events import Emitted
from runtime.state.inputs import Start
from runtime.state.ports import Usage
from runtime.state.state import State
from tests.support.runtime_session import StartSession

WORRIES = """
script: worries
declare: [{var: again, type: boolean}]
phases:
- phase: p
  topics:
  - topic: each
    actions:
    - foreach: "['rent', 'exams'] as worry"
      id: all
      do:
      - {ai_ask: "How heavy is {{ worry }}?", id: weigh, output: [{get: weight, type: number}]}
    - {ask: Once more?, id: more, output: [{get: again}]}
    - {goto: each, id: back, when: again}
"""
BY_VISIT = {
    "weigh": [
        ["The rent?", {"exit": True, "values": {"weight": 1}}],
        ["The exams?", {"exit": True, "values": {"weight": 2}}],
        ["The rent, again?", {"exit": True, "values": {"weight": 3}}],
    ]
}


async def test_each_visit_of_an_action_has_its_own_replies(drive: StartSession) -> None:
    session = await drive(WORRIES, replies=BY_VISIT, saved=True)
    asked = [session.said]
    for reply in ("little", "a lot", "yes"):
        asked.append((await session.reply(reply)).said)
    assert asked == [["The rent?"], ["The exams?"], ["Once more?"], ["The rent, again?"]]


async def test_a_visit_that_nobody_wrote_replies_for_is_reported(drive: StartSession) -> None:
    session = await drive(WORRIES, replies={"weigh": BY_VISIT["weigh"][:1]})
    with pytest.raises(TurnFailed, match="weigh has replies for 1 visit; none is written for visit 2"):
        await session.reply("little")


async def test_a_round_of_a_visit_that_nobody_wrote_is_reported(drive: StartSession) -> None:
    session = await drive(WORRIES, replies={"weigh": [["The rent?"]]})
    with pytest.raises(TurnFailed, match="weigh has 1 replies of visit 1; none is written for round 1"):
        await session.reply("little")


async def test_a_plain_list_serves_every_visit(drive: StartSession) -> None:
    session = await drive(WORRIES, replies={"weigh": ["How heavy?", {"exit": True, "values": {"weight": 2}}]})
    assert (await session.reply("little")).said == ["How heavy?"]


async def test_what_is_recorded_of_several_visits_is_written_by_visit(drive: StartSession, tmp_path: Path) -> None:
    session = await drive(WORRIES)
    session.model = recording = RecordingModel(OfflineModel())
    session.state.visits.clear()  # the opening words came before it listened
    session.state.progress.visit = 0
    await session.reply("2", "7")
    assert cassette_text(recording.replies) == (
        "replies:\n"
        "  weigh:\n"
        "    - [{}, {values: {weight: 2}, exit: true, exit_reason: a valid reply}]\n"
        "    - [How heavy is exams?, {values: {weight: 7}, exit: true, exit_reason: a valid reply}]\n"
    )


async def test_a_call_made_again_after_a_failure_replaces_it(drive: StartSession) -> None:
    failing = RecordingModel(ScriptedModel({"weigh": [ScriptedReply(fail="overloaded")]}))
    session = await drive(WORRIES, replies={"weigh": ["How heavy?", "Really?"]})
    before, session.model = session.model, failing
    with pytest.raises(TurnFailed, match="none is written"):
        await session.reply("little")
    assert failing.replies == {
        "weigh": [
            ScriptedReply(),
            ScriptedReply(fail="weigh has 1 replies; none is written for round 1", retryable=False),
        ]
    }
    failing.model = before
    await session.reply("little")
    assert failing.replies == {"weigh": [ScriptedReply(), "Really?"]}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("replies:\n  a:\n    - {txt: Hi}\n", "3:8", "UNKNOWN_KEY unknown key `txt` Did you mean `text`?"),
        ("replies:\n  a: Hi\n", "2:6", "expected a list of replies, found 'Hi'"),
        ("replies:\n  a: [Hi, 3]\n", "2:11", "expected a text or a mapping"),
        ("replies:\n  a: [[Hi], {text: Hi}]\n", "2:13", "the replies of one visit"),
        ("replies:\n  a: [[Hi, [Ho]]]\n", "2:12", "expected a text or a mapping"),
        ("replies:\n  a: [{values: [1]}]\n", "2:16", "expected a mapping of names to values"),
        ("reply: {}\n", "1:1", "Did you mean `replies`?"),
        ("- a\n", "1:1", "expected a mapping with `replies`"),
        ("replies: [\n", "2:1", "SYNTAX_ERROR"),
        ("", "1:1", "empty"),
    ],
)
def test_unusable_file_is_reported_with_line_and_column(tmp_path: Path, text, place, words) -> None:
    file = tmp_path / "replies.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ScriptedFileInvalid) as invalid:
        read_cassette(file)
    assert str(invalid.value).startswith(f"{file}:{place} ")
    assert words in str(invalid.value)
    assert invalid.value.problems[0].file == str(file)


def test_yes_is_a_word_in_a_cassette_as_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "replies.yaml"
    file.write_text("replies: {a: [yes, {values: {happy: no, since: 2026-01-31}}]}\n", "utf-8")
    assert read_cassette(file) == {"a": ["yes", ScriptedReply(values={"happy": "no", "since": "2026-01-31"})]}


def test_what_no_file_can_hold_is_refused() -> None:
    with pytest.raises(CassetteUnwritable, match="a script may have"):
        cassette_text({"a": ["x" * 600_000, "y" * 600_000]})


ASIDES = """
script: asides
declare: [{var: mood, define: how it is, auto: true}]
interrupts:
- {interrupt: pause, on: {intent: wants a break}, do: [{say: "A break, {{ mood }}.", id: rest}], then: resume}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {ask: How many?, id: many, output: [{get: count, type: number}], max_rounds: 9}
    - {say: "{{ count }}, {{ mood }}.", id: told}
"""
ANSWERS = {
    "many.extract": [
        {"values": {"mood": "tired"}},
        {"fail": "overloaded"},
        {},
        {"values": {"mood": "fine"}},
        {"values": {"count": 7}},
    ],
    "many.route": [{"intent": "pause"}, {}, {"intent": "pause"}, {}, {}],
}


async def test_calls_beside_the_conversation_are_replayed_one_by_one(drive: StartSession, tmp_path: Path) -> None:
    said = ["a pause, please", "lots", "again", "as I said"]
    recorded = await drive(ASIDES, replies=ANSWERS)
    recorded.model = RecordingModel(recorded.model)
    for reply in said:
        await recorded.reply(reply)
    assert {"A break, tired.", "7, fine."} <= {message.content for message in recorded.messages}
    file = tmp_path / "asides.yaml"
    file.write_text(cassette_text(recorded.model.replies), "utf-8")
    replayed = await drive(ASIDES, replies={}, saved=True)
    replayed.model = ScriptedModel.from_file(file)
    await replayed.reply(*said)
    assert [turn.events for turn in replayed.turns] == [turn.events for turn in recorded.turns]


WATCHED = """
script: watched
detectors:
- {detector: sad, define: sadness, do: [{emit: {event: sad, data: {said: detected.message}}, id: tell}]}
- {detector: rude, "on": both, define: rudeness, cooldown: 0, do: [{emit: {event: rude}, id: note}]}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {say: "Hello, you.", id: hello}
    - {ask: "How are you?", id: ask_how, output: [{get: mood}]}
    - {say: "So, {{ mood }}.", id: so}
    - {ask: "And now?", id: ask_now}
"""
SEEN = {
    "sad.detect": [{"score": 0.9, "label": "low"}, {}],
    "rude.detect": [[{"score": 0.8}, {}], [{}, {"score": 1, "label": "mocking"}], []],
}


async def test_detections_are_replayed_also_at_the_beginning(drive: StartSession, tmp_path: Path) -> None:
    recorded = await drive(WATCHED, replies=SEEN)
    recorded.model = RecordingModel(
        ScriptedModel(msgspec.convert(SEEN, dict[str, list[str | ScriptedReply | list[str | ScriptedReply]]]))
    )
    recorded.turns.clear()
    recorded.state = State(seed=1, locale="en")
    await recorded.start()
    await recorded.reply("so low", "fine")
    assert [[each.event for each in events_of(turn)] for turn in recorded.turns] == [["rude"], ["sad", "rude"], []]
    replies = recorded.model.replies
    assert replies["sad.detect"] == [ScriptedReply(score=0.9, label="low"), ScriptedReply()]
    assert replies["rude.detect"][:2] == [
        [ScriptedReply(score=0.8), ScriptedReply()],
        [ScriptedReply(), ScriptedReply(score=1, label="mocking"), ScriptedReply()],
    ]
    file = tmp_path / "watched.yaml"
    file.write_text(cassette_text(replies), "utf-8")
    replayed = await drive(WATCHED, replies={}, saved=True)
    replayed.model = ScriptedModel.from_file(file)
    replayed.turns.clear()
    replayed.state = State(seed=1, locale="en")
    await replayed.start()
    await replayed.reply("so low", "fine")
    assert [turn.events for turn in replayed.turns] == [turn.events for turn in recorded.turns]


def events_of(turn):
    return [event.body for event in turn.events if isinstance(event.body, Emitted)]


async def test_what_a_call_took_is_in_its_reply_and_in_its_failure(drive: StartSession, tmp_path: Path) -> None:
    file = tmp_path / "replies.yaml"
    file.write_text(
        "replies:\n"
        "  weigh:\n"
        "    - {text: How heavy?, usage: {model: tea-1, input_tokens: 12, cost: 0.5, failures: ['429']}}\n"
        "    - {fail: overloaded, usage: {model: tea-1, attempts: 3, latency_ms: 900}}\n",
        "utf-8",
    )
    session = await drive(WORRIES, replies={"weigh": ["?"]})
    session.model, session.state = ScriptedModel.from_file(file), State(seed=1, locale="en")
    turn = await session.turn(Start())
    took = Usage(model="tea-1", input_tokens=12, cost=0.5, failures=("429",))
    assert [call.reply.usage for call in turn.model_calls] == [took]
    with pytest.raises(TurnFailed) as failed:
        await session.reply("little")
    assert failed.value.model_calls[-1].ended.usage == Usage(model="tea-1", attempts=3, latency_ms=900)
