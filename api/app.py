"""The composition root: creates all parts of a server and connects them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from api.background import background
from api.catalog.catalog import Catalog, SavedScript
from api.catalog.reload import Reloader
from api.http.application import Application
from api.http.services import Services
from api.models.server_model import close_model, log_lacking
from api.schemas.ids import TENANT, new_id
from api.schemas.timestamps import utc_now
from api.sessions.live_turns import LiveTurns
from api.settings import Settings
from runtime.context.resize import Handlers
from runtime.state.ports import Clock, Ids, Model
from scripts.model.script import Script
from scripts.parse.read_script import Reading
from store.store import Store

WATCH_S = 1.0  # between two looks at the database file

log = structlog.get_logger()


@asynccontextmanager
async def _running(
    services: Services, *, announce: Callable[[], None], serves: bool, reload: bool
) -> AsyncIterator[None]:
    """Run the background work of an application within the context: before the first request and after the last one."""
    try:
        async with AsyncExitStack() as stack:
            if serves:
                await _start_serving(services, stack)
            await stack.enter_async_context(services.memory_system.running(looks=serves))
            await stack.enter_async_context(services.retention.running(by_itself=serves, leads=services.leads))
            if serves:
                look_at, folder = partial(_log_lacking, services), services.settings.scripts
                await stack.enter_async_context(_publish(services.catalog, folder, look_at, reload=reload))
            announce()
            yield
    finally:
        await _stop(services)


def _log_lacking(services: Services, script: Script) -> None:
    """Log what a script needs and the server lacks."""
    log_lacking(services.model, script)
    if services.settings.calls_tools:
        services.tool_caller.log_lacking(script)


async def _start_serving(services: Services, stack: AsyncExitStack) -> None:
    stopped = "the database file is not watched until the server is restarted"
    await stack.enter_async_context(background(_watch_file(services.store), stopped))
    if services.other_servers is not None:
        await stack.enter_async_context(services.other_servers.running())
    await services.analytics.files.tidy()
    await services.deletion.finish()
    await services.keys.load()  # webhook targets depend on whether keys exist
    await services.webhooks.load()
    await stack.enter_async_context(services.dispatcher.running())
    await stack.enter_async_context(services.reminders.running())
    await stack.enter_async_context(services.snapshots.running(services.leads))
    await stack.enter_async_context(services.backups.running())
    await stack.enter_async_context(services.dashboard_files.running(services.leads))
    await stack.enter_async_context(services.scheduler.running())


async def _watch_file(store: Store) -> None:
    """Log once if the database file is no longer at its path."""
    lost: str | None = None
    while True:
        before, lost = lost, store.loss()
        if lost is not None and before is None:
            log.critical("the database file is lost: writes are refused", problem=lost)
        elif lost is None and before is not None:
            log.warning("the database file is at its path again: writes are accepted")
        await asyncio.sleep(WATCH_S)


async def _stop(services: Services) -> None:
    """End the streams first, and close the store after everything that uses it."""
    services.live.close()
    await services.analytics.files.close()
    services.processes.close()
    await services.chat.close()
    await services.keys.close()
    await services.tool_caller.close()
    await services.store.close()
    await close_model(services.model)


def create_app(
    settings: Settings,
    store: Store,
    model: Model,
    *,
    clock: Clock = utc_now,
    ids: Ids = new_id,
    announce: Callable[[], None] = lambda: None,
    serves: bool = True,
    reload: bool = False,
    live: LiveTurns | None = None,
    operator_key: str = "",
    keys_needed: bool = False,
    context_handlers: Handlers | None = None,
) -> Application:
    """Create the application over an open store. It closes the store and the model when it stops.

    `announce` is called once the application is ready. Without `serves` the application runs for one command: it does
    not publish the scripts of the folder, send webhooks, or search memories for due work. With `reload` it publishes
    scripts of the folder again when they change. `live` holds the running turns, so that the caller can end their
    streams before the server stops. `operator_key` grants access to everything; with `keys_needed` a key is required
    even if none exists. `context_handlers` replace the context strategies `lite` and `memo`. Raises SettingsInvalid.
    """
    services = Services(
        settings,
        store,
        model,
        clock=clock,
        ids=ids,
        lifespan=partial(_running, announce=announce, serves=serves, reload=reload),
        serves=serves,
        live=live,
        operator_key=operator_key,
        keys_needed=keys_needed,
        context_handlers=context_handlers,
    )
    return Application(services)


@asynccontextmanager
async def _publish(
    catalog: Catalog, folder: Path, look_at: Callable[[Script], None], *, reload: bool
) -> AsyncIterator[None]:
    """Publish the scripts of the folder at the start and, with `reload`, when they change; pass each to `look_at`."""
    if not reload:
        await publish_folder(catalog, folder, look_at)
        yield
        return
    reloader = Reloader(catalog, folder, look_at)
    async with reloader.watching():
        reloader.note_start(await publish_folder(catalog, folder, look_at))
        yield


async def publish_folder(
    catalog: Catalog, folder: Path, look_at: Callable[[Script], None]
) -> list[SavedScript | Reading]:
    """Publish every script of the scripts folder; log a broken one and continue with the rest."""
    outcomes = await catalog.load_folder(TENANT, folder)
    for outcome in outcomes:
        if isinstance(outcome, SavedScript):
            if outcome.new:
                log.info("script published", script=outcome.row.script_id, version=outcome.row.version)
            if outcome.reading.script is not None:
                look_at(outcome.reading.script)
        else:
            for problem in outcome.errors:
                log.warning("script not published", problem=str(problem), fix=problem.fix)
    return outcomes
