"""Runs the application on granian, in this very process: one process holds the database file."""

import asyncio
import gc
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server
from litestar import Litestar

from api.access.access import tokens_of
from api.access.addresses import Addresses
from api.access.open_requests import OpenRequests
from api.app import create_app
from api.connections.files import raise_open_files
from api.connections.sockets import Sockets
from api.connections.watch import RESERVE, Bounds, Watch
from api.fitting import misfits
from api.live import Live
from api.models import close_model, make_model
from api.settings import Settings
from api.traces import without_words
from runtime.models.hosted.settings import is_loopback
from runtime.ports import Model
from store.debugging import set_level
from store.errors import StoreError
from store.private import restrict, restrict_umask
from store.record import Record

BACKLOG = 2_048  # connections that wait to be accepted, in the kernel
HEADER_BYTES_MAX = 65_536
GOODBYE_S = 3.0  # how long clients have for the last of their answers when the server stops
ADDRESS_FILE = "server-address"  # in the data folder while a server runs: where other commands reach it
KEY_FILE = "server-key"  # and by which key: whoever may read it may read the record as well
OPEN_NAMED_MAX = 10  # of the files that other accounts can read and that could not be changed

log = structlog.get_logger()


class AddressRefused(ValueError):
    """An address the server must not or cannot listen on; the message says why."""


class FolderMissing(ValueError):
    """A scripts folder that is not there."""


def serve(settings: Settings, announce: Callable[[str, str], None], *, reload: bool = False) -> None:
    """Serves until interrupted; `announce` gets the address, and who may come there, once scripts are loaded and
    requests are taken.

    With `reload`, scripts that change while it serves are published anew.

    Raises AddressRefused, FolderMissing, ModelUnknown, ScriptedFileInvalid, SettingsInvalid, and what Record.open
    raises.
    """
    check_address(settings.host, settings.port)
    tokens_of(settings)  # whose key must be good, before anything is opened
    if not settings.scripts.is_dir():
        raise FolderMissing(f"there is no folder of scripts {settings.scripts}")
    configure_logging(settings.log_level)
    connections = raise_open_files(settings.connections_max, RESERVE)
    for misfit in misfits(settings):
        log.warning("settings do not fit", problem=misfit)
    model = make_model(settings)
    _close_to_others(settings.data)
    record = Record.open(settings.data)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, record, model, announce, connections, reload=reload))


async def _serve(
    settings: Settings,
    record: Record,
    model: Model,
    announce: Callable[[str, str], None],
    connections: int,
    *,
    reload: bool,
) -> None:
    """Raises AddressRefused, and what reading the record raises."""
    try:
        who = await _who_may_come(settings, record)
    except (AddressRefused, StoreError):
        await record.close()
        await close_model(model)
        raise
    address, key = f"http://{settings.host}:{settings.port}", secrets.token_urlsafe(32)
    live, requests = Live(settings), OpenRequests(settings)
    app = create_app(
        settings,
        record,
        model,
        announce=lambda: announce(address, who),
        reload=reload,
        live=live,
        requests=requests,
        operator_key=key,
        keys_needed=not is_loopback(settings.host),
    )
    server = _listening(app, settings, connections)
    bounds = Bounds(connections, settings.address_connections_max)
    addresses = Addresses(settings.trusted_proxies)
    watch = Watch(Sockets(settings.port), requests, addresses, bounds, settings.stream_write_s)
    with _found(settings.data, address, key), _few_collections():
        await _until_stopped(app, server, watch, live, settings.turn_s)


def _listening(app: Litestar, settings: Settings, connections: int) -> Server:
    """The server, of HTTP/1.1 alone: granian bounds the time of a silent client there, and not with HTTP/2."""
    return Server(
        app,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGINL,  # its lifespan is run here, so that it ends whatever the clients do
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=max(1, int(settings.receive_s * 1_000)),  # for idle connections as well
            max_buffer_size=HEADER_BYTES_MAX,
        ),
        backlog=BACKLOG,
        backpressure=connections + RESERVE,
        websockets=False,
        log_enabled=False,
        log_level=LogLevels.warning,
    )


async def _until_stopped(app: Litestar, server: Server, watch: Watch, live: Live, turn_s: float) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopping.set)
    async with app.lifespan():
        serving = asyncio.create_task(server.serve())
        watching = asyncio.create_task(watch.run())
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        watching.cancel()
        live.close()
        server.stop()  # type: ignore[no-untyped-call]
        await live.quiet(turn_s)
        # it waits until the last answer is read, by clients that may never read it
        await asyncio.wait({serving}, timeout=GOODBYE_S)
        if serving.done():
            serving.result()
        serving.cancel()


async def _who_may_come(settings: Settings, record: Record) -> str:
    """What is said of it at the start. Raises AddressRefused where that would be anybody, and StoreError."""
    known = await record.known_keys()
    has_tokens = settings.auth_jwt_algorithm is not None
    if is_loopback(settings.host):
        if has_tokens or known.any_made:
            return "with an API key, from this machine"
        return "this machine only: there are no API keys"
    if not has_tokens and not known.live:
        raise AddressRefused(
            f"{settings.host} is not this machine alone, and there are no API keys; make one with "
            "`cuebook keys create --name NAME`, or listen on 127.0.0.1"
        )
    return "with an API key, from anywhere: they travel in the clear unless a proxy before it speaks TLS"


@contextmanager
def _few_collections() -> Iterator[None]:
    """What lives as long as the server need not be walked at every collection: 15 % more turns a second."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _found(data: Path, address: str, key: str) -> Iterator[None]:
    """Notes beside the record where commands find the server, and by which key."""
    noted, kept = data / ADDRESS_FILE, data / KEY_FILE
    noted.write_text(address, "utf-8")
    _write_private(kept, key)
    try:
        yield
    finally:
        _remove(noted, address)
        _remove(kept, key)


def _remove(path: Path, text: str) -> None:
    """Removes a note of this server; where the folder was replaced meanwhile, it may be another's."""
    with suppress(OSError):
        if path.read_text("utf-8") == text:
            path.unlink()


def _close_to_others(data: Path) -> None:
    """Restrict what is in the data folder, and all that this process writes, to its own account; say what was open."""
    restrict_umask()
    if not data.is_dir():  # it is created with the record
        return
    try:
        restricted = restrict(data)
    except OSError:  # opening the record says why
        return
    if restricted.closed:
        log.warning("other accounts could read the data folder; they no longer can", files=restricted.closed)
    for path in restricted.open[:OPEN_NAMED_MAX]:
        log.warning("other accounts can read this", path=str(path), fix=f"chmod go= '{path}'")


def _write_private(path: Path, text: str) -> None:
    """Writes a file that nobody else may read, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def check_address(host: str, port: int) -> None:
    """Only a free port. Raises AddressRefused."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise AddressRefused(f"port {port} of {host} is taken or cannot be used ({error.strerror})") from error


def configure_logging(level: str) -> None:
    """JSON lines on standard error; readable ones on a terminal. Neither has what anybody said, nor keys."""
    terminal = sys.stderr.isatty()
    number = logging.getLevelNamesMapping()[level.upper()]
    set_level(number)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            without_words,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
            if terminal
            else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
