"""The webhooks of all tenants, cached over the database: the deliveries of a turn, and changes of webhooks."""

import asyncio
import re
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec
import structlog

from api.errors import ApiError, require_found
from api.schemas.errors import ErrorDetail
from api.schemas.webhooks import NewWebhook, WebhookPatch, matcher, problem_of
from api.sessions.session_cache import CachedSession
from api.settings import Settings
from api.webhooks.notices import notices
from api.webhooks.signing import Keyring
from api.webhooks.ssrf import AddressPolicy
from runtime.engine.engine import Turn
from runtime.state.ports import Clock, Ids
from store.interface.rows import TurnRow
from store.interface.webhook_rows import DeliveryRow, DeliveryStatus, WebhookRow
from store.store import Store

OVERLAP_S = 86_400.0
"""How long the secret before a rotation still signs."""
PAUSE_AFTER_S = 86_400.0
"""How long a webhook may fail before it is paused."""

log = structlog.get_logger()

Health: TypeAlias = Literal["well", "failing", "gone"]


class WebhookRegistry:
    """At most `webhooks_max` webhooks per tenant. `news` is set when there may be more to send."""

    def __init__(self, store: Store, settings: Settings, rules: AddressPolicy, clock: Clock, ids: Ids) -> None:
        self.keyring = Keyring(settings.keys_in)
        self.news = asyncio.Event()
        self.store, self.settings, self.clock, self.ids = store, settings, clock, ids
        self._rules = rules
        self._changing = asyncio.Lock()
        self.tenants: Set[str] | None = None
        self.by_tenant: dict[str, dict[str, tuple[WebhookRow, re.Pattern[str]]]] = {}

    async def load(self) -> None:
        """Load the webhooks from the database."""
        await self.reload()
        if self.by_tenant:
            self.keyring.warn_if_lost()

    async def reload(self) -> None:
        """Read the webhooks again, after another server changed them."""
        async with self._changing:
            rows = await self.store.delivery.webhooks_of_all()
            self.by_tenant.clear()  # after the read: a turn that is committed during it has its deliveries
            for webhook in rows:
                self._cache_webhook(webhook)
            self.tenants = self.by_tenant.keys()
        self.news.set()

    # -- turns ------------------------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Tell the dispatcher that there may be more to send."""
        self.news.set()

    async def deliveries_for(self, before: CachedSession, turn: Turn, row: TurnRow) -> tuple[DeliveryRow, ...]:
        """Return the deliveries of a turn that is about to be committed; `before` is the session before it."""
        if self.tenants is None:  # a command runs the turn without a server
            await self.load()
        of_tenant = self.by_tenant.get(row.tenant)
        return tuple(self._deliveries(of_tenant.values(), before, turn, row)) if of_tenant else ()

    def _deliveries(
        self, of_tenant: Iterable[tuple[WebhookRow, re.Pattern[str]]], before: CachedSession, turn: Turn, row: TurnRow
    ) -> Iterable[DeliveryRow]:
        for number, notice in enumerate(notices(before, turn, row), start=1):
            wanting = [webhook.webhook_id for webhook, pattern in of_tenant if pattern.fullmatch(notice.type)]
            if not wanting:
                continue
            payload = msgspec.Raw(msgspec.json.encode(notice))
            for webhook_id in wanting:
                yield DeliveryRow(
                    tenant=row.tenant,
                    delivery_id=self.ids(),
                    webhook_id=webhook_id,
                    session_id=row.session_id,
                    user_id=row.user_id,
                    turn=row.turn,
                    number=number,
                    kind=notice.type,
                    created_at=row.finished_at,
                    next_attempt_at=row.finished_at,
                    payload=payload,
                )

    # -- read -------------------------------------------------------------------------------------------------------

    def of(self, tenant: str) -> list[WebhookRow]:
        """Return a tenant's webhooks, the oldest first."""
        return [webhook for webhook, _ in self.by_tenant.get(tenant, {}).values()]

    def find(self, tenant: str, webhook_id: str) -> WebhookRow:
        """Return a webhook. Raises ApiError WEBHOOK_NOT_FOUND."""
        return _require(self._find(tenant, webhook_id), webhook_id)

    def active_one(self, tenant: str, webhook_id: str) -> WebhookRow | None:
        """Return a webhook if it is active."""
        webhook = self._find(tenant, webhook_id)
        return webhook if webhook is not None and webhook.status == "active" else None

    def active(self) -> dict[str, WebhookRow]:
        """Return the active webhooks of all tenants by id."""
        return {
            webhook.webhook_id: webhook
            for webhooks in self.by_tenant.values()
            for webhook, _ in webhooks.values()
            if webhook.status == "active"
        }

    def any(self) -> bool:
        """Return whether there are any webhooks."""
        return any(self.by_tenant.values())

    # -- change -----------------------------------------------------------------------------------------------------

    async def create(self, tenant: str, new: NewWebhook) -> WebhookRow:
        """Register a webhook, which receives events from now on. Raises ApiError."""
        self._check(new.url, new.events)
        now = self.clock()
        async with self._changing:
            if len(self.by_tenant.get(tenant, {})) >= self.settings.webhooks_max:
                raise ApiError("WEBHOOKS_FULL", f"there are {self.settings.webhooks_max} webhooks already")
            webhook = WebhookRow(
                **msgspec.structs.asdict(new),
                tenant=tenant,
                webhook_id=self.ids(),
                status="active",
                secret_id=self.ids(),
                created_at=now,
                updated_at=now,
            )
            await self.store.delivery.add_webhook(webhook)
            return self._cache_webhook(webhook)

    async def change(self, tenant: str, webhook_id: str, changed: WebhookPatch) -> WebhookRow:
        """Change the URL, events or status of a webhook. Raises ApiError."""
        fields = {name: value for name, value in msgspec.structs.asdict(changed).items() if value is not None}
        now = self.clock()

        def apply(webhook: WebhookRow) -> WebhookRow:
            reason: dict[str, Any] = {}
            if fields.get("status", webhook.status) != webhook.status:
                reason = {"paused_because": "asked" if fields["status"] == "paused" else None, "failing_since": None}
            return msgspec.structs.replace(webhook, updated_at=now, **fields, **reason)

        async with self._changing:
            self.find(tenant, webhook_id)
            self._check(fields.get("url"), fields.get("events", []))
            return await self._change(tenant, webhook_id, apply)

    async def rotate(self, tenant: str, webhook_id: str) -> WebhookRow:
        """Give a webhook a new secret; the previous one still signs for a day. Raises ApiError."""
        now, secret_id = self.clock(), self.ids()

        def renew(webhook: WebhookRow) -> WebhookRow:
            return msgspec.structs.replace(
                webhook,
                secret_id=secret_id,
                old_secret_id=webhook.secret_id,
                old_secret_until=now + timedelta(seconds=OVERLAP_S),
                updated_at=now,
            )

        async with self._changing:
            return await self._change(tenant, webhook_id, renew)

    async def remove(self, tenant: str, webhook_id: str) -> None:
        """Delete a webhook and its deliveries. Raises ApiError."""
        async with self._changing:
            self.find(tenant, webhook_id)
            await self.store.delivery.remove_webhook(tenant, webhook_id)
            self._drop(tenant, webhook_id)

    async def note_health(self, tenant: str, webhook_id: str, health: Health) -> None:
        """Record the health of a webhook. Pause one whose URL is gone or that has failed for a whole day; skip one that
        was deleted or paused meanwhile.
        """
        known = self._find(tenant, webhook_id)
        if known is None or (health == "well" and known.failing_since is None):  # the usual case
            return
        now = self.clock()
        async with self._changing:
            known = self._find(tenant, webhook_id)
            if known is None or _after(known, health, now) == known:
                return
            with suppress(ApiError):  # another server has deleted it
                changed = await self._change(tenant, webhook_id, lambda webhook: _after(webhook, health, now))
                if changed.status != known.status:
                    log.warning("webhook paused", tenant=tenant, webhook_id=webhook_id, because=changed.paused_because)

    def _find(self, tenant: str, webhook_id: str) -> WebhookRow | None:
        webhook, _ = self.by_tenant.get(tenant, {}).get(webhook_id, (None, None))
        return webhook

    async def replay(
        self, webhook: WebhookRow, *, delivery_id: str | None = None, status: DeliveryStatus | None = None
    ) -> int:
        """Send deliveries again, one or all with a status; return their number."""
        count = await self.store.delivery.replay(
            webhook.tenant, webhook.webhook_id, self.clock(), delivery_id=delivery_id, status=status
        )
        self.news.set()
        return count

    def _check(self, url: str | None, events: list[str]) -> None:
        problems = [] if url is None else [("url", self._rules.problem_of(url))]
        problems += [("events", problem_of(event)) for event in events]
        errors = [ErrorDetail(message=problem, field=field) for field, problem in problems if problem]
        if errors:
            raise ApiError("REQUEST_INVALID", errors[0].message, details=errors)

    async def _change(self, tenant: str, webhook_id: str, change: Callable[[WebhookRow], WebhookRow]) -> WebhookRow:
        """Change the row of a webhook, whatever other servers have changed in it. Raises ApiError WEBHOOK_NOT_FOUND."""
        webhook = await self.store.delivery.change_webhook(tenant, webhook_id, change)
        if webhook is None:
            self._drop(tenant, webhook_id)
        return self._cache_webhook(_require(webhook, webhook_id))

    def _cache_webhook(self, webhook: WebhookRow) -> WebhookRow:
        self.by_tenant.setdefault(webhook.tenant, {})[webhook.webhook_id] = (webhook, matcher(webhook.events))
        self.news.set()
        return webhook

    def _drop(self, tenant: str, webhook_id: str) -> None:
        of_tenant = self.by_tenant.get(tenant, {})
        of_tenant.pop(webhook_id, None)
        if not of_tenant:
            self.by_tenant.pop(tenant, None)


def _require(found: WebhookRow | None, webhook_id: str) -> WebhookRow:
    return require_found(found, "WEBHOOK_NOT_FOUND", "Webhook not found", {"webhookId": webhook_id})


def _after(webhook: WebhookRow, health: Health, now: datetime) -> WebhookRow:
    if webhook.status == "paused":
        return webhook
    if health == "well":
        return msgspec.structs.replace(webhook, failing_since=None)
    since = webhook.failing_since or now
    failing = msgspec.structs.replace(webhook, failing_since=since)
    if health == "failing" and now - since <= timedelta(seconds=PAUSE_AFTER_S):
        return failing
    return msgspec.structs.replace(failing, status="paused", paused_because=health, updated_at=now)
