"""Eight clients that write diaries, whatever happens to the server, and remember what it acknowledged."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import Serve
from tests.support.server_process import ServerProcess

CLIENTS = 8
ANSWERS_S = 60.0
ENTRIES_MAX = 25  # then the diary is closed and another one begun


class DiaryClient:
    """A client with one diary after the other. A request without an answer is sent again with the same key."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.chance = chance
        self.diaries: list[Any] = []  # the answers to their creations
        self.entries: list[list[str]] = []  # of each diary what was acknowledged
        self.retries = 0
        self._sent: tuple[str, Any, dict[str, str]] | None = None

    async def write(self, client: httpx.AsyncClient) -> None:
        """Go on until the server does not answer any more."""
        while True:
            if self._sent is None:
                self._sent = self._next()
            else:
                self.retries += 1
            path, body, headers = self._sent
            try:
                answer = await client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                return
            self._acknowledged(body, answer)
            self._sent = None

    def _next(self) -> tuple[str, Any, dict[str, str]]:
        if not self.diaries or self.entries[-1][-1:] == ["stop"]:
            number = len(self.diaries)
            body = {"userId": self.name, "scriptId": "diary", "key": f"{self.name}/{number}"}
            return "/api/sessions", body, {"Idempotency-Key": f"begin {self.name} {number}"}
        number = len(self.entries[-1])
        over = number == ENTRIES_MAX or self.chance.random() < 0.02
        entry = "stop" if over else f"{self.name} {self.chance.randrange(1_000_000)}"
        path = f"/api/sessions/{self.diaries[-1]['sessionId']}/messages"
        return path, {"content": entry}, {"Idempotency-Key": f"entry {number}"}

    def _acknowledged(self, body: Any, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.text
        got = answer.json()
        if "scriptId" in body:
            self.diaries.append(got)
            self.entries.append([])
            said = ["Dear diary.", "What comes after 0?"]
        else:
            self.entries[-1].append(body["content"])
            said = answer_to(len(self.entries[-1]), body["content"])
        assert got["turn"] == len(self.entries[-1])
        assert [message["content"] for message in got["messages"]] == said


def answer_to(number: int, entry: str) -> list[str]:
    """Return what the diary says to its nth entry."""
    then = f"Closed after {number}." if entry == "stop" else f"What comes after {number}?"
    return [f"Entry {number}: {entry}", then]


class DiaryClients:
    """All clients, and what their diaries must contain in the end."""

    def __init__(self, seed: int) -> None:
        self.writers = [DiaryClient(f"p{number}", random.Random(f"{seed} {number}")) for number in range(CLIENTS)]

    async def write(self, client: httpx.AsyncClient) -> None:
        """Run all clients at once until the server is gone."""
        async with asyncio.TaskGroup() as group:
            for writer in self.writers:
                group.create_task(writer.write(client))

    async def answered(self, more: int) -> None:
        """Wait for so many answers more, to anybody."""
        enough = self._answers + more
        async with asyncio.timeout(ANSWERS_S):
            while True:
                if self._answers >= enough:
                    return
                await asyncio.sleep(0.001)

    @property
    def _answers(self) -> int:
        return self.acknowledged + sum(len(writer.diaries) for writer in self.writers)

    @property
    def acknowledged(self) -> int:
        return sum(len(entries) for writer in self.writers for entries in writer.entries)

    @property
    def retries(self) -> int:
        return sum(writer.retries for writer in self.writers)

    async def finish(self, api: ApiClient) -> None:
        """Send again what got no answer, and takes one more entry in every diary that is open."""
        for writer in self.writers:
            if writer._sent is not None:
                path, body, headers = writer._sent
                writer._acknowledged(body, await api.post(path, json=body, headers=headers))
            if not writer.diaries or writer.entries[-1][-1:] == ["stop"]:
                continue
            path = f"/api/sessions/{writer.diaries[-1]['sessionId']}"
            seen = await api.read(path)
            count = len(writer.entries[-1])
            assert (seen["turn"], seen["position"]["actionId"], seen["wait"]) == (count, "next", {"kind": "text"})
            body = {"content": "one more"}
            writer._acknowledged(body, await api.post(f"{path}/messages", json=body))

    async def check(self, api: ApiClient) -> None:
        """Assert that every diary contains exactly what was acknowledged: nothing lost, torn, doubled or foreign."""
        for writer in self.writers:
            listed = await api.read_all("/api/sessions", userId=writer.name, sort="created")
            assert [row["sessionId"] for row in reversed(listed)] == [each["sessionId"] for each in writer.diaries]
            for session, entries in zip(writer.diaries, writer.entries, strict=True):
                await self._check_diary(api, session, entries)

    async def _check_diary(self, api: ApiClient, session: Any, entries: list[str]) -> None:
        expected = [("assistant", "Dear diary."), ("assistant", "What comes after 0?")]
        for number, entry in enumerate(entries, 1):
            expected += [("user", entry), *(("assistant", text) for text in answer_to(number, entry))]
        assert await api.transcript(session) == expected
        seen = await api.read(f"/api/sessions/{session['sessionId']}")
        assert seen["turn"] == len(entries)
        assert seen["variables"]["count"] == len(entries)
        assert seen["status"] == ("completed" if entries[-1:] == ["stop"] else "active")


@pytest.fixture
def diary_clients() -> Callable[[int], DiaryClients]:
    """Create the clients of a seed."""
    return DiaryClients


@pytest.fixture
def serve_on_postgres(serve: Serve, postgres_url: str, tmp_path: Path) -> Callable[..., ServerProcess]:
    """Start a server on one database, with the same key files as the others: ``serve_on_postgres("one")``."""
    keys = tmp_path / "keys"

    def start(name: str, *flags: str, database: str = postgres_url, **environment: str) -> ServerProcess:
        folder = tmp_path / name
        for each in (keys, folder):
            each.mkdir(exist_ok=True)
        places = {"CUEBOOK_DATABASE": database, "CUEBOOK_KEY_FOLDER": str(keys)}
        return serve(*flags, folder=folder, **places, **environment)

    return start
