"""The README keeps its word: its commands run in order, print what it says they print, and its scripts are sound."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from api.cases.reading import read_cases
from runtime.models.scripted import ScriptedModel
from scripts.parse import Source, read_script

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
COMMANDS = Path(sys.executable).parent


class Block(NamedTuple):
    """A fenced block: its language, what follows it on the fence, and its text."""

    language: str
    note: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)]


def expected_after(index: int) -> str | None:
    """What the block says that follows a command."""
    following = BLOCKS[index + 1] if index + 1 < len(BLOCKS) else None
    return following.text if following is not None and following.language == "text" else None


def matches(expected: str, printed: str) -> bool:
    """Whether a text is as expected, where `…` stands for anything."""
    pattern = ".*".join(re.escape(part.strip("\n")) for part in expected.rstrip("\n").split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files the README tells its reader to save."""
    for block in BLOCKS:
        named = re.match(r"# file: (\S+)\n", block.text)
        if block.language == "yaml" and named:
            (tmp_path / named[1]).write_text(block.text, "utf-8")
    return tmp_path


@pytest.fixture
def environment() -> dict[str, str]:
    """With `cuebook` on the path, as after `source .venv/bin/activate`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}
    return kept | {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}


class Server:
    """The server of `make run`, on a port of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = ["cuebook", "serve", "--port", str(self.port)]
        self._folder = folder
        self._environment = environment
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, env=self._environment, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/ready")
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the server did not start")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait(30)


@pytest.fixture
def server(folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    server = Server(folder, environment)
    yield server
    server.stop(signal.SIGKILL)


def run(text: str, folder: Path, environment: dict[str, str], port: int) -> str:
    """Standard output of a block's commands, which must all succeed (a check that finds problems may exit with 1)."""
    script = "set -o pipefail\n" + text.replace("localhost:8000", f"localhost:{port}")
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_does_what_the_readme_says(folder, environment, server):
    remembered = ""
    stopped = False
    for index, block in enumerate(BLOCKS):
        if block.language != "sh" or block.text.startswith("make "):
            continue
        if block.note == "stopped" and not stopped:
            server.stop()
            stopped = True
        printed = run(remembered + block.text, folder, environment, server.port)
        expected = expected_after(index)
        assert expected is None or matches(expected, printed), f"{block.text}\nprinted\n{printed}"
        remembered += "".join(re.findall(r"^SESSION=.*\n", block.text, re.MULTILINE))


def test_a_killed_server_goes_on_at_the_same_question(folder, environment, server):
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        begun = client.post("/api/sessions", json={"userId": "ana", "scriptId": "intake"}).json()
        path = f"/api/sessions/{begun['sessionId']}"
        asked = client.post(f"{path}/messages", json={"content": "Ana"}).json()
    server.stop(signal.SIGKILL)
    server.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        found = client.get(path).json()
        assert (found["position"], found["turn"]) == (asked["position"], asked["turn"])
        assert client.post(f"{path}/messages", json={"content": "34"}).status_code == 200


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=lambda b: b.text[8:30])
def test_every_script_in_the_readme_is_sound(block, tmp_path, folder):
    if block.text.startswith("# file: replies.yaml"):
        (tmp_path / "replies.yaml").write_text(block.text, "utf-8")
        ScriptedModel.from_file(tmp_path / "replies.yaml")
        return
    named = re.match(r"# file: (\S+\.case\.yaml)\n", block.text)
    if named:
        assert read_cases(folder / named[1], {}).problems == ()
        return
    table = re.match(r"# file: ((\w+)\.\w+\.yaml)\nstrings:", block.text)
    if table:
        using = f"use: [{table[1]}]\n" + (folder / f"{table[2]}.yaml").read_text("utf-8")
        problems = read_script(Source(using, "using.yaml", {table[1]: block.text}), "strict").problems
        assert [problem.code for problem in problems] == ["STRING_MISSING"]  # as the text says
        return
    assert read_script(Source(block.text), "strict").problems == ()


def test_make_has_the_two_commands():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text("utf-8")
    for block in BLOCKS:
        if block.text.startswith("make "):
            target = block.text.split()[1]
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert shutil.which("make")
