"""``cuebook timers`` and the passing of time in ``cuebook play``."""

import asyncio
import json
from pathlib import Path

from tests.support.fixture_types import OpenApp, RunCommand, WriteFile

NAP = """
script: nap
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {say: See you., id: bye}
    - {wait: 3 days, id: pause}
    - {ask: Are you there?, id: there, output: [there]}
"""


def test_time_passes_in_a_play(cuebook: RunCommand, write: WriteFile) -> None:
    write("nap.yaml", NAP)
    write("replies.txt", "/pass 2 days\n/pass 1 day\nyes\n")
    result = cuebook("play", "nap.yaml", "--inputs", "replies.txt")
    said = [line for line in result.stdout.splitlines() if line]
    assert said == ["See you.", "> /pass 2 days", "> /pass 1 day", "Are you there?", "> yes"]


def test_what_is_no_duration_does_not_fit(cuebook: RunCommand, write: WriteFile) -> None:
    write("nap.yaml", NAP)
    write("replies.txt", "/pass soon\n")
    result = cuebook("play", "nap.yaml", "--inputs", "replies.txt")
    assert result.exit_code == 2
    assert "write a duration after /pass" in result.stderr


def test_a_script_without_moments_hears_such_a_line_as_a_reply(cuebook: RunCommand, write: WriteFile) -> None:
    write("plain.yaml", NAP.replace("    - {wait: 3 days, id: pause}\n", ""))
    write("replies.txt", "/pass 2 days\n")
    report = json.loads(cuebook("play", "plain.yaml", "--inputs", "replies.txt", "--json").stdout)
    assert report["turns"][1]["input"] == "/pass 2 days"


async def test_timers_are_listed_by_pages(cuebook: RunCommand, app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "cuebook-data") as api:
        await api.publish_script(NAP, strict=False)
        sessions = [(await api.create_session("nap"))["sessionId"] for _ in range(3)]
    first = await asyncio.to_thread(cuebook, "timers", "list", "--limit", "2")
    cursor = first.stderr.partition("more: --cursor ")[2].strip()
    second = await asyncio.to_thread(cuebook, "timers", "list", "--limit", "2", "--cursor", cursor)
    assert second.stderr == ""
    rows = [line.split("\t")[2] for shown in (first, second) for line in shown.stdout.splitlines()[1:]]
    assert rows == sessions
