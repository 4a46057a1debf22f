"""Every example script played over HTTP: what a client sends and gets is as the `.json` file beside this module says.

A file holds its own inputs (`send`, a message or a timer to fire), so it is both: the conversation to play and the
exchange to expect. For a new one write `script` and `conversations` with the turns' `send` alone; `make transcripts`
plays all files and writes what came of them. Ids are left out, times are of a fixed clock, random choices of a fixed
seed, and no language model is asked.
"""

import asyncio
import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from scripts.parse.folder import script_files
from scripts.parse.read_script import is_script, read_file
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.paths import CONVERSATIONS, LIBRARY

Json: TypeAlias = Any

HERE = Path(__file__).parent
FOLDERS = (LIBRARY, CONVERSATIONS)
FILES = sorted(HERE.glob("*.json"))
WRITE = "WRITE_TRANSCRIPTS"
"""The environment variable that has the files written instead of compared."""


class Clock:
    """The time of a conversation, a minute further with each turn."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


# -- what is compared -------------------------------------------------------------------------------------------------


def position_of(position: Json) -> str:
    """Return a position in one line."""
    places = " / ".join(f"{position[f'{each}Index']} {position[f'{each}Id']}" for each in ("phase", "topic", "action"))
    return f"{places}: {position['actionType']}, round {position['currentRound']} of {position['maxRounds']}"


def message_of(message: Json, speakers: dict[str, Json]) -> list[Json]:
    """Return a message as role, action, content and its metadata, if any; a speaker in full at first, then by id."""
    metadata = dict(message["metadata"])
    speaker = metadata.get("speaker")
    if speaker is not None:
        metadata["speaker"] = speaker["role"] if speakers.get(speaker["role"]) == speaker else speaker
        speakers[speaker["role"]] = speaker
    return [message["role"], message["actionId"], message["content"], *([metadata] if metadata else [])]


def changes(before: Json, after: Json) -> Json:
    """Return the variables that are new or different, null for those that are unset."""
    gone = dict.fromkeys(sorted(before.keys() - after.keys()))
    return {name: after[name] for name in sorted(after) if name not in before or after[name] != before[name]} | gone


class Transcript:
    """The turns of one session as they stand in a file."""

    def __init__(self) -> None:
        self.turns: list[Json] = []
        self.contents: list[str] = []  # of the session's own messages
        self._variables: Json = {}
        self._speakers: dict[str, Json] = {}

    def add(self, send: Json, answer: httpx.Response) -> None:
        """Add what was sent and what came of it."""
        body = answer.json()
        if answer.status_code != 200:
            self.turns.append({"send": send, "refused": [answer.status_code, body["error"]["code"]]})
            return
        turn = {
            "send": send,
            "messages": [message_of(message, self._speakers) for message in body["messages"]],
            "wait": body["wait"],
            "position": position_of(body["position"]),
            "status": f"{body.get('sessionStatus') or body['status']}, {body['executionStatus']}",
            "variables": changes(self._variables, body["variables"]),
        }
        self.turns.append(turn)
        self.contents += [message["content"] for message in body["messages"]]
        self._variables = body["variables"]


async def pages(api: ApiClient, path: str) -> list[Json]:
    """Return a whole list, page by page."""
    data: list[Json] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = await api.read(path, cursor=cursor, limit=200)
        data, cursor = data + page["data"], page["nextCursor"]
    return data


async def end_of(api: ApiClient, path: str, transcript: Transcript) -> Json:
    """Return what a session has come to: variables by scope, the user's messages, how many events of each kind."""
    store = await api.read(f"{path}/variables", scoped="true")
    scopes = {
        scope: {name: [cell["value"], cell["type"], cell["source"]] for name, cell in sorted(store[scope].items())}
        for scope in ("global", "session", "phase", "topic")
    }
    messages = await pages(api, f"{path}/messages")
    assert [each["content"] for each in messages if each["role"] != "user"] == transcript.contents
    events = Counter(event["kind"] for event in await pages(api, f"{path}/events"))
    return {
        "scopes": scopes,
        "user": [message_of(message, {}) for message in messages if message["role"] == "user"],
        "events": dict(sorted(events.items())),
    }


# -- playing ----------------------------------------------------------------------------------------------------------


async def play(api: ApiClient, clock: Clock, script: str, user: str, written: Json) -> Json:
    """Play a conversation; return it with what came of it."""
    clock.now = datetime.fromisoformat(written["now"])
    options = {"initialVariables": written["variables"], "locale": written["locale"], "seed": written["seed"]}
    begun = await api.post("/api/sessions", json={"userId": user, "scriptId": script, **options})
    path = f"/api/sessions/{begun.json()['sessionId']}"
    transcript = Transcript()
    transcript.add(None, begun)
    for turn in written["turns"][1:]:
        clock.now += timedelta(minutes=1)
        route = "timers/fire" if "timerId" in turn["send"] else "messages"
        transcript.add(turn["send"], await api.post(f"{path}/{route}", json=turn["send"]))
    return written | {"turns": transcript.turns, "end": await end_of(api, path, transcript)}


async def play_file(api: ApiClient, clock: Clock, user: str, written: Json) -> Json:
    """Play the conversations of a file, one after the other, as one user."""
    talks = [await play(api, clock, written["script"], user, talk) for talk in written["conversations"]]
    return written | {"conversations": talks}


async def play_all(app: Any, folder: Path) -> dict[str, Json]:
    """Play every file, each as a user of its own, in the order of its conversations."""
    played = {}
    transcripts = {path: json.loads(path.read_text("utf-8")) for path in FILES}
    for scripts in FOLDERS:
        clock = Clock()
        async with app(folder / scripts.name, scripts=scripts, clock=clock, embedder="none") as api:
            ids = {each["scriptKey"] for each in (await api.read("/api/scripts", limit=100))["data"]}
            for path, written in transcripts.items():
                if written["script"] in ids:
                    played[path.name] = await play_file(api, clock, path.stem, written)
    return played


# -- files ------------------------------------------------------------------------------------------------------------


def dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def text_of(transcript: Json) -> str:
    """Return the text of a file: a line for each message and each other part of a turn."""
    talks = ",\n\n".join(map(talk_text, transcript["conversations"]))
    return f'{{"script": {dumped(transcript["script"])}, "conversations": [\n\n{talks}\n]}}\n'


def talk_text(talk: Json) -> str:
    head = ",\n ".join(f"{dumped(name)}: {dumped(talk[name])}" for name in ("now", "locale", "seed", "variables"))
    turns = ",\n ".join(map(turn_text, talk["turns"]))
    end = ",\n  ".join(f"{dumped(name)}: {dumped(value)}" for name, value in talk["end"].items())
    return f'{{{head},\n "turns": [\n {turns}],\n "end": {{\n  {end}}}}}'


def turn_text(turn: Json) -> str:
    parts = {name: dumped(value) for name, value in turn.items()}
    if turn.get("messages"):
        parts["messages"] = "[\n   " + ",\n   ".join(map(dumped, turn["messages"])) + "]"
    return "{" + ",\n  ".join(f"{dumped(name)}: {part}" for name, part in parts.items()) + "}"


# -- tests ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Play all transcripts once, in two applications."""
    return asyncio.run(play_all(app, tmp_path_factory.mktemp("transcripts")))


def examples() -> set[str]:
    """Return the names of files that there must be: of each script, and of each of its translations."""
    scripts = {path.stem for folder in FOLDERS for path in script_files(folder) if is_script(read_file(path))}
    return scripts | {path.stem for folder in FOLDERS for path in folder.rglob("*.??.yaml")}


def test_every_example_in_every_language_has_a_transcript() -> None:
    assert {path.stem for path in FILES} == examples()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_conversation_over_http_is_as_written(path: Path, played: dict[str, Json]) -> None:
    text = text_of(played[path.name])
    assert json.loads(text) == played[path.name]
    if os.environ.get(WRITE):
        path.write_text(text, "utf-8")
    assert text.splitlines() == path.read_text("utf-8").splitlines()
