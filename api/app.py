"""The composition root: everything a server is made of, built and joined here."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import structlog
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, ScalarRenderPlugin
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from api import errors
from api.budgets import Spending
from api.caller import TENANT
from api.catalogue import Catalogue, Saved
from api.chat import Chat
from api.errors import ApiError
from api.lifecycle.forks import Forks
from api.lifecycle.interventions import Interventions
from api.lifecycle.labels import Labels
from api.live import Live
from api.migrating import Migrating
from api.models import close_model, log_lacking
from api.reloading import Reloader
from api.removing import Removing
from api.routes import (
    events,
    keyed,
    lifecycle,
    migrations,
    operations,
    removal,
    scripts,
    sessions,
    snapshots,
    transfers,
    users,
)
from api.routes import webhooks as webhook_routes
from api.routes.media import JSON, TAKES
from api.running import Running
from api.settings import Settings
from api.slashes import restore_slashes, with_slashes
from api.transfer.importing import Importing
from api.webhooks.book import Webhooks
from api.webhooks.courier import Courier
from api.webhooks.sending import Sender
from runtime.ports import Clock, Ids, Model
from scripts.model import Script
from scripts.parse import Reading
from store.record import Record

REQUEST_ID = "x-request-id"
DRAINED_BYTES_MAX = 10_000_000
DRAIN_S = 5.0

log = structlog.get_logger()


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def new_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())


def create_app(
    settings: Settings,
    record: Record,
    model: Model,
    *,
    clock: Clock = utc_now,
    ids: Ids = new_id,
    announce: Callable[[], None] = lambda: None,
    reload: bool = False,
    live: Live | None = None,
) -> Litestar:
    """The application over an open record, which it closes as it does the model when it stops.

    `announce` is called once it is ready. With `reload` it publishes scripts of the folder anew when they change.
    `live` are its turns under way, for who wants to end their streams before the server stops.
    """
    live = live or Live(settings)
    catalogue = Catalogue(record, clock)
    running = Running(record, model, settings, clock, ids, Spending(record, settings.budgets))
    webhooks = Webhooks(record, settings, clock, ids)
    courier = Courier(record, webhooks, Sender(settings), settings, clock, ids)
    chat = Chat(running, catalogue, live, webhooks)
    migrating = Migrating(chat, running, catalogue)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        try:
            await webhooks.load()
            async with (
                courier.running(),
                _published(catalogue, settings.scripts, partial(log_lacking, model), reload=reload),
            ):
                announce()
                yield
        finally:
            live.close()
            await chat.close()
            await record.close()
            await close_model(model)

    app = Litestar(
        route_handlers=[
            sessions.router,
            keyed.router,
            lifecycle.router,
            snapshots.router,
            transfers.exports,
            transfers.imports(settings.import_bytes_max),
            events.router,
            migrations.router,
            scripts.router,
            webhook_routes.router,
            operations.router,
            removal.router,
            users.router,
        ],
        dependencies={
            "chat": _provide(chat),
            "interventions": _provide(Interventions(chat, running)),
            "forks": _provide(Forks(chat, running)),
            "labels": _provide(Labels(chat, running)),
            "migrating": _provide(migrating),
            "removing": _provide(Removing(chat, running)),
            "importing": _provide(Importing(chat, running, catalogue)),
            "catalogue": _provide(catalogue),
            "record": _provide(record),
            "running": _provide(running),
            "webhooks": _provide(webhooks),
            "courier": _provide(courier),
        },
        exception_handlers=_exception_handlers(clock, ids),
        middleware=[_with_request_id(ids)],
        before_request=_check_body,
        lifespan=[lifespan],
        openapi_config=OpenAPIConfig(
            title="Cuebook",
            version=version("cuebook"),
            path="/schema",
            render_plugins=[JsonRenderPlugin(), ScalarRenderPlugin()],
        ),
        request_max_body_size=settings.body_bytes_max,
        logging_config=None,
    )
    app.asgi_handler = with_slashes(app.asgi_handler)
    return app


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


# -- requests and errors ------------------------------------------------------------------------------------------


def _with_request_id(ids: Ids) -> Callable[[ASGIApp], ASGIApp]:
    """Gives every request an id, which its answer and its log lines carry."""

    def middleware(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            request_id = ids()
            scope["state"]["request_id"] = request_id

            async def send_with_id(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (REQUEST_ID.encode(), request_id.encode())]
                await send(message)

            await app(scope, receive, send_with_id)

        return call

    return middleware


async def _drain(receive: Receive) -> None:
    """Reads the rest of a body: a client that is cut off while it sends never sees the answer."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while drained < DRAINED_BYTES_MAX:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return
                drained += len(message["body"])


async def _check_body(request: Request[Any, Any, Any]) -> None:
    """Takes JSON alone, said to be JSON: a page in a browser can send any other kind here without asking first.

    A route may take more kinds, of those that a page must ask for.
    """
    restore_slashes(request.scope)
    try:
        body = await request.body()
    except RequestEntityTooLarge:
        await _drain(request.receive)
        raise
    if not body:
        return
    media_type, takes = request.content_type[0], request.route_handler.opt.get(TAKES, (JSON,))
    if media_type not in takes:
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"the body must be {' or '.join(takes)}")
    if media_type != JSON:
        return
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
    except UnicodeDecodeError as error:
        raise ApiError("REQUEST_INVALID", f"the body is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ApiError("REQUEST_INVALID", "the body is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise ApiError("REQUEST_INVALID", f"the body is no JSON: {error}") from error


def _exception_handlers(
    clock: Clock, ids: Ids
) -> dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]]:
    def handle(request: Request[Any, Any, Any], error: Exception) -> Response[errors.ErrorAnswer]:
        failure = errors.translate(error)
        routed = request.scope["state"].get("request_id")  # none: no route, so no middleware ran
        request_id = routed or ids()
        kind = failure.kind
        errors.log_failure(failure, error, request_id, request.url.path)
        headers = ({} if routed else {REQUEST_ID: request_id}) | (
            {"Retry-After": str(kind.retry_after_s)} if kind.retry_after_s else {}
        )
        body = errors.answer(failure, request_id, clock().isoformat())
        return Response(body, status_code=kind.status, headers=headers, media_type="application/json")

    return {Exception: handle, HTTPException: handle}
