"""Streams that are cut anywhere, servers that are killed or stopped: who goes on from the last id misses nothing."""

import asyncio
import random
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.fixture_types import NewStreamClient, OpenApp, Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CUTS = 500
KILLS = repeats(5)
STORY = """
script: story
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - repeat: {max: 1000}
      id: loop
      do:
      - {say: "Here is a story.", id: begin}
      - {ai_say: "Tell a story.", id: tell, max_rounds: 2}
      - {ask: "Another one?", id: more, output: [{get: more}]}
"""
WORDS = ["a", "frog", "\n", "\n\n", "“quoted”", "故事", "😀", "data: x", "id:", "{", "ß", "\\n", "\r", " "]


class Storyteller:
    """A model that makes things up, hesitates, and now and then starts its reply again."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def goes_to(self, request: ModelRequest) -> str:
        return "storyteller"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        text = ""
        for _ in range(self._chance.randrange(1, 40)):
            text = "" if self._chance.random() < 0.05 else text + self._chance.choice(WORDS) + " "
            if hear is not None:
                hear(ModelReply(text=text))
            await asyncio.sleep(self._chance.choice([0, 0, 0, 0.001]))
        return ModelReply(text=text + "The end.")


class Reader:
    """Somebody whose connections break after any number of bytes, and who goes on from the last id."""

    def __init__(self, api: ApiClient, heard: Any, seed: int) -> None:
        self.api = api
        self.heard = heard
        self.chance = random.Random(seed)
        self.path = ""
        self.cuts = 0
        self.cuts_in_words = 0  # in the midst of a turn

    async def begin(self) -> None:
        """Begin a session."""
        async with self.api.open_stream("/api/sessions", {"userId": "ana", "scriptId": "story"}) as stream:
            await self._hear(stream, 0, self.chance.randrange(400, 2_000))
        self.path = f"/api/sessions/{self.heard.last_id.partition(':')[0]}"
        await self._hear_the_rest(0)

    async def say(self, content: str) -> None:
        """Say something, and hears what comes of it."""
        before = self.heard.seq
        async with self.api.open_stream(f"{self.path}/messages", {"content": content}) as stream:
            await self._hear(stream, before, self._some())
        await self._hear_the_rest(before)

    async def _hear_the_rest(self, before: int) -> None:
        while not self._has_heard_all(before):
            async with self.api.open_stream(
                f"{self.path}/events", headers={"Last-Event-ID": self.heard.last_id}
            ) as stream:
                await self._hear(stream, before, self._some())

    async def _hear(self, stream: httpx.Response, before: int, left: int) -> None:
        assert stream.status_code == 200
        async for chunk in stream.aiter_raw():
            self.heard.feed(chunk[:left])
            left -= len(chunk)
            if left <= 0 or self._has_heard_all(before):
                break
        if left <= 0:
            self.heard.disconnect()
            self.cuts += 1
            self.cuts_in_words += "." in self.heard.last_id

    def _has_heard_all(self, before: int) -> bool:
        return self.heard.seq > before and self.heard.kinds[-1] in {"wait", "turn"}

    def _some(self) -> int:
        return self.chance.randrange(1, self.chance.choice([300, 1_000, 3_000, 10_000]))


async def test_streams_cut_anywhere(server: OpenApp, stream_client: NewStreamClient, tmp_path: Path) -> None:
    # who breaks a connection and comes back at once has two for a moment
    async with server(tmp_path, Storyteller(1), session_streams_max=CUTS) as api:
        await api.publish_script(STORY)
        readers = [Reader(api, stream_client(), seed) for seed in range(5)]

        async def talk(reader: Reader) -> int:
            await reader.begin()
            turns = 0
            while reader.cuts < CUTS / len(readers):
                turns += 1
                await reader.say(f"more {turns}")
            return turns

        turns = await asyncio.gather(*(talk(reader) for reader in readers))
        assert sum(reader.cuts for reader in readers) >= CUTS
        assert sum(reader.cuts_in_words for reader in readers) > CUTS / 4
        for reader, count in zip(readers, turns, strict=True):
            session = await api.read(reader.path)
            assert reader.heard.transcript == await api.transcript(session)
            assert (session["turn"], reader.heard.partial_texts) == (count, {})
            assert reader.heard.kinds.count("message.reset") > 0


async def test_servers_killed_in_the_midst_of_streams(
    serve: Serve, stream_client: NewStreamClient, tmp_path: Path
) -> None:
    client, chance = stream_client(), random.Random(1)
    for number in range(KILLS):
        server = serve()
        await server.ready()
        async with server.client() as api:
            if number == 0:
                session = await api.create_session("diary")
                path = f"/api/sessions/{session['sessionId']}"
                client.last_id = f"{session['sessionId']}:0"
            else:
                await catch_up(api, path, client, number - 1)
            request = api.open_stream(
                f"{path}/messages", {"content": f"entry {number}"}, {"Idempotency-Key": str(number)}
            )
            async with request as stream:
                before = client.seq
                left = chance.randrange(1, 4_000)
                async for chunk in stream.aiter_raw():
                    if before:  # what came before the first turn is yet to be heard
                        client.feed(chunk[:left])
                    left -= len(chunk)
                    if left <= 0:
                        break
            client.disconnect()
            await server.stop(signal.SIGKILL)
    server = serve()
    await server.ready()
    async with server.client() as api:
        await catch_up(api, path, client, number)
        assert client.transcript == await api.transcript(session)
        assert [said for role, said in client.transcript if role == "user"] == [f"entry {n}" for n in range(KILLS)]
        client.partial_texts = {1_000_000: "of a run that this server never knew"}
        place = f"{session['sessionId']}:{client.seq}.0badc0de.5"
        async with api.open_stream(f"{path}/events", headers={"Last-Event-ID": place}) as stream:
            await client.receive(stream, lambda heard: heard.kinds[-1:] == ["message.reset"])
        assert client.partial_texts == {}
    assert await server.stop() == 0


async def catch_up(api: ApiClient, path: str, client: Any, number: int) -> None:
    """Go on from the last id, and sends again what may not have been taken; it is taken once."""
    again = {"Idempotency-Key": str(number)}
    session = {"sessionId": path.rpartition("/")[2]}
    answer = await api.send_message(session, {"content": f"entry {number}"}, again, events=True)
    last = answer.json()["events"][-1]
    async with api.open_stream(f"{path}/events", headers={"Last-Event-ID": client.last_id}) as stream:
        await client.receive(stream, lambda heard: heard.seq == last["seq"])
    assert client.partial_texts == {}


async def test_a_server_that_stops_ends_its_streams(serve: Serve, stream_client: NewStreamClient) -> None:
    server = serve(CUEBOOK_SESSION_STREAMS_MAX="2")
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        client = stream_client()
        path = f"/api/sessions/{session['sessionId']}/events"
        async with api.open_stream(path) as stream:
            await client.receive(stream, lambda heard: heard.kinds[-1:] == ["wait"])
            poll = asyncio.create_task(api.wait_for_events(path, client.seq, 60))
            await api.wait_for_full_stream(path)
            stopping = asyncio.create_task(server.stop())
            await client.receive(stream)  # to its end, in the midst of nothing
            assert (await poll).json()["data"] == []
            assert await stopping == 0
    assert client.transcript == [("assistant", "Dear diary."), ("assistant", "What comes after 0?")]


async def test_answers_that_are_not_read_do_not_delay_a_stop(serve: Serve) -> None:
    server = serve(CUEBOOK_STREAM_WRITE_S="600")
    await server.ready()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /schema/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        assert deaf.recv(1)
        await asyncio.sleep(1)  # it answers until the buffers are full
        assert await server.stop() == 0
    assert "xception" not in server.log


async def test_client_that_does_not_read_does_not_delay_a_stop(serve: Serve) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        for _ in range(150):
            await api.send_texts(session, "x" * 19_000)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", server.port))
        request = f"GET /api/sessions/{session['sessionId']}/events HTTP/1.1\r\nHost: x\r\n"
        deaf.sendall(f"{request}Accept: text/event-stream\r\n\r\n".encode())
        assert deaf.recv(1)
        assert await server.stop() == 0
