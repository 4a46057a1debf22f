"""A user who is erased while a session of theirs begins keeps nothing of it."""

import asyncio
from pathlib import Path

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.fixture_types import OpenApp

THINKS_FIRST = """
script: thinks_first
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_say: Greet the user., id: greet}
          - {ask: Well?, id: well}
"""


class HeldModel(OfflineModel):
    """The offline model, which answers each request only after its turn in `go`."""

    def __init__(self, requests: int) -> None:
        self.go = [asyncio.Event() for _ in range(requests)]
        self.asked = 0
        self.all_asked = asyncio.Event()

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        number = self.asked
        self.asked += 1
        if self.asked == len(self.go):
            self.all_asked.set()
        if number < len(self.go):
            await self.go[number].wait()
        return await OfflineModel().complete(request)


async def test_an_erasure_waits_for_every_session_that_begins(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel(2)
    async with app(tmp_path, model) as api:
        await api.publish_script(THINKS_FIRST)
        body = {"userId": "ana", "scriptId": "thinks_first"}
        creations = {asyncio.create_task(api.post("/api/sessions", json=body)) for _ in range(2)}
        await model.all_asked.wait()
        erasure = asyncio.create_task(api.delete("/api/users/ana"))
        for event in model.go:
            done, _ = await asyncio.wait({erasure}, timeout=0.1)
            assert not done
            event.set()
            done, creations = await asyncio.wait(creations, return_when=asyncio.FIRST_COMPLETED)
            assert [(await creation).status_code for creation in done] == [200]
        assert (await erasure).status_code == 200
        assert await api.read("/api/users/ana/sessions") == []


async def test_session_begun_during_an_erasure_begins_after_it(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel(1)
    async with app(tmp_path, model) as api:
        await api.publish_script(THINKS_FIRST)
        body = {"userId": "ana", "scriptId": "thinks_first"}
        early = asyncio.create_task(api.post("/api/sessions", json=body))
        await model.all_asked.wait()
        erasure = asyncio.create_task(api.delete("/api/users/ana"))
        await asyncio.wait({erasure}, timeout=0.1)
        late = asyncio.create_task(api.post("/api/sessions", json=body))
        done, _ = await asyncio.wait({late}, timeout=0.1)
        assert not done
        model.go[0].set()
        assert ((await early).status_code, (await erasure).status_code) == (200, 200)
        begun = (await late).json()["sessionId"]
        assert [session["sessionId"] for session in await api.read("/api/users/ana/sessions")] == [begun]
