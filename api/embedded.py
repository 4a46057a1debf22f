"""Cuebook within a Python program: sessions over a data folder, without a server and without a port.

The same application as a server's answers, so that everything it promises holds here as well.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from litestar import Litestar

from api.app import create_app
from api.client.client import Client
from api.client.in_process import InProcess
from api.models import make_model
from api.quiet import warnings_only
from api.settings import load_settings
from runtime.context.resizing import Handlers
from runtime.ports import Model
from store.record import Record

STOP_S = 60.0  # for what is under way when the program ends


@asynccontextmanager
async def open_runtime(
    data: Path | str,
    *,
    scripts: Path | str | None = None,
    model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
    context_handlers: Handlers | None = None,
) -> AsyncIterator[Client]:
    """A client of the sessions in a data folder, which is made if it is new: ``async with open_runtime("data") as
    cuebook``. No server may hold the folder meanwhile, as this does.

    `scripts` is the folder whose scripts are published, `model` a model or the name of one as in the settings. Other
    settings are those of `cuebook.toml` and the environment, and `settings` before them. `context_handlers` do in the
    program's own way what the context strategies `lite` and `memo` do.

    A program that has not set up structlog hears of warnings only.

    Raises SettingsInvalid, ModelUnknown, ScriptedFileInvalid, and what Record.open raises.
    """
    named = model if isinstance(model, str) else None
    given = {"data": str(data), "scripts": None if scripts is None else str(scripts), "model": named}
    own = load_settings(flags={**(settings or {}), **given})
    warnings_only()
    talker = make_model(own) if model is None or isinstance(model, str) else model
    record = await asyncio.to_thread(Record.open, own.data)
    key = secrets.token_urlsafe(32)  # whoever may read the folder needs none of those in the record
    app = create_app(own, record, talker, operator_key=key, context_handlers=context_handlers)
    async with running(app), Client("http://cuebook", key=key, transport=InProcess(app)) as client:
        yield client


@asynccontextmanager
async def running(app: Litestar) -> AsyncIterator[None]:
    """The application from its start to its stop, both in one task: a program may enter here in one and leave in
    another.
    """
    started, stop = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await stop.wait()

    life = asyncio.create_task(live())
    starting = asyncio.create_task(started.wait())
    await asyncio.wait({life, starting}, return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    try:
        if life.done():
            await life  # why it did not start
        yield
    finally:
        stop.set()
        await asyncio.wait({life}, timeout=STOP_S)
        if not life.done():
            life.cancel()
        await life
