"""Calls of language models: the journal that prevents repeated ones, their usage, and the daily budgets."""

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from time import monotonic
from typing import Any, TypeAlias

import msgspec
import structlog
from cachetools import LRUCache
from msgspec import Struct

from api.logs.turn_fields import fields_of_turn
from api.metrics import Metrics
from api.settings import Budgets, Span
from runtime.state.limits import Bounds
from runtime.state.ports import CallResult, Clock, Ids, Intent, ModelReply, ModelRequest, Purpose, RecordedResult, Usage
from runtime.state.state import Spent
from runtime.state.tool_ports import TOOL_PURPOSE, ToolRequest
from runtime.turn.calls import add_call
from store.interface.debug_logging import is_debugging
from store.interface.errors import RowRefused
from store.interface.rows import CallRow, SessionRow, encode
from store.store import Store

_MS = timedelta(milliseconds=1)
NO_REPLY = b"null"
CALLS_MAX = 500  # of all attempts at a turn; the latest are held in memory


log = structlog.get_logger()


class RecordedCalls:
    """The recorded calls of every attempt at the next turn of a session."""

    def __init__(self, rows: Iterable[CallRow] = ()) -> None:
        self.rows: OrderedDict[str, CallRow] = OrderedDict()
        self.prompts: dict[str, str] = {}
        """By the ids of calls; a call that was read from the journal has none."""
        self.count = 0
        self._dropped = Spent()  # usage of calls that are no longer in memory
        for row in rows:
            self.add(row)

    def add(self, row: CallRow) -> None:
        """Add or update the row of a call."""
        self.rows[row.call_id] = row
        self.count = max(self.count, row.number)
        if len(self.rows) > CALLS_MAX:
            _, oldest = self.rows.popitem(last=False)
            self.prompts.pop(oldest.call_id, None)
            if oldest.purpose != TOOL_PURPOSE:
                self._dropped = add_call(self._dropped, usage_of(oldest))

    @property
    def journaled(self) -> int:
        """The number of rows of the journal that these calls have: one for the beginning and one for the end."""
        return sum(1 if row.ended_at is None else 2 for row in self.rows.values())

    def spent(self) -> Spent:
        """Return the usage of all calls; an interrupted call counts as a call."""
        of_models = (row for row in self.rows.values() if row.purpose != TOOL_PURPOSE)
        return functools.reduce(add_call, map(usage_of, of_models), self._dropped)


class CallLog(Struct):
    """Writes the calls of one attempt at a turn; `attempts` receives them, too."""

    store: Store
    session: SessionRow
    turn: int
    attempts: RecordedCalls
    clock: Clock
    ids: Ids

    async def begin(self, request: ModelRequest | ToolRequest, purpose: str, model: str, digest: str) -> CallRow:
        """Record durably that a call is about to be made; `model` names the model or the tool."""
        row = CallRow(
            tenant=self.session.tenant,
            session_id=self.session.session_id,
            user_id=self.session.user_id,
            script_id=self.session.script_id,
            script_version=self.session.script_version,
            turn=self.turn,
            number=self.attempts.count + 1,
            call_id=self.ids(),
            purpose=purpose,
            action_id=request.action_id,
            round=request.round,
            model=model,
            request_digest=digest,
            started_at=self.clock(),
        )
        try:
            await self.save(row)
        except asyncio.CancelledError:
            await self.end(row, None, "not made: the turn took too long")
            raise
        return row

    async def end(self, row: CallRow, reply: bytes | None, error: str, **usage: Any) -> datetime:
        """Record durably how a call ended, with the columns of its usage; return the time."""
        now = self.clock()
        ended = msgspec.structs.replace(
            row,
            ended_at=now,
            outcome="failed" if error or reply is None else "done",
            error=error or None,
            reply=msgspec.Raw(NO_REPLY if reply is None else reply),
            **{"latency_ms": round((now - row.started_at) / _MS), **usage},
        )
        await self.save(ended)
        return now

    async def note_interruption(self, row: CallRow) -> None:
        """Record durably that a call of an earlier attempt was interrupted and that the user got an error."""
        error = "interrupted; the user got an error"
        await self.save(msgspec.structs.replace(row, turn=self.turn, ended_at=self.clock(), error=error))

    async def save(self, row: CallRow) -> None:
        """Record a call durably as it is now."""
        self.attempts.add(row)
        await self.store.turns.note_call(row)


class CallJournal(Struct):
    """The journal of the model calls of one attempt at a turn."""

    calls: CallLog
    metrics: Metrics
    earlier: list[CallRow]
    """The calls of earlier attempts that have not been used in this one."""
    spent: Spent
    """The usage of all calls of earlier attempts."""

    def take_recorded(self, digest: str) -> RecordedResult | None:
        """Return the next recorded call for the same request; calls with a reply come first, failed ones never."""
        same = [
            row
            for row in self.earlier
            if row.request_digest == digest and (row.outcome == "done" or row.ended_at is None)
        ]
        for row in sorted(same, key=lambda row: row.outcome != "done"):
            self.earlier.remove(row)
            if row.outcome != "done":
                return RecordedResult(_intent(row), None)
            with contextlib.suppress(msgspec.DecodeError):  # written by another version: the call is repeated
                return RecordedResult(_intent(row), _end(row, self.calls.attempts.prompts.get(row.call_id)))
        return None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Record durably that a call is about to be made."""
        return _intent(await self.calls.begin(request, request.purpose, model, digest))

    async def end(
        self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None
    ) -> CallResult:
        """Record the result of a call durably; a reply that cannot be stored becomes an error."""
        row, columns = self.calls.attempts.rows[intent.call_id], usage_columns(usage)
        try:
            document = None if reply is None else encode(msgspec.structs.replace(reply, usage=None))
            now = await self.calls.end(row, document, error, **columns)
        except RowRefused:
            reply, error, usage = None, "the model's reply contains values that cannot be stored", None
            now = await self.calls.end(row, None, error)
        if usage is not None and usage.prompt is not None:
            self.calls.attempts.prompts[intent.call_id] = usage.prompt
        self.metrics.count_call(intent.purpose, done=reply is not None, usage=usage)
        if is_debugging():
            self._log_call(intent, now, usage, outcome="done" if reply is not None else "failed")
        return CallResult(reply=reply, error=error, usage=usage, ended_at=now)

    def _log_call(self, intent: Intent, now: datetime, usage: Usage | None, *, outcome: str) -> None:
        log.debug(
            "a model was called",
            **fields_of_turn(self.calls.session, self.calls.turn),
            action_id=intent.action_id,
            purpose=intent.purpose,
            round=intent.round,
            model=intent.model,
            outcome=outcome,
            ms=round((now - intent.started_at) / _MS),
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
        )

    async def note_interruption(self, intent: Intent) -> None:
        """Record durably that a call of an earlier attempt was interrupted and that the user got an error."""
        await self.calls.note_interruption(self.calls.attempts.rows[intent.call_id])


def _intent(row: CallRow) -> Intent:
    return Intent(
        call_id=row.call_id,
        digest=row.request_digest,
        purpose=msgspec.convert(row.purpose, Purpose),
        action_id=row.action_id,
        round=row.round,
        model=row.model,
        started_at=row.started_at,
    )


def _end(row: CallRow, prompt: str | None) -> CallResult:
    usage = usage_of(row, prompt)
    reply = msgspec.structs.replace(msgspec.json.decode(row.reply, type=ModelReply), usage=usage)
    return CallResult(reply=reply, usage=usage, ended_at=row.ended_at or row.started_at)


_USAGE = {name: name for name in Usage.__struct_fields__ if name != "prompt"} | {"model": "endpoint_model"}
"""Column of each field of Usage, without the prompt, which is stored with the turn."""

TOTALS_MAX = 10_000
"""Users and tenants whose daily totals are cached; others are read from the database again."""


TOTALS_READ_S = 5.0
"""How often a total is read again where other servers add to it."""


class _Total:
    """The usage of one user or tenant in a day."""

    def __init__(self, spent: Spent) -> None:
        self.spent = spent
        self.read_at = monotonic()


_Key: TypeAlias = tuple[date, str, str | None]
"""Day, tenant and user; None for the total of the tenant."""


class DayMeter:
    """The daily totals to which a turn adds, besides its own usage and that of its session."""

    def __init__(self, totals: list[tuple[Span, Bounds, _Total]]) -> None:
        self._totals = totals

    def exhausted_budget(self) -> str | None:
        """Return the name of an exhausted budget, or None."""
        for span, bounds, total in self._totals:
            what = bounds.first_exhausted(total.spent)
            if what:
                return f"{span}_{what}"
        return None

    def count(self, usage: Usage | None) -> None:
        """Add the usage of a call to the totals."""
        for _, _, total in self._totals:
            total.spent = add_call(total.spent, usage)


class Spending:
    """Today's totals by user and tenant: read from the database when first needed, then updated in memory."""

    def __init__(self, store: Store, budgets: Budgets) -> None:
        self._store = store
        self.bounds: dict[Span, Bounds] = {
            span: bounds for span in ("user_day", "day") if (bounds := budgets.bounds(span)) != Bounds()
        }
        self._totals: LRUCache[_Key, _Total] = LRUCache(TOTALS_MAX)
        self._reading = asyncio.Lock()

    async def meter(self, tenant: str, user_id: str, now: datetime) -> DayMeter:
        """Return the meter of a user's turn."""
        day = now.astimezone(UTC).date()
        owners: dict[Span, str | None] = {"user_day": user_id, "day": None}
        totals = [
            (span, bounds, await self._total((day, tenant, owners[span]))) for span, bounds in self.bounds.items()
        ]
        return DayMeter(totals)

    async def of_day(self, tenant: str, day: date) -> Spent:
        """Return what a tenant has used on a day in UTC, as recorded. Raises StoreError."""
        return await self._read_recorded((day, tenant, None))

    def forget(self, tenant: str, user_id: str) -> None:
        """Drop the totals of an erased user."""
        for key in [key for key in self._totals if key[1:] == (tenant, user_id)]:
            del self._totals[key]

    async def _total(self, key: _Key) -> _Total:
        if key not in self._totals:
            async with self._reading:  # no call is counted before the stored total is loaded
                if key not in self._totals:
                    self._totals[key] = _Total(await self._read_recorded(key))
        total = self._totals[key]
        if self._store.shared is not None and monotonic() - total.read_at > TOTALS_READ_S:
            total.read_at = monotonic()
            total.spent = await self._read_recorded(key)
        return total

    async def _read_recorded(self, key: _Key) -> Spent:
        day, tenant, user_id = key
        begins = datetime.combine(day, time(), UTC)
        row = await self._store.turns.spent(tenant, begins, begins + timedelta(days=1), user_id)
        return Spent(row.calls, row.tokens, row.cost)


def usage_columns(usage: Usage | None) -> dict[str, Any]:
    """Return the usage of a call by the columns of its row; empty if it is unknown."""
    return {} if usage is None else {column: getattr(usage, name) for name, column in _USAGE.items()}


def usage_of(row: CallRow, prompt: str | None = None) -> Usage | None:
    """Return the usage of a recorded call, with its prompt; None if it is unknown."""
    if row.endpoint_model is None:
        return None
    columns = {name: getattr(row, column) for name, column in _USAGE.items()}
    return msgspec.convert(columns | {"prompt": prompt}, Usage)
