"""The two ways into the language: a text read as a script, and a source evaluated with names."""

from collections.abc import Callable
from textwrap import dedent

import pytest

from scripts.actions import Action
from scripts.expressions import Rendered, compile_expression, compile_template
from scripts.model import Script
from scripts.parse import Mode, Reading, Source, read_script
from scripts.sandbox import MISSING


class _Given:
    def __init__(self, names: dict[str, object]) -> None:
        self._names = names

    def value_of(self, name: str) -> object:
        return self._names if name == "vars" else self._names.get(name, MISSING)


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., Rendered]:
    """An expression with these names."""
    return lambda source, **names: compile_expression(source).evaluate(_Given(names))


@pytest.fixture(scope="session")
def render() -> Callable[..., Rendered]:
    """A text with these names."""
    return lambda source, **names: compile_template(source).evaluate(_Given(names))


@pytest.fixture(scope="session")
def read() -> Callable[..., Reading]:
    """A script's text, with its side files by name."""

    def read(text: str, mode: Mode = "compat", **side_files: str) -> Reading:
        files = {name.replace("_yaml", ".yaml"): dedent(content) for name, content in side_files.items()}
        return read_script(Source(dedent(text), "talk.yaml", files), mode)

    return read


@pytest.fixture(scope="session")
def script(read) -> Callable[..., Script]:
    """A text that holds a script without errors."""

    def script(text: str, mode: Mode = "compat", **side_files: str) -> Script:
        reading = read(text, mode, **side_files)
        assert reading.script is not None, [str(problem) for problem in reading.problems]
        return reading.script

    return script


@pytest.fixture(scope="session")
def action(script) -> Callable[[str], Action]:
    """The first action of a native script that holds these actions."""

    def action(actions: str) -> Action:
        body = "".join(f"          {line}\n" for line in dedent(actions).strip().splitlines())
        head = "script: talk\nphases:\n  - phase: main\n    topics:\n      - topic: first\n        actions:\n"
        return script(head + body).phases[0].topics[0].actions[0]

    return action


@pytest.fixture(scope="session")
def session_action(script) -> Callable[..., Action]:
    """The first action of a session-form script that holds these actions."""

    def session_action(actions: str, mode: Mode = "compat") -> Action:
        body = "".join(f"            {line}\n" for line in dedent(actions).strip().splitlines())
        head = "session:\n  session_id: talk\n  phases:\n    - phase_id: main\n      topics:\n"
        head += "        - topic_id: first\n          actions:\n"
        return script(head + body, mode).phases[0].topics[0].actions[0]

    return session_action
