"""Serves the application in this process, because only one process may have the database file open."""

import asyncio
import errno
import gc
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
import uvloop

from api.app import create_app
from api.auth.authenticator import tokens_of
from api.http.application import Application
from api.http.connections.connections import RESERVE
from api.http.connections.files import raise_open_files
from api.http.connections.http_server import BACKLOG, HttpServer, bind, create_server
from api.http.other_servers import require_same_keys
from api.local_files.atomic_files import create_private
from api.logs.configuration import configure_logging, log_unawaited
from api.models.server_model import close_model, make_model
from api.sessions.live_turns import LiveTurns
from api.settings import ADDRESS_FILE, KEY_FILE, Settings, SettingsInvalid
from runtime.models.hosted.settings import is_loopback
from runtime.state.ports import Model
from store.interface.errors import StoreError, StoreUnavailable
from store.interface.private_files import restrict, restrict_umask
from store.open_store import open_store
from store.store import Store

GOODBYE_S = 3.0  # for clients to read their last responses when the server stops
OPEN_NAMED_MAX = 10  # files logged that other accounts can read and that could not be changed

log = structlog.get_logger()


class AddressRefused(ValueError):
    """The server must not or cannot listen on this address; the message says why."""


class FolderMissing(ValueError):
    """The folder of scripts, or the one of key files, does not exist."""


def serve(settings: Settings, announce: Callable[[str, str], None], *, reload: bool = False) -> None:
    """Serve until interrupted; call `announce` with the address and the access rule once scripts are loaded and
    requests are accepted.

    With `reload`, scripts that change meanwhile are published again.

    Raises AddressRefused, FolderMissing, ModelUnknown, ScriptedFileInvalid, SettingsInvalid, and what open_store
    raises.
    """
    tokens_of(settings)  # validates the JWT key before anything is opened
    for name, folder in (("scripts", settings.scripts), ("key", settings.key_folder)):
        if folder is not None and not folder.is_dir():
            missing = "is not a folder" if folder.exists() else "does not exist"
            raise FolderMissing(f"the {name} folder {folder} {missing}")
    configure_logging(settings.log_level, settings.log_format)
    connections = raise_open_files(settings.connections_max, RESERVE)
    model = make_model(settings)
    with _usable(settings):
        sock = bind(settings.host, settings.port, settings.stream_write_s)
    with sock:
        _restrict_access(settings.data)
        store = open_store(settings.data, settings.database_url)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, store, model, announce, sock, connections, reload=reload))
    log.info("server stopped")


async def _serve(
    settings: Settings,
    store: Store,
    model: Model,
    announce: Callable[[str, str], None],
    sock: socket.socket,
    connections: int,
    *,
    reload: bool,
) -> None:
    """Open the store and serve. Raises AddressRefused and the errors of reading the database."""
    try:
        access = await _describe_access(settings, store)
        if store.shared is not None:
            await require_same_keys(store.shared, settings.keys_in)
    except (AddressRefused, SettingsInvalid, StoreError):
        await store.close()
        await close_model(model)
        raise
    address, key = settings.address, secrets.token_urlsafe(32)
    live = LiveTurns(settings)

    def listen() -> None:
        with _usable(settings):
            sock.listen(BACKLOG)
        announce(address, access)

    app = create_app(
        settings,
        store,
        model,
        announce=listen,
        reload=reload,
        live=live,
        operator_key=key,
        keys_needed=not is_loopback(settings.host),
    )
    server = create_server(app, settings, connections)
    with _address_files(settings.data, address, key), _tuned_garbage_collection():
        await _until_stopped(app, server, sock, live, settings)


async def _until_stopped(
    app: Application, server: HttpServer, sock: socket.socket, live: LiveTurns, settings: Settings
) -> None:
    """Serve until a signal; then refuse to be ready for a while, finish the turns that are running, and end."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(log_unawaited)
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopping.set)
    async with app.lifespan():
        serving = asyncio.create_task(server.serve([sock]))
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        log.info("server is stopping")
        live.is_stopping = True
        await asyncio.wait({serving}, timeout=settings.stop_delay_s)
        live.close()
        server.stop()
        await live.drain(settings.turn_s)
        # the server waits until the last response is read, and some clients never read it
        await asyncio.wait({serving}, timeout=GOODBYE_S)
        server.abort()
        await asyncio.wait({serving}, timeout=GOODBYE_S)
        if serving.done():
            serving.result()
        serving.cancel()


async def _describe_access(settings: Settings, store: Store) -> str:
    """Return who can connect, for the start message. Raises AddressRefused if that is everybody, and StoreError."""
    known = await store.keys.known()
    has_tokens = settings.auth_jwt_algorithm is not None
    if is_loopback(settings.host):
        if has_tokens or known.any_made:
            return "with an API key, from this machine"
        return "this machine only: there are no API keys"
    if not has_tokens and not known.live:
        raise AddressRefused(
            f"{settings.host} is reachable from other machines, and there are no API keys; create one with "
            "`cuebook keys create --name NAME`, or listen on 127.0.0.1"
        )
    return "with an API key, from anywhere; keys are sent unencrypted unless a proxy adds TLS"


@contextmanager
def _tuned_garbage_collection() -> Iterator[None]:
    """Collect garbage less often and skip long-lived objects: 15 % more turns per second."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _address_files(data: Path, address: str, key: str) -> Iterator[None]:
    """Write the address and key by which commands find the server into the data folder. Raises StoreUnavailable."""
    address_file, key_file = data / ADDRESS_FILE, data / KEY_FILE
    try:
        address_file.write_text(address, "utf-8")
        key_file.unlink(missing_ok=True)
        create_private(key_file, key.encode())
    except OSError as error:
        raise StoreUnavailable(f"{error.filename or data} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        _remove(address_file, address)
        _remove(key_file, key)


def _remove(path: Path, text: str) -> None:
    """Remove a file of this server; skip one with another text, as another server may have written it."""
    with suppress(OSError):
        if path.read_text("utf-8") == text:
            path.unlink()


def _restrict_access(data: Path) -> None:
    """Restrict the data folder, and all files that this process writes, to its own account; log what was open."""
    restrict_umask()
    try:
        if not data.is_dir():  # it is created with the database
            return
        restricted = restrict(data)
    except OSError:  # opening the database reports the cause
        return
    if restricted.closed:
        log.warning("other accounts could read the data folder; they no longer can", files=restricted.closed)
    for path in restricted.open[:OPEN_NAMED_MAX]:
        log.warning("other accounts can read this path", path=str(path), fix=f"chmod go= '{path}'")


@contextmanager
def _usable(settings: Settings) -> Iterator[None]:
    """Raise AddressRefused if the address cannot be bound, or listened to, within."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"port {settings.port} of {settings.host} is in use; choose another one with --port"
        else:
            problem = f"port {settings.port} of {settings.host} cannot be used: {error.strerror}"
        raise AddressRefused(problem) from error
