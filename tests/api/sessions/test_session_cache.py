"""The sessions in memory: their number is bounded, and none of them is older than what the database holds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from api.app import create_app
from api.catalog.catalog import Catalog
from api.embedded import running
from api.schemas.timestamps import utc_now
from api.sessions.session_cache import CreationGuard, SessionCache
from api.settings import Settings
from runtime.context.selection import Contexts
from runtime.models.offline_model import OfflineModel
from store.interface.rows import NO_TURN, TurnRow
from store.open_store import open_store
from store.store import Store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.paths import CONVERSATIONS

TENANT = "default"


class Pause:
    """Holds the next load of a session after it has read the session's state."""

    def __init__(self) -> None:
        self.is_armed = False
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def wait(self) -> None:
        if self.is_armed:
            self.is_armed = False
            self.reached.set()
            await self.go.wait()


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Pause:
    """Return a load asks the catalogue for the program once it has the state; there it waits."""
    pause, program_in = Pause(), Catalog.program_in

    async def paused(self: Catalog, *arguments: Any) -> Any:
        await pause.wait()
        return await program_in(self, *arguments)

    monkeypatch.setattr(Catalog, "program_in", paused)
    return pause


async def held_read(api: ApiClient, session: Any, pause: Pause) -> asyncio.Task[httpx.Response]:
    """Begin to read a session that is not in memory; the answer comes after `pause.go`."""
    pause.is_armed = True
    reading = asyncio.create_task(api.get(f"/api/sessions/{session['sessionId']}"))
    reached = asyncio.create_task(pause.reached.wait())
    await asyncio.wait({reading, reached}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert reached.done(), "the session was in memory"
    return reading


async def cold(api: ApiClient) -> Any:
    """Return a session that another one has displaced from a cache of one."""
    session = await api.create_session("visit")
    await api.create_session("visit", user="ben")
    return session


async def in_memory(api: ApiClient) -> int:
    lines = (await api.get("/metrics")).text.splitlines()
    (line,) = [line for line in lines if "cached_sessions" in line and not line.startswith("#")]
    return int(float(line.split()[1]))


# -- the bound --------------------------------------------------------------------------------------------------------


async def test_no_more_sessions_are_in_memory_than_the_setting(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, session_cache_max=3) as api:
        sessions = [await api.create_session("visit", user=str(number)) for number in range(5)]
        assert await in_memory(api) == 3
        for session in sessions:
            await api.send_texts(session, "Ana")
            assert await in_memory(api) == 3
        await asyncio.gather(*(api.read(f"/api/sessions/{session['sessionId']}") for session in sessions * 3))
        assert await in_memory(api) == 3


@asynccontextmanager
async def cache_of(
    app: OpenApp, folder: Path, number: int, sessions_max: int
) -> AsyncIterator[tuple[SessionCache, list[str]]]:
    """Return an empty cache over a database with sessions, and their ids."""
    async with app(folder) as api:
        ids = [(await api.create_session("visit"))["sessionId"] for _ in range(number)]
    store = open_store(folder)
    try:
        yield SessionCache(store, Catalog(store, utc_now), Contexts(), sessions_max), ids
    finally:
        await store.close()


async def test_the_least_recently_used_session_leaves_memory_first(app: OpenApp, tmp_path: Path) -> None:
    async with cache_of(app, tmp_path, 3, 2) as (cache, (one, two, three)):
        first, second = await cache.load(TENANT, one), await cache.load(TENANT, two)
        assert await cache.load(TENANT, one) is first
        third = await cache.load(TENANT, three)  # displaces the second
        assert (await cache.load(TENANT, one), await cache.load(TENANT, three)) == (first, third)
        assert await cache.load(TENANT, two) is not second
        assert len(cache) == 2


# -- loads at the same time -------------------------------------------------------------------------------------------


async def test_two_loads_of_a_session_at_once_give_one_object(app: OpenApp, tmp_path: Path) -> None:
    async with cache_of(app, tmp_path, 1, 10) as (cache, (one,)):
        loaded = await asyncio.gather(*(cache.load(TENANT, one) for _ in range(8)))
        assert len({id(cached) for cached in loaded}) == 1
        assert len(cache) == 1


async def test_a_slow_load_does_not_undo_a_turn(app: OpenApp, tmp_path: Path, pause: Pause) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        session = await cold(api)
        reading = await held_read(api, session, pause)
        assert (await api.send_texts(session, "Ana"))["turn"] == 1
        pause.go.set()
        assert (await reading).json()["turn"] == 1
        assert (await api.send_texts(session, "34"))["turn"] == 2


async def test_a_slow_load_undoes_no_turn_of_an_evicted_session(app: OpenApp, tmp_path: Path, pause: Pause) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        session = await cold(api)
        reading = await held_read(api, session, pause)
        assert (await api.send_texts(session, "Ana"))["turn"] == 1
        await api.create_session("visit", user="cem")  # the session leaves memory again
        pause.go.set()
        assert (await reading).json()["turn"] == 1
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 1
        assert (await api.send_texts(session, "34"))["turn"] == 2


async def test_a_slow_load_does_not_undo_a_label(app: OpenApp, tmp_path: Path, pause: Pause) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        session = await cold(api)
        path = f"/api/sessions/{session['sessionId']}"
        reading = await held_read(api, session, pause)
        assert (await api.patch(path, json={"metadata": {"ward": "3"}})).status_code == 200
        await api.create_session("visit", user="cem")
        pause.go.set()
        assert (await reading).json()["metadata"]["ward"] == "3"
        assert (await api.read(path))["metadata"]["ward"] == "3"


async def test_a_slow_load_does_not_restore_a_deleted_session(app: OpenApp, tmp_path: Path, pause: Pause) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        session = await cold(api)
        path = f"/api/sessions/{session['sessionId']}"
        reading = await held_read(api, session, pause)
        assert (await api.delete(path)).status_code == 204
        pause.go.set()
        for answer in (await reading, await api.get(path)):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "SESSION_NOT_FOUND")


# -- a conflict -------------------------------------------------------------------------------------------------------


async def rival_turn(store: Store, session_id: str) -> None:
    """Commit a turn that the application has not computed, as a second server on the database would."""
    head = await store.sessions.head(TENANT, session_id)
    assert head is not None
    now, following = utc_now(), head.turn + 1
    state = msgspec.json.decode(bytes(head.state)) | {"turn": following}
    row = TurnRow(
        tenant=TENANT,
        session_id=session_id,
        user_id=head.user_id,
        turn=following,
        started_at=now,
        finished_at=now,
        status="active",
        execution_status="waiting_input",
        phase_id="hello",
        topic_id="who",
        action_id="ask_name",
        action_type="ask",
        wait_kind="text",
        state=msgspec.Raw(msgspec.json.encode(state)),
        idempotency_key=None,
        fingerprint=None,
        messages=[],
        variables=[],
        events=[],
    )
    assert head.turn > NO_TURN
    await store.turns.commit(row, head.turn)


@pytest.mark.database_file
async def test_after_a_conflict_the_session_is_read_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    app = create_app(Settings(data=tmp_path, scripts=CONVERSATIONS), store, OfflineModel())
    transport = httpx.ASGITransport(app=app)
    async with running(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as api:
        begun = (await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"})).json()
        path = f"/api/sessions/{begun['sessionId']}"
        await rival_turn(store, begun["sessionId"])
        refused = await api.post(f"{path}/messages", json={"content": "Ana"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (412, "TURN_CONFLICT")
        assert (await api.get(path)).json()["turn"] == 1
        answer = await api.post(f"{path}/messages", json={"content": "Ana"})
        assert (answer.status_code, answer.json()["turn"]) == (200, 2)


async def test_erasure_waits_for_all_sessions_being_created() -> None:
    guard, order = CreationGuard(wait_s=10.0), list[str]()

    async def create(name: str, until: asyncio.Event) -> None:
        async with guard.begin("ana"):
            await until.wait()
            order.append(name)

    async def erase() -> None:
        async with guard.block("ana"):
            order.append("erased")

    first, second = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        creating = tasks.create_task(create("first", first))
        tasks.create_task(create("second", second))
        await asyncio.sleep(0)
        tasks.create_task(erase())
        first.set()
        await creating
        for _ in range(10):
            await asyncio.sleep(0)
        assert order == ["first"]
        second.set()
    assert order == ["first", "second", "erased"]
