"""The models that need no network: what the offline one finds, and what the scripted one reads from a file."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.models.cassette_file import ScriptedFileInvalid
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ScriptedModel
from runtime.state.ports import ModelFailed, ModelRequest
from scripts.model.variables import Output

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)

FILE = """
replies:
  ask_name:
  - What should I call you?
  - {text: "Sure?", exit: "no"}
  - {exit: yes, values: {user_name: Ana}, understanding: 90, has_questions: false}
  ask_name.extract:
  - {values: {user_name: first}}
  - {values: {user_name: later}}
  broken:
  - {fail: the line is down}
"""


def request(purpose, action_id="ask_name", round_number=0, **more):
    return ModelRequest(
        purpose=purpose, action_id=action_id, round=round_number, task="The task.", locale="en", now=NOON, **more
    )


@pytest.fixture
def scripted(tmp_path: Path):
    file = tmp_path / "replies.yaml"
    file.write_text(FILE, "utf-8")
    return ScriptedModel.from_file(file)


async def test_a_file_gives_the_replies_of_an_action_round_by_round(scripted) -> None:
    first, second, third = [await scripted.complete(request("ask", round_number=n)) for n in range(3)]
    assert (first.text, first.exit, first.raw) == ("What should I call you?", None, "What should I call you?")
    assert (second.text, second.exit) == ("Sure?", False)
    assert (third.exit, third.values, third.understanding, third.has_questions) == (
        True,
        {"user_name": "Ana"},
        90,
        False,
    )


@pytest.mark.parametrize(("asked", "name"), [(0, "first"), (1, "later"), (4, "later")])
async def test_extraction_has_replies_of_its_own(scripted, asked, name) -> None:
    assert (await scripted.complete(request("extract", asked=asked))).values == {"user_name": name}
    assert (await scripted.complete(request("extract", "other", asked=asked))).values == {}


@pytest.mark.parametrize(
    ("action_id", "round_number", "message", "retryable"),
    [
        ("ask_nam", 0, "no reply is written for ask_nam; the nearest is ask_name", False),
        ("ask_name", 3, "ask_name has 3 replies; none is written for round 3", False),
        ("broken", 0, "the line is down", True),
    ],
)
async def test_a_call_nobody_wrote_a_reply_for_fails(scripted, action_id, round_number, message, retryable) -> None:
    with pytest.raises(ModelFailed) as failed:
        await scripted.complete(request("ask", action_id, round_number))
    assert (str(failed.value), failed.value.retryable) == (message, retryable)


@pytest.mark.parametrize(
    "text", ["replies: [", "replies: {a: [{txt: Hi}]}", "replys: {}", "- a", "replies: {a: Hi}", "\ud800"]
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text) -> None:
    file = tmp_path / "replies.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ScriptedFileInvalid, match=r"replies\.yaml"):
        ScriptedModel.from_file(file)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScriptedFileInvalid, match="No such file"):
        ScriptedModel.from_file(tmp_path / "none.yaml")


AGE, CITY, DONE = (
    Output(get="age", type="number"),
    Output(get="city", define="town"),
    Output(get="done", type="boolean"),
)


@pytest.mark.parametrize(
    ("outputs", "reply", "values"),
    [
        ((AGE,), "I am twenty", {"age": 20}),
        ((AGE,), "well", {}),
        ((CITY,), "Bonn", {"city": "Bonn"}),
        ((AGE, CITY), "age: 20, town: Bonn", {"age": 20, "city": "Bonn"}),
        ((AGE, CITY), "I am 20", {"age": 20}),
        ((AGE, CITY, DONE), "yes, I am 20", {"age": 20, "done": True}),
        ((AGE, Output(get="height", type="number")), "20 and 180", {}),
    ],
)
async def test_offline_takes_what_the_parsers_find(outputs, reply, values) -> None:
    answered = await OfflineModel().complete(request("ask", round_number=1, outputs=outputs, reply=reply))
    assert answered.values == values
    assert set(answered.reasons) == {output.get for output in outputs} - set(values)


async def test_offline_says_the_task_and_accepts_the_first_valid_reply() -> None:
    opening = await OfflineModel().complete(request("ask", outputs=(AGE,)))
    assert (opening.text, opening.exit) == ("The task.", None)
    vague = await OfflineModel().complete(request("ask", round_number=1, outputs=(AGE,), reply="well"))
    assert (vague.text, vague.exit) == ("The task.", False)
    valid = await OfflineModel().complete(request("ask", round_number=1, outputs=(AGE,), reply="20"))
    assert (valid.text, valid.exit) == ("", True)
