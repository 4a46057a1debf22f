"""The command `cuebook` itself: its list of commands, and what it imports before one of them runs."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from api.cli.main import COMMANDS, main
from store.duckdb.commit_mark import MARK
from store.interface.private_files import FILE_NAME, beside
from tests.support.fixture_types import OpenApp, RunCommand
from tests.support.paths import CONVERSATIONS

HEAVY = ("litestar", "numpy", "openai", "hnswlib", "babel", "dateparser", "wordllama", "vl_convert")


def imported(*arguments: str, folder: Path) -> list[str]:
    """Return which heavy packages a command has imported when it ends."""
    program = f"""
import atexit, sys
atexit.register(lambda: print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
from api.cli.main import main
main({list(arguments)})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_listed_command_exists(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name


def test_help_lists_every_command(cuebook: RunCommand) -> None:
    printed = cuebook("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in printed] == []


def test_misspelt_command_is_refused_with_a_suggestion(cuebook: RunCommand) -> None:
    refused = cuebook("plai")
    assert refused.exit_code == 2
    assert "'play'" in refused.stderr


def test_help_imports_no_heavy_package(tmp_path: Path) -> None:
    assert imported("--help", folder=tmp_path) == []


@pytest.mark.gate
@pytest.mark.database_file
def test_listing_sessions_imports_no_heavy_package(cuebook: RunCommand, tmp_path: Path) -> None:
    cuebook("simulate", "--sessions", "1", "--days", "1", "--seed", "1", "--data", "cuebook-data")
    assert imported("sessions", "list", folder=tmp_path) == []


@pytest.mark.database_file
@pytest.mark.parametrize(
    "command",
    [
        ["sessions", "list", "--json"],
        ["replay", "--all", "--json"],
        ["check", "diary.yaml", "--against-data", "data", "--format", "json"],
    ],
)
def test_a_warning_about_the_database_is_not_on_standard_output(
    cuebook: RunCommand, app: OpenApp, tmp_path: Path, command: list[str]
) -> None:
    async def publish() -> None:
        async with app(tmp_path / "data") as api:
            await api.create_session("diary")

    asyncio.run(publish())
    shutil.copyfile(CONVERSATIONS / "diary.yaml", "diary.yaml")
    beside(tmp_path / "data" / FILE_NAME, MARK).write_text("no number")  # the store logs that it cannot be read
    where = [] if command[0] == "check" else ["--data", "data"]
    result = cuebook(*command, *where)
    assert json.loads(result.stdout) is not None, result.stderr
