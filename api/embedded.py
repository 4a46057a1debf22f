"""Cuebook inside a Python program: sessions in a data folder, without a server and without a port.

Requests go to the same application as on a server, so that the same guarantees hold.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from api.app import create_app
from api.background import wait_started
from api.client.client import Client
from api.client.in_process import InProcess
from api.client.transport import RetryPolicy
from api.http.application import Application
from api.local_files.settings_file import settings_of_program
from api.logs.configuration import warnings_only
from api.models.server_model import make_model
from runtime.context.resize import Handlers
from runtime.state.ports import Model
from store.open_store import open_store

STOP_S = 60.0  # for running turns and requests when the program ends


@asynccontextmanager
async def open_runtime(
    data: Path | str,
    *,
    scripts: Path | str | None = None,
    model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
    context_handlers: Handlers | None = None,
    patience: RetryPolicy | None = None,
) -> AsyncIterator[Client]:
    """Return a client of the sessions in a data folder, which is created if it is new: ``async with
    open_runtime("data") as cuebook``. The folder is locked meanwhile; no server may use it.

    `scripts` is the folder whose scripts are published, `model` a model or the name of one as in the settings. Other
    settings come from `cuebook.toml` and the environment; `settings` override them. `context_handlers` replace the
    context strategies `lite` and `memo`. `patience` sets the retries of requests that fail temporarily, such as those
    whose model cannot be reached.

    If the program has not configured structlog, only warnings are logged.

    Raises SettingsInvalid, ModelUnknown, ScriptedFileInvalid, and what open_store raises.
    """
    named = model if isinstance(model, str) else None
    folder = None if scripts is None else str(scripts)
    own = settings_of_program(settings, data=str(data), scripts=folder, model=named)
    warnings_only()
    language_model = make_model(own) if model is None or isinstance(model, str) else model
    store = await asyncio.to_thread(open_store, own.data, own.database_url)
    key = secrets.token_urlsafe(32)  # file access replaces the keys of the database
    app = create_app(own, store, language_model, operator_key=key, context_handlers=context_handlers)
    async with running(app), Client("http://cuebook", key=key, patience=patience, transport=InProcess(app)) as client:
        yield client


@asynccontextmanager
async def running(app: Application) -> AsyncIterator[None]:
    """Run the application from start to stop in one task, because a program may enter this context in one task and
    leave it in another.
    """
    started, stop = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await stop.wait()

    life = asyncio.create_task(live())
    try:
        await wait_started(life, started)
        yield
    finally:
        stop.set()
        await asyncio.wait({life}, timeout=STOP_S)
        if not life.done():
            life.cancel()
        await life
