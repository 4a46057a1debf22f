"""Runs the application on granian, in this very process: one process holds the database file."""

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable

import structlog
import uvloop
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from api.app import create_app
from api.live import Live
from api.models import make_model
from api.settings import Settings
from runtime.models.hosted.settings import is_loopback
from store.record import Record

GOODBYE_S = 3.0  # how long clients have for the last of their answers when the server stops
ADDRESS_FILE = "server-address"  # in the data folder while a server runs: where other commands reach it


class AddressRefused(ValueError):
    """An address the server must not or cannot listen on; the message says why."""


class FolderMissing(ValueError):
    """A scripts folder that is not there."""


def serve(settings: Settings, announce: Callable[[str], None], *, reload: bool = False) -> None:
    """Serves until interrupted; `announce` gets the address once scripts are loaded and requests are taken.

    With `reload`, scripts that change while it serves are published anew.

    Raises AddressRefused, FolderMissing, ModelUnknown, ScriptedFileInvalid, and what Record.open raises.
    """
    check_address(settings.host, settings.port)
    if not settings.scripts.is_dir():
        raise FolderMissing(f"there is no folder of scripts {settings.scripts}")
    configure_logging(settings.log_level)
    model = make_model(settings)
    record = Record.open(settings.data)
    address = f"http://{settings.host}:{settings.port}"
    live = Live(settings)
    app = create_app(settings, record, model, announce=lambda: announce(address), reload=reload, live=live)
    server = Server(
        app,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGINL,  # its lifespan is run here, so that it ends whatever the clients do
        websockets=False,
        log_enabled=False,
        log_level=LogLevels.warning,
    )

    async def run() -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stopping.set)
        async with app.lifespan():
            serving = asyncio.create_task(server.serve())
            asked = asyncio.create_task(stopping.wait())
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            live.close()
            server.stop()  # type: ignore[no-untyped-call]
            await live.quiet(settings.turn_s)
            # it waits until the last answer is read, by clients that may never read it
            await asyncio.wait({serving}, timeout=GOODBYE_S)
            if serving.done():
                serving.result()
            serving.cancel()

    # What lives as long as the server need not be walked at every collection: 15 % more turns a second.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    noted = settings.data / ADDRESS_FILE
    noted.write_text(address, "utf-8")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    finally:
        gc.unfreeze()
        noted.unlink(missing_ok=True)


def check_address(host: str, port: int) -> None:
    """Only loopback addresses until API keys exist, and only a free port. Raises AddressRefused."""
    if not is_loopback(host):
        raise AddressRefused(f"{host} is not this machine alone; without API keys the server listens on loopback only")
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise AddressRefused(f"port {port} of {host} is taken or cannot be used ({error.strerror})") from error


def configure_logging(level: str) -> None:
    """JSON lines on standard error; readable ones on a terminal, without the variables of a stack, which hold keys."""
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.format_exc_info]),
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
            if terminal
            else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
