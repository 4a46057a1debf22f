"""A database in which everything happens that can: written through the API, with words that occur nowhere else."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage
from tests.support.api_client import ApiClient

WORD = "Zanzibar"
"""In everything that somebody says, that is personal, or that an application calls somebody by."""
USERS = ("ana", "ben", WORD)
REPLIES = ("yes", f"Ana {WORD}", "34", "no", f"tired, says {WORD}", "7", "2", "pause", "danger", "", "stop", f"{WORD}?")

TALK = """\
script: talk
experiments: [{experiment: greeting, arms: [plain, warm]}]
declare:
  - {var: name, define: What they are called, pii: true}
  - {var: mood}
use: [homes.yaml]
interrupts:
  - interrupt: break
    on: {keywords: [pause]}
    do: [{ask: "How long?", id: how_long, output: [{get: minutes, type: number}]}]
    then: resume
detectors:
  - detector: crisis
    rules: [{words: [danger], label: grave}]
    do: [{say: Stay with me., id: stay}]
phases:
  - phase: main
    topics:
      - topic: who
        declare: [{var: nickname}]
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name}, {get: nickname}], milestone: named}
          - experiment: greeting
            id: greet
            arms: {plain: [{say: Hello., id: hi}], warm: [{say: "Hello {{ name }}", id: warm_hi}]}
          - {ask: Where do you live?, id: ask_home, output: [{get: home}]}
          - {say: Never., id: never, when: "1 > 2"}
      - topic: more
        actions:
          - {ask: Your age?, id: ask_age, output: [{get: age, type: number}], invalid: A number please.}
          - {ask: Your mood?, id: ask_mood, output: [{get: mood}]}
          - {ai_say: Comfort them., id: comfort}
          - {ask: Anything else?, id: ask_more}
"""
"""Asks for personal values, with an interrupt, a detector, an experiment and a model's words."""
HOMES = {"homes.yaml": "globals: [{var: home, define: Where they live, pii: true}]\n"}
RENAMED = TALK.replace("ask_age", "how_old") + "migrations: {actions: {main/more/ask_age: main/more/how_old}}\n"
MARKED = TALK.replace("{var: mood}", "{var: mood, pii: true}")


class Moody(OfflineModel):
    """A model that counts its words, and fails now and then, the same way each time."""

    def __init__(self) -> None:
        self._asked = 0

    def goes_to(self, request: ModelRequest) -> str:
        return "moody"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self._asked += 1
        if self._asked % 7 == 3:
            raise ModelFailed(f"it is gone, {WORD}")
        usage = Usage(model="moody-1", input_tokens=self._asked, output_tokens=2, cost=0.5, latency_ms=10)
        return msgspec.structs.replace(await super().complete(request, hear), usage=usage)


async def converse(api: ApiClient, seed: int, steps: int) -> None:
    """Run some sessions of some users at random."""
    dice = random.Random(seed)
    sessions: list[Any] = []
    for _ in range(steps):
        if len(sessions) < 3 or dice.random() < 0.1:
            sessions.append(await begun(api, dice))
        await step(api, dice, sessions)


async def begun(api: ApiClient, dice: random.Random) -> Any:
    name = f"{dice.randrange(10**9)}"
    fields = {"key": f"{WORD}:{name}", "metadata": {"note": WORD}} if dice.random() < 0.5 else {}
    user = dice.choice(USERS)
    return await api.create_session(dice.choice(("talk", "talk", "visit", "diary")), user=user, **fields)


async def step(api: ApiClient, dice: random.Random, sessions: list[Any]) -> None:
    """Do one random thing that an application may do; it may be refused."""
    session = dice.choice(sessions)
    path = f"/api/sessions/{session['sessionId']}"
    doing = ["say", "rewind", "clear", "fork", "set", "end", "delete", "migrate", "home", "label"]
    match dice.choices(doing, [80, 5, 3, 4, 4, 1, 1, 4, 3, 3])[0]:
        case "say":
            await api.send_message(session, {"content": dice.choice(REPLIES)})
        case "rewind":
            await api.post(f"{path}/rewind", json={"turn": dice.randrange(4)})
        case "clear":
            await api.post(f"{path}/clear")
        case "fork":
            answer = await api.post(f"{path}/fork", json={"turn": dice.randrange(3)})
            sessions.extend([answer.json()] if answer.is_success else [])
        case "set":
            await api.patch(f"{path}/variables", json={"variables": {"mood": dice.choice([WORD, None, 3])}})
        case "end":
            await api.post(f"{path}/end", json={"reason": WORD})
        case "delete":
            await api.delete(path)
        case "migrate":
            await api.post(f"{path}/migrate", json={"version": dice.choice([1, 2])})
        case "home":
            user = f"/api/users/{dice.choice(('ana', WORD))}/variables"
            await api.patch(user, json={"variables": {"home": dice.choice([WORD, 1.5, None])}})
        case "label":
            await api.patch(path, json={"metadata": {"note": f"{WORD} {dice.randrange(9)}"}})


async def made(app: Any, folder: Path, seed: int = 1, steps: int = 120) -> None:
    """Open the database of a folder, with two versions of the talk."""
    async with app(folder, Moody(), embedder="none") as api:
        await api.publish_script(TALK, files=HOMES)
        await api.publish_script(RENAMED, files=HOMES)
        await converse(api, seed, steps)
        await rate(api)
        await remembered(api)


async def remembered(api: ApiClient) -> None:
    """Wait until some turns are in the memory of their user: they are added in the background."""
    async with asyncio.timeout(30):
        while True:
            for user in USERS:
                if (await api.read("/api/memory/units", userId=user))["data"]:
                    return
            await asyncio.sleep(0.05)


async def rate(api: ApiClient) -> None:
    """Rate a session in words of its user."""
    session = (await api.read("/api/sessions", limit=1))["data"][0]["sessionId"]
    asked = {"questionId": "remarks", "text": "What did they say?", "kind": "text"}
    review = (
        await api.post("/api/reviews", json={"name": "Said", "questions": [asked], "sessionIds": [session]})
    ).json()
    rating = {"sessionId": session, "answers": {"remarks": WORD}}
    stored = await api.put(f"/api/reviews/{review['reviewId']}/ratings", json=rating)
    assert stored.status_code == 200, stored.text
