"""Delivers events to webhooks while the server runs: in order within a session, with retries and pauses.

Reading what is due, and recording outcomes, each costs more than a turn: while turns go on, both happen at most every
PAUSE_S, for all deliveries since. A server that stops between sending and recording sends again: every delivery arrives
at least once, and its id identifies duplicates.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import msgspec
import structlog

from api.background import cancel_all, repeat, retain, start_background, wait_at_most
from api.metrics import Metrics
from api.schemas.webhooks import PING, Ping, PingData
from api.webhooks.backoff import Backoff, delay_s
from api.webhooks.registry import Health, WebhookRegistry
from api.webhooks.sender import DeliveryOutcome, Sender
from api.webhooks.signing import sign
from store.interface.errors import StoreError
from store.interface.webhook_rows import SERIES_MAX, AttemptRow, DeliveryBounds, DeliveryRow, WebhookRow

NOTED_MAX = 256  # outcomes in one write
PAUSE_S = 0.2  # after a read of the database, and after a write of outcomes; the first ones are not delayed
SERIES_S = 1.0  # for deliveries of a session that were read together; the others are read again
IDLE_S = 60.0  # interval of reading the database without a signal
TROUBLE_S = 1.0  # delay of a retry after the database could not be read or written
GOODBYE_S = 3.0  # for running deliveries when the server stops
SETTLED_MAX = 10_000  # finished deliveries (delivered or failed) retained per webhook
GONE = 410

log = structlog.get_logger()


class _SendResult(NamedTuple):
    """The result of sending a delivery to a webhook."""

    webhook: WebhookRow
    delivery: DeliveryRow
    attempt: AttemptRow
    is_last: bool
    """Whether the next delivery of the session is not sent before the database is read again."""


class Dispatcher:
    """Delivers concurrently: at most `webhook_concurrency`, half of them to one webhook, one at a time per session."""

    def __init__(self, webhooks: WebhookRegistry, sender: Sender, metrics: Metrics) -> None:
        self._webhooks = webhooks
        self._sender = sender
        self._metrics = metrics
        self._store, self._settings, self._clock = webhooks.store, webhooks.settings, webhooks.clock
        self._chance = Random()  # noqa: S311  (spreads retries, not a secret)
        self._places = self._settings.webhook_concurrency
        self._places_each = max(1, self._places // 2)
        self._running: set[tuple[str, str]] = set()  # webhook and session, until the outcomes are recorded
        self._has_backlog = False  # whether the last read may have left due deliveries
        self._is_stopping = False
        self._sending: set[asyncio.Task[None]] = set()
        self._outcomes: asyncio.Queue[_SendResult] = asyncio.Queue()
        self._paces: dict[str, Backoff] = {}

    def paused_until(self, webhook_id: str) -> datetime | None:
        """Return the time of the next attempt for a webhook that is paused after failures; None if it is not."""
        pace = self._paces.get(webhook_id)
        until = pace.paused_until if pace is not None else None
        return until if until is not None and until > self._clock() else None

    async def ping(self, webhook: WebhookRow) -> DeliveryOutcome:
        """Send a test delivery at once, without recording it."""
        now, trial = self._clock(), self._webhooks.ids()
        ping = Ping(id=trial, type=PING, timestamp=now, data=PingData(webhook_id=webhook.webhook_id))
        return await self._post(webhook, trial, msgspec.json.encode(ping))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deliver while the context lasts; running deliveries then get GOODBYE_S, others wait for the next start."""
        sending, recording, cleaning = (
            start_background(work, "webhook deliveries have stopped until the server is restarted")
            for work in (
                self._send_all(),
                self._record_all(),
                repeat(self._delete_finished, IDLE_S, "old deliveries could not be deleted"),
            )
        )
        try:
            yield
        finally:
            self._is_stopping = True
            await cancel_all(sending, cleaning)
            if self._sending:
                await asyncio.wait(self._sending, timeout=GOODBYE_S)
            await cancel_all(*self._sending, recording)
            with contextlib.suppress(StoreError):  # unrecorded deliveries are sent again
                await self._record_once([self._outcomes.get_nowait() for _ in range(self._outcomes.qsize())])
            await self._sender.close()

    # -- send -------------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while True:
            self._webhooks.news.clear()
            try:
                wait_s = await self._send_due()
            except StoreError as error:
                log.warning("deliveries could not be read", problem=type(error).__name__)
                wait_s = TROUBLE_S
            pause_s = self._pause_s()
            await asyncio.sleep(pause_s)
            await wait_at_most(max(wait_s - pause_s, 0), self._webhooks.news)

    async def _send_due(self) -> float:
        """Start the due deliveries that have a free slot; return the seconds until more may be due."""
        now, active = self._clock(), self._webhooks.active()
        self._paces = {webhook_id: pace for webhook_id, pace in self._paces.items() if webhook_id in active}
        busy = Counter(webhook_id for webhook_id, _ in self._running)
        free = {webhook_id: self._free_slots(webhook_id, now) - busy[webhook_id] for webhook_id in active}
        with_places = [webhook_id for webhook_id, places in free.items() if places > 0]
        if not with_places or len(self._running) >= self._places:
            return self._until_due(now)
        # An outcome that is recorded during the read may still be pending in its result, and what is sent is still due.
        # Neither is so where servers take deliveries: what is returned is taken, and must be sent.
        before, still_due = (set(self._running), busy) if self._store.shared is None else (set(), Counter())
        places = {webhook_id: free[webhook_id] + still_due[webhook_id] for webhook_id in with_places}
        limit = self._places - len(self._running) + still_due.total()
        ahead = await self._store.delivery.ahead(places, limit, now)
        active = self._webhooks.active()
        self._has_backlog = False
        for place, deliveries in _by_session(ahead.due).items():
            webhook_id, _ = place
            if len(self._running) >= self._places:
                break
            if webhook_id not in active or place in before or free[webhook_id] <= 0:
                continue
            free[webhook_id] -= 1
            self._running.add(place)
            retain(self._sending, asyncio.create_task(self._send_series(active[webhook_id], deliveries)))
            self._has_backlog |= free[webhook_id] == 0 or len(deliveries) == SERIES_MAX
        self._has_backlog |= len(self._running) >= self._places
        later_s = (ahead.next_at - now).total_seconds() if ahead.next_at is not None else IDLE_S
        return min(later_s, self._until_due(now))

    def _pause_s(self) -> float:
        """Return for how long more is collected before the next read or write; not at all while deliveries wait.

        Where several servers send, a read takes one delivery of each session, so that others may wait after any read.
        """
        return 0.0 if self._has_backlog or self._store.shared is not None else PAUSE_S

    def _free_slots(self, webhook_id: str, now: datetime) -> int:
        pace = self._paces.get(webhook_id)
        return self._places_each if pace is None else pace.places(now, self._places_each)

    def _until_due(self, now: datetime) -> float:
        pauses = [pace.paused_until for pace in self._paces.values()]
        return min([(until - now).total_seconds() for until in pauses if until is not None and until > now] + [IDLE_S])

    async def _send_series(self, webhook: WebhookRow, deliveries: list[DeliveryRow]) -> None:
        """Send deliveries of a session to a webhook in order, until one fails or they may have changed meanwhile."""
        until = asyncio.get_running_loop().time() + SERIES_S
        for delivery in deliveries:
            attempt = await self._send(webhook, delivery)
            self._metrics.webhook_attempts.labels(attempt.status).inc()
            current = self._webhooks.active_one(webhook.tenant, webhook.webhook_id)
            is_over = self._is_stopping or asyncio.get_running_loop().time() > until
            is_last = is_over or current is None or attempt.status != "delivered" or delivery is deliveries[-1]
            self._outcomes.put_nowait(_SendResult(webhook, delivery, attempt, is_last))
            if is_last or current is None:
                return
            webhook = current

    async def _send(self, webhook: WebhookRow, delivery: DeliveryRow) -> AttemptRow:
        try:
            outcome = await self._post(webhook, delivery.delivery_id, bytes(delivery.payload))
        except Exception:  # the outermost handler of a background task
            log.exception("a delivery could not be sent", delivery=delivery.delivery_id)
            outcome = DeliveryOutcome(None, "internal")
        pace = self._paces.setdefault(webhook.webhook_id, Backoff(self._settings.webhook_retry_s))
        pace.note(outcome, self._clock())
        return self._attempt(delivery, outcome)

    async def _post(self, webhook: WebhookRow, delivery_id: str, body: bytes) -> DeliveryOutcome:
        now = self._clock()
        headers = sign(self._webhooks.keyring.secrets_of(webhook, now), delivery_id, now, body)
        return await self._sender.send(webhook.url, headers, body)

    def _attempt(self, delivery: DeliveryRow, outcome: DeliveryOutcome) -> AttemptRow:
        now, attempts = self._clock(), delivery.attempts + 1
        is_last = attempts >= self._settings.webhook_attempts
        wait_s = delay_s(self._settings.webhook_retry_s, attempts, outcome.retry_after_s, self._chance)
        is_settled = outcome.trouble is None or is_last
        return AttemptRow(
            tenant=delivery.tenant,
            delivery_id=delivery.delivery_id,
            status="delivered" if outcome.trouble is None else "dead" if is_last else "pending",
            attempts=attempts,
            next_attempt_at=now if is_settled else now + timedelta(seconds=wait_s),
            attempted_at=now,
            last_status=outcome.status,
            last_error=outcome.trouble,
            settled_at=now if is_settled else None,
        )

    # -- record outcomes --------------------------------------------------------------------------------------------

    async def _record_all(self) -> None:
        while True:
            sent = [await self._outcomes.get()]
            while len(sent) < NOTED_MAX and not self._outcomes.empty():
                sent.append(self._outcomes.get_nowait())
            await self._record(sent)
            ended = [each.delivery for each in sent if each.is_last]
            self._running.difference_update((delivery.webhook_id, delivery.session_id) for delivery in ended)
            self._webhooks.news.set()
            await asyncio.sleep(self._pause_s())

    async def _record(self, sent: list[_SendResult]) -> None:
        """Record outcomes; retry until the database accepts them."""
        while True:
            try:
                return await self._record_once(sent)
            except StoreError as error:
                log.warning("results of deliveries could not be recorded", problem=type(error).__name__)
            await asyncio.sleep(TROUBLE_S)

    async def _record_once(self, sent: list[_SendResult]) -> None:
        if not sent:
            return
        await self._store.delivery.note_attempts([each.attempt for each in sent])
        by_webhook: dict[tuple[str, str], list[AttemptRow]] = {}
        for each in sent:
            by_webhook.setdefault((each.webhook.tenant, each.webhook.webhook_id), []).append(each.attempt)
        for (tenant, webhook_id), attempts in by_webhook.items():
            if failed := sum(each.status == "dead" for each in attempts):
                log.warning("deliveries failed permanently", tenant=tenant, webhook_id=webhook_id, count=failed)
            await self._webhooks.note_health(tenant, webhook_id, _health(attempts))

    async def _delete_finished(self) -> None:
        if not self._webhooks.any():
            return
        now = self._clock()
        retention_s = timedelta(seconds=self._settings.webhook_keep_s)
        bounds = DeliveryBounds(self._settings.webhook_pending_max, SETTLED_MAX, now - retention_s)
        await self._store.delivery.tidy(bounds, now)


def _by_session(deliveries: list[DeliveryRow]) -> dict[tuple[str, str], list[DeliveryRow]]:
    """Return deliveries by webhook and session, in their order."""
    series: dict[tuple[str, str], list[DeliveryRow]] = {}
    for delivery in deliveries:
        series.setdefault((delivery.webhook_id, delivery.session_id), []).append(delivery)
    return series


def _health(attempts: list[AttemptRow]) -> Health:
    """Return the health of a webhook by its last attempts."""
    if any(attempt.last_status == GONE for attempt in attempts):
        return "gone"
    return "well" if any(attempt.status == "delivered" for attempt in attempts) else "failing"
