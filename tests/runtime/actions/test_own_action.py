"""Actions of installed packages: read, checked, shown, translated and run like those of the language."""

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.events import Emitted
from scripts.graph.graph import build_graph
from scripts.model.base import without_places
from scripts.model.own_actions import ActionTypeInvalid, action, installed_actions
from scripts.parse.read_script import Source, read_script
from scripts.translations.localisation import lines_of
from scripts.versions.rename_variables import with_names
from scripts.yaml.json_schema import json_schema
from scripts.yaml.script_writer import native_yaml
from tests.support.paths import ROOT
from tests.support.runtime_session import new_session

SCRIPT = """
script: game
declare: [{var: sum, type: number}, {var: count, value: 2}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {id: dice, throw: count, into: sum, say: "You threw {{ sum }}.", again: true}
          - {id: bye, say: "{{ sum }} it is."}
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package `dice`."""
    monkeypatch.syspath_prepend(ROOT / "tests/data/packages/dice")
    installed_actions.cache_clear()
    yield
    installed_actions.cache_clear()


def problems(text: str) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in read_script(Source(text)).problems]


async def test_action_says_assigns_emits_and_waits():
    session = await new_session(SCRIPT, saved=True).start()
    first = session.values["sum"]
    assert (session.said, 2 <= first <= 12) == ([f"You threw {first}."], True)
    assert session.happened(Emitted) == [Emitted("dice", "thrown", {"dice": 2})]
    await session.reply("again")
    assert session.said == [f"You threw {session.values['sum']}."]
    last = session.values["sum"]
    await session.reply("enough")
    assert session.said == [f"{last} it is."]
    assert session.state.status == "completed"


async def test_a_shared_expiry_ends_the_wait_of_an_action():
    script = SCRIPT.replace("script: game", "script: game\nremind: [{after: 1 h, say: Again?}]\nexpire: {after: 1 day}")
    session = await new_session(script, saved=True).start()
    assert session.timers == [("remind", "2026-03-04 13:00"), ("expire", "2026-03-05 12:00")]
    await session.pass_time(hours=2)
    assert session.said == ["Again?"]
    await session.pass_time(days=2)
    assert (session.said, session.values) == ([" it is."], {"sum": None, "count": 2})


async def test_action_may_end_the_conversation():
    session = await new_session(SCRIPT.replace("throw: count", "throw: 0")).start()
    assert session.state.end_reason == "no dice"
    assert session.warnings == [("own_action", "one to a hundred dice can be thrown")]


async def test_error_of_the_function_fails_the_turn_at_the_action():
    with pytest.raises(TurnFailed, match="sum") as failed:
        await new_session(SCRIPT.replace("var: sum, type: number", "var: sum, type: boolean")).start()
    assert failed.value.place[2] == "dice"


def test_checker_knows_the_fields():
    assert problems(SCRIPT) == []
    assert ("UNKNOWN_KEY", "unknown key `agin`") in problems(SCRIPT.replace("again:", "agin:"))
    assert ("REQUIRED_FIELD_MISSING", "`into` is missing") in problems(SCRIPT.replace("into: sum, ", ""))
    assert "EXPRESSION_INVALID" in dict(problems(SCRIPT.replace("throw: count", "throw: count +")))
    assert ("VARIABLE_NEVER_SET", "nothing sets `size`") in problems(SCRIPT.replace("throw: count", "throw: size"))
    assert "RESERVED_NAME" in dict(problems(SCRIPT.replace("into: sum", "into: now")))
    misspelt = SCRIPT.replace('throw: count, into: sum, say: "You threw {{ sum }}.", again: true', "thrw: count")
    unknown = next(each for each in read_script(Source(misspelt)).problems if each.severity == "error")
    assert (unknown.code, unknown.fix) == ("ACTION_TYPE_UNKNOWN", "Did you mean `throw`?")


def test_texts_are_lines_and_names_can_be_renamed():
    script = new_session(SCRIPT).program.script
    assert ("p/t/dice.say", "You threw {{ sum }}.") in [(line.id, line.text) for line in lines_of(script)]
    renamed = native_yaml(with_names(script, {"sum": "total"}))
    assert "into: total" in renamed
    again = read_script(Source(native_yaml(script))).script
    assert again is not None
    assert without_places(again) == without_places(script)


def test_graph_and_schema_show_the_action():
    script = new_session(SCRIPT).program.script
    (topic,) = build_graph(script).topics
    assert next((each.type, each.detail) for each in topic.actions) == ("throw", "count")
    assert "throw" in [each.get("title") for each in json_schema()["$defs"].values()]


def test_function_that_is_no_action_is_refused():
    with pytest.raises(ActionTypeInvalid, match="a subclass of OwnAction"):

        @action
        def nothing(turn: Any, fields: dict[str, Any]) -> None: ...
