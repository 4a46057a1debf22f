"""Clients generated from the description of the API are strictly typed, and hold a session with a running server."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fixture_types import Serve

CLIENTS = Path(__file__).parents[1] / "support" / "clients"
SCRIPTS_OF_PYTHON = Path(sys.executable).parent
SEARCHED = f"{SCRIPTS_OF_PYTHON}{os.pathsep}{os.environ.get('PATH', '')}"
STEP_S = 240.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * STEP_S)]

WAITS = ["text", "text", "choice"]
CONTENTS = ["Welcome.", "This takes a minute.", "What may I call you?", "Ana", "How old are you, Ana?", "30"]


def program(name: str, extra: str) -> str:
    found = shutil.which(name, path=SEARCHED)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install 'cuebook[{extra}]'")
    return found


async def run(folder: Path, *command: str | Path) -> str:
    """Run a command in a folder; return what it prints."""
    found = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=folder,
        env=os.environ | {"PATH": SEARCHED},
        capture_output=True,
        text=True,
        timeout=STEP_S,
    )
    assert found.returncode == 0, found.stdout[-5_000:] + found.stderr[-5_000:]
    return found.stdout


@pytest.fixture
async def server(serve: Serve, tmp_path: Path) -> tuple[str, str]:
    """Return the URL of a server, and a key of it; its description of the API is in the file `openapi.json`."""
    running = serve()
    await running.ready()
    async with running.client() as api:
        (tmp_path / "openapi.json").write_bytes((await api.get("/schema/openapi.json")).content)
        made = await api.post("/api/keys", json={"name": "a test", "roles": ["app"]})
    return running.url, made.json()["key"]


async def test_a_python_client_is_strictly_typed_and_holds_a_session(server: tuple[str, str], tmp_path: Path) -> None:
    generator = program("openapi-python-client", "client-tests")
    folder = shutil.copytree(CLIENTS / "python", tmp_path / "python")
    said = await run(
        folder,
        *(generator, "generate", "--path", tmp_path / "openapi.json", "--output-path", "generated"),
        *("--meta", "none", "--config", "generator.yaml"),
    )
    assert "will not be generated" not in said
    await run(folder, program("mypy", "dev"), "--config-file", "mypy.ini", "generated", "session.py")
    seen = json.loads(await run(folder, sys.executable, "session.py", *server))
    assert seen["turns"] == [0, 1, 2]
    assert seen["waits"] == WAITS
    assert seen["contents"][: len(CONTENTS)] == CONTENTS
    assert seen["roles"][: len(CONTENTS)] == ["ai", "ai", "ai", "user", "ai", "user"]
    assert seen["refused"] == "REQUEST_INVALID"


OPTIONAL = ["--default-non-nullable=false"]  # fields of requests that have a default can be left out


async def packages(request: pytest.FixtureRequest) -> Path:
    """Return the folder with the packages of the lock file, installed once for all runs."""
    npm = program("npm", "client-tests")
    lock = CLIENTS / "typescript" / "package-lock.json"
    assert request.config.cache is not None
    folder = request.config.cache.mkdir(f"npm-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}")
    if not (folder / "node_modules" / ".package-lock.json").exists():  # npm writes it last
        for name in ("package.json", lock.name):
            shutil.copy(lock.with_name(name), folder)
        await run(folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    return folder / "node_modules"


async def test_typescript_types_are_strict_and_hold_a_session(
    server: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    node = program("node", "client-tests")
    installed = await packages(request)
    folder = shutil.copytree(CLIENTS / "typescript", tmp_path / "typescript")
    (folder / "node_modules").symlink_to(installed)
    modules = Path("node_modules")
    generator, compiler = modules / "openapi-typescript" / "bin" / "cli.js", modules / "typescript" / "bin" / "tsc"
    await run(folder, node, generator, tmp_path / "openapi.json", "--output", "schema.d.ts", *OPTIONAL)
    await run(folder, node, compiler, "--project", ".")
    seen = json.loads(await run(folder, node, Path("built") / "session.js", *server))
    assert seen["turns"] == [0, 1, 2]
    assert seen["waits"] == WAITS
    assert seen["contents"][: len(CONTENTS)] == CONTENTS
    assert seen["roles"][: len(CONTENTS)] == ["ai", "ai", "ai", "user", "ai", "user"]
    assert (set(seen["fork"]), seen["found"]) == ({"assistant"}, True)
    assert {"message", "variable", "position", "wait"} <= set(seen["events"])
    assert seen["events"][-1] == "turn"
    assert seen["refused"] == "REQUEST_INVALID"
