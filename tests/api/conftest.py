"""Fixtures that run the command line in this process, in a folder of its own."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from api.cli.main import main
from tests.support.fixture_types import RunCommand, Table, WriteFile
from tests.support.paths import CONVERSATIONS


@pytest.fixture
def cuebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run a command: ``cuebook("play", path, "--json", input="a\\n")``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, **options: Any) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return run


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write a file into the folder in which commands run."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


@pytest.fixture(scope="session")
def conversations() -> Path:
    """Return the folder of the scripts that servers of tests publish."""
    return CONVERSATIONS


@pytest.fixture
def memory_command(cuebook: RunCommand, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run ``cuebook memory`` with the embedder for tests; the command must end with `code`."""
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "hashed:64")

    def run(*arguments: object, code: int = 0, **options: Any) -> Result:
        result = cuebook("memory", *arguments, **options)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def table() -> Table:
    """Return the cells of the table that a command printed, without its head."""
    return lambda result: [line.split("\t") for line in result.stdout.splitlines()[1:]]
