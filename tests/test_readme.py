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
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from api.access.access import tokens_of
from api.cases.reading import read_cases
from api.cli.main import COMMANDS
from api.models import make_model, state_of
from api.settings import OFFLINE, Settings, load_settings
from runtime.models.scripted import ScriptedModel
from scripts.parse import Source, read_script
from scripts.schema import json_schema

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
BIN = Path(sys.executable).parent


class Block(NamedTuple):
    """A fenced block: its language, what follows it on the fence, and its text.

    `yaml add FILE` belongs at the end of a file; `sh problems` exits with 1, `sh stopped` needs the server stopped, `sh
    endpoint` a language model that is not there; `python alone` is a whole program.
    """

    language: str
    note: str
    text: str

    @property
    def file(self) -> str:
        """The file it tells the reader to save, or none."""
        named = re.match(r"# file: (\S+)\n", self.text)
        return named[1] if named and self.language == "yaml" else ""


BLOCKS = [
    Block(*found) for found in re.findall(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
]


def save(block: Block, folder: Path) -> None:
    """Does to a file what the block tells the reader to do."""
    if block.note.startswith("add "):
        file = folder / block.note.removeprefix("add ")
        file.write_text(file.read_text("utf-8") + block.text, "utf-8")
    elif block.file:
        (folder / block.file).write_text(block.text, "utf-8")


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
    """A folder with the files the README tells its reader to save, as they are in the end."""
    for block in BLOCKS:
        save(block, tmp_path)
    return tmp_path


@pytest.fixture
def environment() -> dict[str, str]:
    """With `cuebook` on the path, as after `source .venv/bin/activate`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}
    return kept | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}


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
        deadline = time.monotonic() + 60
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
        self._process.wait(60)


@pytest.fixture
def server(tmp_path: Path, environment: dict[str, str]) -> Iterator[Server]:
    server = Server(tmp_path, environment)
    yield server
    server.stop(signal.SIGKILL)


def run(text: str, folder: Path, environment: dict[str, str], port: int, code: int) -> str:
    """All that a block's commands print, in order; each must succeed, the last one end with this exit code."""
    with socket.create_server(("127.0.0.1", 0)) as free:  # for a receiver of webhooks
        receiver = str(free.getsockname()[1])
    text = text.replace("localhost:8000", f"localhost:{port}").replace("9000", receiver)
    script = f"exec 2>&1\nset -e -o pipefail\n{text}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.mark.timeout(600)
def test_every_command_does_what_the_readme_says(tmp_path, environment, server):
    remembered = ""
    stopped = False
    for index, block in enumerate(BLOCKS):
        save(block, tmp_path)
        if block.language != "sh" or block.note == "endpoint" or block.text.startswith("make "):
            continue
        if block.note == "stopped" and not stopped:
            server.stop()
            stopped = True
        printed = run(remembered + block.text, tmp_path, environment, server.port, int(block.note == "problems"))
        expected = expected_after(index)
        assert expected is None or matches(expected, printed), f"{block.text}\nprinted\n{printed}"
        remembered += "".join(re.findall(r"^SESSION=.*\n", block.text, re.MULTILINE))


def test_a_killed_server_goes_on_at_the_same_question(server):
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


SAVED = {block.file: block.text for block in BLOCKS if block.file}


@pytest.mark.parametrize("name", [name for name, text in SAVED.items() if text.split("\n")[1].startswith("script: ")])
def test_every_script_in_the_readme_is_sound(name, folder):
    files = {beside: (folder / beside).read_text("utf-8") for beside in SAVED}
    if name.endswith(".case.yaml"):
        assert read_cases(folder / name, {}).problems == ()
        return
    found = [problem.code for problem in read_script(Source(files[name], name, files), "strict").problems]
    translated = f"{name.removesuffix('.yaml')}.de.yaml" in files
    assert found == (["STRING_MISSING"] if translated else [])  # as the text says


def test_the_replies_of_a_model_in_the_readme_are_sound(folder):
    ScriptedModel.from_file(folder / "replies.yaml")


@pytest.mark.parametrize(
    "index", [index for index, block in enumerate(BLOCKS) if (block.language, block.note) == ("python", "alone")]
)
def test_every_program_in_the_readme_prints_what_it_says(index, tmp_path):
    program = [sys.executable, "-c", BLOCKS[index].text]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert matches(expected_after(index) or "", done.stdout), done.stdout


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"])
def test_the_settings_in_the_readme_can_be_used(block, tmp_path, monkeypatch):
    (tmp_path / "cuebook.toml").write_text(block.text, "utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    settings = load_settings(tmp_path / "cuebook.toml", {}, {})
    if settings.auth_jwt_key_file is not None:
        public = rsa.generate_private_key(65537, 2048).public_key()
        settings.auth_jwt_key_file.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        assert tokens_of(settings) is not None
        return
    hosted = f"{settings.model}: closed" if settings.model != OFFLINE else "no endpoint"
    assert state_of(make_model(settings)) == hosted


PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)


def section(heading: str) -> str:
    """What stands under a heading, down to the next one of its level or above."""
    level = heading.split()[0]
    text = PROSE.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{1,{len(level)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def test_every_link_within_the_readme_leads_to_a_heading():
    headings = re.findall(r"^#+ (.*)$", PROSE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PROSE)) <= anchors


def test_every_command_and_setting_stands_in_its_table():
    assert [name for name in COMMANDS if f"`cuebook {name}" not in section("## Commands")] == []
    assert [name for name in Settings.__struct_fields__ if f"`{name}`" not in section("## Settings")] == []


def test_every_route_stands_in_its_table(server):
    paths = httpx.get(f"http://127.0.0.1:{server.port}/schema/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {re.sub('{.*?}', ':', path)}" for path, methods in paths.items() for method in methods}
    told = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) [^`?]*)`", section("## HTTP API"))
    assert routes == {re.sub(r":\w+", ":", route) for route in told}


def test_every_action_and_key_of_a_script_is_in_the_reference():
    schema = json_schema()
    actions = [each["$ref"].split("/")[-1] for each in schema["$defs"]["Action"]["anyOf"]]
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower() for action in actions]
    assert [name for name in names if f"| `{name}: " not in section("### Actions")] == []
    keys = set(schema["properties"])
    assert [key for key in keys if f"`{key}`" not in section("## The script language").split("###")[0]] == []


def test_make_has_the_two_commands():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text("utf-8")
    for block in BLOCKS:
        if block.text.startswith("make "):
            target = block.text.split()[1]
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert shutil.which("make")
