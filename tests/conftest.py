"""Cuebook as its users meet it: the API in process or behind a server of its own, on the scripts in `conversations`."""

import asyncio
import functools
import importlib.util
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx
import pytest
import structlog
from granian.constants import Interfaces
from granian.server.embed import Server as Granian
from hypothesis import HealthCheck, settings

from api.app import create_app, utc_now
from api.embedded import running
from api.live import Live
from api.settings import Settings
from runtime.models.offline import OfflineModel
from runtime.ports import Clock, Model
from store.database import FILE_NAME, Database
from store.debugging import set_level
from store.record import Record

# The same examples every time, however long a machine takes for one; others are tried with --hypothesis-profile=other.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("other", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that runs the tests in the background has them ignore Ctrl-C, and the processes they start would as well
    signal.signal(signal.SIGINT, signal.default_int_handler)

CONVERSATIONS = Path(__file__).parent / "conversations"
CUEBOOK = Path(sys.executable).with_name("cuebook")
START_S = 60.0  # of a busy machine
OPERATOR = "whoever runs the machine"

Json: TypeAlias = Any


class Api(httpx.AsyncClient):
    """A client of the API; the short forms expect success and give the JSON."""

    async def read(self, path: str, **parameters: Any) -> Json:
        answer = await self.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def keep(self, text: str, *, strict: bool = True, **fields: Any) -> Json:
        """Keeps a script."""
        path = "/api/scripts" if strict else "/api/scripts/import"
        answer = await self.post(path, json={"yamlContent": text, **fields})
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def begin(self, script: str, *, user: str = "ana", **fields: Any) -> Json:
        """Begins a session."""
        answer = await self.post("/api/sessions", json={"userId": user, "scriptId": script, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def say(self, session: Json, *contents: str) -> Json:
        """Says one text after the other; the last answer."""
        answers = [await self.message(session, {"content": content}) for content in contents]
        for answer in answers:
            assert answer.status_code == 200, answer.text
        return answers[-1].json()

    async def message(
        self, session: Json, message: Json, headers: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        """Sends a message, whatever comes of it."""
        path = f"/api/sessions/{session['sessionId']}/messages"
        return await self.post(path, json=message, headers=headers, params=query)

    async def key(self, *roles: str, tenant: str = "default", user: str | None = None, **fields: Any) -> str:
        """Makes a key, as whoever runs the machine; how it is sent: ``api.get(…, headers={"Authorization": key})``."""
        headers = {"Authorization": f"Bearer {OPERATOR}", "X-Cuebook-Tenant": quote(tenant)}
        body = {"name": "a test", "roles": roles or ["app"], "userId": user, **fields}
        answer = await self.post("/api/keys", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return f"Bearer {answer.json()['key']}"

    async def awaited(self, path: str, after: int, seconds: int) -> httpx.Response:
        """A page of events that is waited for, as soon as there is a place to wait at."""
        while True:
            answer = await self.get(path, params={"after": after}, headers={"Prefer": f"wait={seconds}"})
            if answer.status_code != 429:
                return answer
            await asyncio.sleep(0.01)

    async def crowded(self, path: str) -> None:
        """Waits until as many follow a session as may; whether there is a place is tried for a second."""
        while (await self.get(path, params={"after": 1_000_000}, headers={"Prefer": "wait=1"})).status_code != 429:
            pass

    def telling(
        self, path: str, body: Json = None, headers: dict[str, str] | None = None, **query: Any
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Asks for a stream: of a turn where a body is sent, else of what happens in a session."""
        accepting = {"Accept": "text/event-stream"} | (headers or {})
        return self.stream("GET" if body is None else "POST", path, json=body, headers=accepting, params=query)

    async def transcript(self, session: Json) -> list[tuple[str, str]]:
        """Everything said, as (role, content)."""
        said: list[Json] = []
        after: int | None = 0
        while after is not None:
            page = await self.read(f"/api/sessions/{session['sessionId']}/messages", after=after, limit=200)
            said += page["data"]
            after = page["nextAfter"]
        return [(message["role"], message["content"]) for message in said]


@functools.cache
def new_record() -> bytes:
    """The file of a record in which nothing is yet; made once, as that takes a quarter of a second."""
    with tempfile.TemporaryDirectory() as folder:
        Database.open(Path(folder)).close()
        return (Path(folder) / FILE_NAME).read_bytes()


def open_record(folder: Path) -> Record:
    """The record of a folder, new where there is none."""
    if not (folder / FILE_NAME).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).write_bytes(new_record())
    return Record.open(folder)


@pytest.fixture
def opened() -> Callable[[Path], Record]:
    """Opens the record of a folder: ``opened(tmp_path)``."""
    return open_record


@asynccontextmanager
async def open_app(
    folder: Path,
    model: Model | None = None,
    *,
    scripts: Path = CONVERSATIONS,
    clock: Clock = utc_now,
    **settings: Any,
) -> AsyncIterator[Api]:
    """The application over the record of a folder, in this very event loop, so that requests can overlap."""
    record = open_record(folder)
    all_settings = Settings(data=folder, scripts=scripts, **settings)
    app = create_app(all_settings, record, model or OfflineModel(), clock=clock, operator_key=OPERATOR)
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with running(app), Api(transport=transport, base_url="http://localhost") as api:
        yield api


@asynccontextmanager
async def open_server(
    folder: Path, model: Model | None = None, *, scripts: Path = CONVERSATIONS, **settings: Any
) -> AsyncIterator[Api]:
    """The application behind a real server in this very event loop: for what a client gets bit by bit."""
    record, port = open_record(folder), free_port()
    all_settings = Settings(data=folder, scripts=scripts, **settings)
    live, started = Live(all_settings), asyncio.Event()
    app = create_app(
        all_settings, record, model or OfflineModel(), announce=started.set, live=live, operator_key=OPERATOR
    )
    server = Granian(app, port=port, interface=Interfaces.ASGI, websockets=False, log_enabled=False)
    serving = asyncio.create_task(server.serve())
    await asyncio.wait([serving, asyncio.create_task(started.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        async with Api(base_url=f"http://127.0.0.1:{port}", timeout=START_S) as api:
            yield api
    finally:
        live.close()
        server.stop()  # type: ignore[no-untyped-call]
        await serving


class Listener:
    """A client that puts together what it hears, and minds that nothing is missing, doubled or contradicted."""

    def __init__(self) -> None:
        self.last_id = ""
        self.seq = 0  # of the last whole event
        self.kinds: list[str] = []
        self.words: dict[int, str] = {}  # of messages that are being said, by number
        self.transcript: list[tuple[str, str]] = []
        self.turn: Json = None
        self.error: Json = None
        self._rest = b""
        self._stream: httpx.Response | None = None

    def take(self, chunk: bytes) -> None:
        """Some bytes of the stream."""
        *frames, self._rest = (self._rest + chunk).split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if not line.startswith(":"))
            if "event" in fields:
                self.last_id = fields.get("id", self.last_id)
                self._heard(fields["event"], json.loads(fields["data"]))

    def cut(self) -> None:
        """The connection broke: half a frame is none."""
        self._rest = b""

    def _heard(self, kind: str, data: Json) -> None:
        self.kinds.append(kind)
        match kind:
            case "message.delta":
                self.words[data["message"]] = self.words.get(data["message"], "") + data["text"]
            case "message.reset":
                self.words = {number: text for number, text in self.words.items() if number < data["message"]}
            case "turn":
                assert self.words == {}
                self.turn = data
            case "error":
                assert self.words == {}
                self.error = data["error"]
            case "position":
                pass
            case _:
                self.seq += 1
                assert self.last_id.rpartition(":")[2] == str(self.seq)
                if kind == "message":
                    assert self.words.pop(data["number"], data["content"]) == data["content"]
                    self.transcript.append((data["role"], data["content"]))

    async def hear(self, stream: httpx.Response, enough: Callable[["Listener"], object] = lambda _: False) -> None:
        """Listens until it has heard enough, or the stream ends."""
        assert stream.status_code == 200, await stream.aread()
        assert stream.headers["content-type"].startswith("text/event-stream")
        if stream is not self._stream:
            self._stream, self._chunks = stream, stream.aiter_raw()
        async for chunk in self._chunks:
            self.take(chunk)
            if enough(self):
                return


Start: TypeAlias = Callable[[list[str], Path, Path, dict[str, str]], Any]
"""Starts a command: its arguments, its working folder, its log and its environment; gives what Popen would."""


def start_cuebook(
    arguments: list[str], folder: Path, log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Starts a command of `cuebook` as a shell would."""
    with log.open("ab") as output:
        return subprocess.Popen([CUEBOOK, *arguments], stdout=output, stderr=output, cwd=folder, env=environment)


class Server:
    """`cuebook serve` as a process of its own, on a free port of this machine; `start` may be a quicker way to it."""

    def __init__(self, folder: Path, *flags: str, start: Start | None = None, **environment: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "server.log"
        places = ["--port", str(self.port), "--data", str(folder / "data"), "--scripts", str(CONVERSATIONS)]
        arguments = ["serve", *places, *flags]
        self.process = (start or start_cuebook)(arguments, folder, self._log, clean_environment() | environment)

    async def ready(self) -> None:
        """Waits until it answers."""
        async with asyncio.timeout(START_S), self.client() as client:
            while True:
                assert self.process.poll() is None, self.log
                try:
                    await client.get("/health")
                except httpx.TransportError:
                    await asyncio.sleep(0.01)
                else:
                    return

    def client(self, **options: Any) -> Api:
        return Api(base_url=self.url, timeout=START_S, verify=False, **options)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Signals it and waits for its end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return await asyncio.to_thread(self.process.wait, START_S)

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """The environment without settings of Cuebook."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}


def load(name: str) -> Any:
    """A module beside this one; the folders of tests are no packages."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


openai_server = load("openai_server")
webhook_receiver = load("webhook_receiver")

Opener: TypeAlias = Callable[..., AbstractAsyncContextManager[Api]]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of whoever runs the tests are not those of the tests."""
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def app() -> Opener:
    """Opens the application: ``async with app(tmp_path, hot_sessions_max=1) as api``."""
    return open_app


@pytest.fixture(scope="session")
def server() -> Opener:
    """Opens the application behind a server: ``async with server(tmp_path, stream_s=1) as api``."""
    return open_server


@pytest.fixture
def listener() -> Callable[[], Listener]:
    """Clients of streams: ``await listener().hear(stream)``."""
    return Listener


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The application with the default settings and the offline model."""
    async with open_app(tmp_path / "data") as api:
        yield api


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers, ``server = serve(); await server.ready()``, and ends those that still run."""
    servers: list[Server] = []

    def start(*flags: str, folder: Path = tmp_path, **environment: Any) -> Server:
        servers.append(Server(folder, *flags, **environment))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.fixture
def endpoint() -> Iterator[Any]:
    """An endpoint that speaks as OpenAI's, on this machine; see `openai_server.py` beside this file."""
    with openai_server.running() as endpoint:
        yield endpoint


@pytest.fixture
async def receiver() -> AsyncIterator[Any]:
    """A receiver of webhooks, on this machine; see `webhook_receiver.py` beside this file."""
    async with webhook_receiver.Receiver().serving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def logs_as_they_begin() -> Iterator[None]:
    """A command that ran in this process has it log errors only; the next test hears everything again."""
    yield
    structlog.reset_defaults()
    set_level(logging.NOTSET)
