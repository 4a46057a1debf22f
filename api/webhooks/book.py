"""The webhooks of all tenants, in memory over the record: what they are told of a turn, and every change of them."""

import asyncio
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from api.errors import ApiError
from api.hot import Hot
from api.schemas.webhooks import ChangedWebhook, NewWebhook
from api.settings import Settings
from api.webhooks.addresses import Rules
from api.webhooks.keyring import Keyring
from api.webhooks.kinds import matcher, problem_of
from api.webhooks.notices import notices
from runtime.engine import Turn
from runtime.ports import Clock, Ids
from store.record import Record
from store.rows import TurnRow
from store.webhook_rows import DeliveryRow, DeliveryStatus, WebhookRow

OVERLAP_S = 86_400.0
"""How long the secret before a rotation signs too."""
PAUSE_AFTER_S = 86_400.0
"""How long a webhook may do nothing but fail."""

Health: TypeAlias = Literal["well", "failing", "gone"]


class Webhooks:
    """At most `webhooks_max` for each tenant. `news` is set when there may be more to send."""

    def __init__(self, record: Record, settings: Settings, rules: Rules, clock: Clock, ids: Ids) -> None:
        self.keyring = Keyring(settings.data)
        self.news = asyncio.Event()
        self._record = record
        self._rules = rules
        self._max = settings.webhooks_max
        self._clock = clock
        self._ids = ids
        self._changing = asyncio.Lock()
        self._is_loaded = False
        self._by_tenant: dict[str, dict[str, tuple[WebhookRow, re.Pattern[str]]]] = {}

    async def load(self) -> None:
        """Reads them from the record."""
        found = await self._record.webhooks_of_all()
        for webhook in found:
            self._keep(webhook)
        self._is_loaded = True
        if found:
            self.keyring.warn_if_lost()

    # -- turns ------------------------------------------------------------------------------------------------------

    async def told_of(self, before: Hot, turn: Turn, row: TurnRow) -> tuple[DeliveryRow, ...]:
        """The deliveries of a turn that is about to be committed, with the session as it was before."""
        if not self._is_loaded:  # a command took the turn, while no server runs
            await self.load()
        told = self._by_tenant.get(row.tenant)
        return tuple(self._deliveries(told.values(), before, turn, row)) if told else ()

    def _deliveries(
        self, told: Iterable[tuple[WebhookRow, re.Pattern[str]]], before: Hot, turn: Turn, row: TurnRow
    ) -> Iterable[DeliveryRow]:
        for number, notice in enumerate(notices(before, turn, row), start=1):
            wanting = [webhook.webhook_id for webhook, pattern in told if pattern.fullmatch(notice.type)]
            if not wanting:
                continue
            payload = msgspec.Raw(msgspec.json.encode(notice))
            for webhook_id in wanting:
                yield DeliveryRow(
                    tenant=row.tenant,
                    delivery_id=self._ids(),
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

    # -- look -------------------------------------------------------------------------------------------------------

    def of(self, tenant: str) -> list[WebhookRow]:
        """A tenant's webhooks, in the order they were made."""
        return [webhook for webhook, _ in self._by_tenant.get(tenant, {}).values()]

    def find(self, tenant: str, webhook_id: str) -> WebhookRow:
        """One of them. Raises ApiError WEBHOOK_NOT_FOUND."""
        found = self._by_tenant.get(tenant, {}).get(webhook_id)
        if found is None:
            raise ApiError("WEBHOOK_NOT_FOUND", "Webhook not found", context={"webhookId": webhook_id})
        return found[0]

    def active(self) -> dict[str, WebhookRow]:
        """Those of all tenants that are sent something, by id."""
        return {
            webhook.webhook_id: webhook
            for webhooks in self._by_tenant.values()
            for webhook, _ in webhooks.values()
            if webhook.status == "active"
        }

    def any(self) -> bool:
        """Whether there are any at all."""
        return any(self._by_tenant.values())

    # -- change -----------------------------------------------------------------------------------------------------

    async def create(self, tenant: str, new: NewWebhook) -> WebhookRow:
        """A new webhook, told of turns from now on. Raises ApiError."""
        self._check(new.url, new.events)
        now = self._clock()
        async with self._changing:
            if len(self._by_tenant.get(tenant, {})) >= self._max:
                raise ApiError("WEBHOOKS_FULL", f"there are {self._max} webhooks already")
            return await self._save(
                WebhookRow(
                    tenant=tenant,
                    webhook_id=self._ids(),
                    url=new.url,
                    events=new.events,
                    description=new.description,
                    status="active",
                    secret_id=self._ids(),
                    created_at=now,
                    updated_at=now,
                )
            )

    async def change(self, tenant: str, webhook_id: str, changed: ChangedWebhook) -> WebhookRow:
        """Another url, other events; paused, or active again. Raises ApiError."""
        given = {name: value for name, value in msgspec.structs.asdict(changed).items() if value is not UNSET}
        async with self._changing:
            known = self.find(tenant, webhook_id)
            if given.get("status", known.status) != known.status:
                given |= {"paused_because": "asked" if given["status"] == "paused" else None, "failing_since": None}
            webhook = msgspec.structs.replace(known, updated_at=self._clock(), **given)
            self._check(webhook.url, webhook.events)
            return await self._save(webhook)

    async def rotate(self, tenant: str, webhook_id: str) -> WebhookRow:
        """A new secret; the one before signs too for a day. Raises ApiError."""
        async with self._changing:
            known, now = self.find(tenant, webhook_id), self._clock()
            return await self._save(
                msgspec.structs.replace(
                    known,
                    secret_id=self._ids(),
                    old_secret_id=known.secret_id,
                    old_secret_until=now + timedelta(seconds=OVERLAP_S),
                    updated_at=now,
                )
            )

    async def remove(self, tenant: str, webhook_id: str) -> None:
        """Deletes a webhook and all that waits for it. Raises ApiError."""
        async with self._changing:
            self.find(tenant, webhook_id)
            await self._record.remove_webhook(tenant, webhook_id)
            del self._by_tenant[tenant][webhook_id]

    async def note_health(self, tenant: str, webhook_id: str, health: Health) -> None:
        """How a webhook does. One that is gone, or has failed for a whole day, is paused; nothing is noted of one that
        was removed or paused meanwhile.
        """
        if health == "well" and self._failing_since(tenant, webhook_id) is None:  # as is usual
            return
        async with self._changing:
            known, _ = self._by_tenant.get(tenant, {}).get(webhook_id, (None, None))
            if known is None or known.status == "paused":
                return
            noted = _after(known, health, self._clock())
            if noted != known:
                await self._save(noted)

    def _failing_since(self, tenant: str, webhook_id: str) -> datetime | None:
        known, _ = self._by_tenant.get(tenant, {}).get(webhook_id, (None, None))
        return known.failing_since if known is not None else None

    async def replay(
        self, webhook: WebhookRow, *, delivery_id: str | None = None, status: DeliveryStatus | None = None
    ) -> int:
        """Sends deliveries from the beginning, one or all with a status; how many there are."""
        count = await self._record.replay_deliveries(
            webhook.tenant, webhook.webhook_id, self._clock(), delivery_id=delivery_id, status=status
        )
        self.news.set()
        return count

    def _check(self, url: str, events: list[str]) -> None:
        problems = [self._rules.problem_of(url), *map(problem_of, events)]
        found = [problem for problem in problems if problem]
        if found:
            raise ApiError("REQUEST_INVALID", found[0], details=found)

    async def _save(self, webhook: WebhookRow) -> WebhookRow:
        await self._record.save_webhook(webhook)
        self._keep(webhook)
        self.news.set()
        return webhook

    def _keep(self, webhook: WebhookRow) -> None:
        self._by_tenant.setdefault(webhook.tenant, {})[webhook.webhook_id] = (webhook, matcher(webhook.events))


def _after(webhook: WebhookRow, health: Health, now: datetime) -> WebhookRow:
    if health == "well":
        return msgspec.structs.replace(webhook, failing_since=None)
    since = webhook.failing_since or now
    failing = msgspec.structs.replace(webhook, failing_since=since)
    if health == "failing" and now - since <= timedelta(seconds=PAUSE_AFTER_S):
        return failing
    return msgspec.structs.replace(failing, status="paused", paused_because=health, updated_at=now)
