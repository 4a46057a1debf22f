"""Routes for webhooks and their deliveries."""

from litestar import Response, delete, get, patch, post
from litestar.params import FromQuery, JSONBody

from api.errors import require_found
from api.http.request import PAGE_MAX, ApiRequest, Cursor, DeliveryId, Limit, WebhookId, creating, page_of
from api.http.services import Services
from api.schemas.webhooks import (
    DeliveryDetail,
    DeliveryList,
    DeliveryView,
    NewWebhook,
    ReplayCount,
    TrialView,
    WebhookList,
    WebhookPatch,
    WebhookView,
    WebhookWithSecret,
)
from store.interface.rows import is_uuid
from store.interface.webhook_rows import DeliveryRow, DeliveryStatus, DeliverySummary, WebhookRow


@creating("/webhooks", "Register a webhook", "the new webhook")
async def create_webhook(data: JSONBody[NewWebhook], request: ApiRequest) -> Response[WebhookWithSecret]:
    """`events` are `turn`, `session.created`, `session.completed`, `message.proactive` and `emit:NAME`, with `*` for
    any characters. The answer contains the secret that signs deliveries; it is not shown again.
    """
    webhook = await request.services.webhooks.create(request.tenant, data)
    headers = {"Location": f"/api/webhooks/{webhook.webhook_id}"}
    return Response(_with_secret(webhook, request.services), headers=headers)


@get("/webhooks", summary="List webhooks")
async def list_webhooks(request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None) -> WebhookList:
    """Return a page of webhooks, the oldest first."""
    services = request.services
    views = [_view(webhook, services) for webhook in services.webhooks.of(request.tenant)]
    return page_of(WebhookList, views, limit, cursor)


@get("/webhooks/{webhookId:str}", summary="Read a webhook")
async def get_webhook(webhook_id: WebhookId, request: ApiRequest) -> WebhookView:
    """Return a webhook without its secret."""
    return _view(_webhook(request, webhook_id), request.services)


@patch("/webhooks/{webhookId:str}", summary="Update or pause a webhook")
async def change_webhook(webhook_id: WebhookId, data: JSONBody[WebhookPatch], request: ApiRequest) -> WebhookView:
    """Change the fields in the body. While a webhook is paused, its deliveries wait."""
    services = request.services
    return _view(await services.webhooks.change(request.tenant, webhook_id, data), services)


@delete("/webhooks/{webhookId:str}", status_code=204, summary="Delete a webhook")
async def delete_webhook(webhook_id: WebhookId, request: ApiRequest) -> None:
    """Delete a webhook with its deliveries."""
    await request.services.webhooks.remove(request.tenant, webhook_id)


@post("/webhooks/{webhookId:str}/rotate-secret", status_code=200, summary="Rotate a webhook's secret")
async def rotate_secret(webhook_id: WebhookId, request: ApiRequest) -> WebhookWithSecret:
    """Until `oldSecretUntil`, a day from now, deliveries are signed with both."""
    services = request.services
    return _with_secret(await services.webhooks.rotate(request.tenant, webhook_id), services)


@post("/webhooks/{webhookId:str}/test", status_code=200, summary="Test a webhook")
async def try_webhook(webhook_id: WebhookId, request: ApiRequest) -> TrialView:
    """Sends one `ping` at once without retries, also while the webhook is paused."""
    outcome = await request.services.dispatcher.ping(_webhook(request, webhook_id))
    return TrialView(delivered=outcome.trouble is None, status=outcome.status, error=outcome.trouble)


@get("/webhooks/{webhookId:str}/deliveries", summary="List deliveries")
async def list_deliveries(
    webhook_id: WebhookId,
    request: ApiRequest,
    status: FromQuery[DeliveryStatus | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DeliveryList:
    """Return a page of deliveries, the newest first."""
    webhook, delivery = _webhook(request, webhook_id), request.services.store.delivery
    page = await delivery.page(webhook.tenant, webhook.webhook_id, status=status, limit=limit, cursor=cursor)
    return DeliveryList(data=[_delivery_view(row) for row in page.rows], next_cursor=page.next)


@get("/webhooks/{webhookId:str}/deliveries/{deliveryId:str}", summary="Read a delivery")
async def get_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, request: ApiRequest) -> DeliveryDetail:
    """Return a delivery with its body."""
    return _detail(await _delivery(request, _webhook(request, webhook_id), delivery_id))


@post("/webhooks/{webhookId:str}/deliveries/{deliveryId:str}/replay", status_code=202, summary="Retry a delivery")
async def replay_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, request: ApiRequest) -> DeliveryDetail:
    """Retries a delivery in any status, from its first attempt and with the same id."""
    webhook = _webhook(request, webhook_id)
    known = await _delivery(request, webhook, delivery_id)
    await request.services.webhooks.replay(webhook, delivery_id=known.delivery_id)
    return _detail(await _delivery(request, webhook, delivery_id))


@post("/webhooks/{webhookId:str}/replay", status_code=202, summary="Retry all failed deliveries")
async def replay_dead(webhook_id: WebhookId, request: ApiRequest) -> ReplayCount:
    """Return the number of deliveries that are retried."""
    webhooks = request.services.webhooks
    return ReplayCount(replayed=await webhooks.replay(_webhook(request, webhook_id), status="dead"))


def _webhook(request: ApiRequest, webhook_id: str) -> WebhookRow:
    return request.services.webhooks.find(request.tenant, webhook_id)


async def _delivery(request: ApiRequest, webhook: WebhookRow, delivery_id: str) -> DeliveryRow:
    delivery = request.services.store.delivery
    row = await delivery.get(webhook.tenant, webhook.webhook_id, delivery_id) if is_uuid(delivery_id) else None
    context = {"webhookId": webhook.webhook_id, "deliveryId": delivery_id}
    return require_found(row, "DELIVERY_NOT_FOUND", "Delivery not found", context)


def _view(webhook: WebhookRow, services: Services) -> WebhookView:
    return WebhookView.of(webhook, resting_until=services.dispatcher.paused_until(webhook.webhook_id))


def _with_secret(webhook: WebhookRow, services: Services) -> WebhookWithSecret:
    return WebhookWithSecret.of(_view(webhook, services), secret=services.webhooks.keyring.secret(webhook.secret_id))


def _delivery_view(row: DeliverySummary) -> DeliveryView:
    next_attempt_at = row.next_attempt_at if row.status == "pending" else None
    return DeliveryView.of(row, type=row.kind, next_attempt_at=next_attempt_at)


def _detail(row: DeliveryRow) -> DeliveryDetail:
    return DeliveryDetail.of(_delivery_view(row), payload=row.payload)  # encoded already
