"""The composition root: everything a server is made of, built and joined here."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import structlog
from litestar import Litestar
from litestar.di import Provide

from api.access.access import Access
from api.access.guard import Guard
from api.access.keys import Keys
from api.access.open_requests import OpenRequests
from api.access.pages import cors_of
from api.analytics.asking import Analytics
from api.analytics.cutting import Cutting
from api.analytics.files import AnalyticsFiles
from api.analytics.process import Processes
from api.analytics.schedule import Snapshots
from api.budgets import Spending
from api.caller import TENANT
from api.catalogue import Catalogue, Saved
from api.chat import Chat
from api.file_watch import watching_file
from api.lifecycle.forks import Forks
from api.lifecycle.interventions import Interventions
from api.lifecycle.labels import Labels
from api.live import Live
from api.memory.calling import MemoryCalls
from api.memory.carrying import Carrying
from api.memory.doctor import Doctor
from api.memory.embedding import embedding_of
from api.memory.house import make_house
from api.memory.telling import Tellers
from api.methods import with_all_methods
from api.metrics import Metrics
from api.migrating import Migrating
from api.models import close_model, log_lacking
from api.openapi import description
from api.random_ids import new_id
from api.reloading import Reloader
from api.removing import Removing
from api.requests import check_body, exception_handlers, with_request_id
from api.retention import Retention
from api.routes import analytics as analytics_routes
from api.routes import (
    analytics_parts,
    contexts,
    events,
    keyed,
    keys,
    lifecycle,
    memory,
    memory_checks,
    memory_files,
    migrations,
    operations,
    removal,
    scripts,
    sessions,
    snapshots,
    transfers,
    users,
    verification,
)
from api.routes import retention as retention_routes
from api.routes import webhooks as webhook_routes
from api.running import Running
from api.settings import Settings
from api.slashes import with_slashes
from api.transfer.importing import Importing
from api.verification.run import Verifying
from api.webhooks.addresses import Rules
from api.webhooks.book import Webhooks
from api.webhooks.courier import Courier
from api.webhooks.sending import Sender
from runtime.context.resizing import Handlers
from runtime.models.hosted.settings import is_loopback
from runtime.ports import Clock, Ids, Model
from scripts.model import Script
from scripts.parse import Reading
from store.record import Record

ROUTERS = (
    sessions.router,
    analytics_routes.router,
    analytics_parts.router,
    keyed.router,
    lifecycle.router,
    snapshots.router,
    transfers.exports,
    contexts.router,
    events.router,
    migrations.router,
    memory.router,
    memory_checks.router,
    memory_files.exports,
    scripts.router,
    keys.router,
    webhook_routes.router,
    operations.router,
    removal.router,
    retention_routes.router,
    users.router,
    verification.router,
)

log = structlog.get_logger()


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def create_app(
    settings: Settings,
    record: Record,
    model: Model,
    *,
    clock: Clock = utc_now,
    ids: Ids = new_id,
    announce: Callable[[], None] = lambda: None,
    serves: bool = True,
    reload: bool = False,
    live: Live | None = None,
    requests: OpenRequests | None = None,
    operator_key: str = "",
    keys_needed: bool = False,
    context_handlers: Handlers | None = None,
) -> Litestar:
    """The application over an open record, which it closes as it does the model when it stops.

    `announce` is called once it is ready. Unless it `serves`, it is there for one command: scripts of the folder are
    not published, webhooks not sent, and no work on memories is looked for but what comes up. With `reload` it
    publishes scripts of the folder anew when they change. `live` are its turns under way, for who wants to end their
    streams before the server stops, and `requests` those that are open. `operator_key` opens everything; with
    `keys_needed` nobody comes without a key, though there be none. `context_handlers` do in the application's own way
    what the context strategies `lite` and `memo` do. Raises SettingsInvalid.
    """
    live, requests = live or Live(settings), requests or OpenRequests(settings)
    catalogue = Catalogue(record, clock)
    metrics = Metrics()
    known_keys = Keys(record, clock)
    contexts_in_use = msgspec.structs.replace(settings.contexts, handlers=context_handlers or Handlers())
    spending = Spending(record, settings.budgets)
    embedding = embedding_of(settings)
    tellers = Tellers(MemoryCalls(model, record.memory, spending, metrics, clock, ids), clock)
    house = make_house(record, settings, embedding, catalogue.memory_plan, tellers.teller, clock, ids, metrics)
    running = Running(record, model, settings, clock, ids, spending, metrics, contexts_in_use, house)
    access = Access(settings, known_keys, clock, operator_key, always=keys_needed)
    rules = Rules.of(settings, lambda: is_loopback(settings.host) and not access.is_required)
    webhooks = Webhooks(record, settings, rules, clock, ids)
    courier = Courier(record, webhooks, Sender(settings, rules), settings, clock, ids)
    chat = Chat(running, catalogue, live, webhooks)
    migrating = Migrating(chat, running, catalogue)
    processes = Processes(keeps_spare=serves)
    analytics_files = AnalyticsFiles(record, catalogue, processes, settings.data, metrics)
    analytics = Analytics(analytics_files, processes, metrics)
    snapshots = Snapshots(record, analytics, settings, clock)
    retention = Retention(chat, running)
    guard = Guard(access, chat.owner, settings, requests)
    _watch(metrics, record, chat, live, analytics_files)
    metrics.watch("open_requests", "Requests that are being answered", lambda: requests.count)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        try:
            async with AsyncExitStack() as stack:
                if serves:
                    await stack.enter_async_context(watching_file(record))
                    await analytics_files.tidy()
                    await known_keys.load()  # whether there are any decides where webhooks may go
                    await webhooks.load()
                    await stack.enter_async_context(courier.running())
                    await stack.enter_async_context(snapshots.running())
                await stack.enter_async_context(house.running(looks=serves))
                await stack.enter_async_context(retention.running(by_itself=serves))
                if serves:
                    look_at = partial(log_lacking, model)
                    await stack.enter_async_context(_published(catalogue, settings.scripts, look_at, reload=reload))
                announce()
                yield
        finally:
            live.close()
            await analytics_files.close()
            await processes.close()
            await chat.close()
            await known_keys.close()
            await record.close()
            await close_model(model)

    app = Litestar(
        route_handlers=[
            *ROUTERS,
            transfers.imports(settings.import_bytes_max),
            memory_files.imports(settings.import_bytes_max),
        ],
        dependencies={
            "chat": _provide(chat),
            "interventions": _provide(Interventions(chat, running)),
            "forks": _provide(Forks(chat, running)),
            "labels": _provide(Labels(chat, running)),
            "migrating": _provide(migrating),
            "removing": _provide(Removing(chat, running, known_keys, analytics_files, snapshots)),
            "retention": _provide(retention),
            "importing": _provide(Importing(chat, running, catalogue)),
            "catalogue": _provide(catalogue),
            "record": _provide(record),
            "house": _provide(house),
            "carrying": _provide(Carrying(record.memory, house.banks, clock, ids, house.work.notice)),
            "doctor": _provide(Doctor(record.memory, house.banks, embedding, house.work.notice)),
            "running": _provide(running),
            "analytics": _provide(analytics),
            "cutting": _provide(Cutting(analytics_files, processes)),
            "verifying": _provide(Verifying(record, clock, settings, contexts_in_use, gently=serves)),
            "webhooks": _provide(webhooks),
            "courier": _provide(courier),
            "keys": _provide(known_keys),
            "metrics": _provide(metrics),
        },
        exception_handlers=exception_handlers(clock, metrics),
        middleware=[guard.before],
        plugins=[guard],
        cors_config=cors_of(settings),
        before_request=check_body,
        lifespan=[lifespan],
        openapi_config=description(),
        request_max_body_size=settings.body_bytes_max,
        logging_config=None,
    )
    app.asgi_handler = with_request_id(with_slashes(with_all_methods(app)), ids, metrics)
    return app


def _watch(metrics: Metrics, record: Record, chat: Chat, live: Live, analytics: AnalyticsFiles) -> None:
    """What is looked up when somebody asks."""
    metrics.watch("writer_lag_seconds", "How long the group being written has taken", lambda: record.writer_lag_s)
    metrics.watch("writer_queue", "Writes that wait for the writing thread", lambda: record.writes_waiting)
    metrics.watch("hot_sessions", "Sessions kept in memory", lambda: chat.hot_sessions)
    metrics.watch("streams", "Clients that listen", lambda: live.readers)
    metrics.watch("analytics_bytes", "Size of the analytics files", analytics.size_bytes)


def _provide(service: object) -> Provide:
    return Provide(lambda: service, sync_to_thread=False)


@asynccontextmanager
async def _published(
    catalogue: Catalogue, folder: Path, look_at: Callable[[Script], None], *, reload: bool
) -> AsyncIterator[None]:
    """The scripts of the folder, at their start and, with `reload`, whenever they change; each is looked at too."""
    if not reload:
        await publish_folder(catalogue, folder, look_at)
        yield
        return
    reloader = Reloader(catalogue, folder, look_at)
    async with reloader.watching():
        reloader.started(await publish_folder(catalogue, folder, look_at))
        yield


async def publish_folder(
    catalogue: Catalogue, folder: Path, look_at: Callable[[Script], None]
) -> list[Saved | Reading]:
    """Keeps every script of the scripts folder; a broken one is reported and does not stop the rest."""
    outcomes = await catalogue.load_folder(TENANT, folder)
    for outcome in outcomes:
        if isinstance(outcome, Saved):
            if outcome.new:
                log.info("script published", script=outcome.row.script_id, version=outcome.row.version)
            if outcome.reading.script is not None:
                look_at(outcome.reading.script)
        else:
            for problem in outcome.errors:
                log.warning("script not published", problem=str(problem), fix=problem.fix)
    return outcomes
