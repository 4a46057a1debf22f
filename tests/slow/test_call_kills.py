"""kill -9 before, during and after calls of a language model, with the log of its endpoint as the witness.

A call that was answered is never made again; one that was cut off is made again once for every time it was; each is in
the database once, with its turn; and the conversations are those of a server that nobody kills.
"""

import asyncio
import random
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from store.duckdb.database import Database
from tests.support import openai_server
from tests.support.effort import repeats
from tests.support.fixture_types import Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ASKED_S = 60.0
KILLS = repeats(10)  # for each of the two policies
TALKERS = 4
SCRIPT = """
script: {policy}
on_interrupted: {policy}
default_scope: session
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_say: "Say OPENING to {{{{ word }}}}."
            id: OPENING
          - repeat: {{max: 1000}}
            id: loop
            do:
              - ask: Next?
                id: next
                output: [{{get: word}}]
              - ai_say: Say FIRST.
                id: FIRST
              - ai_say: Say SECOND.
                id: SECOND
              - ai_say: Say THIRD.
                id: THIRD
"""
EACH = ("FIRST", "SECOND", "THIRD")


class Witness(openai_server.Endpoint):
    """The endpoint: answers each call after its own time, always with the same words, and counts the requests."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.counted: Counter[tuple[str, str]] = Counter()
        self._chance = chance

    async def asked(self, more: int) -> None:
        """Wait for so many requests more."""
        enough = len(self.requests) + more
        async with asyncio.timeout(ASKED_S):
            while True:
                if len(self.requests) >= enough:
                    return
                await asyncio.sleep(0.001)

    def _answer(self, asked: Any) -> Any:
        action = re.findall(r"Say ([A-Z]+)\b", asked.text)[-1]
        word = max(re.findall(r"w\d+x\d+", asked.text), key=lambda word: int(word.split("x")[1]))
        self.counted[word, action] += 1
        return openai_server.Answer(content=f"{action} to {word}.", wait_s=self._chance.uniform(0, 0.03))


class Talker:
    """Somebody who goes on talking; a request that got no answer is sent again, with the same key."""

    def __init__(self, number: int, policy: str) -> None:
        self.name = f"w{number}"
        self.policy = policy
        self.session = ""
        self.turns = 0  # answered
        self.interruptions = 0  # of calls that were interrupted

    async def talk(self, client: Any, turns_max: int = 1_000) -> None:
        """Go on until the server does not answer any more, or there were enough turns."""
        while self.turns < turns_max:
            try:
                await self._one(client)
            except httpx.TimeoutException:  # a server that hangs is no server that was killed
                raise
            except httpx.TransportError:
                return

    async def _one(self, client: Any) -> None:
        word = f"{self.name}x{self.turns}"
        path, body = f"/api/sessions/{self.session}/messages", {"content": word}
        if not self.session:
            path = "/api/sessions"
            body = {"userId": self.name, "scriptId": self.policy, "initialVariables": {"word": word}}
        answer = await client.post(path, json=body, headers={"Idempotency-Key": word})
        if answer.status_code == 503:
            error = answer.json()["error"]
            if error["code"] == "SERVER_BUSY":  # the machine has too much to do
                await asyncio.sleep(0.1)
                return
            assert (error["code"], self.policy) == ("LLM_CALL_INTERRUPTED", "fail"), error
            self.interruptions += 1
            return
        assert answer.status_code == 200, answer.text
        self.session = self.session or answer.json()["sessionId"]
        self.turns += 1

    @property
    def said(self) -> list[tuple[str, str]]:
        """Return the conversation as it must be."""
        expected = [("assistant", f"OPENING to {self.name}x0."), ("assistant", "Next?")]
        for turn in range(1, self.turns):
            word = f"{self.name}x{turn}"
            expected += [
                ("user", word),
                *(("assistant", f"{action} to {word}.") for action in EACH),
                ("assistant", "Next?"),
            ]
        return expected


@pytest.mark.parametrize("policy", ["retry", "fail"])
async def test_killed_while_it_calls(serve: Serve, tmp_path: Path, policy: str) -> None:
    chance = random.Random(policy)
    witness = Witness(random.Random(f"{policy} endpoint"))
    endpoint = await witness.start()
    settings = {
        "CUEBOOK_MODEL": "openai:tiny",
        "CUEBOOK_MODEL_URL": witness.url,
        "CUEBOOK_MODEL_KEY": "k",
        "CUEBOOK_MODEL_ATTEMPTS": "1",
    }
    talkers = [Talker(number, policy) for number in range(TALKERS)]
    for number in range(KILLS + 1):
        server = serve(**settings)
        await server.ready()
        async with server.client() as client:
            if number == 0:
                await client.publish_script(SCRIPT.format(policy=policy), strict=False)
            target = 1_000 if number < KILLS else max(talker.turns for talker in talkers) + 2
            talking = asyncio.gather(*(talker.talk(client, target) for talker in talkers))
            if number < KILLS:
                enough = asyncio.create_task(witness.asked(chance.randrange(1, 25)))
                await asyncio.wait([talking, enough], return_when=asyncio.FIRST_COMPLETED)
                assert not talking.done(), talking  # nobody stops talking before the server does
                await enough
                await asyncio.sleep(chance.uniform(0, 0.02))
                await server.stop(signal.SIGKILL)
            await talking
            if number == KILLS:
                for talker in talkers:
                    assert await client.transcript({"sessionId": talker.session}) == talker.said
                assert await server.stop() == 0
    await witness.stop(endpoint)
    calls = recorded(tmp_path / "data")
    assert_each_once(calls, talkers, witness.counted)
    cut_off = [each for found in calls.values() for each in found if each[0] == "in_doubt"]
    assert len(cut_off) >= KILLS / 2  # enough of the kills came within calls
    if policy == "fail":
        assert {error for _, _, error in cut_off} == {"interrupted; the user got an error"}
        assert 0 < sum(talker.interruptions for talker in talkers) <= len(cut_off)


def recorded(folder: Path) -> dict[tuple[str, str], list[tuple[str, bool, str | None]]]:
    """Return what became of each call, by the word it was about and its action, in order."""
    database = Database.open(folder, read_only=True)
    cursor = database.cursor()
    rows = cursor.execute(
        "SELECT user_id, turn, action_id, outcome, used, error FROM llm_calls ORDER BY user_id, turn, number"
    ).fetchall()
    left = cursor.execute("SELECT count(*) FROM call_journal").fetchone()
    doubled = cursor.execute("SELECT count(*) - count(DISTINCT call_id) FROM llm_calls").fetchone()
    starts = dict(cursor.execute("SELECT user_id, min(turn) FROM llm_calls WHERE used GROUP BY user_id").fetchall())
    cursor.close()
    database.close()
    assert (left, doubled) == ((0,), (0,))
    found: dict[tuple[str, str], list[tuple[str, bool, str | None]]] = {}
    for user, turn, action, *what in rows:
        found.setdefault((f"{user}x{turn - starts[user]}", action), []).append(tuple(what))
    return found


def assert_each_once(
    calls: dict[tuple[str, str], list[tuple[str, bool, str | None]]], talkers: list[Talker], counted: Counter[Any]
) -> None:
    wanted = {(f"{talker.name}x0", "OPENING") for talker in talkers}
    wanted |= {
        (f"{talker.name}x{turn}", action) for talker in talkers for turn in range(1, talker.turns) for action in EACH
    }
    assert calls.keys() == wanted == counted.keys()
    for which, found in calls.items():
        *cut_off, last = found
        assert last == ("done", True, None), which  # and no other of them: it was never made again
        assert {(outcome, used) for outcome, used, _ in cut_off} <= {("in_doubt", False)}, which
        assert 1 <= counted[which] <= len(found), which
