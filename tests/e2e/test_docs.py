"""The documentation is correct: commands print what it shows, scripts and settings are valid, links lead somewhere."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from reference_pages import NOTE, page
from reference_pages import PAGES as GENERATED

from api.auth.authenticator import tokens_of
from api.cli.main import main
from api.http.application import openapi_document
from api.local_files.settings_file import load_settings
from api.models.server_model import make_model, state_of
from api.settings import OFFLINE, Settings
from api.testing.cases.case_reader import read_cases
from runtime.models.recorded_models import ScriptedModel
from scripts.parse.read_script import Source, read_script
from scripts.yaml.json_schema import json_schema
from tests.support.command_forker import Forker
from tests.support.paths import PROCESSES, ROOT
from tests.support.ports import free_port

pytestmark = pytest.mark.gate

INDEX = ROOT / "docs/index.md"


def reading_order() -> list[Path]:
    """Return the pages in the order in which a new user reads them: the README, then as the index lists them."""
    linked = re.findall(r"\]\(([^)#]+\.md)\)", INDEX.read_text("utf-8"))
    pages = [ROOT / "README.md", *((INDEX.parent / link).resolve() for link in linked)]
    return list(dict.fromkeys(pages))


PAGES = reading_order()
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
BIN = Path(sys.executable).parent


class Block(NamedTuple):
    """A fenced block: its language, the rest of the fence line, and its text.

    `yaml add FILE` is appended to a file; `sh problems` exits with 1, `sh stopped` needs the server stopped, `sh
    endpoint` needs a language model and is not run; `sh postgres` is run by test_several_servers; `python alone` is a
    whole program.
    """

    language: str
    note: str
    text: str

    @property
    def file(self) -> str:
        """Return the file that the reader saves it as, or an empty text."""
        named = re.match(r"# file: (\S+)\n", self.text)
        return named[1] if named and self.language in {"yaml", "toml"} else ""


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)]


def save(block: Block, folder: Path) -> None:
    """Do to a file what the block tells the reader to do."""
    if block.note.startswith("add "):
        file = folder / block.note.removeprefix("add ")
        file.write_text(file.read_text("utf-8") + block.text, "utf-8")
    elif block.file:
        (folder / block.file).write_text(block.text, "utf-8")


def expected_after(index: int) -> str | None:
    """Return what the block says that follows a command."""
    following = BLOCKS[index + 1] if index + 1 < len(BLOCKS) else None
    return following.text if following is not None and following.language == "text" else None


def matches(expected: str, printed: str) -> bool:
    """Return whether a text is as expected, where `…` stands for anything."""
    pattern = ".*".join(re.escape(part.strip("\n")) for part in expected.rstrip("\n").split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the pages have the reader save, in their final state."""
    for block in BLOCKS:
        save(block, tmp_path)
    return tmp_path


@pytest.fixture
def environment(command_forker: Forker) -> dict[str, str]:
    """Return an environment with `cuebook` on the path, as after `source .venv/bin/activate`; forks run it."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}
    path = os.pathsep.join(map(str, (PROCESSES, BIN, os.environ["PATH"])))
    return variables | {"PATH": path, "COLUMNS": "200", "FORKER": command_forker.address}


class Server:
    """The server of `make run`, on a port of its own."""

    def __init__(self, folder: Path, environment: dict[str, str], forker: Forker) -> None:
        self.port = free_port()
        self._folder = folder
        self._environment = environment
        self._forker = forker
        self.start()

    def start(self) -> None:
        arguments = ["serve", "--port", str(self.port)]
        self._process = self._forker.start(arguments, self._folder, Path(os.devnull), self._environment)
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
def server(tmp_path: Path, environment: dict[str, str], command_forker: Forker) -> Iterator[Server]:
    server = Server(tmp_path, environment, command_forker)
    yield server
    server.stop(signal.SIGKILL)


def run(text: str, folder: Path, environment: dict[str, str], port: int, code: int) -> str:
    """Return all that a block's commands print, in order; each must succeed, the last one end with this exit code."""
    text = text.replace("localhost:8000", f"localhost:{port}").replace("9000", str(free_port()))  # for webhooks
    script = f"exec 2>&1\nset -e -o pipefail\n{text}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout.replace(f"127.0.0.1:{port}", "127.0.0.1:8000")  # `cuebook links` names the server's own address


@pytest.mark.timeout(1_800)
def test_every_command_does_what_the_documentation_says(tmp_path: Path, environment, server) -> None:
    remembered = ""
    stopped = False
    for index, block in enumerate(BLOCKS):
        save(block, tmp_path)
        if block.language != "sh" or block.note in {"endpoint", "postgres"} or block.text.startswith("make "):
            continue
        if block.note == "stopped" and not stopped:
            server.stop()
            stopped = True
        elif stopped and "localhost:8000" in block.text:
            server.start()
            stopped = False
        printed = run(remembered + block.text, tmp_path, environment, server.port, int(block.note == "problems"))
        expected = expected_after(index)
        assert expected is None or matches(expected, printed), f"{block.text}\nprinted\n{printed}"
        remembered += "".join(re.findall(r"^SESSION=.*\n", block.text, re.MULTILINE))


def test_a_killed_server_goes_on_at_the_same_question(server) -> None:
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


@pytest.mark.parametrize("name", [name for name, text in SAVED.items() if "\nscript: " in text])
def test_every_script_in_the_documentation_is_sound(name, folder) -> None:
    files = {beside: (folder / beside).read_text("utf-8") for beside in SAVED}
    if name.endswith(".case.yaml"):
        assert read_cases(folder / name, {}).problems == ()
        return
    found = [problem.code for problem in read_script(Source(files[name], name, files), "strict").problems]
    translated = f"{name.removesuffix('.yaml')}.de.yaml" in files
    assert found == (["STRING_MISSING"] if translated else [])  # as the text says


def test_the_replies_of_a_model_in_the_documentation_are_sound(folder) -> None:
    ScriptedModel.from_file(folder / "replies.yaml")


@pytest.mark.parametrize(
    "index", [index for index, block in enumerate(BLOCKS) if (block.language, block.note) == ("python", "alone")]
)
def test_every_program_in_the_documentation_prints_what_it_says(index, tmp_path: Path) -> None:
    program = [sys.executable, "-c", BLOCKS[index].text]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert matches(expected_after(index) or "", done.stdout), done.stdout


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"])
def test_the_settings_in_the_documentation_can_be_used(block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def prose(page: str) -> str:
    """Return the text of a page without its fenced blocks."""
    text = (ROOT / page).read_text("utf-8")
    return re.sub(r"^(```|~~~).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges derive them."""
    headings = re.findall(r"^#+ (.*)$", prose(str(page.relative_to(ROOT))), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(str(page.relative_to(ROOT)))):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_named_by_a_page_exists(page) -> None:
    named = re.findall(
        r"`((?:api|cuebook|docs|runtime|scripts|store|tests)/[^`*… ]*)`", prose(str(page.relative_to(ROOT)))
    )
    built = {"api/console/static"}  # not in a fresh clone
    assert [path for path in named if path not in built and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_within_sentences_exist_with_their_options(page) -> None:
    for text in re.findall(r"`cuebook ([a-z][^`]*)`", prose(str(page.relative_to(ROOT)))):
        words, command = text.split(), main
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            named = command.get_command(click.Context(command), words[0])
            assert named is not None, text
            command, words = named, words[1:]
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        options = [option for option in command.params if isinstance(option, click.Option)]
        known = {name for option in options for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
        assert given <= known, text
        if given:
            assert all(given & set(option.opts) for option in options if option.required), text


def test_routes_within_sentences_exist() -> None:
    paths = openapi_document(Settings())["paths"]
    routes = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    patterns = [re.compile(re.sub(r"\{.*?\}", "[^/]+", route)) for route in routes]
    for each in PAGES:
        for named in re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`?…]*)[`?]", prose(str(each.relative_to(ROOT)))):
            assert any(pattern.fullmatch(named.strip()) for pattern in patterns), f"{each.name}: {named}"


def test_index_lists_every_page() -> None:
    generated_or_listed = {*PAGES, INDEX, ROOT / "docs/decisions/index.md"}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"}
    assert pages <= generated_or_listed


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != ROOT], ids=lambda page: page.stem)
def test_page_begins_with_what_its_reader_can_do(page: Path) -> None:
    _, first = prose(str(page.relative_to(ROOT))).replace(f"{NOTE}\n\n", "").split("\n\n", 2)[:2]
    assert first.startswith(("After reading this page you", "After this tutorial you", "This page lists the decisions"))


def test_index_of_decisions_lists_every_decision() -> None:
    folder = ROOT / "docs/decisions"
    linked = set(re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (folder / "index.md").read_text("utf-8")))
    assert linked == {page.name for page in folder.glob("[0-9]*.md")}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 250


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_generated_page_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs/reference" / name).read_text("utf-8") == page(name), "run `make reference`"


def test_settings_page_lists_every_setting() -> None:
    page = prose("docs/reference/settings.md")
    assert [name for name in Settings.__struct_fields__ if f"`{name}`" not in page] == []


def test_api_page_lists_every_route() -> None:
    paths = openapi_document(Settings())["paths"]
    routes = {f"{method.upper()} {re.sub('{.*?}', ':', path)}" for path, methods in paths.items() for method in methods}
    listed = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) [^`?]*)`", prose("docs/reference/http-api.md"))
    assert routes == {re.sub(r":\w+", ":", route) for route in listed}


def test_language_reference_lists_every_action_and_key() -> None:
    schema = json_schema()
    actions = [each["$ref"].split("/")[-1] for each in schema["$defs"]["Action"]["anyOf"]]
    names = [schema["$defs"][action]["title"] for action in actions]
    assert [name for name in names if f"| `{name}: " not in prose("docs/reference/language/actions.md")] == []
    keys = set(schema["$defs"]["Script"]["properties"])
    assert [key for key in keys if f"`{key}`" not in prose("docs/reference/language/index.md")] == []


def test_makefile_has_the_targets_that_the_documentation_names() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for block in BLOCKS:
        if block.text.startswith("make "):
            target = block.text.split()[1]
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert shutil.which("make")
