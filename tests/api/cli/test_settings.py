"""The commands as a whole: their help, and where their settings come from."""

import json
import socket
from pathlib import Path
from typing import Any

import click
import pytest

from api.cli.main import main
from api.cli.serve import announcement
from api.local_files.settings_file import load_settings
from api.settings import Budgets, Settings, SettingsInvalid
from runtime.state.limits import Bounds
from tests.support.fixture_types import RunCommand, WriteFile


def commands(group: click.Group, *names: str) -> list[tuple[str, ...]]:
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append((*names, name))
        if isinstance(command, click.Group):
            found += commands(command, *names, name)
    return found


@pytest.mark.parametrize("names", commands(main), ids=" ".join)
def test_the_help_of_every_command_teaches_by_example(cuebook: RunCommand, names: tuple[str, ...]) -> None:
    result = cuebook(*names, "--help")
    assert result.exit_code == 0
    assert f"Usage: main {' '.join(names)}" in result.stdout
    assert "Example" in result.stdout or "Commands:" in result.stdout
    if "Commands:" not in result.stdout:
        assert f"cuebook {' '.join(names)} " in result.stdout.split("Example")[1]


def test_the_version_and_what_is_there(cuebook: RunCommand) -> None:
    assert cuebook("--version").stdout.startswith("cuebook 0.")
    shown = cuebook("--help").stdout
    assert all(name in shown for name in ("play", "check", "explain", "serve", "sessions", "query"))
    assert cuebook("no-such").exit_code == 2


def test_flags_come_before_the_environment_before_the_file(write: WriteFile) -> None:
    file = write("conf/cuebook.toml", 'port = 1\nhost = "localhost"\nlocale = "zh"\nturn_s = 5\ndata = "here"\n')
    environment = {"CUEBOOK_PORT": "2", "CUEBOOK_HOST": "127.0.0.1", "OTHER": "x"}
    settings = load_settings(file, {"port": 3, "host": None}, environment)
    assert (settings.port, settings.host, settings.locale, settings.turn_s) == (3, "127.0.0.1", "zh", 5.0)
    assert settings.data == file.parent / "here"
    assert load_settings(file, {}, environment).port == 2
    assert load_settings(file, {}, {}).port == 1


@pytest.mark.parametrize("name", ["data", "scripts", "backup_folder", "snapshot_folder", "key_folder", "prompts"])
def test_relative_path_in_the_file_begins_at_its_folder(write: WriteFile, name: str) -> None:
    for path, expected in (("here", write("conf/x", "").parent / "here"), ("~/here", Path.home() / "here")):
        file = write("conf/cuebook.toml", f'{name} = "{path}"\n')
        assert getattr(load_settings(file, {}, {}), name) == expected


def test_file_of_replies_and_external_memory_are_beside_the_file(write: WriteFile) -> None:
    text = 'model = "scripted:replies.yaml"\n[memories.old]\npath = "old.parquet"\n'
    file = write("conf/cuebook.toml", text)
    settings = load_settings(file, {}, {})
    assert settings.model == f"scripted:{file.parent / 'replies.yaml'}"
    assert settings.memories["old"].path == file.parent / "old.parquet"


@pytest.mark.parametrize(
    ("text", "environment", "problem"),
    [
        ('port = "many"', {}, "cuebook.toml: port: expected a whole number, not a text"),
        ("", {"CUEBOOK_PORT": "70000"}, "CUEBOOK_PORT: expected a whole number of at most 65535"),
        ("[budgets]\nday_calls = 0", {}, "cuebook.toml: budgets.day_calls: expected a whole number of at least 1"),
        ("prot = 1", {}, "cuebook.toml: there is no setting `prot`; did you mean `port`?"),
        ("catch_up_s = inf", {}, "cuebook.toml: catch_up_s: expected a number of at most 1000000000"),
        ("", {"CUEBOOK_WEBHOOK_KEEP_S": "1e14"}, "CUEBOOK_WEBHOOK_KEEP_S: expected a number of at most 1000000000"),
        (
            "[models.a]\ntimeout_s = inf",
            {},
            "cuebook.toml: models.a.timeout_s: expected a number of at most 1000000000",
        ),
        ("[[retention]]\naction = 'redact'", {}, "cuebook.toml: retention[0]: the setting `after_days` is missing"),
    ],
)
def test_a_problem_names_its_setting_first(
    write: WriteFile, text: str, environment: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings(write("cuebook.toml", text), {}, environment)
    assert str(refused.value).endswith(problem)


def test_variable_sets_one_budget_and_leaves_those_of_the_file(write: WriteFile) -> None:
    file = write("cuebook.toml", "[budgets]\nturn_tokens = 100\nday_cost = 2.5\nsession_calls = 7\n")
    settings = load_settings(file, {}, {"CUEBOOK_BUDGETS_TURN_TOKENS": "200"})
    assert settings.budgets == Budgets(turn_tokens=200, day_cost=2.5, session_calls=7)
    assert settings.limits.turn_budget == Bounds(tokens=200)
    assert settings.limits.session_budget == Bounds(calls=7)
    assert load_settings(None, {}, {}).budgets == Budgets()


def test_the_file_in_the_working_folder_is_taken(cuebook: RunCommand, write: WriteFile, conversations: Path) -> None:
    arguments = ["play", conversations / "diary.yaml", "--inputs", "-", "--json"]
    write("cuebook.toml", 'model = "no-such"\n')
    assert "no-such" in cuebook(*arguments, input="").stderr
    fine = cuebook(*arguments, input="", env={"CUEBOOK_MODEL": "offline"})
    assert json.loads(fine.stdout)["executionStatus"] == "waiting_input"
    assert "other" in cuebook(*arguments, "--model", "other", input="", env={"CUEBOOK_MODEL": "offline"}).stderr
    write("another.toml", 'model = "offline"\n')
    assert cuebook(*arguments, "--config", "another.toml", input="").exit_code == 0


@pytest.mark.parametrize(
    ("text", "environment", "flags", "named"),
    [
        ("prot = 1\n", {}, {}, ["cuebook.toml", "prot", "did you mean `port`?"]),
        ("port = 'x'\n", {}, {}, ["cuebook.toml", "port"]),
        ("port = 70000\n", {}, {}, ["cuebook.toml", "port"]),
        ("port = \n", {}, {}, ["cuebook.toml", "line 1"]),
        ("queue_max = 0\n", {}, {}, ["cuebook.toml", "queue_max"]),
        ("turn_s = -1\n", {}, {}, ["cuebook.toml", "turn_s"]),
        ("[budgets]\nturn_token = 1\n", {}, {}, ["cuebook.toml", "turn_token"]),
        ("[budgets]\nday_cost = 0\n", {}, {}, ["cuebook.toml", "budgets.day_cost"]),
        ("", {"CUEBOOK_BUDGETS_DAY": "1"}, {}, ["CUEBOOK_BUDGETS_DAY", "day"]),
        ("", {"CUEBOOK_BUDGETS_DAY_CALLS": "x"}, {}, ["CUEBOOK_BUDGETS_DAY_CALLS"]),
        ("", {"CUEBOOK_PROT": "1"}, {}, ["CUEBOOK_PROT", "prot"]),
        ("", {"CUEBOOK_PORT": "many"}, {}, ["CUEBOOK_PORT"]),
        ("", {"CUEBOOK_BUSY": "wait"}, {}, ["CUEBOOK_BUSY"]),
        ("", {}, {"port": -1}, ["port"]),
        ('database = "mysql://db"\n', {}, {}, ["cuebook.toml", "begins with postgresql://"]),
        ("backup_every_h = 24\n", {"CUEBOOK_DATABASE": "postgresql://db"}, {}, ["backup_every_h", "pg_dump"]),
    ],
)
def test_what_cannot_be_used_is_named_with_where_it_stands(
    write: WriteFile, text: str, environment: dict[str, str], flags: dict[str, Any], named: list[str]
) -> None:
    file = write("cuebook.toml", text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, flags, environment)
    assert all(each in str(caught.value) for each in named), str(caught.value)


def test_scripts_folder_that_is_a_file_is_not_reported_missing(cuebook: RunCommand, write: WriteFile) -> None:
    file = write("visit.yaml", "cuebook: 1\n")
    assert f"{file} is not a folder" in " ".join(cuebook("serve", "--port", "0", "--scripts", file).stderr.split())
    missing = cuebook("serve", "--port", "0", "--scripts", file.with_name("none"))
    assert "does not exist" in " ".join(missing.stderr.split())
    keys = cuebook("serve", "--port", "0", env={"CUEBOOK_KEY_FOLDER": str(file.with_name("none"))})
    assert keys.exit_code == 2 and "none does not exist" in " ".join(keys.stderr.split())


def test_a_server_says_where_its_console_is_and_what_to_try(tmp_path: Path) -> None:
    settings = Settings(console=tmp_path)
    shown = announcement(settings, "http://localhost:8000", "this machine only")
    assert "not built; run `make console`" in shown
    assert "API      http://localhost:8000/schema" in shown
    (tmp_path / "index.html").touch()
    shown = announcement(settings, "http://localhost:8000", "this machine only")
    assert "console  http://localhost:8000 (choose a script in Play" in shown
    assert "API      http://localhost:8000/reference" in shown


def test_a_port_in_use_is_refused_with_a_way_out(cuebook: RunCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = cuebook("serve", "--port", other.getsockname()[1], "--data", "data")
    assert (refused.exit_code, "choose another one with --port" in " ".join(refused.stderr.split())) == (2, True)


def test_a_data_folder_without_room_for_the_address_is_refused(cuebook: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "data/server-address").mkdir(parents=True)
    for folder, problem in (("data", "server-address cannot be written"), ("x" * 300, "xxx cannot be opened")):
        refused = cuebook("serve", "--port", "0", "--data", folder)
        assert (refused.exit_code, problem in " ".join(refused.stderr.split())) == (2, True), refused.stderr


def test_a_settings_file_that_is_named_must_be_there(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("play", conversations / "diary.yaml", "--config", "missing.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "missing.toml" in result.stderr
