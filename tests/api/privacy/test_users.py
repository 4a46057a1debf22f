"""A user over all sessions: global variables, everything at once, nothing any more; and sessions that are deleted."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from api.schemas.ids import in_path
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient
from tests.support.fixture_types import NewStreamClient, OpenApp
from tests.support.held_model import HeldModel

ANA = "/api/users/ana/variables"
COUNTS = {
    "sessions",
    "turns",
    "messages",
    "events",
    "writes",
    "variables",
    "migrations",
    "failures",
    "calls",
    "deliveries",
    "keys",
}
SLOW = """
script: slow
use: [seen.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 100}
            id: loop
            do:
              - set: {seen: seen + 1}
                id: count
              - ask: Next?
                id: next
                output: [{get: word}]
              - ai_say: "Heard {{ word }}, {{ seen }}."
                id: heard
"""
FILES = {"seen.yaml": "globals: [{var: seen, type: number, value: 0}]\n"}
BEGINS_SLOWLY = """
script: begins_slowly
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_say: Hello.
            id: hello
          - ask: Who?
            id: who
            output: [{get: name}]
"""


class Failing(OfflineModel):
    """A language model that does not answer at first."""

    def __init__(self) -> None:
        self.asked = 0

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.asked += 1
        if self.asked == 1:
            raise ModelFailed("nobody there")
        return await OfflineModel().complete(request)


async def set_variables(api: ApiClient, path: str = ANA, **values: Any) -> Any:
    answer = await api.patch(path, json={"variables": values})
    assert answer.status_code == 200, answer.text
    return answer.json()["variables"]


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# -- variables --------------------------------------------------------------------------------------------------------


async def test_several_variables_are_set_with_type_source_and_time(api: ApiClient) -> None:
    assert (await api.read(ANA))["variables"] == {}
    await set_variables(api, name="Ana", age=34, channel="web", pets=["cat"], home={"city": "Rom"}, 名字=True)
    left = await set_variables(api, channel=None, age=35, never=None)
    assert (await api.read(ANA))["variables"] == left
    assert {name: (cell["value"], cell["type"], cell["source"]) for name, cell in left.items()} == {
        "age": (35, "number", "api"),
        "home": ({"city": "Rom"}, "record", "api"),
        "name": ("Ana", "text", "api"),
        "pets": (["cat"], "list", "api"),
        "名字": (True, "boolean", "api"),
    }
    assert all(cell["lastUpdated"].endswith("Z") for cell in left.values())
    assert (await api.read("/api/users/ben/variables"))["variables"] == {}
    assert await set_variables(api) == left


@pytest.mark.gate
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"variables": None},
        {"variables": {"": 1}},
        {"variables": {"x" * 201: 1}},
        {"variables": {"x": "y" * 20_001}},
        {"variables": {"x": 2**60}},
        {"variables": {"x": list(range(1_001))}},
        {"variables": {"x": [[[[[[[[[[1]]]]]]]]]]}},
        {"variables": {f"x{number}": number for number in range(1_001)}},
        {"variables": {"fine": 1}, "other": 2},
    ],
    ids=range(10),
)
async def test_what_no_variable_can_hold_is_refused_and_nothing_is_set(api: ApiClient, body: Any) -> None:
    assert refused(await api.patch(ANA, json=body)) == (400, "REQUEST_INVALID")
    assert (await api.read(ANA))["variables"] == {}


async def test_there_is_a_bound_to_how_many_a_user_has(api: ApiClient) -> None:
    await set_variables(api, **{f"x{number}": number for number in range(600)})
    body = {"variables": {f"y{number}": number for number in range(401)}}
    assert refused(await api.patch(ANA, json=body)) == (400, "REQUEST_INVALID")
    assert len(await set_variables(api, x0=None, **{f"y{number}": number for number in range(401)})) == 1_000


async def test_a_session_under_way_takes_them_at_its_next_turn(api: ApiClient) -> None:
    await api.publish_script(SLOW, files=FILES)
    session = await api.create_session("slow")
    await set_variables(api, seen=41)
    answer = await api.send_texts(session, "one")
    assert answer["messages"][0]["content"] == "Heard one, 41."
    assert answer["globalVariables"]["seen"] == 42
    assert (await api.read(ANA))["variables"]["seen"]["source"] == "script"
    await set_variables(api, seen=None)
    assert (await api.send_texts(session, "two"))["messages"][0]["content"] == "Heard two, 0."
    other = await api.create_session("slow", user="ben")
    assert other["globalVariables"]["seen"] == 1


async def test_two_writers_at_once_lose_nothing(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(SLOW, files=FILES)
        session = await api.create_session("slow")
        setting = [set_variables(api, **{f"a{number}": number}) for number in range(30)]
        talking = api.send_texts(session, *[f"word {number}" for number in range(10)])
        await asyncio.gather(*setting, talking)
        variables = (await api.read(ANA))["variables"]
        assert {name for name in variables if name != "seen"} == {f"a{number}" for number in range(30)}
        assert variables["seen"]["value"] == 11


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["app", "server"])
@pytest.mark.parametrize("user", ["a/b", "../..", "..", "a%2Fb", "a b?c#d", "..%2f", "用户"])
async def test_every_id_of_a_user_can_be_named(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, user: str
) -> None:
    async with request.getfixturevalue(fixture)(tmp_path / "data") as api:
        await api.create_session("diary", user=user)
        await api.create_session("diary", user="a")
        path = f"/api/users/{in_path(user)}"
        assert set(await set_variables(api, f"{path}/variables", name="x")) == {"name"}
        assert (await api.read(f"{path}/export"))["userId"] == user
        (listed,) = await api.read(f"{path}/sessions")
        assert listed["userId"] == user
        assert (await api.delete(path)).json()["counts"]["sessions"] == 1
        assert [row["userId"] for row in (await api.read("/api/sessions"))["data"]] == ["a"]


# -- deleting a session -----------------------------------------------------------------------------------------------


async def test_a_session_is_deleted_once(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        headers = {"Idempotency-Key": "one"}
        body = {"userId": "ana", "scriptId": "diary", "key": "telegram:1"}
        session = (await api.post("/api/sessions", json=body, headers=headers)).json()
        await api.send_texts(session, "one", "two")
        retained = await api.create_session("diary")
        path = f"/api/sessions/{session['sessionId']}"
        assert (await api.delete(path)).status_code == 204
        for answer in (
            await api.delete(path),
            await api.get(path),
            await api.get(f"{path}/messages"),
            await api.get(f"{path}/events"),
            await api.send_message(session, {"content": "three"}),
        ):
            assert refused(answer) == (404, "SESSION_NOT_FOUND")
        for wrong in ("no-such", "a%2Fb", session["sessionId"].upper()):
            assert refused(await api.delete(f"/api/sessions/{wrong}")) == (404, "SESSION_NOT_FOUND")
        assert refused(await api.delete("/api/no-route/a%2Fb")) == (404, "NOT_FOUND")
        assert [row["sessionId"] for row in (await api.read("/api/sessions"))["data"]] == [retained["sessionId"]]
        again = await api.post("/api/sessions", json=body, headers=headers)
        assert (again.status_code, again.json()["turn"]) == (200, 0)
        assert (await api.send_texts(again.json(), "anew"))["messages"][0]["content"] == "Entry 1: anew"
    async with app(tmp_path / "data") as api:
        assert (await api.delete(f"/api/sessions/{retained['sessionId']}")).status_code == 204
        assert refused(await api.send_message(retained, {"content": "x"})) == (404, "SESSION_NOT_FOUND")


async def test_a_session_is_deleted_after_its_turn_and_takes_no_other(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path / "data", model) as api:
        await api.publish_script(SLOW, files=FILES)
        session = await api.create_session("slow")
        under_way = asyncio.create_task(api.send_message(session, {"content": "one"}))
        await model.asked.wait()
        deleting = asyncio.create_task(api.delete(f"/api/sessions/{session['sessionId']}"))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(api.send_message(session, {"content": "two"}, {"Prefer": "busy=queue"}))
        await asyncio.sleep(0.05)
        assert not deleting.done()
        model.go.set()
        assert (await under_way).status_code == 200
        assert (await deleting).status_code == 204
        assert refused(await waiting) == (404, "SESSION_NOT_FOUND")


async def test_who_follows_a_deleted_session_is_let_go(
    server: OpenApp, stream_client: NewStreamClient, tmp_path: Path
) -> None:
    async with server(tmp_path / "data", keep_alive_s=1) as api:
        session = await api.create_session("diary")
        path = f"/api/sessions/{session['sessionId']}"
        async with api.open_stream(f"{path}/events") as stream:
            heard = stream_client()
            await heard.receive(stream, lambda heard: heard.kinds[-1:] == ["wait"])
            assert (await api.delete(path)).status_code == 204
            await heard.receive(stream)
        gone = await api.get(f"{path}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": heard.last_id})
        assert refused(gone) == (404, "SESSION_NOT_FOUND")


# -- everything at once -----------------------------------------------------------------------------------------------


async def test_export_has_everything_of_the_user_and_nobody_else(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(SLOW, files=FILES)
        await set_variables(api, name="Ana", nick="An")
        await set_variables(api, nick=None)
        visit = await api.create_session("visit", key="telegram:1", metadata={"from": "web"})
        await api.send_texts(visit, "Anette", "34")
        slow = await api.create_session("slow")
        await api.send_texts(slow, *[f"word {number}" for number in range(60)])
        of_ben = await api.create_session("slow", user="ben")
        for user, session in (("ana", visit), ("ben", of_ben)):
            entry = {"userId": user, "sessionId": session["sessionId"]}
            assert (await api.post("/api/participants/tokens", json=entry)).status_code == 201
        exported = await api.get("/api/users/ana/export")
        assert exported.status_code == 200
        assert exported.headers["content-type"] == "application/json"
        document = exported.json()
        assert (document["format"], document["version"], document["userId"]) == ("cuebook-user", 1, "ana")
        assert {name: cell["value"] for name, cell in document["variables"].items()} == {"name": "Ana", "seen": 61}
        history = [(row["name"], row["old"], row["new"], row["sessionId"]) for row in document["variableHistory"]]
        assert sorted(map(str, history[:2])) == [
            "('name', None, 'Ana', None)",
            "('nick', None, 'An', None)",
        ]
        assert history[2] == ("nick", "An", None, None)
        assert history[3:] == [("seen", number, number + 1, slow["sessionId"]) for number in range(61)]
        assert [each["sessionId"] for each in document["participants"]] == [visit["sessionId"]]
        sessions = {each["sessionId"]: each for each in document["sessions"]}
        assert set(sessions) == {visit["sessionId"], slow["sessionId"]}
        for session in (visit, slow):
            path = f"/api/sessions/{session['sessionId']}"
            part = sessions[session["sessionId"]]
            said = [(message["role"], message["content"]) for message in part["messages"]]
            assert said == await api.transcript(session)
            events = await api.read(f"{path}/events", limit=200)
            assert part["events"][:200] == events["data"]
            assert [event["seq"] for event in part["events"]] == list(range(1, len(part["events"]) + 1))
            scoped = await api.read(f"{path}/variables", scoped=True)
            assert part["session"]["variables"] == {scope: scoped[scope] for scope in ("session", "phase", "topic")}
        about = sessions[visit["sessionId"]]["session"]
        assert (about["key"], about["metadata"], about["script"]["id"]) == ("telegram:1", {"from": "web"}, "visit")
        assert (await api.read("/api/users/nobody/export"))["sessions"] == []


async def test_an_export_tells_calls_failures_and_moves(app: OpenApp, tmp_path: Path) -> None:
    model = Failing()
    async with app(tmp_path / "data", model) as api:
        await api.publish_script(SLOW, files=FILES)
        session = await api.create_session("slow")
        assert (await api.send_message(session, {"content": "one"})).status_code == 503
        await api.send_texts(session, "one")
        await api.publish_script(SLOW.replace("Next?", "And next?"), files=FILES)
        moved = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json={})
        assert moved.json()["moved"], moved.text
        (part,) = (await api.read("/api/users/ana/export"))["sessions"]
        assert [(move["kind"], move["fromVersion"], move["version"]) for move in part["migrations"]] == [
            ("migrate", 1, 2)
        ]
        assert [(failure["turn"], failure["code"]) for failure in part["failures"]] == [(1, "LLM_SERVICE_ERROR")]
        calls = await api.read(f"/api/sessions/{session['sessionId']}/calls", debug=True)
        assert part["calls"] == calls["data"]
        assert [(call["outcome"], call["used"]) for call in part["calls"]] == [("failed", False), ("done", True)]
        assert part["calls"][1]["reply"]["text"] == "Heard one, 1."


# -- nothing any more -------------------------------------------------------------------------------------------------


async def test_an_erased_user_is_gone_and_comes_back_as_a_new_one(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(SLOW, files=FILES)
        await set_variables(api, name="Ana")
        session = (
            await api.post(
                "/api/sessions",
                json={"userId": "ana", "scriptId": "slow", "key": "k"},
                headers={"Idempotency-Key": "one"},
            )
        ).json()
        await api.send_texts(session, "one")
        ben = await api.create_session("slow", user="ben")
        erased = await api.delete("/api/users/ana")
        assert erased.status_code == 200, erased.text
        receipt = erased.json()
        assert receipt["compacted"] is False
        assert set(receipt["counts"]) >= COUNTS
        counts = receipt["counts"]
        assert (counts["sessions"], counts["turns"], counts["messages"], counts["variables"]) == (1, 2, 4, 2)
        assert "ana" not in erased.text
        again = (await api.delete("/api/users/ana")).json()
        assert set(again["counts"].values()) == {0}
        assert again["receiptId"] != receipt["receiptId"]
        assert refused(await api.get(f"/api/sessions/{session['sessionId']}")) == (404, "SESSION_NOT_FOUND")
        assert refused(await api.send_message(session, {"content": "two"})) == (404, "SESSION_NOT_FOUND")
        assert await api.read("/api/users/ana/sessions") == []
        assert (await api.read(ANA))["variables"] == {}
        back = await api.create_session("slow", key="k")
        assert (back["turn"], back["globalVariables"]["seen"]) == (0, 1)
        assert (await api.send_texts(ben, "still here"))["turn"] == 1


async def test_erasure_waits_for_running_turns_and_removes_them(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path / "data", model) as api:
        await api.publish_script(SLOW, files=FILES)
        await api.publish_script(BEGINS_SLOWLY)
        session = await api.create_session("slow")
        talking = asyncio.create_task(api.send_message(session, {"content": "one"}))
        await model.asked.wait()
        model.asked.clear()
        beginning = asyncio.create_task(api.create_session("begins_slowly"))
        await model.asked.wait()
        erasing = asyncio.create_task(api.delete("/api/users/ana"))
        await asyncio.sleep(0.05)
        late = asyncio.create_task(api.create_session("diary"))
        await asyncio.sleep(0.05)
        assert not erasing.done()
        assert not late.done()
        assert (await api.create_session("diary", user="ben"))["turn"] == 0
        model.go.set()
        assert (await talking).status_code == 200
        begun = await beginning
        receipt = (await erasing).json()
        assert receipt["counts"]["sessions"] == 2
        for each in (session, begun):
            assert refused(await api.get(f"/api/sessions/{each['sessionId']}")) == (404, "SESSION_NOT_FOUND")
        later = await late
        listed = await api.read("/api/users/ana/sessions")
        assert [row["sessionId"] for row in listed] == [later["sessionId"]]


@pytest.mark.gate
async def test_erasure_during_many_conversations_leaves_nothing(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        sessions = [await api.create_session("diary", user=f"user-{number % 4}") for number in range(12)]

        async def talk(session: Any) -> None:
            for number in range(15):
                answer = await api.send_message(session, {"content": f"word-{number}"}, {"Prefer": "busy=queue"})
                if answer.status_code == 404:
                    return
                assert answer.status_code == 200, answer.text

        async def erase(number: int) -> None:
            await asyncio.sleep(0.01 * number)
            assert (await api.delete(f"/api/users/user-{number}")).status_code == 200

        await asyncio.gather(*map(talk, sessions), *map(erase, range(3)))
        left = (await api.read("/api/sessions"))["data"]
        assert {row["userId"] for row in left} == {"user-3"}
        assert all(row["turn"] == 15 for row in left)


def traces(folder: Path, words: list[str]) -> set[str]:
    """Return the words that are anywhere in the bytes of the files of a folder."""
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return {word for word in words if any(word.encode() in text for text in texts)}


@pytest.mark.database_file
async def test_compacted_erasure_leaves_no_byte_of_the_user_in_files(app: OpenApp, tmp_path: Path) -> None:
    user, word, data = "zoë-4711", "Schmetterling", tmp_path / "data"
    async with app(data, session_cache_max=2) as api:
        await api.publish_script(SLOW, files=FILES)
        sessions = [await api.create_session("slow", user=user, metadata={"w": word}) for _ in range(3)]
        for session in sessions:
            await api.send_texts(session, word, f"{word} again")
        await set_variables(api, f"/api/users/{user}/variables", name=word)
        ben = await api.create_session("slow", user="ben")
        await api.send_texts(ben, "Kolibri")
        words = [user, word]
        assert traces(data, words) == set(words)
        receipt = (await api.delete(f"/api/users/{user}", params={"compact": True})).json()
        assert receipt["compacted"] is True
        assert traces(data, words) == set()
        await api.send_texts(ben, "goes on")
    assert traces(data, words) == set()
    assert traces(data, ["Kolibri"]) == {"Kolibri"}


@pytest.mark.gate
@pytest.mark.database_file
async def test_turns_continue_while_the_database_is_compacted(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        sessions = [await api.create_session("diary", user=f"user-{number}") for number in range(8)]
        compacted, rounds = [], 0
        while len(compacted) < 2:
            rounds += 1
            talking = asyncio.gather(*[api.send_texts(session, *["x" * 1_000] * 8) for session in sessions])
            while not talking.done():
                answer = await api.post("/api/operations/compact")
                assert answer.status_code == 200, answer.text
                compacted.append(answer.json())
            await talking
        assert all(each["bytesAfter"] > 0 for each in compacted)
        for session in sessions:
            assert len(await api.transcript(session)) == 2 + 3 * 8 * rounds
        state = await api.read("/api/operations/compact")
        assert state["running"] is None
        assert state["neededBytes"] > state["bytes"] - state["reclaimableBytes"]
        assert state["diskFreeBytes"] > 0


@pytest.mark.database_file
async def test_one_compaction_at_a_time(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.create_session("diary")
        answers = await asyncio.gather(*[api.post("/api/operations/compact") for _ in range(3)])
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409} == {
            "COMPACTION_RUNNING"
        }


@pytest.mark.database_file
async def test_nobody_is_erased_with_compaction_on_a_too_small_disk(
    app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("diary")
        monkeypatch.setattr("store.interface.maintenance_rows.MARGIN_BYTES", 10**18)
        for answer in (
            await api.delete("/api/users/ana", params={"compact": True}),
            await api.post("/api/operations/compact"),
        ):
            assert refused(answer) == (507, "DISK_TOO_SMALL")
            assert str(tmp_path) not in answer.text
        assert (await api.send_texts(session, "still here"))["turn"] == 1
        assert json.loads((await api.delete("/api/users/ana")).text)["counts"]["sessions"] == 1
