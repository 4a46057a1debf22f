"""The analytics files of a database: rebuilt when they cannot be trusted, shared by queries, deleted on request."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from structlog.testing import capture_logs

from api.analytics.files import DELTA, FOLDER, AnalyticsFiles
from api.analytics.jobs import Job
from api.analytics.locks import FILE_NAME as LOCK
from api.analytics.locks import FolderLock
from api.analytics.process import Processes
from api.analytics.worker import work
from api.catalog.catalog import Catalog
from api.errors import ApiError
from api.metrics import Metrics
from api.schemas.timestamps import utc_now
from store.analytics.file import Place
from store.analytics.query import query
from store.analytics.snapshots import OWN, finish_snapshot
from store.interface.errors import StoreBusy, StoreUnavailable
from store.open_store import open_store
from store.store import Store
from tests.support import analytics_files, eventful_database
from tests.support.data_folders import copied, is_postgres_chosen
from tests.support.fixture_types import OpenApp
from tests.support.paths import ROOT

A = TypeVar("A", bound=msgspec.Struct)
BOUND_S = 60.0  # of a busy machine


@pytest.fixture(scope="module")
def analytics_folder(app: OpenApp, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with such a record and both of its files, to be left as it is."""
    folder = copied(made, tmp_path_factory.mktemp("built") / "cuebook-data")

    async def build() -> None:
        async with app(folder, embedder="none") as api:
            for masked in (True, False):
                asked = {"sql": "SELECT count(*) AS n FROM memory_units", "masked": masked}
                assert (await api.post("/api/analytics/query", json=asked)).status_code == 200

    asyncio.run(build())
    return folder


@pytest.fixture
def data(analytics_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder."""
    return copied(analytics_folder, tmp_path / "cuebook-data")


class ProcessesOfThreads(Processes):
    """Does the work in threads of this process: what is tested here are the files, and a process costs more than they.

    A job that is given up is waited for, because no thread can be killed.
    """

    async def run(self, job: Job, answer: type[A], *, timeout_s: float, memory_bytes_max: int = 0) -> A:
        working = asyncio.ensure_future(asyncio.to_thread(work, job))
        try:
            done = await asyncio.shield(working)
        finally:
            await asyncio.wait([working])
        return msgspec.msgpack.decode(msgspec.msgpack.encode(done), type=answer)


@pytest.fixture
def files(data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Open the analytics files: ``async with files() as (files, store)``; each query checks the database again."""
    monkeypatch.setattr("api.analytics.files.SHARE", 1)

    @asynccontextmanager
    async def opening() -> AsyncIterator[tuple[AnalyticsFiles, Store]]:
        store, processes, metrics = open_store(data), ProcessesOfThreads(), Metrics()
        files = AnalyticsFiles(store, Catalog(store, utc_now), processes, data, metrics)
        try:
            yield files, store
        finally:
            await files.close()
            processes.close()
            await store.close()

    return opening


async def sessions_in(files: AnalyticsFiles, masked: bool = True) -> int:
    async with files.reading("default", masked=masked) as place:
        return analytics_files.count(place.path, "sessions")


async def became(number: int, look: Callable[[], Any]) -> None:
    """Wait until so many sessions are seen: a file is not looked after at every moment."""
    async with asyncio.timeout(BOUND_S):
        while await look() != number:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.1)


def damage_middle(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4_096 : len(content) : 64] = bytes(len(range(4_096, len(content), 64)))
    file.write_bytes(content)


DAMAGES: list[tuple[str, Callable[[Path], Any]]] = [
    ("", damage_middle),
    ("", lambda file: file.unlink()),
    (".known.parquet", lambda file: file.unlink()),
    (".known.json", lambda file: file.write_bytes(b'{"made_by":')),
]


@pytest.mark.slow
async def test_a_damaged_file_is_rebuilt_by_the_next_query(files: Any) -> None:
    async with files() as (made, store):
        async with made.reading("default", masked=True) as place:
            before = analytics_files.rows(place.path)
        left = [row[0] for row in before["sessions"]]
        for ending, damage in DAMAGES:
            await store.maintenance.delete_session("default", str(left.pop()))  # there is something to bring
            damage(place.path.with_name(place.path.name + ending))
            await became(len(left), lambda: sessions_in(made))
            after = analytics_files.rows(place.path)
            for table in ("turns", "messages", "events", "waits"):
                assert after[table] == [row for row in before[table] if row[0] in left], (ending, table)


@pytest.mark.gate
async def test_a_deleted_folder_is_made_again(files: Any, data: Path) -> None:
    async with files() as (made, _):
        number = await sessions_in(made)
        for masked in (True, False):
            shutil.rmtree(data / FOLDER)
            assert await sessions_in(made, masked) == number > 0


@pytest.mark.slow
def test_a_file_whose_refresh_was_killed_is_rebuilt(made: Path, tmp_path: Path) -> None:
    place, whole = Place(tmp_path / "a.duckdb"), Place(tmp_path / "b.duckdb")
    analytics_files.refresh_all(made, whole, is_masked=True)
    program = """
import sys, pathlib
made, path = map(pathlib.Path, sys.argv[1:])
from tests.support import analytics_files
from store.analytics.file import Place
analytics_files.refresh_all(made, Place(path), is_masked=True, turns_max=9)
"""
    command = [sys.executable, "-c", program, str(made), str(place.path)]
    for after_s in (0.0, 0.15, 0.4):
        worker = subprocess.Popen(command, cwd=ROOT)
        until = time.monotonic() + BOUND_S
        while not place.path.exists() and worker.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(after_s)
        worker.kill()
        worker.wait()
    analytics_files.refresh_all(made, place, is_masked=True)
    assert analytics_files.rows(place.path) == analytics_files.rows(whole.path)


@pytest.mark.slow
async def test_simultaneous_readers_share_one_unchanged_file(files: Any) -> None:
    async with files() as (made, store):
        first, *others = await asyncio.gather(*(sessions_in(made) for _ in range(4)))
        assert others == [first] * 3
        async with made.reading("default", masked=True) as place:
            as_of = place.as_of()
            (session_id, *_), *_ = analytics_files.rows(place.path)["turns"]
            async with made.reading("default", masked=False) as full:  # which nobody reads yet
                (session_id, *_), *_ = analytics_files.rows(full.path)["sessions"]
            await store.maintenance.delete_session("default", str(session_id))
            assert await sessions_in(made) == first
            assert place.as_of() == as_of
        await became(first - 1, lambda: sessions_in(made))
        await became(first - 1, lambda: sessions_in(made, masked=False))


async def test_memories_are_in_the_file_of_the_one_who_asks_for_them(files: Any, data: Path) -> None:
    shutil.rmtree(data / FOLDER)  # may be older than the last units
    async with files() as (made, _):

        async def units(wanted: bool) -> int:
            async with made.reading("default", masked=False, units=wanted) as place:
                return analytics_files.count(place.path, "memory_units")

        without, with_them = await asyncio.gather(units(False), units(True))
        assert with_them > 0
        assert without in {0, with_them}


@pytest.mark.gate
async def test_a_file_removed_during_its_refresh_is_reported(files: Any, data: Path) -> None:
    shutil.rmtree(data / FOLDER)
    async with files() as (made, _):
        asking = asyncio.create_task(sessions_in(made))
        async with asyncio.timeout(BOUND_S):
            while not list((data / FOLDER).glob("*-delta-*")):  # noqa: ASYNC110 - nor does a folder
                await asyncio.sleep(0)
        await made.forget("default")
        with pytest.raises(StoreBusy, match="removed in the meantime"):
            await asking
        assert [path.name for path in (data / FOLDER).iterdir()] == [LOCK]
        assert await sessions_in(made) > 0


async def test_what_is_removed_before_it_is_read_is_reported(files: Any) -> None:
    async with files() as (made, _):
        with pytest.raises(StoreBusy, match="removed in the meantime"):
            async with made.reading("default", masked=False) as place:
                await made.forget("default")
                query(place.path, "FROM sessions")


async def test_two_commands_work_on_the_files_one_after_the_other(tmp_path: Path) -> None:
    one, other = FolderLock(tmp_path / "analytics"), FolderLock(tmp_path / "analytics")
    async with one.hold(1.0), one.hold(1.0):
        with pytest.raises(StoreBusy):
            async with other.hold(0.1):
                pass
    async with other.hold(1.0):
        pass


@pytest.mark.gate
async def test_deleted_sessions_and_erased_users_are_in_no_file(app: OpenApp, data: Path) -> None:
    async with app(data, embedder="none") as api:
        query = {"sql": "FROM sessions", "masked": False}

        async def sessions() -> int:
            async with asyncio.timeout(BOUND_S):
                # with several servers, the files are also deleted when a server notices the erasure in the database
                asked = await api.post("/api/analytics/query", json=query)
                while is_postgres_chosen() and asked.status_code == 503:
                    await asyncio.sleep(0.1)
                    asked = await api.post("/api/analytics/query", json=query)
            assert asked.status_code == 200, asked.text
            return len(asked.json()["rows"])

        before = await sessions()
        listed = (await api.read("/api/sessions", limit=100))["data"]
        mine = [each for each in listed if each["userId"] == eventful_database.WORD]
        other = next(each for each in listed if each["userId"] != eventful_database.WORD)
        assert (await api.delete(f"/api/sessions/{other['sessionId']}")).status_code == 204
        await became(before - 1, sessions)
        assert (await api.delete(f"/api/users/{eventful_database.WORD}")).status_code == 200
        assert [path.name for path in (data / FOLDER).iterdir()] == [LOCK]
        assert await sessions() == before - 1 - len(mine)
        asked = await api.post(
            "/api/analytics/query",
            json={
                "sql": f"SELECT count(*) AS n FROM users WHERE user_id = '{eventful_database.WORD}'",
                "masked": False,
            },
        )
        assert asked.json()["rows"] == [{"n": 0}]


@pytest.mark.gate
async def test_leftovers_of_a_killed_command_go_with_the_next_question(files: Any, data: Path) -> None:
    async with files() as (analytics, _):
        async with analytics.reading("default", masked=True) as place:
            left = place.path.parent / f"{place.path.stem}{DELTA}left"
        left.mkdir()
        (left / "turns.parquet").write_text(eventful_database.WORD)
        await analytics.forget()
        left.mkdir(exist_ok=True)
        await sessions_in(analytics)
        assert not left.exists()


@pytest.mark.gate
async def test_a_snapshot_holds_no_byte_of_what_was_taken_out_before(files: Any, tmp_path: Path) -> None:
    async with files() as (analytics, store):
        async with analytics.reading("default", masked=False, units=True) as place:
            known, tables = place.path.read_bytes(), analytics_files.rows(place.path)
        said = max((row[6] for row in tables["messages"] if row[5] == "user"), key=len).encode()
        assert said in known
        for session_id, *_ in tables["sessions"]:
            await store.maintenance.delete_session("default", str(session_id))
        await became(0, lambda: sessions_in(analytics, masked=False))
        async with analytics.reading("default", masked=False, units=True) as place:
            snapshot = Path(shutil.copy(place.path, tmp_path / "snapshot.duckdb"))
    finish_snapshot(snapshot, OWN, tmp_path / "spill")
    assert said not in await asyncio.to_thread(snapshot.read_bytes)


@pytest.mark.gate
async def test_users_get_new_pseudonyms_if_the_secret_is_lost(files: Any, data: Path) -> None:
    async with files() as (analytics, _):
        async with analytics.reading("default", masked=True) as place:
            before = {row[1] for row in analytics_files.rows(place.path)["sessions"]}
        (data / "pseudonyms.key").unlink()

        async def old_names() -> int:
            async with analytics.reading("default", masked=True) as place:
                return len(before & {row[1] for row in analytics_files.rows(place.path)["sessions"]})

        await became(0, old_names)
        async with analytics.reading("default", masked=True) as place:
            assert len({row[1] for row in analytics_files.rows(place.path)["sessions"]}) == len(before)


OPEN_ELSEWHERE = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM sessions").fetchall()[0][0], flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(*) FROM sessions").fetchall()[0][0], flush=True)
"""


@pytest.mark.gate
async def test_a_file_that_is_open_elsewhere_is_not_rebuilt(files: Any) -> None:
    async with files() as (made, store):
        before = await sessions_in(made)
        async with made.reading("default", masked=True) as place:
            path = place.path
            gone = str(analytics_files.rows(path)["sessions"][0][0])
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPEN_ELSEWHERE, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdout is not None
        try:
            async with asyncio.timeout(BOUND_S):
                assert int(await other.stdout.readline()) == before
            with capture_logs() as logs:
                await store.maintenance.delete_session("default", gone)
                await became(before - 1, lambda: sessions_in(made))
            assert logs == []  # it would report that it is rebuilt
            reported, _ = await asyncio.wait_for(other.communicate(b"\n"), BOUND_S)
            assert int(reported) == before
        finally:
            if other.returncode is None:
                other.kill()
                await other.wait()


WRITES_ELSEWHERE = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
async def test_a_file_open_for_writing_elsewhere_is_read(app: OpenApp, data: Path) -> None:
    async with app(data, embedder="none") as api:
        for age in (0, 3_600):
            new = {"sql": "SELECT count(*) AS n FROM turns", "maxAgeS": age}
            answer = await api.post("/api/analytics/query", json=new)
            assert answer.status_code == 200, answer.text
            (path,) = (data / FOLDER).glob("*-masked.duckdb")
            async with open_for_writing(path):
                for asking in (
                    api.post("/api/analytics/query", json=new),
                    api.get("/api/analytics/snapshot", params={"storageVersion": "v1.4.0"}),
                ):
                    answer = await asking
                    assert answer.status_code == 200, answer.text
            assert not [*path.parent.glob("*.copy-*")]


@asynccontextmanager
async def open_for_writing(path: Path) -> AsyncIterator[None]:
    """Keep the file open in another program."""
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITES_ELSEWHERE, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    try:
        async with asyncio.timeout(BOUND_S):
            assert await other.stdout.readline() == b"open\n"
        yield
    finally:
        other.kill()
        await other.wait()


@pytest.mark.gate
async def test_a_client_that_has_to_wait_sees_the_progress(
    files: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(data / FOLDER)
    monkeypatch.setattr("api.analytics.files.WAIT_S", 0.01)
    reported: list[ApiError] = []
    async with files() as (made, _), asyncio.timeout(BOUND_S):
        while True:
            try:
                await sessions_in(made)
            except ApiError as error:
                reported.append(error)
            else:
                break
    far = [error for error in reported if error.context["of"]]
    assert far
    assert all(0 <= error.context["turns"] <= error.context["of"] for error in far)
    assert f"0 of {far[0].context['of']:,} turns are done" in str(far[0])


async def test_that_somebody_has_to_wait_is_not_logged_as_a_failure(
    app: OpenApp, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.analytics.files.WAIT_S", 0.0)
    async with app(data, embedder="none") as api:
        shutil.rmtree(data / FOLDER, ignore_errors=True)
        with capture_logs() as logs:
            answer = await api.post("/api/analytics/query", json={"sql": "SELECT 1", "maxAgeS": 0})
    assert answer.json()["error"]["code"] == "ANALYTICS_NOT_READY"
    assert [each for each in logs if each["log_level"] == "error"] == []


@pytest.mark.gate
async def test_who_wants_the_latest_gets_it(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.analytics.files.SHARE", 1_000_000)  # the database is not checked again by itself
    async with files() as (made, store):
        async with made.reading("default", masked=True) as place:
            sessions = analytics_files.rows(place.path)["sessions"]
        first = made.as_of("default", masked=True)
        await store.maintenance.delete_session("default", str(sessions[0][0]))
        assert await sessions_in(made) == len(sessions)
        async with made.reading("default", masked=True, max_age_s=0) as place:
            assert analytics_files.count(place.path, "sessions") == len(sessions) - 1
        await store.maintenance.delete_session("default", str(sessions[1][0]))
        await asyncio.sleep(0.2)
        async with made.reading("default", masked=True, max_age_s=0.1) as place:  # as old as it may be
            assert analytics_files.count(place.path, "sessions") == len(sessions) - 2
        second = made.as_of("default", masked=True)
        async with made.reading("default", masked=True, max_age_s=0):
            third = made.as_of("default", masked=True)
        assert first < second < third  # also where nothing had changed


async def test_readers_do_not_keep_others_from_the_latest(files: Any) -> None:
    async with files() as (made, store):
        async with made.reading("default", masked=True) as place:
            sessions = analytics_files.rows(place.path)["sessions"]
            await store.maintenance.delete_session("default", str(sessions[0][0]))
            reading = asyncio.create_task(latest(made))
            await asyncio.sleep(0.2)
            assert not reading.done()  # what is read stays as it is
        assert await asyncio.wait_for(reading, BOUND_S) == len(sessions) - 1


async def latest(files: AnalyticsFiles) -> int:
    async with files.reading("default", masked=True, max_age_s=0) as place:
        return analytics_files.count(place.path, "sessions")


async def test_a_file_of_a_quiet_record_tells_the_time(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with files() as (made, _):

        async def file_time() -> Any:
            async with made.reading("default", masked=True, max_age_s=0) as place:
                return analytics_files.as_of(place.path)

        first = await file_time()
        assert await file_time() == first
        monkeypatch.setattr("api.analytics.files.RENEW", timedelta(0))
        assert await file_time() > first  # else nobody would ever count as idle there


@pytest.mark.gate
async def test_refresh_without_memory_fails_and_the_next_continues(
    files: Callable[[], Any], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with files() as (made, _):
        number = await sessions_in(made)
        shutil.rmtree(data / FOLDER)
        with monkeypatch.context() as limits, pytest.raises(StoreUnavailable, match="needs more memory than"):
            limits.setattr("store.analytics.file.MEMORY", "4MB")
            await sessions_in(made)
        assert await sessions_in(made) == number
