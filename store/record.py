"""The record: the only thing the rest of the program uses of this package."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from store import (
    bringing,
    calls,
    failures,
    keys,
    removal,
    script_texts,
    searching,
    session_list,
    sessions,
    starts,
    statistics,
    turns,
    variables,
    webhooks,
)
from store.analytics.record import AnalyticsRecord
from store.bringing import WholeSession
from store.commit import Proposal
from store.compaction import Compacted, Compaction, Tell, require_room
from store.database import Database, Size
from store.errors import CompactionRunning, StoreReadOnly, StoreUnavailable
from store.fetch import Cursor, Page
from store.keys import KnownKeys
from store.memory.record import MemoryRecord
from store.readers import READ_TIMEOUT_S, Readers
from store.retention import RetentionRecord
from store.rows import (
    NO_TURN,
    CallRow,
    FailureRow,
    ForkRow,
    HappenedRow,
    JsonObject,
    KeyRow,
    MessageRow,
    MigrationRow,
    ScriptRow,
    ScriptStatus,
    ScriptTextRow,
    SessionHead,
    SessionRow,
    SnapshotRow,
    SpentRow,
    TurnRow,
    UserHistoryRow,
    UserMessageRow,
    UserVariableRow,
    VariableWriteRow,
)
from store.script_texts import ScriptChanges, ScriptFilter
from store.searching import Hit, SearchFilter
from store.session_list import Order, SessionFilter, SessionListed
from store.statistics import SessionStatistics
from store.turns import Gaps
from store.verification.record import VerificationRecord
from store.webhook_rows import (
    AttemptRow,
    DeliveryBounds,
    DeliveryRow,
    DeliveryStatus,
    DeliverySummary,
    WebhookRow,
)
from store.writer import Writer

T = TypeVar("T")
LAG_MAX_S = 5.0
"""A group that takes longer than this to write means a disk that hangs."""


class Record:
    """Everything said and every change of a variable, durably. One event loop uses it.

    Every read and write is of one tenant. Writes return once they are on disk; they raise StoreBusy when too many
    wait, StoreUnavailable when the disk fails. Reads raise StoreBusy, ReadTimedOut and StoreUnavailable.
    """

    def __init__(self, database: Database, writer: Writer | None, readers: Readers) -> None:
        self._database = database
        self._writer = writer
        self._readers = readers
        self._compacting: asyncio.Task[Compacted] | None = None
        self.compaction: Compaction | None = None
        """The one that is under way."""
        self.memory = MemoryRecord(readers, self._run)
        self.analytics = AnalyticsRecord(readers)
        self.retention = RetentionRecord(readers, lambda: self._writing)
        self.verification = VerificationRecord(readers)

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False, read_timeout_s: float = READ_TIMEOUT_S) -> Self:
        """Open the record of a data folder; made if new, migrated if old. Blocks. Raises what Database.open raises."""
        database = Database.open(folder, read_only=read_only)
        writer = None if read_only else Writer(database)
        return cls(database, writer, Readers(database, read_timeout_s))

    async def close(self) -> None:
        """Give up a compaction, write what waits, close the file. Raises StoreUnavailable if the writer hangs."""
        if self.compaction is not None and self._compacting is not None:
            self.compaction.stop()
            await asyncio.wait({self._compacting})
        try:
            if self._writer is not None:
                await self._writer.close()
        finally:
            await asyncio.to_thread(self._readers.close)
            self._database.close()

    @property
    def writer_lag_s(self) -> float:
        """Seconds the group of turns being written has taken so far; 0 when nothing is written."""
        return 0.0 if self._writer is None else self._writer.lag_s

    @property
    def writes_waiting(self) -> int:
        """Writes that wait for the writing thread."""
        return 0 if self._writer is None else self._writer.waiting

    def ready(self) -> str | None:
        """None when turns can be written; else why not."""
        if self._writer is None:
            return "the record is open read-only"
        lost = self.lost()
        if lost is not None:
            return lost
        if self.writer_lag_s > LAG_MAX_S and self.compaction is not None:
            return f"the record is being compacted, {self.compaction.step}"
        if self.writer_lag_s > LAG_MAX_S:
            return f"a write has taken {self.writer_lag_s:.0f} s"
        return self._writer.failure

    def lost(self) -> str | None:
        """Why nothing is written, where the database file is no longer at its path; else None."""
        try:
            self._database.require_file()
        except StoreUnavailable as lost:
            return str(lost)
        return None

    async def commit(
        self,
        turn: TurnRow,
        expected_turn: int,
        session: SessionRow | None = None,
        migration: MigrationRow | None = None,
        calls_used: tuple[str, ...] | None = None,
        calls_withheld: tuple[str, ...] = (),
        deliveries: tuple[DeliveryRow, ...] = (),
    ) -> None:
        """Record a turn; returns once it is durable, with all it holds or nothing.

        `expected_turn` is the turn it was computed from: NO_TURN at creation, which also brings the `session`. A turn
        that moves the session to another version of its script brings the `migration`. With `calls_used`, the calls
        of models in the session's journal are settled: these ids were used, the others were not; the words of
        `calls_withheld`, and of those not used, are not kept. `deliveries` is what webhooks are to be told of it.
        Raises TurnConflict where another turn was first, KeyTaken where a new session's key is another's, RowRefused
        for a row that cannot be held.
        """
        await self._writing.commit(
            Proposal(turn, expected_turn, session, migration, calls_used, calls_withheld, deliveries)
        )

    async def note_call(self, call: CallRow) -> None:
        """Keep a call of a model in the journal: before it is made, and again, in full, when it has ended.

        Raises RowRefused for a row that cannot be held.
        """
        await self._writing.commit(call)

    async def save_script(self, script: ScriptRow, text: ScriptTextRow) -> None:
        """Add a version of a script, or replace what is known of it. A text once saved is never changed."""
        await self._writing.run(partial(script_texts.save_script, script=script, text=text))

    async def set_script_statuses(
        self, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
    ) -> None:
        """Give versions of a script another status, all or none."""
        await self._writing.run(lambda cursor: script_texts.set_statuses(cursor, tenant, script_uuid, statuses, at))

    async def describe_script(self, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
        """Say something else of a script, which is said of all its versions."""
        await self._writing.run(lambda cursor: script_texts.describe(cursor, tenant, script_uuid, changes, at))

    async def save_failure(self, failure: FailureRow) -> None:
        """Record a turn that failed."""
        await self._writing.run(partial(failures.save_failure, failure=failure))

    async def save_webhook(self, webhook: WebhookRow) -> None:
        """Add a webhook, or replace what is known of it."""
        await self._writing.run(partial(webhooks.save_webhook, webhook=webhook))

    async def remove_webhook(self, tenant: str, webhook_id: str) -> None:
        """Delete a webhook and its deliveries."""
        await self._writing.run(partial(webhooks.remove_webhook, tenant=tenant, webhook_id=webhook_id))

    async def note_attempts(self, attempts: list[AttemptRow]) -> None:
        """Write down what came of sending deliveries."""
        await self._writing.run(partial(webhooks.note_attempts, attempts=attempts))

    async def replay_deliveries(
        self,
        tenant: str,
        webhook_id: str,
        now: datetime,
        *,
        delivery_id: str | None = None,
        status: DeliveryStatus | None = None,
    ) -> int:
        """Let deliveries be sent from the beginning, one or all with a status; how many there were."""
        return await self._writing.run(
            lambda cursor: webhooks.replay_deliveries(cursor, tenant, webhook_id, delivery_id, status, now)
        )

    async def tidy_deliveries(self, bounds: DeliveryBounds, now: datetime) -> None:
        """Give up and delete what is beyond the bounds, of every tenant."""
        await self._writing.run(partial(webhooks.tidy_deliveries, bounds=bounds, now=now))

    async def webhooks_of_all(self) -> list[WebhookRow]:
        """Every tenant's webhooks, for the server itself."""
        return await self._readers.read(webhooks.webhooks_of_all)

    async def deliveries_ahead(
        self, webhook_ids: list[str], each_max: int, limit: int, now: datetime
    ) -> webhooks.Ahead:
        """The deliveries to these webhooks, whosesoever, that are due, for the server itself; and when the next one is.

        At most `limit`, `each_max` to each, the earliest first; of a session only the first that waits.
        """
        return await self._readers.read(
            lambda cursor: webhooks.deliveries_ahead(cursor, webhook_ids, each_max, limit, now)
        )

    async def deliveries(
        self,
        tenant: str,
        webhook_id: str,
        *,
        status: DeliveryStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeliverySummary]:
        """A page of a webhook's deliveries, the newest first. Raises CursorInvalid."""
        return await self._readers.read(
            lambda reader: webhooks.deliveries(reader, tenant, webhook_id, status, limit, cursor)
        )

    async def delivery(self, tenant: str, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
        """One delivery with what is sent."""
        return await self._readers.read(lambda cursor: webhooks.delivery(cursor, tenant, webhook_id, delivery_id))

    async def set_user_variables(self, rows: list[UserVariableRow], count_max: int) -> list[UserVariableRow]:
        """Set variables of one user outside of any session, unset those whose value is null; all that are set then.

        Raises VariablesFull where those would be more than `count_max`, RowRefused for a row that cannot be held.
        """
        return await self._writing.run(partial(variables.set_user_variables, rows=rows, count_max=count_max))

    async def delete_session(self, tenant: str, session_id: str) -> bool:
        """Remove everything of a session; false where there is none."""
        return await self._writing.run(
            partial(removal.delete_session, tenant=tenant, session_id=session_id),
            lambda is_removed: [(tenant, session_id)] * is_removed,
        )

    async def erase_user(self, tenant: str, user_id: str, receipt_id: str, erased_at: datetime) -> removal.Erased:
        """Remove everything of a user, whose sessions must not be talked to meanwhile, and keep a receipt."""
        return await self._writing.run(
            partial(removal.erase_user, tenant=tenant, user_id=user_id, receipt_id=receipt_id, erased_at=erased_at),
            lambda erased: [(tenant, session_id) for session_id in erased.sessions],
        )

    async def compact(self, tell: Tell = lambda _: None) -> Compacted:
        """Rewrite the file, so that nothing is left in it of what was removed; turns wait until it is done.

        It goes on when the caller is cancelled, until the record is closed. `tell` hears of its steps, in a thread.
        Raises CompactionRunning, DiskTooSmall, StoreUnavailable.
        """
        if self._compacting is not None:
            raise CompactionRunning("the record is being compacted already")
        self._compacting = asyncio.create_task(self._compact(self._writing, tell))
        return await asyncio.shield(self._compacting)

    async def _compact(self, writer: Writer, tell: Tell) -> Compacted:
        try:
            self.compaction = Compaction(self._database, tell)
            return await self.compaction.run(writer, self._readers)
        finally:
            self.compaction = self._compacting = None

    async def require_compactable(self) -> None:
        """Raise CompactionRunning or DiskTooSmall where the record cannot be compacted now."""
        if self._compacting is not None:
            raise CompactionRunning("the record is being compacted already")
        require_room(await self.size())

    async def size(self) -> Size:
        """How many bytes the record takes, and how many its disk has left."""
        return await self._readers.read(self._database.size)

    async def fork(self, fork: ForkRow) -> None:
        """Keep a copy of a session up to one of its turns under another id, all of it or nothing.

        Raises KeyTaken, RowRefused where there is no such turn.
        """
        await self._writing.run(partial(starts.fork, row=fork))

    async def label(self, tenant: str, session_id: str, key: str | None, metadata: JsonObject) -> None:
        """Keep what an application calls a session and notes of it now. Raises KeyTaken, RowRefused."""
        await self._writing.run(partial(starts.label, tenant=tenant, session_id=session_id, key=key, metadata=metadata))

    async def bring_session(self, whole: WholeSession, *, replaces: bool = False) -> None:
        """Add a session with everything that belongs to it, all or nothing; with `replaces` in the place of the one
        that has its id.

        Raises SessionTaken where there is one and it is not to be replaced, KeyTaken where a key of its is another's,
        RowRefused for a row that cannot be held.
        """
        await self._writing.run(
            partial(bringing.bring_session, whole=whole, replaces=replaces),
            lambda _: [(whole.session.tenant, whole.session.session_id)],
        )

    async def add_key(self, key: KeyRow) -> None:
        """Add a key of the API. Raises RowRefused where its tenant has too many."""
        await self._writing.run(partial(keys.add_key, key=key))

    async def revoke_key(self, tenant: str, key_id: str, now: datetime) -> None:
        """Revoke a key of the API; one that is revoked stays as it is."""
        await self._writing.run(partial(keys.revoke_key, tenant=tenant, key_id=key_id, now=now))

    async def note_key_use(self, tenant: str, key_id: str, now: datetime) -> None:
        """Keep when a key of the API was last used."""
        await self._writing.run(partial(keys.note_key_use, tenant=tenant, key_id=key_id, now=now))

    async def known_keys(self) -> KnownKeys:
        """The keys of all tenants that are not revoked, to find out whose a key is."""
        return await self._readers.read(keys.known_keys)

    async def keys(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[KeyRow]:
        """A page of a tenant's keys, the newest first, with those that were revoked. Raises CursorInvalid."""
        return await self._readers.read(lambda reader: keys.keys(reader, tenant, limit, cursor))

    async def session_head(self, tenant: str, session_id: str) -> SessionHead | None:
        """A session with the state its latest turn left."""
        return await self._readers.read(lambda cursor: sessions.session_head(cursor, tenant, session_id))

    async def session_start(self, tenant: str, session_id: str) -> SessionRow | None:
        """A session as it was created, with the key and metadata of now."""
        return await self._readers.read(lambda cursor: sessions.session_start(cursor, tenant, session_id))

    async def session_by_key(self, tenant: str, key: str) -> SessionRow | None:
        """The session an application gave this key."""
        return await self._readers.read(lambda cursor: sessions.session_by_key(cursor, tenant, key))

    async def creation_by_key(self, tenant: str, idempotency_key: str) -> SessionRow | None:
        """The session a request with this idempotency key created."""
        return await self._readers.read(lambda cursor: sessions.creation_by_key(cursor, tenant, idempotency_key))

    async def list_sessions(
        self,
        tenant: str,
        which: SessionFilter | None = None,
        *,
        order: Order = "created",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SessionListed]:
        """A page of sessions, the newest or the last active first. Raises CursorInvalid."""
        which = which or SessionFilter()
        return await self._readers.read(
            lambda reader: session_list.list_sessions(reader, tenant, which, order, limit, cursor)
        )

    async def search(self, tenant: str, what: SearchFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Hit]:
        """A page of messages in which all words occur, the last recorded first; it may be short and yet not the last.

        Raises CursorInvalid.
        """
        return await self._readers.read(lambda reader: searching.search(reader, tenant, what, limit, cursor))

    async def statistics(self, tenant: str, session_id: str, *, without: Gaps = ()) -> SessionStatistics | None:
        """What a session came to; not counting messages of turns `without` which it goes."""
        return await self._readers.read(lambda reader: statistics.statistics(reader, tenant, session_id, without))

    async def turn(self, tenant: str, session_id: str, number: int) -> TurnRow | None:
        """One turn by its number."""
        return await self._readers.read(lambda cursor: turns.turn(cursor, tenant, session_id, number))

    async def turns(self, tenant: str, session_id: str, *, first: int = 0, limit: int = 50) -> list[TurnRow]:
        """At most `limit` whole turns from the `first` on, in order."""
        return await self._readers.read(lambda cursor: turns.turns(cursor, tenant, session_id, first, limit))

    async def turn_by_key(self, tenant: str, session_id: str, idempotency_key: str) -> TurnRow | None:
        """The turn a request with this idempotency key made."""
        return await self._readers.read(lambda cursor: turns.turn_by_key(cursor, tenant, session_id, idempotency_key))

    async def migrations(self, tenant: str, session_id: str) -> list[MigrationRow]:
        """The last 1,000 moves of a session to other versions of its script, the latest first."""
        return await self._readers.read(lambda cursor: sessions.migrations(cursor, tenant, session_id))

    async def messages(
        self, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 100, without: Gaps = ()
    ) -> list[MessageRow]:
        """At most `limit` messages numbered above `after_seq`, in order; not those of turns `without` which it goes."""
        return await self._readers.read(
            lambda cursor: turns.messages(cursor, tenant, session_id, after_seq, limit, without)
        )

    async def recent_messages(
        self, tenant: str, session_id: str, limit: int, *, before_seq: int | None = None, without: Gaps = ()
    ) -> list[MessageRow]:
        """The last `limit` messages below `before_seq`, in order; not those of turns `without` which it goes."""
        return await self._readers.read(
            lambda cursor: turns.recent_messages(cursor, tenant, session_id, limit, before_seq, without)
        )

    async def user_message(self, tenant: str, session_id: str, index: int, *, without: Gaps = ()) -> UserMessageRow:
        """The user's message at a place, counted from 0, in the conversation without these ranges of messages."""
        return await self._readers.read(lambda cursor: turns.user_message(cursor, tenant, session_id, index, without))

    async def snapshots(
        self, tenant: str, session_id: str, *, after_turn: int = NO_TURN, limit: int = 100
    ) -> list[SnapshotRow]:
        """Where at most `limit` turns after `after_turn` left the session, in order."""
        return await self._readers.read(lambda cursor: turns.snapshots(cursor, tenant, session_id, after_turn, limit))

    async def happened(self, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 20) -> list[HappenedRow]:
        """At most `limit` turns with events numbered above `after_seq`, in order."""
        return await self._readers.read(lambda cursor: turns.happened(cursor, tenant, session_id, after_seq, limit))

    async def variable_history(
        self, tenant: str, session_id: str, *, name: str | None = None, after_turn: int = NO_TURN, limit: int = 100
    ) -> list[VariableWriteRow]:
        """The variable writes of at most `limit` turns after `after_turn`, in order; of one variable if it is named."""
        return await self._readers.read(
            lambda cursor: turns.variable_history(cursor, tenant, session_id, name, after_turn, limit)
        )

    async def user_variables(self, tenant: str, user_id: str) -> list[UserVariableRow]:
        """A user's variables of the global scope that are set, by name."""
        return await self._readers.read(lambda cursor: variables.user_variables(cursor, tenant, user_id))

    async def user_history(
        self, tenant: str, user_id: str, *, offset: int = 0, limit: int = 100
    ) -> list[UserHistoryRow]:
        """At most `limit` writes of a user's global variables, in sessions and outside, the oldest first."""
        return await self._readers.read(lambda cursor: variables.user_history(cursor, tenant, user_id, offset, limit))

    async def user_session_ids(self, tenant: str, user_id: str) -> list[str]:
        """Every session of a user of which anything is recorded, also those that were never begun."""
        return await self._readers.read(lambda cursor: removal.sessions_of_user(cursor, tenant, user_id))

    async def failures(self, tenant: str, session_id: str) -> list[FailureRow]:
        """The last 100 failed turns of a session, the latest first."""
        return await self._readers.read(lambda cursor: failures.failures(cursor, tenant, session_id))

    async def unsettled_calls(self, tenant: str, session_id: str) -> list[CallRow]:
        """The last 500 calls of attempts at the turn that a session has not taken yet, in their order."""
        return await self._readers.read(lambda cursor: calls.unsettled_calls(cursor, tenant, session_id))

    async def calls(
        self, tenant: str, session_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[CallRow]:
        """A page of a session's calls of models, in their order, settled or not. Raises CursorInvalid."""
        return await self._readers.read(lambda reader: calls.calls(reader, tenant, session_id, limit, cursor))

    async def spent(self, tenant: str, since: datetime, until: datetime, user_id: str | None = None) -> SpentRow:
        """What a tenant's calls of models, or one user's, took that were begun within a time."""
        return await self._readers.read(lambda cursor: calls.spent(cursor, tenant, since, until, user_id))

    async def scripts(
        self, tenant: str, which: ScriptFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ScriptRow]:
        """A page of scripts, last changed first: of each the latest version with the status. Raises CursorInvalid."""
        which = which or ScriptFilter()
        return await self._readers.read(lambda reader: script_texts.scripts(reader, tenant, which, limit, cursor))

    async def script(self, tenant: str, script_uuid: str, version: int | None = None) -> ScriptRow | None:
        """One version of a script, the latest unless it is named."""
        return await self._readers.read(lambda cursor: script_texts.script(cursor, tenant, script_uuid, version))

    async def script_versions(self, tenant: str, script: str) -> list[ScriptRow]:
        """Every version of a script, named by its uuid or its author's id, the latest first."""
        return await self._readers.read(lambda cursor: script_texts.script_versions(cursor, tenant, script))

    async def latest_published(self, tenant: str, script: str) -> ScriptRow | None:
        """The latest published version of a script, named by its uuid or its author's id."""
        return await self._readers.read(lambda cursor: script_texts.latest_published(cursor, tenant, script))

    async def script_text(self, tenant: str, digest: str) -> ScriptTextRow | None:
        """A script's text by its digest."""
        return await self._readers.read(lambda cursor: script_texts.script_text(cursor, tenant, digest))

    async def _run(self, statements: Callable[[Cursor], T]) -> T:
        return await self._writing.run(statements)

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise StoreReadOnly("the record is open read-only")
        return self._writer
