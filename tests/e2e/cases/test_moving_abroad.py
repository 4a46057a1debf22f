"""The long example of the library: every construct of the language, and cases that come to all of it."""

import json
from collections import Counter
from typing import get_args

import pytest
from click.testing import CliRunner

from api.cli.main import main
from scripts.expressions.values import DeclaredType
from scripts.model.actions import ACTION_TYPES, Action, AfterRounds, AiAsk, Ask, Choose, Form, action_type, walk
from scripts.model.script import After, FieldType, RepairKind, Script
from scripts.model.variables import Output
from scripts.parse.folder import read_path
from tests.support.paths import CASES_FOLDER, LIBRARY

SCRIPT = LIBRARY / "moving_abroad" / "moving_abroad.yaml"


@pytest.fixture(scope="module")
def script() -> Script:
    reading = read_path(SCRIPT, "strict")
    assert reading.problems == ()
    assert reading.script is not None
    return reading.script


def actions_of(script: Script) -> list[Action]:
    """Return all but those of detectors."""
    lists = [topic.actions for phase in script.phases for topic in phase.topics]
    lists += [each.actions for each in (*script.skills, *script.interrupts)]  # type: ignore[attr-defined]
    return [action for actions in lists for action in walk(actions)]


@pytest.mark.gate
def test_its_cases_come_to_all_of_it() -> None:
    done = CliRunner().invoke(main, ["test", str(CASES_FOLDER / "moving_abroad.case.yaml"), "--coverage", "json"])
    assert done.exit_code == 0, done.output
    (coverage,) = json.loads(done.stdout)
    for kind in ("phases", "topics", "actions", "branches", "conditions"):
        assert coverage[kind]["percent"] == 100.0, coverage["missing"]
    assert coverage["missing"] == []
    assert coverage["actions"]["total"] >= 150


def test_every_action_and_every_policy_is_in_it(script: Script) -> None:
    actions = actions_of(script)
    assert {action_type(action) for action in actions} == ACTION_TYPES.keys() - {"user_say"}  # an older spelling
    asking = [each for each in actions if isinstance(each, Ask | AiAsk | Choose | Form)]
    assert {each.on_fail.then.policy for each in asking} == set(get_args(AfterRounds.__annotations__["policy"]))
    assert {each.then.policy for each in script.interrupts} == set(get_args(After.__annotations__["policy"]))
    assert {repair.kind for repair in script.repairs} == set(get_args(RepairKind))
    assert Counter(bool(each.on.keywords or each.on.intent) for each in script.interrupts).keys() == {True, False}


def test_every_type_of_value_and_every_scope_is_in_it(script: Script) -> None:
    outputs = [item for each in actions_of(script) for item in getattr(each, "outputs", ()) if isinstance(item, Output)]
    assert {output.kind for output in outputs} >= set(get_args(DeclaredType)) - {"text"}
    assert {field.type for sheet in script.forms for field in sheet.fields} == set(get_args(FieldType))
    scopes = (
        script.globals,
        script.declare,
        *(phase.declare for phase in script.phases),
        *(topic.declare for phase in script.phases for topic in phase.topics),
    )
    names = [each.var for scope in scopes for each in scope]
    assert len(names) == len(set(names))  # nothing hides anything
    assert script.globals
    assert any(phase.declare for phase in script.phases)
    assert any(topic.declare for phase in script.phases for topic in phase.topics)
