"""Webhooks, and the deliveries to them."""

from typing import Annotated, Any, cast

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.caller import tenant_of
from api.errors import ApiError, described
from api.parameters import Cursor, Limit
from api.schemas.webhooks import (
    ChangedWebhook,
    DeliveryDetail,
    DeliveryList,
    DeliveryView,
    NewWebhook,
    Notice,
    Replayed,
    TrialView,
    WebhookList,
    WebhookView,
    WebhookWithSecret,
)
from api.webhooks.book import Webhooks
from api.webhooks.courier import Courier
from store.record import Record
from store.rows import is_uuid
from store.webhook_rows import DeliveryRow, DeliveryStatus, DeliverySummary, WebhookRow

LOCATION = ResponseHeader(name="Location", documentation_only=True, description="Where the new webhook is.")
_BODY = ("REQUEST_INVALID", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE")
_RECORD = ("DATABASE_ERROR", "SERVER_BUSY")
_KNOWN = ("REQUEST_INVALID", "WEBHOOK_NOT_FOUND")
_NEW = [
    Example(
        summary="What scripts emit, and the end of sessions",
        value={"url": "https://example.org/cuebook", "events": ["emit:*", "session.completed"]},
    ),
    Example(summary="Everything", value={"url": "https://example.org/all", "events": ["*"], "description": "CRM"}),
]
_CHANGES = [Example(summary="Deliveries wait", value={"status": "paused"})]


@post(
    "/webhooks",
    status_code=201,
    summary="Tell an address of what happens",
    description="`events` are `turn`, `session.created`, `session.completed` and `emit:NAME`, with `*` for any "
    "characters. The answer has the secret that deliveries are signed with; it is not shown again.",
    response_headers=[LOCATION],
    responses=described(*_BODY, *_RECORD, "WEBHOOKS_FULL"),
)
async def create_webhook(
    data: Annotated[NewWebhook, BodyKwarg(examples=_NEW)],
    webhooks: NamedDependency[Webhooks],
    courier: NamedDependency[Courier],
    request: Request[Any, Any, Any],
) -> Response[WebhookWithSecret]:
    """Makes a webhook."""
    webhook = await webhooks.create(tenant_of(request), data)
    return Response(
        _with_secret(webhook, webhooks, courier), headers={"Location": f"/api/webhooks/{webhook.webhook_id}"}
    )


@get("/webhooks", summary="List webhooks")
async def list_webhooks(
    webhooks: NamedDependency[Webhooks], courier: NamedDependency[Courier], request: Request[Any, Any, Any]
) -> WebhookList:
    """All webhooks, in the order they were made."""
    return WebhookList(data=[_view(webhook, courier) for webhook in webhooks.of(tenant_of(request))])


@get("/webhooks/{webhook_id:str}", summary="Look at a webhook", responses=described(*_KNOWN))
async def get_webhook(
    webhook_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    courier: NamedDependency[Courier],
    request: Request[Any, Any, Any],
) -> WebhookView:
    """The webhook, without its secret."""
    return _view(webhooks.find(tenant_of(request), webhook_id), courier)


@patch(
    "/webhooks/{webhook_id:str}",
    summary="Change or pause a webhook",
    responses=described(*_BODY, *_RECORD, "WEBHOOK_NOT_FOUND"),
)
async def change_webhook(
    webhook_id: FromPath[str],
    data: Annotated[ChangedWebhook, BodyKwarg(examples=_CHANGES)],
    webhooks: NamedDependency[Webhooks],
    courier: NamedDependency[Courier],
    request: Request[Any, Any, Any],
) -> WebhookView:
    """Changes what the body names. While a webhook is paused, its deliveries wait."""
    return _view(await webhooks.change(tenant_of(request), webhook_id, data), courier)


@delete(
    "/webhooks/{webhook_id:str}",
    status_code=204,
    summary="Delete a webhook",
    responses=described(*_KNOWN, *_RECORD),
)
async def delete_webhook(
    webhook_id: FromPath[str], webhooks: NamedDependency[Webhooks], request: Request[Any, Any, Any]
) -> None:
    """Deletes a webhook with its deliveries."""
    await webhooks.remove(tenant_of(request), webhook_id)


@post(
    "/webhooks/{webhook_id:str}/rotate-secret",
    status_code=200,
    summary="Give a webhook a new secret",
    description="Until `oldSecretUntil`, a day from now, deliveries are signed with both.",
    responses=described(*_KNOWN, *_RECORD),
)
async def rotate_secret(
    webhook_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    courier: NamedDependency[Courier],
    request: Request[Any, Any, Any],
) -> WebhookWithSecret:
    """Gives a webhook a new secret, which is not shown again."""
    webhook = await webhooks.rotate(tenant_of(request), webhook_id)
    return _with_secret(webhook, webhooks, courier)


@post(
    "/webhooks/{webhook_id:str}/test",
    status_code=200,
    summary="Try a webhook",
    description="Sends a `ping` at once and once only, also while the webhook is paused.",
    responses=described(*_KNOWN),
)
async def try_webhook(
    webhook_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    courier: NamedDependency[Courier],
    request: Request[Any, Any, Any],
) -> TrialView:
    """What came of the ping."""
    outcome = await courier.ping(webhooks.find(tenant_of(request), webhook_id))
    return TrialView(delivered=outcome.trouble is None, status=outcome.status, error=outcome.trouble)


@get("/webhooks/{webhook_id:str}/deliveries", summary="List deliveries", responses=described(*_KNOWN, *_RECORD))
async def list_deliveries(
    webhook_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    status: Annotated[DeliveryStatus | None, QueryParameter(name="status", required=False)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DeliveryList:
    """A page of deliveries, newest first."""
    webhook = webhooks.find(tenant_of(request), webhook_id)
    page = await record.deliveries(webhook.tenant, webhook.webhook_id, status=status, limit=limit, cursor=cursor)
    return DeliveryList(data=[DeliveryView(**_fields(row)) for row in page.rows], next_cursor=page.next)


@get(
    "/webhooks/{webhook_id:str}/deliveries/{delivery_id:str}",
    summary="Look at a delivery",
    responses=described(*_KNOWN, *_RECORD, "DELIVERY_NOT_FOUND"),
)
async def get_delivery(
    webhook_id: FromPath[str],
    delivery_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
) -> DeliveryDetail:
    """A delivery with the body that is sent."""
    return _detail(await _found(record, webhooks.find(tenant_of(request), webhook_id), delivery_id))


@post(
    "/webhooks/{webhook_id:str}/deliveries/{delivery_id:str}/replay",
    status_code=202,
    summary="Send a delivery anew",
    description="Whatever became of it, from its first attempt on and with the same id.",
    responses=described(*_KNOWN, *_RECORD, "DELIVERY_NOT_FOUND"),
)
async def replay_delivery(
    webhook_id: FromPath[str],
    delivery_id: FromPath[str],
    webhooks: NamedDependency[Webhooks],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
) -> DeliveryDetail:
    """The delivery, which waits to be sent."""
    webhook = webhooks.find(tenant_of(request), webhook_id)
    known = await _found(record, webhook, delivery_id)
    await webhooks.replay(webhook, delivery_id=known.delivery_id)
    return _detail(await _found(record, webhook, delivery_id))


@post(
    "/webhooks/{webhook_id:str}/replay",
    status_code=202,
    summary="Send all dead deliveries anew",
    responses=described(*_KNOWN, *_RECORD),
)
async def replay_dead(
    webhook_id: FromPath[str], webhooks: NamedDependency[Webhooks], request: Request[Any, Any, Any]
) -> Replayed:
    """How many there were."""
    webhook = webhooks.find(tenant_of(request), webhook_id)
    return Replayed(replayed=await webhooks.replay(webhook, status="dead"))


async def _found(record: Record, webhook: WebhookRow, delivery_id: str) -> DeliveryRow:
    known = is_uuid(delivery_id)
    row = await record.delivery(webhook.tenant, webhook.webhook_id, delivery_id) if known else None
    if row is None:
        context = {"webhookId": webhook.webhook_id, "deliveryId": delivery_id}
        raise ApiError("DELIVERY_NOT_FOUND", "Delivery not found", context=context)
    return row


def _view(webhook: WebhookRow, courier: Courier) -> WebhookView:
    return WebhookView(
        webhook_id=webhook.webhook_id,
        url=webhook.url,
        events=webhook.events,
        description=webhook.description,
        status=webhook.status,
        paused_because=webhook.paused_because,
        failing_since=webhook.failing_since,
        resting_until=courier.resting_until(webhook.webhook_id),
        old_secret_until=webhook.old_secret_until,
        created_at=webhook.created_at,
        updated_at=webhook.updated_at,
    )


def _with_secret(webhook: WebhookRow, webhooks: Webhooks, courier: Courier) -> WebhookWithSecret:
    shown = msgspec.structs.asdict(_view(webhook, courier))
    return WebhookWithSecret(**shown, secret=webhooks.keyring.secret(webhook.secret_id))


def _fields(row: DeliverySummary) -> dict[str, Any]:
    return {
        "delivery_id": row.delivery_id,
        "webhook_id": row.webhook_id,
        "session_id": row.session_id,
        "user_id": row.user_id,
        "turn": row.turn,
        "type": row.kind,
        "created_at": row.created_at,
        "status": row.status,
        "attempts": row.attempts,
        "next_attempt_at": row.next_attempt_at if row.status == "pending" else None,
        "attempted_at": row.attempted_at,
        "last_status": row.last_status,
        "last_error": row.last_error,
        "settled_at": row.settled_at,
    }


def _detail(row: DeliveryRow) -> DeliveryDetail:
    return DeliveryDetail(**_fields(row), payload=cast(Notice, row.payload))  # encoded already


router = Router(
    "/api",
    route_handlers=[
        create_webhook,
        list_webhooks,
        get_webhook,
        change_webhook,
        delete_webhook,
        rotate_secret,
        try_webhook,
        list_deliveries,
        get_delivery,
        replay_delivery,
        replay_dead,
    ],
    tags=["Webhooks"],
)
