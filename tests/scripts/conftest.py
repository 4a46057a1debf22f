"""Fixtures that read scripts, and evaluate expressions and templates."""

from textwrap import dedent

import pytest

from scripts.expressions.expressions import compile_expression, compile_template
from scripts.expressions.sandbox import MISSING
from scripts.model.actions import Action
from scripts.model.script import Script
from scripts.parse.read_script import Mode, Reading, Source, read_script
from tests.support.script_readers import Evaluate, FirstAction, ReadScript, ReadValid


class _Names:
    def __init__(self, names: dict[str, object]) -> None:
        self._names = names

    def value_of(self, name: str) -> object:
        return self._names if name == "vars" else self._names.get(name, MISSING)


@pytest.fixture(scope="session")
def evaluate() -> Evaluate:
    """Evaluate an expression with these names."""
    return lambda source, **names: compile_expression(source).evaluate(_Names(names))


@pytest.fixture(scope="session")
def render() -> Evaluate:
    """Render a template with these names."""
    return lambda source, **names: compile_template(source).evaluate(_Names(names))


@pytest.fixture(scope="session")
def read() -> ReadScript:
    """Read the text of a script, with its include files by name."""

    def read(text: str, mode: Mode = "compat", **side_files: str) -> Reading:
        files = {name.replace("_yaml", ".yaml"): dedent(content) for name, content in side_files.items()}
        return read_script(Source(dedent(text), "talk.yaml", files), mode)

    return read


@pytest.fixture(scope="session")
def script(read: ReadScript) -> ReadValid:
    """Read the text of a script that has no errors."""

    def script(text: str, mode: Mode = "compat", **side_files: str) -> Script:
        reading = read(text, mode, **side_files)
        assert reading.script is not None, [str(problem) for problem in reading.problems]
        return reading.script

    return script


@pytest.fixture(scope="session")
def action(script: ReadValid) -> FirstAction:
    """Return the first action of a native script with these actions."""

    def action(actions: str) -> Action:
        body = "".join(f"          {line}\n" for line in dedent(actions).strip().splitlines())
        head = "script: talk\nphases:\n  - phase: main\n    topics:\n      - topic: first\n        actions:\n"
        return script(head + body).phases[0].topics[0].actions[0]

    return action


@pytest.fixture(scope="session")
def session_action(script: ReadValid) -> FirstAction:
    """Return the first action of a session-format script with these actions."""

    def session_action(actions: str, mode: Mode = "compat") -> Action:
        body = "".join(f"            {line}\n" for line in dedent(actions).strip().splitlines())
        head = "session:\n  session_id: talk\n  phases:\n    - phase_id: main\n      topics:\n"
        head += "        - topic_id: first\n          actions:\n"
        return script(head + body, mode).phases[0].topics[0].actions[0]

    return session_action
