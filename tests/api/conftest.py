"""The command line, run in this process in a folder of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from api.cli.main import main


@pytest.fixture
def cuebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command: ``cuebook("play", path, "--json", input="a\\n")``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, **more: Any) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], **more)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file beside which the commands run."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return written


@pytest.fixture(scope="session")
def conversations() -> Path:
    """The folder of the scripts that tests talk to."""
    return Path(__file__).parents[1] / "conversations"


@pytest.fixture
def remember(cuebook: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command of memory, with the embedder for tests: ``remember("list", "--user", "ana")``, or ``code=2``."""
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "hashed:64")

    def run(*arguments: object, code: int = 0, **more: Any) -> Result:
        result = cuebook("memory", *arguments, **more)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def table() -> Callable[[Result], list[list[str]]]:
    """The table that a command printed, without its head."""
    return lambda result: [line.split("\t") for line in result.stdout.splitlines()[1:]]
