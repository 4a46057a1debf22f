"""Two servers on one PostgreSQL database: what one does, the other knows; and no turn is lost or taken twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from api.app import create_app
from api.embedded import running
from api.http import other_servers
from api.http.other_servers import require_same_keys
from api.memory.cache import MemoryCache
from api.memory.loaded_memory import LoadedMemory
from api.memory.worker import claim
from api.privacy import retention_worker
from api.schemas.timestamps import utc_now
from api.settings import EXAMPLES, Settings, SettingsInvalid
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import Clock, Model, ModelRequest
from store.interface.errors import DatabaseUnreadable
from store.interface.private_files import FILE_NAME
from store.interface.retention_rows import Policy
from store.open_store import open_store
from tests.support.api_client import OPERATOR_KEY, ApiClient
from tests.support.held_model import HeldModel
from tests.support.webhook_receiver import Receiver

SOON_S = 15.0
CALLS = """
script: calls
on_interrupted: fail
phases:
  - phase: main
    topics:
      - topic: talk
        actions:
          - {ask: "Ready?", id: ready}
          - {ai_say: "Say something.", id: speak}
          - {ask: "Well?", id: well}
"""
TALK = """
script: talk
phases:
  - phase: main
    topics:
      - topic: talk
        actions:
          - {{ask: "Question {}?", id: asks}}
"""


FAILING = """
script: failing
declare: [{var: age, type: number}]
phases:
  - phase: main
    topics:
      - topic: talk
        actions:
          - {ask: "How old?", id: old, output: [{get: word}]}
          - {set: {age: word}, id: age}
          - {ask: "Well?", id: well}
"""


class RemoteModel(HeldModel):
    """A model whose calls are recorded."""

    def goes_to(self, request: ModelRequest) -> str:
        return "held"


@asynccontextmanager
async def server(
    folder: Path, url: str, model: Model | None = None, clock: Clock = utc_now, **settings: Any
) -> AsyncIterator[ApiClient]:
    """Run a server in process, with the background work of a server."""
    store = open_store(folder, url)
    every = Settings(data=folder, scripts=EXAMPLES, **settings)
    app = create_app(every, store, model or OfflineModel(), clock=clock, operator_key=OPERATOR_KEY)
    transport = httpx.ASGITransport(app=app)
    async with running(app), ApiClient(transport=transport, base_url="http://localhost") as api:
        yield api


@pytest.fixture
async def servers(tmp_path: Path, postgres_url: str) -> AsyncIterator[list[ApiClient]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(server(tmp_path / name, postgres_url, timer_concurrency=4))
            for name in ("one", "two")
        ]


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a check is true."""
    async with asyncio.timeout(SOON_S):
        while not await check():  # noqa: ASYNC110  (the other server polls)
            await asyncio.sleep(0.05)


async def begin(api: ApiClient, script: str = "intake", **fields: Any) -> str:
    answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": script, **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["sessionId"])


async def say(api: ApiClient, session_id: str, content: str) -> httpx.Response:
    return await api.post(f"/api/sessions/{session_id}/messages", json={"content": content})


@pytest.mark.gate
async def test_a_session_continues_on_any_server(servers: list[ApiClient]) -> None:
    one, two = servers
    session_id = await begin(one)
    for number, (api, said) in enumerate([(two, "Ana"), (one, "34"), (two, "joint"), (one, "no")], 1):
        assert (await api.get(f"/api/sessions/{session_id}")).json()["turn"] == number - 1
        answer = await say(api, session_id, said)
        assert (answer.status_code, answer.json()["turn"]) == (200, number)
    here, there = [(await api.get(f"/api/sessions/{session_id}/messages")).json() for api in servers]
    assert here == there


@pytest.mark.gate
async def test_of_messages_at_once_one_is_taken_for_each_turn(servers: list[ApiClient]) -> None:
    session_id = await begin(servers[0])
    for turn in range(1, 4):
        answers = await asyncio.gather(*(say(api, session_id, "7") for api in servers for _ in range(3)))
        taken = [answer for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} <= {200, 409, 412}
        assert taken
        turns = [answer.json()["turn"] for answer in taken]
        assert len(set(turns)) == len(turns), "no turn is taken twice"
        assert max(turns) >= turn
    events = (await servers[0].get(f"/api/sessions/{session_id}/events?limit=100")).json()["data"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


async def test_what_changes_on_one_server_is_read_on_the_other(servers: list[ApiClient]) -> None:
    one, two = servers
    session_id = await begin(one)
    await two.get(f"/api/sessions/{session_id}")
    changed = await one.patch(f"/api/sessions/{session_id}", json={"metadata": {"ward": "b"}})
    assert changed.status_code == 200, changed.text
    assert (await two.get(f"/api/sessions/{session_id}")).json()["metadata"] == {"ward": "b"}
    await one.patch("/api/users/ana/variables", json={"variables": {"mood": "calm"}})
    variables = (await two.get("/api/users/ana/variables")).json()["variables"]
    assert variables["mood"]["value"] == "calm"
    assert (await one.delete(f"/api/sessions/{session_id}")).status_code in {200, 204}
    assert (await two.get(f"/api/sessions/{session_id}")).status_code == 404
    assert (await say(two, session_id, "Ana")).status_code == 404


async def test_a_turn_that_failed_on_one_server_is_shown_by_the_other(servers: list[ApiClient]) -> None:
    one, two = servers
    await one.publish_script(FAILING)
    path = f"/api/sessions/{await begin(one, 'failing')}"
    assert (await two.read(path))["executionStatus"] == "waiting_input"
    failed = await one.post(f"{path}/messages", json={"content": "many"})
    assert failed.json()["error"]["code"] == "ACTION_EXECUTION_ERROR"
    assert (await two.read(path))["executionStatus"] == "error"
    assert (await two.post(f"{path}/messages", json={"content": "3"})).status_code == 200
    assert (await one.read(path))["executionStatus"] != "error"


async def test_versions_published_at_the_same_time_are_all_stored(servers: list[ApiClient]) -> None:
    texts = [TALK.format(number) for number in range(6)]
    saved = await asyncio.gather(*(servers[n % 2].publish_script(text) for n, text in enumerate(texts)))
    assert sorted(each["version"] for each in saved) == list(range(1, 7))
    versions = await servers[0].read("/api/scripts/talk/versions")
    assert len({row["digest"] for row in versions["data"]}) == len(texts)
    same = await asyncio.gather(*(api.publish_script(TALK.format("again")) for api in servers))
    assert [each["version"] for each in same] == [7, 7]


async def test_creation_sent_to_both_servers_has_one_answer(servers: list[ApiClient]) -> None:
    for number in range(3):
        body = {"userId": "ana", "scriptId": "intake", "key": f"visit {number}"}
        headers = {"Idempotency-Key": f"creation {number}"}
        created = await asyncio.gather(*(api.post("/api/sessions", json=body, headers=headers) for api in servers))
        assert [answer.status_code for answer in created] == [200, 200]
        assert len({answer.json()["sessionId"] for answer in created}) == 1


@pytest.mark.gate
async def test_metadata_that_two_servers_set_at_once_is_merged(servers: list[ApiClient]) -> None:
    path = f"/api/sessions/{await begin(servers[0])}"
    wanted = {f"field{number}": number for number in range(10)}
    changes = [servers[number % 2].patch(path, json={"metadata": {name: number}}) for number, name in enumerate(wanted)]
    assert {answer.status_code for answer in await asyncio.gather(*changes)} == {200}
    assert [(await api.get(path)).json()["metadata"] for api in servers] == [wanted, wanted]


async def test_session_with_a_call_on_one_server_is_busy_on_the_other(tmp_path: Path, postgres_url: str) -> None:
    model = RemoteModel()
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(server(tmp_path / name, postgres_url, model)) for name in ("one", "two")
        ]
        await one.publish_script(CALLS)
        session_id = await begin(one, "calls")
        turn = asyncio.create_task(say(one, session_id, "yes"))
        await model.asked.wait()
        try:
            for _ in range(2):
                busy = await say(two, session_id, "yes")
                assert (busy.status_code, busy.json()["error"]["code"]) == (409, "SESSION_BUSY"), busy.text
                assert int(busy.headers["retry-after"]) >= 1
            paused = await two.post(f"/api/sessions/{session_id}/pause")
            assert (paused.status_code, paused.json()["error"]["code"]) == (409, "SESSION_BUSY"), paused.text
        finally:
            model.go.set()
        assert (await turn).status_code == 200
        assert (await say(two, session_id, "well")).status_code == 200
        calls = (await two.get(f"/api/sessions/{session_id}/calls")).json()["data"]
        assert [call["outcome"] for call in calls] == ["done"]


@pytest.mark.gate
async def test_retention_moves_to_the_next_server_on_a_stop(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_servers, "BEAT_S", 0.2)
    for name in ("FIRST_S", "LOOK_S"):
        monkeypatch.setattr(retention_worker, name, 0.1)
    policies, in_40_days = [Policy(after_days=30)], lambda: utc_now() + timedelta(days=40)
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        one = await first.enter_async_context(server(tmp_path / "one", postgres_url))
        session_id = await begin(one)
        two = await second.enter_async_context(
            server(tmp_path / "two", postgres_url, clock=in_40_days, retention=policies)
        )
        await asyncio.sleep(0.5)

        async def is_redacted() -> bool:
            return (await two.get(f"/api/sessions/{session_id}")).json()["redactedAt"] is not None

        assert not await is_redacted()
        await first.aclose()
        await eventually(is_redacted)


async def test_erased_participant_begins_no_session_on_another_server(tmp_path: Path, postgres_url: str) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    async with (
        server(tmp_path / "one", postgres_url, key_folder=keys) as one,
        server(tmp_path / "two", postgres_url, key_folder=keys) as two,
    ):
        made = await one.post("/api/participants/tokens", json={"userId": "ana", "scriptId": "intake"})
        headers = {"authorization": f"Bearer {made.json()['token']}"}
        assert (await two.get("/api/participants/session", headers=headers)).status_code == 404
        assert (await one.delete("/api/users/ana")).status_code == 200
        begun = await two.post("/api/participants/session", headers=headers)
        assert begun.status_code == 401, begun.text
        assert (await one.get("/api/sessions?userId=ana")).json()["data"] == []


async def test_a_server_that_starts_deletes_files_of_erased_users(tmp_path: Path, postgres_url: str) -> None:
    snapshot = tmp_path / "one" / "snapshots" / "cuebook-2020-01-01T000000Z.duckdb"

    async def is_deleted() -> bool:
        return not snapshot.exists() and (tmp_path / "one" / other_servers.ERASURES).exists()

    async with server(tmp_path / "two", postgres_url) as two:
        async with server(tmp_path / "one", postgres_url):
            snapshot.parent.mkdir()
            snapshot.touch()
        assert (await two.delete("/api/users/ana")).status_code == 200
        async with server(tmp_path / "one", postgres_url):
            await eventually(is_deleted)
        snapshot.touch()
        async with server(tmp_path / "one", postgres_url):
            await asyncio.sleep(2 * other_servers.MARKS_S)
            assert snapshot.exists()


async def test_features_of_database_files_are_refused_with_an_advice(tmp_path: Path, postgres_url: str) -> None:
    async with server(tmp_path / "one", postgres_url) as api:
        for refused in (
            await api.get("/api/operations/compact"),
            await api.post("/api/operations/compact"),
            await api.post("/api/operations/backups"),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_WITH_POSTGRES")


@pytest.mark.database_file
async def test_no_empty_file_is_created_for_a_server_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    async with server(tmp_path / "one", postgres_url):
        pass
    with pytest.raises(DatabaseUnreadable, match="CUEBOOK_DATABASE"):
        open_store(tmp_path / "one")
    assert not (tmp_path / "one" / FILE_NAME).exists()


@pytest.mark.gate
async def test_a_memory_is_the_same_on_both(servers: list[ApiClient]) -> None:
    one, two = servers
    for number, api in enumerate((one, two, one, two)):
        body = {"userId": "ana", "units": [{"content": f"She has {number} cats."}]}
        added = await api.post("/api/memory/units", json=body)
        assert added.status_code == 201, added.text
    for api in servers:
        units = (await api.get("/api/memory/units?userId=ana")).json()["data"]
        assert {unit["content"] for unit in units} == {f"She has {number} cats." for number in range(4)}


@pytest.mark.gate
async def test_both_servers_add_to_one_memory_at_once(servers: list[ApiClient]) -> None:
    async def note(api: ApiClient, content: str) -> None:
        added = await api.post("/api/memory/units", json={"userId": "ana", "units": [{"content": content}]})
        assert added.status_code == 201, added.text

    said = {f"{name} {number}" for name in ("one", "two") for number in range(8)}
    await asyncio.gather(*(note(servers[each.startswith("one")], each) for each in said))
    units = (await servers[0].get("/api/memory/units?userId=ana")).json()["data"]
    assert {unit["content"] for unit in units} == said


async def test_memory_changed_by_the_other_server_is_read_again(
    servers: list[ApiClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    is_current = MemoryCache._is_current

    async def note(content: str) -> None:
        added = await one.post("/api/memory/units", json={"userId": "ana", "units": [{"content": content}]})
        assert added.status_code == 201, added.text

    changes = 0

    async def change_then(self: MemoryCache, loaded: LoadedMemory) -> bool:
        nonlocal changes
        found = await is_current(self, loaded)
        if found and loaded.unwritten and not changes:
            changes += 1
            await note("a cat")
        return found

    await note("a bird")
    search = {"userId": "ana", "text": "bird"}
    monkeypatch.setattr(MemoryCache, "_is_current", change_then)
    while not changes:  # the visit of the first search is written later, by the second one or by the maintenance
        assert (await two.post("/api/memory/search", json=search)).status_code == 200
        found = await two.post("/api/memory/search", json=search | {"filters": {"content": "a cat"}})
    assert found.status_code == 200, found.text
    assert {unit["content"] for chain in found.json()["chains"] for unit in chain["units"]} == {"a cat"}


@pytest.mark.gate
async def test_a_memory_that_one_server_fixes_is_fixed_on_the_other(
    servers: list[ApiClient], postgres_url: str
) -> None:
    one, two = servers

    async def note(api: ApiClient, content: str) -> None:
        added = await api.post("/api/memory/units", json={"userId": "ana", "units": [{"content": content}]})
        assert added.status_code == 201, added.text

    async def findings(api: ApiClient) -> list[str]:
        batch = await api.read("/api/operations/verify")
        found = batch["findings"]
        while batch["next"] is not None:
            batch = await api.read("/api/operations/verify", after=batch["next"])
            found += batch["findings"]
        return [finding["code"] for finding in found]

    await note(one, "She has a cat.")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO memory_vectors VALUES ('default', 'ana', NULL, 77, 'hashed:64', '')")
    assert await findings(two) == ["vector_invalid"]
    fixed = (await one.post("/api/operations/verify/fix")).json()["fixed"]
    assert [each["code"] for each in fixed] == ["vector_invalid"]
    await note(two, "She has a dog.")
    assert await findings(one) == []
    units = (await one.get("/api/memory/units?userId=ana")).json()["data"]
    assert {unit["content"] for unit in units} == {"She has a cat.", "She has a dog."}


@pytest.mark.gate
async def test_the_progress_of_a_job_does_not_interrupt_it(servers: list[ApiClient]) -> None:
    one, _ = servers
    units = [{"content": f"thought {number}"} for number in range(12)]
    added = await one.post("/api/memory/units", json={"userId": "ana", "group": "diary", "units": units})
    assert added.status_code == 201, added.text
    asked = await one.post("/api/memory/summarise", json={"userId": "ana"}, headers={"Prefer": "wait=60"})
    assert asked.status_code == 200, asked.text
    job = asked.json()["job"]
    assert (job["status"], job["done"]) == ("done", 2)  # the summary of the group, and that of the memory


async def test_key_made_on_one_server_can_be_revoked_on_the_other(servers: list[ApiClient]) -> None:
    one, two = servers
    made = (await one.post("/api/keys", json={"name": "app", "roles": ["admin"]})).json()
    operator = {"authorization": f"Bearer {OPERATOR_KEY}"}
    for status in (204, 404):
        assert (await two.delete(f"/api/keys/{made['keyId']}", headers=operator)).status_code == status


async def test_a_revoked_key_is_refused_by_the_other_server(servers: list[ApiClient]) -> None:
    one, two = servers
    made = (await one.post("/api/keys", json={"name": "app", "roles": ["app"]})).json()
    headers = {"authorization": f"Bearer {made['key']}"}

    async def is_known() -> bool:
        return (await two.get("/api/sessions", headers=headers)).status_code == 200

    async def is_refused() -> bool:
        return (await two.get("/api/sessions", headers=headers)).status_code == 401

    await eventually(is_known)
    await one.delete(f"/api/keys/{made['keyId']}", headers={"authorization": f"Bearer {OPERATOR_KEY}"})
    await eventually(is_refused)


async def test_events_of_a_turn_reach_readers_on_the_other_server(servers: list[ApiClient]) -> None:
    one, two = servers
    session_id = await begin(one)
    last = (await two.get(f"/api/sessions/{session_id}/events?limit=100")).json()["data"][-1]["seq"]
    waiting = asyncio.create_task(
        two.get(f"/api/sessions/{session_id}/events?after={last}", headers={"prefer": "wait=20"})
    )
    await asyncio.sleep(0.1)
    await say(one, session_id, "Ana")
    events = (await waiting).json()["data"]
    assert events[0]["seq"] == last + 1


@pytest.mark.gate
async def test_each_delivery_is_sent_once(servers: list[ApiClient], receiver: Receiver) -> None:
    one, two = servers
    made = await one.post("/api/webhooks", json={"url": receiver.url, "events": ["session.created"]})
    assert made.status_code == 201, made.text

    async def is_known() -> bool:
        return bool((await two.get("/api/webhooks")).json()["data"])

    await eventually(is_known)
    sessions = [await begin(api) for api in (one, two, one, two)]

    async def are_sent() -> bool:
        return len(receiver.deliveries) >= len(sessions)

    await eventually(are_sent)
    await asyncio.sleep(0.5)
    assert len(receiver.deliveries) == len(sessions)


async def test_a_stream_ends_when_the_other_server_deletes_its_session(servers: list[ApiClient]) -> None:
    one, two = servers
    path = f"/api/sessions/{await begin(one)}"
    streaming = asyncio.create_task(two.get(f"{path}/events", headers={"accept": "text/event-stream"}))
    await asyncio.sleep(1)
    assert not streaming.done()
    assert (await one.delete(path)).status_code == 204
    async with asyncio.timeout(SOON_S):
        assert (await streaming).status_code == 200


async def test_servers_with_other_keys_are_refused(tmp_path: Path, postgres_url: str) -> None:
    for name, is_same in (("one", True), ("one", True), ("two", False)):
        (tmp_path / name).mkdir(exist_ok=True)
        store = open_store(tmp_path / name, postgres_url)
        assert store.shared is not None
        try:
            if is_same:
                await require_same_keys(store.shared, tmp_path / name)
            else:
                with pytest.raises(SettingsInvalid, match="is not the key of the other servers"):
                    await require_same_keys(store.shared, tmp_path / name)
        finally:
            await store.close()


async def test_limits_are_divided_among_servers_and_one_leads(tmp_path: Path, postgres_url: str) -> None:
    stores = [open_store(tmp_path / str(number), postgres_url) for number in range(3)]
    try:
        shared = [store.shared for store in stores if store.shared is not None]
        assert [await each.beat() for each in shared] == [1, 2, 3]
        assert await shared[0].beat() == 3
        assert [await each.lead("retention", 30) for each in shared] == [True, False, False]
        assert await shared[0].lead("retention", 0) is True
        assert [await each.lead("retention", 30) for each in shared[1:]] == [True, False]
    finally:
        for store in stores:
            await store.close()


async def test_a_server_that_ends_leaves_its_jobs_to_others(tmp_path: Path, postgres_url: str) -> None:
    async with server(tmp_path / "one", postgres_url):
        pass
    store = open_store(tmp_path / "two", postgres_url)
    assert store.shared is not None
    try:
        assert await store.shared.beat() == 1
        assert await store.shared.lead("housekeeping", 30)
    finally:
        await store.close()


async def test_a_memory_is_maintained_by_one_server_at_a_time(tmp_path: Path, postgres_url: str) -> None:
    stores = [open_store(tmp_path / name, postgres_url) for name in ("one", "two")]
    try:
        one, two = (store.shared for store in stores)
        async with claim(one, ("clinic", "ana")) as is_claimed:
            assert is_claimed
            for owner, is_free in ((("clinic", "ana"), False), (("clinic", "ben"), True)):
                async with claim(two, owner) as is_claimed:
                    assert is_claimed is is_free
        async with claim(two, ("clinic", "ana")) as is_claimed:
            assert is_claimed
    finally:
        for store in stores:
            await store.close()


async def test_a_refused_backup_leaves_no_folder(tmp_path: Path, postgres_url: str) -> None:
    async with server(tmp_path / "one", postgres_url) as one:
        refused = await one.post("/api/operations/backups")
        assert refused.json()["error"]["code"] == "NOT_WITH_POSTGRES", refused.text
        assert not (tmp_path / "one" / "backups").exists()
