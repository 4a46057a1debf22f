"""kill -9 before, during and after calls of a tool, with the service's own count as the witness.

A call that was answered is never made again. One that was cut off fails the turn once if the tool changes something,
and is made again with the same Idempotency-Key when the message is sent again; one that only reads is made again at
once. Other turns of the session, which come in between, change nothing.
"""

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_client import Json
from tests.support.effort import repeats
from tests.support.fixture_types import Serve
from tests.support.tool_service import ServiceAnswer, ServiceRequest, ToolService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = repeats(10)  # for each of the two kinds of tools
TALKERS = 4
SCRIPT = """
script: shop
default_scope: session
tools:
  - tool: book
    http: {{method: {method}, url: "{url}/{{{{ step }}}}/{{{{ word }}}}"}}
    params: {{step: {{type: string}}, word: {{type: string}}}}
    result: {{type: object, required: [number]}}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {{max: 1000}}
            id: loop
            do:
              - {{ask: Next?, id: next, output: [{{get: word, type: text}}]}}
              - {{tool: book, id: first, with: {{step: first, word: =word}}, into: {{one: number}}}}
              - {{tool: book, id: second, with: {{step: second, word: =word}}, into: {{two: number}}}}
              - {{say: "{{{{ word }}}}: {{{{ one }}}} {{{{ two }}}}", id: booked}}
"""


class Talker:
    """Somebody who goes on talking; a request that got no answer is sent again, with the same key."""

    def __init__(self, number: int) -> None:
        self.name = f"w{number}"
        self.session: Json = None
        self.turns = 0  # answered
        self.said: list[str] = []
        self.interruptions: Counter[str] = Counter()  # of each message: how often its answer was the error
        self.losses: Counter[str] = Counter()  # of each message: how often it got no answer

    async def talk(self, client: Any, turns_max: int) -> None:
        """Go on until the server does not answer any more, or there were enough turns."""
        while self.turns < turns_max:
            try:
                await self._one(client)
            except httpx.TimeoutException:
                raise
            except httpx.TransportError:
                return

    async def _one(self, client: Any) -> None:
        if self.session is None:
            body = {"userId": self.name, "scriptId": "shop"}
            answer = await client.post("/api/sessions", json=body, headers={"Idempotency-Key": self.name})
            assert answer.status_code == 200, answer.text
            self.session = answer.json()
            return
        word = f"{self.name}x{self.turns}"
        if (self.losses[word] + self.interruptions[word]) % 2:  # other turns come before the message is sent again
            await self._pause_and_resume(client)
        try:
            answer = await client.send_message(self.session, {"content": word}, {"Idempotency-Key": word})
        except httpx.TransportError:
            self.losses[word] += 1
            raise
        if answer.status_code == 503:
            code = answer.json()["error"]["code"]
            assert code in {"SERVER_BUSY", "TOOL_CALL_INTERRUPTED"}, answer.text
            self.interruptions[word] += code == "TOOL_CALL_INTERRUPTED"
            await asyncio.sleep(0.01)
            return
        assert answer.status_code == 200, answer.text
        self.said.append(answer.json()["messages"][0]["content"])
        self.turns += 1

    async def _pause_and_resume(self, client: Any) -> None:
        for change in ("pause", "resume"):
            answer = await client.post(f"/api/sessions/{self.session['sessionId']}/{change}")
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_killed_while_it_calls_tools(serve: Serve, tmp_path: Path, method: str) -> None:
    chance = random.Random(method)
    numbers: Counter[str] = Counter()

    def book(request: ServiceRequest) -> ServiceAnswer:
        numbers[request.path] += 1
        return ServiceAnswer({"number": numbers[request.path]}, wait_s=chance.uniform(0, 0.03))

    talkers = [Talker(number) for number in range(TALKERS)]
    async with ToolService().serving() as service:
        service.answer = book
        settings = {"CUEBOOK_TOOLS": "live", "CUEBOOK_TOOL_PRIVATE_TARGETS": service.target}
        for number in range(KILLS + 1):
            server = serve(**settings)
            await server.ready()
            async with server.client() as client:
                if number == 0:
                    await client.publish_script(SCRIPT.format(method=method, url=service.url), strict=False)
                target = 1_000 if number < KILLS else max(talker.turns for talker in talkers) + 2
                talking = asyncio.gather(*(talker.talk(client, target) for talker in talkers))
                if number < KILLS:
                    await service.received(len(service.requests) + chance.randrange(1, 25))
                    await asyncio.sleep(chance.uniform(0, 0.02))
                    await server.stop(signal.SIGKILL)
                await talking
                if number == KILLS:
                    assert await server.stop() == 0
    _assert_no_finished_call_was_repeated(service, talkers, numbers)
    interruptions = sum(talker.interruptions.total() for talker in talkers)
    assert (interruptions > 0) == (method == "POST")
    _assert_calls_were_repeated_after_a_kill(talkers, numbers, is_change=method == "POST")


def _assert_calls_were_repeated_after_a_kill(talkers: list[Talker], numbers: Counter[str], *, is_change: bool) -> None:
    """Each repetition needs an attempt at the turn before it whose call was cut off, and which so got no answer. That
    of a change needs one more, between the two, whose answer was the error, unless a kill took that answer on its way.
    """
    for talker in talkers:
        for turn in range(talker.turns + 1):
            word = f"{talker.name}x{turn}"
            repeated = sum(max(0, numbers[f"/{step}/{word}"] - 1) for step in ("first", "second"))
            lost, failed = talker.losses[word], talker.interruptions[word]
            assert repeated <= ((lost + failed) // 2 if is_change else lost)


def _assert_no_finished_call_was_repeated(service: ToolService, talkers: list[Talker], numbers: Counter[str]) -> None:
    """What a talker read is what the last call of each step returned: no later call was made."""
    for talker in talkers:
        for turn, said in enumerate(talker.said):
            word = f"{talker.name}x{turn}"
            one, two = (numbers[f"/{step}/{word}"] for step in ("first", "second"))
            assert said == f"{word}: {one} {two}"
    keys: dict[str, set[str]] = {}
    for request in service.requests:
        keys.setdefault(request.path, set()).add(request.headers["idempotency-key"])
    assert all(len(each) == 1 for each in keys.values())  # every attempt at a call has the same key
    assert len({key for each in keys.values() for key in each}) == len(keys)
