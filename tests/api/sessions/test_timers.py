"""Timers of a server: what is due happens by itself, once, and can be listed and fired by hand."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.catalog.catalog import Catalog
from api.http.services import Services
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.schemas.ids import TENANT
from api.sessions.timers import TROUBLE_S
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from runtime.state.limits import Limits
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply
from store.open_store import open_store
from tests.support.api_client import ApiClient, Json
from tests.support.effort import repeats
from tests.support.fixture_types import NewStreamClient, OpenApp
from tests.support.held_model import HeldModel

NAP = """
script: nap
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {say: See you., id: bye}
    - {wait: 3 days, id: pause}
    - {ask: Are you there?, id: there, output: [there], remind: [{after: 1 hour, say: Hello?}]}
"""
AT_NINE = """
cuebook: 1
script: at_nine
use: [zone.yaml]
timezone: UTC
actions:
- {ask: How are you?, id: how, into: how, remind: [{at: "9:00", say: Good morning.}]}
- {ai_say: Answer., id: answer}
"""
SOON = NAP.replace("3 days", "1 second").replace("nap", "soon")


class Calendar:
    """A clock that the test sets forward."""

    def __init__(self) -> None:
        self.passed = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.passed


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
async def sleeping(app: OpenApp, tmp_path: Path, calendar: Calendar) -> AsyncIterator[ApiClient]:
    """Open the application with the scripts of this module, on the clock of the test."""
    async with app(tmp_path / "data", clock=calendar) as api:
        await api.publish_script(NAP, strict=False)
        await api.publish_script(SOON, strict=False)
        yield api


async def turn_of(api: ApiClient, session: Json, turn: int) -> Json:
    """Wait until a session has had a turn; return it."""
    path = f"/api/sessions/{session['sessionId']}"
    async with asyncio.timeout(30):
        while (found := await api.read(path))["turn"] < turn:  # noqa: ASYNC110  (the server takes the turn)
            await asyncio.sleep(0.02)
    return found


async def events_of(api: ApiClient, session: Json) -> list[Json]:
    return (await api.read(f"/api/sessions/{session['sessionId']}/events", limit=100))["data"]


async def test_the_answer_says_until_when_the_session_sleeps(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("nap")
    assert session["executionStatus"] == "waiting_input"
    assert session["wait"]["kind"] == "time"
    due = datetime.fromisoformat(session["wait"]["until"])
    assert timedelta(days=2, hours=23) < due - datetime.now(UTC) <= timedelta(days=3)
    (timer,) = (await sleeping.read("/api/timers"))["data"]
    assert timer["sessionId"] == session["sessionId"]
    assert (timer["kind"], timer["moment"], timer["status"]) == ("wait", "3 days", "pending")
    assert datetime.fromisoformat(timer["due"]) == due


async def test_a_session_continues_by_itself_when_its_moment_has_come(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("soon")
    after = await turn_of(sleeping, session, 1)
    assert after["wait"]["kind"] == "text"
    said = await sleeping.read(f"/api/sessions/{session['sessionId']}/messages")
    assert [each["content"] for each in said["data"]] == ["See you.", "Are you there?"]
    fired = [each for each in await events_of(sleeping, session) if each["kind"] == "timer"]
    assert [each["data"]["source"] for each in fired] == ["timer"]
    assert [each["kind"] for each in (await sleeping.read("/api/timers"))["data"]] == ["remind"]


async def test_attempts_to_fire_timers_are_counted(app: OpenApp, tmp_path: Path, calendar: Calendar) -> None:
    model = Failing()
    model.go.set()
    async with app(tmp_path, model, clock=calendar) as api:
        await api.publish_script(SOON, strict=False)
        await api.publish_script(SOON.replace("soon", "asks").replace("ask: Are", "ai_ask: Are"), strict=False)
        for script in ("soon", "asks"):
            await api.create_session(script)
        counts = {f'cuebook_timer_attempts_total{{outcome="{outcome}"}} 1.0' for outcome in ("fired", "delayed")}
        seen: set[str] = set()  # the one that failed is tried again after five seconds
        async with asyncio.timeout(30):
            while seen != counts:
                seen |= counts & set((await api.get("/metrics")).text.splitlines())
                await asyncio.sleep(0.02)


async def test_who_follows_a_session_gets_what_it_says_by_itself(
    server: OpenApp, tmp_path: Path, stream_client: NewStreamClient
) -> None:
    async with server(tmp_path / "data") as api:
        await api.publish_script(SOON, strict=False)
        session, follower = await api.create_session("soon"), stream_client()
        path = f"/api/sessions/{session['sessionId']}/events"
        async with asyncio.timeout(30), api.open_stream(path) as stream:
            await follower.receive(stream, lambda heard: heard.proactive and heard.kinds[-1] == "wait")
        (spoken,) = follower.proactive
        assert [each["content"] for each in spoken["messages"]] == ["Are you there?"]
        assert (spoken["turn"], spoken["timer"]) == (1, "wait")
        assert follower.kinds[-3:] == ["message.proactive", "position", "wait"]
        events = (await api.read(path, limit=100))["data"]
        (fired,) = [each for each in events if each["kind"] == "timer"]
        assert spoken["timerId"] == fired["data"]["timerId"]

        again = stream_client()  # a client that missed the turn gets the frame as well
        before = {"Last-Event-ID": f"{session['sessionId']}:{fired['seq'] - 1}"}
        again.seq = fired["seq"] - 1
        async with asyncio.timeout(30), api.open_stream(path, headers=before) as stream:
            await again.receive(stream, lambda heard: heard.kinds[-1:] == ["wait"])
        assert again.proactive == follower.proactive


async def test_a_timer_is_fired_by_hand(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("nap")
    (timer,) = (await sleeping.read("/api/timers", sessionId=session["sessionId"]))["data"]
    path = f"/api/sessions/{session['sessionId']}/timers/fire"
    answer = await sleeping.post(path, json={"timerId": timer["timerId"]})
    assert answer.status_code == 200, answer.text
    assert [each["content"] for each in answer.json()["messages"]] == ["Are you there?"]
    again = await sleeping.post(path, json={"timerId": timer["timerId"]})
    assert again.json()["error"]["code"] == "INTERVENTION_REFUSED"


async def test_a_session_of_a_script_without_moments_has_no_timers(sleeping: ApiClient) -> None:
    await sleeping.create_session("visit")
    assert (await sleeping.read("/api/timers"))["data"] == []


async def test_the_timers_of_a_fork_are_held_until_they_are_armed(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("nap")
    fork = (await sleeping.post(f"/api/sessions/{session['sessionId']}/fork")).json()
    assert (await sleeping.read("/api/timers", sessionId=fork["sessionId"]))["data"] == []
    armed = (await sleeping.post(f"/api/sessions/{fork['sessionId']}/timers/arm")).json()["data"]
    assert [each["kind"] for each in armed] == ["wait"]
    assert (await sleeping.read("/api/timers", sessionId=fork["sessionId"]))["data"] == armed


async def test_migration_counts_a_wait_from_its_start_and_reports_it(sleeping: ApiClient, calendar: Calendar) -> None:
    session = await sleeping.create_session("nap")
    before = datetime.fromisoformat(session["wait"]["until"])
    calendar.passed += timedelta(days=1)
    await sleeping.publish_script(NAP.replace("3 days", "5 days"), strict=False)
    path, after = f"/api/sessions/{session['sessionId']}/migrate", before + timedelta(days=2)
    for body in ({"dryRun": True}, {}):
        moved = (await sleeping.post(path, json=body)).json()
        assert moved["verdict"] == "safe"
        assert moved["why"] == [f"wait of pause: {before:%Y-%m-%d %H:%M} → {after:%Y-%m-%d %H:%M} UTC"]
    assert datetime.fromisoformat(moved["wait"]["until"]) == after


async def test_a_deleted_session_has_no_timers(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("nap")
    assert (await sleeping.delete(f"/api/sessions/{session['sessionId']}")).status_code == 204
    assert (await sleeping.read("/api/timers"))["data"] == []


async def test_timers_due_during_a_stop_fire_at_the_start(app: OpenApp, tmp_path: Path, calendar: Calendar) -> None:
    async with app(tmp_path, clock=calendar) as api:
        await api.publish_script(NAP, strict=False)
        session = await api.create_session("nap")
    calendar.passed += timedelta(days=30)
    async with app(tmp_path, clock=calendar) as api:
        await turn_of(api, session, 1)
    calendar.passed += timedelta(days=1)
    async with app(tmp_path, clock=calendar) as api:  # its reminder is too old to be of use
        await turn_of(api, session, 2)
        fired = [each["data"] for each in await events_of(api, session) if each["kind"] == "timer"]
        assert [(each["moment"], each["missed"]) for each in fired] == [("3 days", []), ("", ["1 hour"])]
        said = await api.read(f"/api/sessions/{session['sessionId']}/messages")
        assert [each["content"] for each in said["data"]] == ["See you.", "Are you there?"]


@pytest.fixture
async def restored(app: OpenApp, tmp_path: Path, calendar: Calendar) -> AsyncIterator[tuple[ApiClient, list[Json]]]:
    """Open a server that holds late timers on a database with two sessions that are late and one that is not."""
    async with app(tmp_path, clock=calendar) as api:
        await api.publish_script(NAP, strict=False)
        late = [await api.create_session("nap") for _ in range(2)]
    calendar.passed += timedelta(days=3, seconds=1)
    async with app(tmp_path, clock=calendar, hold_late_timers=True) as api:
        yield api, [*late, await api.create_session("nap")]


async def test_after_a_backup_is_restored_what_is_late_can_be_held(
    restored: tuple[ApiClient, list[Json]], calendar: Calendar
) -> None:
    api, sessions = restored
    calendar.passed += timedelta(days=3)  # the third is due now, and was not when the server started
    await api.post(f"/api/sessions/{sessions[2]['sessionId']}/timers/arm")  # wakes the scheduler
    await turn_of(api, sessions[2], 1)
    held = (await api.read("/api/timers", status="held"))["data"]
    assert {each["sessionId"] for each in held} == {each["sessionId"] for each in sessions[:2]}
    assert [(await api.read(f"/api/sessions/{each['sessionId']}"))["turn"] for each in sessions[:2]] == [0, 0]


async def test_reports_count_no_sleep_as_a_reply_of_the_user(sleeping: ApiClient) -> None:
    session = await sleeping.create_session("nap")
    await sleeping.send_texts(session, "Hello?")
    (timer,) = (await sleeping.read("/api/timers", sessionId=session["sessionId"]))["data"]
    await sleeping.post(f"/api/sessions/{session['sessionId']}/timers/fire", json={"timerId": timer["timerId"]})
    await sleeping.send_texts(session, "Yes")
    report = await sleeping.read("/api/analytics/reports/time_to_answer", maxAgeS=0)
    assert [(each["step"], each["waits"], each["answered"]) for each in report["rows"]] == [("p/t/there", 1, 1)]


async def test_a_held_timer_fires_by_hand_and_when_it_is_armed(restored: tuple[ApiClient, list[Json]]) -> None:
    api, (first, second, _) = restored
    (timer,) = (await api.read("/api/timers", sessionId=first["sessionId"]))["data"]
    fired = await api.post(f"/api/sessions/{first['sessionId']}/timers/fire", json={"timerId": timer["timerId"]})
    assert [each["content"] for each in fired.json()["messages"]] == ["Are you there?"]
    await api.post(f"/api/sessions/{second['sessionId']}/timers/arm")
    await turn_of(api, second, 1)
    assert (await api.read("/api/timers", status="held"))["data"] == []


@pytest.mark.parametrize("session", ["", "nap", "00000000-0000-0000-0000-000000000000"])
async def test_no_timer_belongs_to_a_session_that_does_not_exist(
    restored: tuple[ApiClient, list[Json]], session: str
) -> None:
    api, _ = restored
    assert (await api.read("/api/timers", sessionId=session))["data"] == []


class Defective(OfflineModel):
    """A model with a defect, which no error of the API describes."""

    calls = 0

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        raise RuntimeError("a defect")


@pytest.mark.slow
async def test_a_defect_is_not_repeated_without_a_pause(app: OpenApp, tmp_path: Path, calendar: Calendar) -> None:
    model = Defective()
    async with app(tmp_path, model, clock=calendar) as api:
        await api.publish_script(
            NAP.replace("ask: Are you there?, id: there, output: [there],", "ai_ask: x, id: there,")
        )
        await api.create_session("nap")
        calendar.passed += timedelta(days=4)
        other = await api.create_session("nap")  # wakes the scheduler, which then finds the first due
        async with asyncio.timeout(30):
            while not model.calls:  # noqa: ASYNC110  (the server takes the turn)
                await asyncio.sleep(0.02)
        for _ in range(10):
            await api.send_texts(other, "hello")
    assert model.calls == 1


class Failing(HeldModel):
    """A model that fails when it is let go."""

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        await super().complete(request, hear)
        raise ModelFailed("away")


@pytest.mark.slow
async def test_moved_reminder_is_not_lost_while_its_session_is_busy(
    app: OpenApp, tmp_path: Path, calendar: Calendar
) -> None:
    model, now = Failing(), calendar()
    calendar.passed = now.replace(hour=8, minute=0) + timedelta(days=1) - now
    async with app(tmp_path, model, clock=calendar, queue_s=0.2) as api:
        await api.publish_script(AT_NINE, files={"zone.yaml": "globals: [{var: timezone}]\n"})
        session = await api.create_session("at_nine")
        changed = await api.patch("/api/users/ana/variables", json={"variables": {"timezone": "Etc/GMT+5"}})
        assert changed.status_code == 200
        calendar.passed += timedelta(hours=1, minutes=1)
        await api.create_session("at_nine", user="bo")  # wakes the scheduler, whose row is of the time before
        async with asyncio.timeout(30):
            while 'outcome="refused"' not in (await api.get("/metrics")).text:  # noqa: ASYNC110  (the server takes the turn)
                await asyncio.sleep(0.02)
        message = asyncio.create_task(api.send_message(session, {"content": "Well."}))
        await model.asked.wait()
        await asyncio.sleep(TROUBLE_S + 0.5)
        model.go.set()
        assert (await message).json()["error"]["code"] == "LLM_SERVICE_ERROR"
        calendar.passed += timedelta(hours=5)
        await api.create_session("at_nine", user="cleo")
        await turn_of(api, session, 1)


async def test_a_session_has_a_time_zone_of_its_own(sleeping: ApiClient) -> None:
    await sleeping.publish_script(NAP.replace("3 days", "{at: '9:00'}").replace("nap", "morning"), strict=False)
    session = await sleeping.create_session("morning", timezone="Asia/Kolkata")
    assert datetime.fromisoformat(session["wait"]["until"]).strftime("%H:%M") == "03:30"
    refused = await sleeping.post("/api/sessions", json={"userId": "a", "scriptId": "morning", "timezone": "Nowhere"})
    assert refused.json()["error"]["message"] == "timezone: there is no time zone 'Nowhere'"


@pytest.mark.gate
async def test_messages_of_others_are_answered_while_many_timers_fire(sleeping: ApiClient, calendar: Calendar) -> None:
    sessions = [await sleeping.create_session("nap", user=f"user{number}") for number in range(repeats(100))]
    other = await sleeping.create_session("visit")
    calendar.passed += timedelta(days=3)
    sessions.append(await sleeping.create_session("nap"))  # the change of a timer wakes the scheduler
    await sleeping.send_texts(other, "Ana")
    for session in sessions[:-1]:
        await turn_of(sleeping, session, 1)
    for session in sessions[:-1]:
        kinds = [each["kind"] for each in await events_of(sleeping, session)]
        assert kinds.count("timer") == 1


@pytest.mark.slow
async def test_a_thousand_timers_of_one_moment_each_fire_once(sleeping: ApiClient, calendar: Calendar) -> None:
    count = repeats(1_000)
    places = asyncio.Semaphore(64)

    async def create(number: int) -> Json:
        async with places:
            return await sleeping.create_session("nap", user=f"user{number}")

    sessions = await asyncio.gather(*map(create, range(count)))
    calendar.passed += timedelta(days=3)
    await sleeping.create_session("nap")
    for session in sessions:
        await turn_of(sleeping, session, 1)
    assert {(await sleeping.read(f"/api/sessions/{each['sessionId']}"))["turn"] for each in sessions} == {1}


async def test_turns_of_timers_are_replayed_with_the_same_result(
    app: OpenApp, tmp_path: Path, calendar: Calendar
) -> None:
    async with app(tmp_path / "data", clock=calendar, timezone="Asia/Kolkata") as api:
        await api.publish_script(NAP.replace("Are you there?,", '"It is {{ now }}.",'), strict=False)
        session = await api.create_session("nap")
        for turn, passed in ((1, timedelta(days=3)), (2, timedelta(hours=1))):
            calendar.passed += passed
            await api.create_session("nap")  # the change of a timer wakes the scheduler
            await turn_of(api, session, turn)
        await api.send_texts(session, "Yes.")
    store = open_store(tmp_path / "data", read_only=True)
    try:
        recorded = await find_session(
            ReplaySource(store, Catalog(store, calendar), Limits(), timezone="Asia/Kolkata"),
            TENANT,
            session["sessionId"],
        )
        assert [turn.outcome async for turn in replay(recorded)] == ["same"] * 4
    finally:
        await store.close()


async def test_scheduler_woken_in_the_moment_of_its_stop_ends(tmp_path: Path) -> None:
    services = Services(
        Settings(data=tmp_path),
        open_store(tmp_path, None),
        OfflineModel(),
        clock=lambda: datetime.now(UTC),
        ids=lambda: "an id",
        lifespan=lambda _: pytest.fail("only the scheduler runs"),
        serves=False,
        live=None,
        operator_key="",
        keys_needed=False,
        context_handlers=None,
    )
    try:
        async with asyncio.timeout(10), services.scheduler.running():
            await asyncio.sleep(0.5)  # it has read the timers, and waits
            services.chat.timers_changed.set()
    finally:
        await services.store.close()
