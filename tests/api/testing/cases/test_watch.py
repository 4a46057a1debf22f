"""``cuebook test --watch``, as a process of its own: what a change touches is played again, until it is interrupted."""

import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fixture_types import RunCommand
from tests.support.paths import CUEBOOK

WAIT_S = 60.0

SCRIPT = """\
script: {name}
use: [{name}-globals.yaml]
phases: [{{phase: p, topics: [{{topic: t, actions: [{{say: "Hello, {{{{ who }}}}.", id: hi}}]}}]}}]
"""
GLOBALS = "globals: [{var: who, value: Ana}]\n"
CASE = "script: {name}.yaml\ncases: [{{name: hello, turns: [{{expect: ['Hello, Ana.']}}]}}]\n"


class Watching:
    """The process, and the lines it prints as they come."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [CUEBOOK, "test", "--watch", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, words: str) -> list[str]:
        """Return the lines up to the first that has these words."""
        seen: list[str] = []
        while not seen or words not in seen[-1]:
            try:
                seen.append(self._lines.get(timeout=WAIT_S))
            except queue.Empty:
                pytest.fail(f"nothing said {words!r}; there were {seen}")
        return seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(SCRIPT.format(name=name))
        (tmp_path / f"{name}-globals.yaml").write_text(GLOBALS)
        (tmp_path / f"{name}.case.yaml").write_text(CASE.format(name=name))
    return tmp_path


@pytest.fixture
def watching(folder: Path) -> Iterator[Watching]:
    started = Watching(folder)
    yield started
    started.close()


@pytest.mark.gate
def test_what_a_change_touches_is_played_again(folder, watching, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert watching.until("passed: 2 cases")[0].endswith("s)")
    watching.until("2 cases: 2 passed, 0 failed")
    (folder / "one-globals.yaml").write_text(GLOBALS.replace("Ana", "Ben"))
    (head,) = watching.until("FAILED: 1 of 1")
    assert head.split()[0].count(":") == 2  # the time of day comes first
    assert watching.until("1 case: ")[0] == "FAIL  one: hello"
    (folder / "two.yaml").write_text("script: two\n")
    watching.until("BROKEN: ")
    assert "two.case.yaml:1:9 USE_NOT_FOUND" in "\n".join(watching.until("REQUIRED_FIELD_MISSING"))
    (folder / "two.yaml").write_text(SCRIPT.format(name="two"))
    watching.until("passed: 1 case")
    (folder / "three.case.yaml").write_text(CASE.format(name="two").replace("hello", "third"))
    watching.until("passed: 1 case")
    watching.until("ok    three: third")
    drafts = tmp_path_factory.mktemp("drafts")
    for file in folder.iterdir():
        (drafts / file.name).write_text(file.read_text().replace("hello", "moved in"))
    drafts.rename(folder / "four")
    watching.until("FAILED: 1 of 3")  # the one whose greeting was changed
    watching.until("FAIL  one: moved in")
    assert watching.interrupt() == 1


@pytest.mark.gate
def test_a_run_that_failed_is_remembered_when_it_is_interrupted(folder, watching) -> None:
    watching.until("2 passed")
    (folder / "two.case.yaml").write_text(CASE.format(name="two").replace("Ana", "Eve"))
    watching.until("FAILED: 1 of 1")
    watching.until("0 passed, 1 failed")
    assert watching.interrupt() == 1


@pytest.mark.gate
def test_files_that_lie_elsewhere_are_watched_too(folder) -> None:
    (folder / "cases").mkdir()
    case = folder / "cases" / "one.case.yaml"
    case.write_text(CASE.format(name="../one"))
    started = Watching(folder, str(case))
    try:
        started.until("1 passed")
        (folder / "one.yaml").write_text(SCRIPT.format(name="one").replace("Hello", "Hi"))
        started.until("FAILED: 1 of 1")
        started.until("0 passed, 1 failed")
        assert started.interrupt() == 1
    finally:
        started.close()


def test_it_goes_alone(cuebook: RunCommand) -> None:
    for other in ("--json", "--coverage", "--record", "--walk=3"):
        result = cuebook("test", "--watch", other)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "cannot be combined with" in result.stderr
