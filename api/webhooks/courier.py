"""Sends what webhooks are to be told, as long as the server runs: in order within a session, until it is heard.

What came of it is written down for many deliveries at once. A server that dies between sending and writing sends again:
every delivery arrives at least once, and its id tells the ones that come twice.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import msgspec
import structlog

from api.schemas.webhooks import Ping, PingData
from api.settings import Settings
from api.webhooks.book import Health, Webhooks
from api.webhooks.kinds import PING
from api.webhooks.pacing import Pace, delay_s
from api.webhooks.sending import Outcome, Sender
from api.webhooks.signing import sign
from runtime.ports import Clock, Ids
from store.errors import StoreError
from store.record import Record
from store.webhook_rows import AttemptRow, DeliveryBounds, DeliveryRow, WebhookRow

NOTED_MAX = 256  # outcomes that are written down at once
IDLE_S = 60.0  # after which the record is looked at even where nothing called for it
TROUBLE_S = 1.0  # after which it is tried again where the record could not be read or written
GOODBYE_S = 3.0  # for deliveries that are under way when the server stops
SETTLED_MAX = 10_000  # deliveries of a webhook that are kept when they are delivered or given up
GONE = 410

log = structlog.get_logger()


class _Sent(NamedTuple):
    """What came of sending a delivery to a webhook."""

    webhook: WebhookRow
    delivery: DeliveryRow
    attempt: AttemptRow


class Courier:
    """What is under way: at most `webhook_concurrency` deliveries, half of them to one webhook, one of a session."""

    def __init__(
        self, record: Record, webhooks: Webhooks, sender: Sender, settings: Settings, clock: Clock, ids: Ids
    ) -> None:
        self._record = record
        self._webhooks = webhooks
        self._sender = sender
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._chance = Random()  # noqa: S311  (spreads retries, keeps no secret)
        self._places = settings.webhook_concurrency
        self._places_each = max(1, self._places // 2)
        self._under_way: set[tuple[str, str]] = set()  # webhook and session, until it is written down
        self._sending: set[asyncio.Task[None]] = set()
        self._sent: asyncio.Queue[_Sent] = asyncio.Queue()
        self._paces: dict[str, Pace] = {}

    def resting_until(self, webhook_id: str) -> datetime | None:
        """Until when a receiver that is down is left alone."""
        pace = self._paces.get(webhook_id)
        until = pace.resting_until if pace is not None else None
        return until if until is not None and until > self._clock() else None

    async def ping(self, webhook: WebhookRow) -> Outcome:
        """Sends a trial at once, which is not kept."""
        now, trial = self._clock(), self._ids()
        ping = Ping(id=trial, type=PING, timestamp=now, data=PingData(webhook_id=webhook.webhook_id))
        return await self._posted(webhook, trial, msgspec.json.encode(ping))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sends meanwhile; what is under way at the end has a moment left, the rest waits for the next start."""
        sending, noting, tidying = map(_for_long, (self._send_all(), self._note_all(), self._tidy_often()))
        try:
            yield
        finally:
            await _cancelled(sending, tidying)
            if self._sending:
                await asyncio.wait(self._sending, timeout=GOODBYE_S)
            await _cancelled(*self._sending, noting)
            with contextlib.suppress(StoreError):  # then they are sent again
                await self._write([self._sent.get_nowait() for _ in range(self._sent.qsize())])
            await self._sender.close()

    # -- send -------------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while True:
            self._webhooks.news.clear()
            try:
                more_in_s = await self._send_due()
            except StoreError as error:
                log.warning("deliveries could not be read", problem=type(error).__name__)
                more_in_s = TROUBLE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(more_in_s):
                    await self._webhooks.news.wait()

    async def _send_due(self) -> float:
        """Begins to send what is due and has a place; the seconds after which there may be more without any news."""
        now, active = self._clock(), self._webhooks.active()
        self._paces = {webhook_id: pace for webhook_id, pace in self._paces.items() if webhook_id in active}
        busy = Counter(webhook_id for webhook_id, _ in self._under_way)
        free = {webhook_id: self._room(webhook_id, now) - busy[webhook_id] for webhook_id in active}
        wanted = [webhook_id for webhook_id, places in free.items() if places > 0]
        if not wanted or len(self._under_way) >= self._places:
            return self._until_rested(now)
        before = set(self._under_way)  # what is written down while the record is read may still be pending in it
        ahead = await self._record.deliveries_ahead(wanted, self._places_each, self._places + len(before), now)
        active = self._webhooks.active()
        for delivery in ahead.due:
            webhook = active.get(delivery.webhook_id)
            place = (delivery.webhook_id, delivery.session_id)
            if len(self._under_way) >= self._places:
                break
            if webhook is None or place in before or free[delivery.webhook_id] <= 0:
                continue
            free[delivery.webhook_id] -= 1
            self._under_way.add(place)
            self._task(self._send(webhook, delivery))
        later_s = (ahead.next_at - now).total_seconds() if ahead.next_at is not None else IDLE_S
        return min(later_s, self._until_rested(now))

    def _room(self, webhook_id: str, now: datetime) -> int:
        pace = self._paces.get(webhook_id)
        return self._places_each if pace is None else pace.places(now, self._places_each)

    def _until_rested(self, now: datetime) -> float:
        rests = [pace.resting_until for pace in self._paces.values()]
        return min([(until - now).total_seconds() for until in rests if until is not None and until > now] + [IDLE_S])

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, webhook: WebhookRow, delivery: DeliveryRow) -> None:
        try:
            outcome = await self._posted(webhook, delivery.delivery_id, bytes(delivery.payload))
        except Exception:  # the outermost place: nobody waits for this task
            log.exception("a delivery could not be sent", delivery=delivery.delivery_id)
            outcome = Outcome(None, "internal")
        pace = self._paces.setdefault(webhook.webhook_id, Pace(self._settings.webhook_retry_s))
        pace.note(outcome, self._clock())
        self._sent.put_nowait(_Sent(webhook, delivery, self._attempt(delivery, outcome)))

    async def _posted(self, webhook: WebhookRow, delivery_id: str, body: bytes) -> Outcome:
        now = self._clock()
        headers = sign(self._webhooks.keyring.secrets_of(webhook, now), delivery_id, now, body)
        return await self._sender.send(webhook.url, headers, body)

    def _attempt(self, delivery: DeliveryRow, outcome: Outcome) -> AttemptRow:
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

    # -- write down -------------------------------------------------------------------------------------------------

    async def _note_all(self) -> None:
        while True:
            sent = [await self._sent.get()]
            while len(sent) < NOTED_MAX and not self._sent.empty():
                sent.append(self._sent.get_nowait())
            await self._written(sent)
            self._under_way.difference_update((each.delivery.webhook_id, each.delivery.session_id) for each in sent)
            self._webhooks.news.set()

    async def _written(self, sent: list[_Sent]) -> None:
        """Writes it down, however often that has to be tried."""
        while True:
            try:
                return await self._write(sent)
            except StoreError as error:
                log.warning("what came of deliveries could not be written", problem=type(error).__name__)
            await asyncio.sleep(TROUBLE_S)

    async def _write(self, sent: list[_Sent]) -> None:
        if not sent:
            return
        await self._record.note_attempts([each.attempt for each in sent])
        by_webhook: dict[tuple[str, str], list[AttemptRow]] = {}
        for each in sent:
            by_webhook.setdefault((each.webhook.tenant, each.webhook.webhook_id), []).append(each.attempt)
        for (tenant, webhook_id), attempts in by_webhook.items():
            await self._webhooks.note_health(tenant, webhook_id, _health(attempts))

    async def _tidy_often(self) -> None:
        while True:
            if self._webhooks.any():
                try:
                    await self._tidy()
                except StoreError as error:
                    log.warning("deliveries could not be tidied", problem=type(error).__name__)
            await asyncio.sleep(IDLE_S)

    async def _tidy(self) -> None:
        now = self._clock()
        kept = timedelta(seconds=self._settings.webhook_keep_s)
        bounds = DeliveryBounds(self._settings.webhook_pending_max, SETTLED_MAX, now - kept)
        await self._record.tidy_deliveries(bounds, now)


def _health(attempts: list[AttemptRow]) -> Health:
    """Of a webhook, by its last attempts."""
    if any(attempt.last_status == GONE for attempt in attempts):
        return "gone"
    return "well" if any(attempt.status == "delivered" for attempt in attempts) else "failing"


def _for_long(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """A task that ends with the server; should it end before by a defect, the log has it."""
    task = asyncio.create_task(work)
    task.add_done_callback(_log_end)
    return task


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("webhooks are told of nothing any more until the server is started again", exc_info=error)


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
