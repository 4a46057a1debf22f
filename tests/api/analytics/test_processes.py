"""Work for analysts in processes of their own: bombs go off there, and nobody else notices."""

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from litestar.types import HTTPDisconnectEvent

from api.analytics import process
from api.analytics.execute import AnswerDocument, Question
from api.analytics.process import Processes, WorkerProcesses
from api.errors import ApiError
from api.http.routes.analytics import cancel_on_disconnect
from store.analytics.query import QueryLimits
from store.interface.errors import DatabaseUnreadable, QueryRefused, QueryStopped, StoreBusy

PATIENCE_S = 60.0  # of a busy machine, on which these processes come last
ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
STUBBORN = "SELECT levenshtein(repeat('ab', 200_000), repeat('ba', 200_000))"  # nothing interrupts it


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analytics") / "masked.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("CREATE TABLE sessions AS SELECT i AS id FROM range(100) AS r(i)")
    return path


@pytest.fixture
def processes() -> Processes:
    return Processes()


async def ask(
    processes: Processes, file: Path, sql: str, timeout_s: float = PATIENCE_S, **limits: int
) -> AnswerDocument:
    job = Question(path=str(file), sql=sql, limits=QueryLimits(timeout_s=timeout_s, **limits), form="csv")
    return await processes.run(job, AnswerDocument, timeout_s=timeout_s)


async def is_answered(processes: Processes, file: Path) -> bool:
    return (await ask(processes, file, "SELECT 1 AS one")).content == b"one\r\n1\r\n"


def children(of: int = os.getpid()) -> set[int]:
    """Return the workers of a process: the forks of its fork server."""
    return {pid for server in fork_servers(of) for pid in children_named_analytics(server)}


def fork_servers(of: int = os.getpid()) -> set[int]:
    """Return the fork server of a process, if it has started one."""
    return children_named_analytics(of)


def children_named_analytics(of: int) -> set[int]:
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(of)], capture_output=True, text=True)
    return {int(line.split()[0]) for line in listed.stdout.splitlines() if "api.analytics.fork_server" in line}


def runs(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return listed.stdout.strip() != "" and not listed.stdout.startswith("Z")  # which its parent has not looked at


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it does, a bounded time."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.fixture
async def unchanged(file: Path) -> AsyncIterator[None]:
    """Assert after the test that the file is unchanged, nothing new lies beside it, and no process is left."""

    def looks() -> tuple[list[Path], bytes]:
        return list(file.parent.iterdir()), hashlib.sha256(file.read_bytes()).digest()

    before = looks()
    yield
    assert looks() == before
    await eventually(lambda: not children())


def asking(file: Path, of: int = os.getpid()) -> set[int]:
    """Return those of them that have the file open."""
    return {pid for pid in children(of) if str(file) in open_files(pid)}


def open_files(pid: int) -> set[str]:
    """Return the paths of the files a process has open; it may end, or close some, meanwhile."""
    paths = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                paths.add(str(descriptor.readlink()))
    return paths


async def working(processes: Processes, file: Path, sql: str = ENDLESS) -> tuple["asyncio.Task[AnswerDocument]", int]:
    """Return a query under way, and its process."""
    task = asyncio.create_task(ask(processes, file, sql))
    await eventually(lambda: len(asking(file)) == 1)
    return task, asking(file).pop()


async def test_a_query_is_answered_elsewhere(processes: Processes, file: Path) -> None:
    found = await ask(processes, file, "SELECT max(id) AS latest, count(*) AS n FROM sessions")
    assert (found.content, found.truncated_by) == (b"latest,n\r\n99,100\r\n", None)
    assert not children()


async def test_errors_come_back_as_they_were(processes: Processes, file: Path) -> None:
    with pytest.raises(QueryRefused, match="did you mean sessions"):
        await ask(processes, file, "FROM session")
    with pytest.raises(DatabaseUnreadable, match="there is no database"):
        await ask(processes, file.with_name("none.duckdb"), "SELECT 1")


BOMBS = {
    "a long text": "SELECT repeat('x', 4_000_000_000)",
    "a long list": "SELECT list_aggregate(range(1_000_000_000), 'sum')",
    "a large map": "SELECT map_from_entries(list_zip(range(100_000_000), range(100_000_000)))",
    "texts that are joined": "SELECT string_agg(repeat('x', 1_000_000), '') FROM range(5_000)",
    "a list of all": "SELECT array_agg(range) FROM range(1_000_000_000)",
    "sorting": "SELECT range FROM range(1_000_000_000) ORDER BY hash(range)",
    "distinct values": "SELECT count(DISTINCT hash(range)) FROM range(1_000_000_000)",
    "unions": "FROM sessions" + " UNION FROM sessions" * 2_000,
    "doubling": "WITH RECURSIVE t AS (SELECT 'x' AS n UNION ALL SELECT n || n FROM t) SELECT max(n) FROM t",
}
CLOCKS = {
    "recursion": ENDLESS,
    "a cross join": "SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b WHERE a.range + b.range = -1",
    "an analysed plan": "EXPLAIN ANALYZE SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b",
    "one long function": STUBBORN,
    "a plan that doubles": "WITH a0 AS (SELECT 1 AS x)"
    + "".join(f", a{n} AS (SELECT * FROM a{n - 1} UNION ALL FROM a{n - 1})" for n in range(1, 60))
    + " SELECT count(*) FROM a59",
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", BOMBS)
async def test_what_takes_too_much_memory_is_stopped(processes: Processes, file: Path, name: str) -> None:
    with pytest.raises(QueryStopped, match="memory"):
        await ask(processes, file, BOMBS[name], memory_bytes_max=100_000_000)


@pytest.mark.slow
@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", CLOCKS)
async def test_what_takes_too_long_is_stopped(processes: Processes, file: Path, name: str) -> None:
    with pytest.raises(QueryStopped, match=r"longer than|memory"):
        await ask(processes, file, CLOCKS[name], timeout_s=0.5)


async def test_a_process_that_breaks_off_is_reported(processes: Processes, file: Path) -> None:
    task, pid = await working(processes, file)
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(QueryStopped, match="it failed"):
        await task
    assert await is_answered(processes, file)


async def test_a_process_that_is_killed_is_not_said_to_be_slow(processes: Processes, file: Path) -> None:
    task, pid = await working(processes, file)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(QueryStopped, match="its process was killed"):
        await task


async def test_a_process_past_its_time_of_the_processor_says_so(processes: Processes, file: Path) -> None:
    task, pid = await working(processes, file)
    os.kill(pid, signal.SIGXCPU)
    with pytest.raises(QueryStopped, match="exceeded its time limit"):
        await task
    assert await is_answered(processes, file)


async def test_nobody_waits_for_a_query_that_was_given_up(processes: Processes, file: Path) -> None:
    task, pid = await working(processes, file, STUBBORN)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not runs(pid))


async def test_a_query_is_given_up_when_its_client_goes(processes: Processes, file: Path) -> None:
    gone = asyncio.Event()

    async def receive() -> HTTPDisconnectEvent:
        await gone.wait()
        return {"type": "http.disconnect"}

    task = asyncio.create_task(cancel_on_disconnect(receive, ask(processes, file, STUBBORN)))
    await eventually(lambda: len(asking(file)) == 1)
    gone.set()
    with pytest.raises(ApiError, match="the client disconnected"):
        await task
    await eventually(lambda: not children())


async def test_few_are_under_way_at_once(file: Path) -> None:
    processes = Processes(1, wait_s=0.2)
    task, _ = await working(processes, file)
    with pytest.raises(StoreBusy, match="no running query ended within"):
        await ask(processes, file, "SELECT 1")
    task.cancel()
    await asyncio.wait([task])
    await eventually(lambda: not children())
    assert await is_answered(processes, file)


@pytest.mark.gate
async def test_a_fork_server_that_was_killed_is_replaced(processes: Processes, file: Path) -> None:
    task, pid = await working(processes, file)
    (killed,) = fork_servers()
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(QueryStopped, match="its process was killed"):
        await task
    await eventually(lambda: not runs(pid))
    assert await is_answered(processes, file)
    assert killed not in fork_servers()


async def test_queries_at_the_same_time_end_each_for_itself(processes: Processes, file: Path) -> None:
    endless, first = await working(processes, file)
    other = asyncio.create_task(ask(processes, file, STUBBORN))
    await eventually(lambda: len(asking(file)) == 2)
    endless.cancel()
    await asyncio.wait([endless])
    assert not runs(first)
    (second,) = asking(file)
    os.kill(second, signal.SIGXCPU)
    with pytest.raises(QueryStopped, match="exceeded its time limit"):
        await other


async def test_closing_ends_the_queries(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(process, "WorkerProcesses", WorkerProcesses)  # of its own
    processes = Processes()
    task, pid = await working(processes, file)
    processes.close()
    with pytest.raises(QueryStopped, match="killed"):
        await task
    await eventually(lambda: not runs(pid))


ASKING = """
import asyncio, sys
from api.analytics.execute import AnswerDocument, Question
from api.analytics.process import Processes
from store.analytics.query import QueryLimits
question = Question(path=sys.argv[1], sql=sys.argv[2], limits=QueryLimits(), form="json")
asyncio.run(Processes().run(question, AnswerDocument, timeout_s=100))
"""


@pytest.fixture
def server(file: Path) -> Iterator[int]:
    """Return a process that has a query under way."""
    with subprocess.Popen([sys.executable, "-c", ASKING, str(file), STUBBORN]) as it:
        yield it.pid
        it.kill()


@pytest.mark.slow
async def test_it_stands_back_and_ends_with_the_server(server: int, file: Path) -> None:
    await eventually(lambda: len(asking(file, server)) == 1)
    (pid,) = asking(file, server)
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
    await eventually(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 19)  # once it has worked for long
    os.kill(server, signal.SIGKILL)
    await eventually(lambda: not runs(pid))
