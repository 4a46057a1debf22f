"""The calls of models that attempts at a session's next turn made: kept in the record, and not made twice.

A turn may be attempted several times, by one process after the other. What an attempt asked and got is not asked again.
"""

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from api.metrics import Metrics
from api.turn_log import fields_of_turn
from runtime.budgets import added
from runtime.ports import Clock, Ended, Ids, Intent, Known, ModelReply, ModelRequest, Purpose, Usage
from runtime.state import Spent
from store.debugging import is_debugging
from store.errors import RowRefused
from store.insert import encode
from store.record import Record
from store.rows import CallRow, SessionRow

_MS = timedelta(milliseconds=1)
CALLS_MAX = 500  # of all attempts at a turn, kept in memory: the latest

_USAGE = {name: name for name in Usage.__struct_fields__} | {"model": "endpoint_model"}  # and the columns of it


log = structlog.get_logger()


class Attempts:
    """The calls of every attempt at the turn that a session takes next, as the record has them."""

    def __init__(self, rows: Iterable[CallRow] = ()) -> None:
        self.rows: OrderedDict[str, CallRow] = OrderedDict()
        self.count = 0
        self._gone = Spent()  # what those took that are not in memory any more
        for row in rows:
            self.keep(row)

    def keep(self, row: CallRow) -> None:
        """Takes over what is now known of a call."""
        self.rows[row.call_id] = row
        self.count = max(self.count, row.number)
        if len(self.rows) > CALLS_MAX:
            _, gone = self.rows.popitem(last=False)
            self._gone = added(self._gone, usage_of(gone))

    def spent(self) -> Spent:
        """What all of them took; one of which nobody knows what came of it is a call all the same."""
        return functools.reduce(added, map(usage_of, self.rows.values()), self._gone)


class TurnJournal:
    """The journal of one attempt at a turn."""

    def __init__(
        self,
        record: Record,
        session: SessionRow,
        turn: int,
        attempts: Attempts,
        clock: Clock,
        ids: Ids,
        metrics: Metrics,
    ) -> None:
        self._record = record
        self._session = session
        self._turn = turn
        self._attempts = attempts
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._spent = attempts.spent()
        self._earlier = [row for row in attempts.rows.values() if row.outcome == "done" or row.ended_at is None]

    def spent(self) -> Spent:
        """What all calls of earlier attempts took."""
        return self._spent

    def known(self, digest: str) -> Known | None:
        """The next call of an earlier attempt for the same request: first those that have a reply."""
        same = [row for row in self._earlier if row.request_digest == digest]
        for row in sorted(same, key=lambda row: row.outcome != "done"):
            self._earlier.remove(row)
            if row.outcome != "done":
                return Known(_intent(row), None)
            with contextlib.suppress(msgspec.DecodeError):  # kept by another version: it is asked for again
                return Known(_intent(row), _end(row))
        return None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Keeps durably that a call is about to be made."""
        row = CallRow(
            tenant=self._session.tenant,
            session_id=self._session.session_id,
            user_id=self._session.user_id,
            script_id=self._session.script_id,
            script_version=self._session.script_version,
            turn=self._turn,
            number=self._attempts.count + 1,
            call_id=self._ids(),
            purpose=request.purpose,
            action_id=request.action_id,
            round=request.round,
            model=model,
            request_digest=digest,
            started_at=self._clock(),
        )
        try:
            await self._keep(row)
        except asyncio.CancelledError:
            await self._keep(_ended_row(row, self._clock(), None, "not made: the turn took too long", None))
            raise
        return _intent(row)

    async def end(self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None) -> Ended:
        """Keeps durably what came of it; a reply that the record cannot hold is none."""
        row, now = self._attempts.rows[intent.call_id], self._clock()
        try:
            await self._keep(_ended_row(row, now, reply, error, usage))
        except RowRefused:
            reply, error, usage = None, "the model's reply holds something that cannot be kept", None
            await self._keep(_ended_row(row, now, reply, error, usage))
        self._metrics.count_call(intent.purpose, done=reply is not None, usage=usage)
        if is_debugging():
            self._log_call(intent, now, usage, outcome="done" if reply is not None else "failed")
        return Ended(reply=reply, error=error, usage=usage, ended_at=now)

    def _log_call(self, intent: Intent, now: datetime, usage: Usage | None, *, outcome: str) -> None:
        log.debug(
            "a model was called",
            **fields_of_turn(self._session, self._turn),
            action_id=intent.action_id,
            purpose=intent.purpose,
            round=intent.round,
            model=intent.model,
            outcome=outcome,
            ms=round((now - intent.started_at) / _MS),
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
        )

    async def told(self, intent: Intent) -> None:
        """Keeps durably that a call of an earlier attempt was interrupted, and that the user was told."""
        row = self._attempts.rows[intent.call_id]
        await self._keep(msgspec.structs.replace(row, ended_at=self._clock(), error="interrupted; the user was told"))

    async def _keep(self, row: CallRow) -> None:
        self._attempts.keep(row)
        await self._record.note_call(row)


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


def _end(row: CallRow) -> Ended:
    usage = usage_of(row)
    reply = msgspec.structs.replace(msgspec.json.decode(row.reply, type=ModelReply), usage=usage)
    return Ended(reply=reply, usage=usage, ended_at=row.ended_at or row.started_at)


def _ended_row(row: CallRow, now: datetime, reply: ModelReply | None, error: str, usage: Usage | None) -> CallRow:
    """A call with what came of it. Raises RowRefused for a reply that JSON cannot hold."""
    ended = msgspec.structs.replace(
        row, ended_at=now, outcome="failed", error=error, latency_ms=round((now - row.started_at) / _MS)
    )
    if reply is not None:
        document = encode(msgspec.structs.replace(reply, usage=None))
        ended = msgspec.structs.replace(ended, outcome="done", error=None, reply=msgspec.Raw(document))
    if usage is not None:
        ended = msgspec.structs.replace(ended, **usage_columns(usage))
    return ended


def usage_columns(usage: Usage) -> dict[str, Any]:
    """What a call took, by the columns of a row."""
    return {column: getattr(usage, name) for name, column in _USAGE.items()}


def usage_of(row: CallRow) -> Usage | None:
    """What a call took, as far as that is known."""
    if row.endpoint_model is None:
        return None
    return msgspec.convert({name: getattr(row, column) for name, column in _USAGE.items()}, Usage)
