"""kill -9 in the midst of an account of the conversation: the log of the endpoint is the witness that no call that was
answered is made again, and that no message is lost or summarized twice.
"""

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import openai_server
from tests.support.fixture_types import Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ASKED_S = 60.0
SCRIPT = """
script: talk
context: {strategy: summary, keep: 2}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {chat: Talk about their day., id: day, max_rounds: 100}
"""


class Witness(openai_server.Endpoint):
    """Answers at once, but for the accounts that are to `hang`; accounts are the words they were made of."""

    def __init__(self) -> None:
        super().__init__()
        self.hang: set[int] = set()
        self.accounts: list[tuple[str, ...]] = []

    def _answer(self, asked: Any) -> Any:
        if "You sum up" not in asked.text:
            return openai_server.Answer(content="Go on.")
        words = tuple(re.findall(r"w\d+(?=\W)", asked.text))
        self.accounts.append(words)
        waits = ASKED_S if len(self.accounts) in self.hang else 0.0
        return openai_server.Answer(content=" ".join(words) + ".", wait_s=waits)

    async def asked_for(self, accounts: int) -> None:
        """Wait until so many accounts were asked for."""
        async with asyncio.timeout(ASKED_S):
            while True:
                if len(self.accounts) >= accounts:
                    return
                await asyncio.sleep(0.005)


async def send(client: Any, path: str, body: Any, key: str) -> Any:
    return await client.post(path, json=body, headers={"Idempotency-Key": key})


@pytest.fixture
def settings() -> dict[str, str]:
    return {"CUEBOOK_MODEL": "openai:tiny", "CUEBOOK_MODEL_KEY": "k", "CUEBOOK_MODEL_ATTEMPTS": "1"}


async def killed_at(server: Any, witness: Witness, accounts: int, asking: Any) -> None:
    """Kill the server once so many accounts were asked for, while a request waits for one of them."""
    await witness.asked_for(accounts)
    await server.stop(signal.SIGKILL)
    with pytest.raises(httpx.TransportError):
        await asking


async def test_a_turn_that_died_in_its_summary_is_taken_once(
    serve: Serve, settings: dict[str, str], tmp_path: Path
) -> None:
    witness = Witness()
    endpoint = await witness.start()
    witness.hang = {2}
    server = serve(**settings, CUEBOOK_MODEL_URL=witness.url)
    await server.ready()
    async with server.client() as client:
        await client.publish_script(SCRIPT)
        session = (await client.post("/api/sessions", json={"userId": "ana", "scriptId": "talk"})).json()
        path = f"/api/sessions/{session['sessionId']}"
        assert (await send(client, f"{path}/messages", {"content": "w1 w2"}, "1")).status_code == 200
        asking = asyncio.create_task(send(client, f"{path}/messages", {"content": "w3 w4"}, "2"))
        await killed_at(server, witness, 2, asking)
    made = len(witness.requests)
    server = serve(**settings, CUEBOOK_MODEL_URL=witness.url)
    await server.ready()
    async with server.client() as client:
        assert (await send(client, f"{path}/messages", {"content": "w3 w4"}, "2")).status_code == 200
        assert len(witness.requests) == made + 1  # the answer was there; the account had been cut off
        assert witness.accounts[1] == witness.accounts[2]
        said = await client.transcript(session)
        assert said == [
            ("assistant", "Go on."),
            ("user", "w1 w2"),
            ("assistant", "Go on."),
            ("user", "w3 w4"),
            ("assistant", "Go on."),
        ]
        found = (await client.get(f"{path}/context")).json()
        assert (found["summary"], found["summaryTo"], found["messages"]) == ("w1 w2.", 3, [4, 5])
        calls = (await client.get(f"{path}/calls")).json()["data"]
        assert [call["outcome"] for call in calls].count("in_doubt") == 1
    assert await server.stop() == 0
    await witness.stop(endpoint)


async def test_what_a_compression_had_by_then_is_not_asked_for_again(
    serve: Serve, settings: dict[str, str], tmp_path: Path
) -> None:
    witness = Witness()
    endpoint = await witness.start()
    witness.hang = {2}
    server = serve(**settings, CUEBOOK_MODEL_URL=witness.url, CUEBOOK_CONTEXT_S="30")
    await server.ready()
    async with server.client() as client:
        await client.publish_script(SCRIPT.replace("context: {strategy: summary, keep: 2}\n", ""))
        session = (await client.post("/api/sessions", json={"userId": "ana", "scriptId": "talk"})).json()
        path = f"/api/sessions/{session['sessionId']}"
        for number in (1, 2, 3):  # each long enough for a part of its own
            body = {"content": f"w{number} " + "long " * 2_000}
            assert (await send(client, f"{path}/messages", body, str(number))).status_code == 200
        asking = asyncio.create_task(send(client, f"{path}/compress", {"keep": 1}, "all"))
        await killed_at(server, witness, 2, asking)
    server = serve(**settings, CUEBOOK_MODEL_URL=witness.url)
    await server.ready()
    async with server.client() as client:
        answer = await send(client, f"{path}/compress", {"keep": 1}, "all")
        assert answer.status_code == 200, answer.text
        assert answer.json()["summary"] == "w1 w2 w3."
        assert witness.accounts == [("w1",), ("w1", "w2"), ("w1", "w2"), ("w1", "w2", "w3")]
        again = await send(client, f"{path}/compress", {"keep": 1}, "all")
        assert (again.json(), len(witness.accounts)) == (answer.json(), 4)
    assert await server.stop() == 0
    await witness.stop(endpoint)
