"""A conversation with a restart after every wait is the conversation without one: what is said, stored and recorded.

Two ways of restarting: every turn of every case of the long example in a process of its own, and one long conversation
over HTTP with a server that is killed after each answer.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.testing.cases.case_reader import read_cases
from store.duckdb.database import Database
from tests.support.fixture_types import Serve
from tests.support.paths import CASES_FOLDER, LIBRARY, PROCESSES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOVING_ABROAD = CASES_FOLDER / "moving_abroad.case.yaml"
SCRIPTS = LIBRARY / "moving_abroad"
TURNS = {str(found): len(found.case.turns) for found in read_cases(MOVING_ABROAD, {}).cases}


class Forker:
    """The process that has each turn taken by a child of its own."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        command = [sys.executable, str(PROCESSES / "run_turn.py"), str(MOVING_ABROAD)]
        with errors.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        assert set(self._answer().split("\t")) == TURNS.keys()

    def turn(self, name: str, which: object, folder: Path) -> None:
        """Have a turn (or ``all`` of them) taken in a new process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\t{which}\t{folder}\n")
        assert self._answer() == "0", self._errors.read_text()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def close(self) -> None:
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    forker = Forker(tmp_path_factory.mktemp("forker") / "errors")
    yield forker
    forker.close()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folders of the two databases."""
    straight, restarted = tmp_path / "straight", tmp_path / "restarted"
    straight.mkdir()
    restarted.mkdir()
    return straight, restarted


@pytest.mark.parametrize("name", TURNS)
def test_every_turn_in_a_process_of_its_own(forker: Forker, folders: tuple[Path, Path], name: str) -> None:
    straight, restarted = folders
    forker.turn(name, "all", straight)
    for number in range(TURNS[name]):
        forker.turn(name, number, restarted)
    for what in ("history", "state"):
        assert json.loads((restarted / what).read_bytes()) == json.loads((straight / what).read_bytes())
        assert (restarted / what).read_bytes() == (straight / what).read_bytes()


# Nothing in it depends on the day: the server's clock is the machine's.
LONG: list[dict[str, Any]] = [
    {"choice": "waiting"},
    *({"content": said} for said in ("country: Portugal, city: Porto", "in 20 weeks", "yes")),
    {"choice": "work"},
    *({"content": said} for said in ("6", "the sea", "how much does it all cost?", "Mrs Costa", "the language", "yes")),
    *({"content": said} for said in ("my mother", "no", "8", "this is too much for me", "yes", "Ben", "3")),
    *({"content": said} for said in ("an hour every Sunday", "A garden", "Let us look", "yes", "in 300 weeks", "none")),
    {"choice": "private"},
    *({"content": said} for said in ("AB-12345", "yes", "name: Jo, phone: 0151 234567", "rent: 900, currency: euro")),
    {"form": {"rooms_wanted": 4, "near": ["sea"], "viewings": [{"street": "Rua do Sol"}]}},
    {"choice": "shelves"},
    *({"content": said} for said in ("25", "enough for today", "yes")),
]
SAME = {
    "messages": "turn, seq, role, content, action_id, metadata",
    "events": "turn, seq, kind, data",
    "variable_history": "turn, scope, name, old, new, type, action_id, source, phase_id, topic_id",
    "user_variables": "name, value",
}


async def test_a_server_killed_after_every_answer(serve: Serve, folders: tuple[Path, Path]) -> None:
    straight = await talk(serve, folders[0], restarts=False)
    restarted = await talk(serve, folders[1], restarts=True)
    assert straight["answers"][-1]["executionStatus"] == "completed"
    for what, found in straight.items():
        assert restarted[what] == found, what


async def talk(serve: Callable[..., Any], folder: Path, *, restarts: bool) -> dict[str, list[Any]]:
    """Return the long conversation with a server on a folder: its answers, and what the database has of it."""
    flags = ("--scripts", str(SCRIPTS))
    server = serve(*flags, folder=folder)
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("moving_abroad", user="ruth", seed=7, initialVariables={"talks_count": 1})
    answers = [session]
    for message in LONG:
        if restarts:
            await server.stop(signal.SIGKILL)
            server = serve(*flags, folder=folder)
            await server.ready()
        async with server.client() as api:
            answer = await api.send_message(session, message, events=True)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    await server.stop(signal.SIGKILL if restarts else signal.SIGTERM)
    found: dict[str, list[Any]] = {"answers": [comparable(answer) for answer in answers]}
    database = Database.open(folder / "data", read_only=True)
    cursor = database.cursor()
    for table, columns in SAME.items():
        found[table] = cursor.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
    cursor.close()
    database.close()
    return found


def comparable(part: Any) -> Any:
    """Return an answer without the ids and times that are new in every session."""
    if isinstance(part, list):
        return [comparable(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: comparable(each) for key, each in part.items() if key not in NEW}


NEW = {"sessionId", "messageId", "timestamp", "createdAt", "updatedAt", "lastUpdated", "id"}
