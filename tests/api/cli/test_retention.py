"""``cuebook retention``: what operators see and do, with and without a server; and settings that cannot be meant."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.local_files.settings_file import load_settings
from api.settings import SettingsInvalid
from tests.support.fixture_types import OpenApp, RunCommand, Serve, Table

DATA = ("--data", "data")
POLICIES = """
[[retention]]
script = "other"
after_days = 1

[[retention]]
after_days = 30
"""


@pytest.fixture
def old(tmp_path: Path, app: OpenApp) -> list[str]:
    """Return three sessions of the folder `data`, of which two were left 40 days ago; with the policies beside it."""

    async def talk(days: float, users: list[str]) -> list[str]:
        async with app(tmp_path / "data", clock=lambda: datetime.now(UTC) - timedelta(days=days)) as api:
            sessions = [await api.create_session("diary", user=user) for user in users]
            await api.send_texts(sessions[0], "Schmetterling")
            return [session["sessionId"] for session in sessions]

    (tmp_path / "cuebook.toml").write_text(POLICIES)
    return asyncio.run(talk(40, ["ana", "ben"])) + asyncio.run(talk(0, ["eve"]))


@pytest.fixture
def run(cuebook: RunCommand) -> Callable[..., Any]:
    def succeed(*arguments: object) -> Any:
        result = cuebook(*arguments, *DATA)
        assert result.exit_code == 0, result.stderr
        return result

    return succeed


@pytest.mark.gate
def test_a_dry_run_changes_nothing_and_a_run_drops_what_is_due(
    cuebook: RunCommand, run: Any, old: list[str], table: Table
) -> None:
    for _ in range(2):
        first, second = table(run("retention", "--dry-run"))
        assert (first[:6], second[:6]) == (["redact", "1", "other", "", "", "0"], ["redact", "30", "", "", "", "2"])
    done = run("retention")
    assert (done.stdout, "2 sessions redacted, 0 deleted" in done.stderr) == ("", True)
    assert "cuebook compact" in done.stderr.replace("\n", " ")
    assert json.loads(run("retention", "--json").stdout)["redacted"] == 0
    looked = json.loads(run("retention", "--dry-run", "--json").stdout)
    assert [each["sessions"] for each in looked["policies"]] == [0, 0]
    assert run("verify")
    replayed = run("replay", "--all", "--json")
    assert [each["sessionId"] for each in json.loads(replayed.stdout)["sessions"]] == [old[2]]

    for arguments in (["replay", old[0]], ["sessions", "export", old[0]], ["sessions", "end", old[0]]):
        reported = cuebook(*arguments, *DATA)
        assert (reported.exit_code, "redacted" in reported.stderr) == (2, True), arguments


def test_without_policies_that_is_said(cuebook: RunCommand, app: OpenApp, tmp_path: Path) -> None:
    async def begin() -> None:
        async with app(tmp_path / "data"):
            pass

    asyncio.run(begin())
    for arguments in (["--dry-run"], [], ["--json"]):
        said = cuebook("retention", *arguments, *DATA)
        assert (said.exit_code, "`[[retention]]`" in said.stderr, "redacted" in said.stderr) == (0, True, False)
    assert cuebook("retention", "--data", "nowhere").exit_code == 2


@pytest.mark.gate
async def test_while_a_server_runs_it_does_the_work(run: Any, old: list[str], serve: Serve, tmp_path: Path) -> None:
    server = serve("--config", str(tmp_path / "cuebook.toml"))
    await server.ready()
    async with server.client() as api:
        looked = await asyncio.to_thread(run, "retention", "--dry-run", "--json")
        assert [each["sessions"] for each in json.loads(looked.stdout)["policies"]] == [0, 2]
        await asyncio.to_thread(run, "retention")
        assert (await api.read(f"/api/sessions/{old[0]}"))["redactedAt"]
        assert (await api.read(f"/api/sessions/{old[2]}"))["redactedAt"] is None


@pytest.mark.gate
@pytest.mark.database_file  # with PostgreSQL, the command is a server of its own
async def test_a_server_with_other_policies_is_not_asked(
    cuebook: RunCommand, old: list[str], serve: Serve, tmp_path: Path
) -> None:
    server = serve("--config", str(tmp_path / "cuebook.toml"))
    await server.ready()
    (tmp_path / "cuebook.toml").write_text(POLICIES.replace("30", "300"))
    for arguments in (["--dry-run"], []):
        refused = await asyncio.to_thread(cuebook, "retention", *arguments, *DATA)
        assert (refused.exit_code, "restart it" in refused.stderr.replace("\n", " ")) == (2, True)
    async with server.client() as api:
        assert (await api.read(f"/api/sessions/{old[0]}"))["redactedAt"] is None


@pytest.mark.gate
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retention = 7", r"expected a list"),
        ("[[retention]]\naction = 'redact'", r"retention\[0\]: the setting `after_days` is missing"),
        ("[[retention]]\nafter_days = 0", r"retention\[0\]\.after_days: .*at least 1"),
        (
            "[[retention]]\nafter_days = 7\naction = 'all'",
            r"retention\[0\]\.action: 'all' is not one of delete, redact",
        ),
        ("[[retention]]\nafter_days = 7\nscripts = 'a'", r"retention\[0\]: there is no setting `scripts`"),
        ("[[retention]]\nafter_days = 7\nstatus = 'ended'", r"retention\[0\]\.status: .*not one of active, "),
        ("[[retention]]\nafter_days = 7\n[[retention]]\nafter_days = 9\nscript = 'a'", r"retention\[1\] never applies"),
        ("retention_every_h = -1", r"retention_every_h"),
    ],
)
def test_contradictory_policies_are_reported(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "cuebook.toml").write_text(text)
    with pytest.raises(SettingsInvalid, match=expected) as refused:
        load_settings(tmp_path / "cuebook.toml", {}, {})
    assert "cuebook.toml: " in str(refused.value)
