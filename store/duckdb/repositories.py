"""The repositories of the store over DuckDB. What each method does is said in `store.interface.repositories`."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from store.duckdb import calls as calls_sql
from store.duckdb import (
    deletion,
    drafts,
    hand_overs,
    keys,
    participants,
    retention,
    reviews,
    script_texts,
    session_list,
    session_metadata,
    sessions,
    turns,
    variables,
    webhooks,
)
from store.duckdb import failures as failures_sql
from store.duckdb import import_session as import_sql
from store.duckdb import search as search_sql
from store.duckdb import statistics as statistics_sql
from store.duckdb import timers as timers_sql
from store.duckdb.backup import back_up, target_in
from store.duckdb.compaction import compact
from store.duckdb.database import Database
from store.duckdb.database_copy import DatabaseCopy, require_room
from store.duckdb.readers import Readers
from store.duckdb.repository import Repository, reads, reads_durable, writes
from store.duckdb.writer import Changed, Writer
from store.interface.admission import ProposedTurn
from store.interface.errors import BackupRunning, CompactionRunning
from store.interface.hand_over_rows import HandOverRow
from store.interface.maintenance_rows import CompactionResult, OnStep, Size
from store.interface.rows import CallRow, MigrationRow, SessionRow, TurnRow, UserVariableRow
from store.interface.timer_rows import TimerRow
from store.interface.webhook_rows import DeliveryRow


class DuckDBTurns(Repository):
    """Store and read turns."""

    async def commit(
        self,
        turn: TurnRow,
        expected_turn: int,
        session: SessionRow | None = None,
        migration: MigrationRow | None = None,
        calls_used: tuple[str, ...] | None = None,
        calls_withheld: tuple[str, ...] = (),
        prompts: Mapping[str, str] = {},
        deliveries: tuple[DeliveryRow, ...] = (),
        timers: tuple[TimerRow, ...] | None = None,
        hand_overs: tuple[HandOverRow, ...] | None = None,
    ) -> None:
        """Commit a turn in a group with the other waiting turns."""
        await self._writer.commit(
            ProposedTurn(
                turn,
                expected_turn,
                session,
                migration,
                calls_used,
                calls_withheld,
                prompts,
                deliveries,
                timers,
                hand_overs,
            )
        )

    async def note_call(self, call: CallRow) -> None:
        """Write a call of a model to the journal, in a group with the waiting turns."""
        await self._writer.commit(call)

    save_failure = writes(failures_sql.save_failure)
    get = reads(turns.turn)
    range = reads(turns.turns)
    by_key = reads_durable(turns.turn_by_key)
    messages = reads(turns.messages)
    recent_messages = reads(turns.recent_messages)
    user_message = reads(turns.user_message)
    snapshots = reads(turns.snapshots)
    events = reads(turns.events)
    variable_history = reads(turns.variable_history)
    failures = reads(failures_sql.failures)
    unsettled_calls = reads(calls_sql.unsettled_calls)
    calls = reads(calls_sql.calls)
    spent = reads(calls_sql.spent)
    search = reads(search_sql.search)


class DuckDBSessions(Repository):
    """Store and read sessions and the variables of users."""

    head = reads(sessions.session_head)
    start = reads(sessions.session_start)
    by_key = reads(sessions.session_by_key)
    by_creation_key = reads_durable(sessions.creation_by_key)
    page = reads(session_list.list_sessions)
    hand_overs = reads(hand_overs.page)
    statistics = reads(statistics_sql.statistics)
    migrations = reads(sessions.migrations)
    fork = writes(session_metadata.fork)
    label = writes(session_metadata.label)
    import_session = writes(
        import_sql.import_session,
        lambda _, whole, **__: Changed(
            [(whole.session.tenant, whole.session.session_id)], [(row.tenant, row.user_id) for row in whole.variables]
        ),
    )
    _user_variables = reads(variables.user_variables)

    async def user_variables(self, tenant: str, user_id: str) -> list[UserVariableRow]:
        """Return the cached variables of a user, or read them."""
        if self._writer_or_none is None:
            return await self._user_variables(tenant, user_id)
        user = (tenant, user_id)
        return await self._writer_or_none.variables.get(user, lambda: self._user_variables(*user))

    set_user_variables = writes(
        variables.set_user_variables, lambda _, rows, *__: Changed(users=[(rows[0].tenant, rows[0].user_id)])
    )
    user_history = reads(variables.user_history)
    ids_of_user = reads(deletion.sessions_of_user)


class DuckDBScripts(Repository):
    """Store and read scripts."""

    save = writes(script_texts.save_script)
    set_statuses = writes(script_texts.set_statuses)
    describe = writes(script_texts.describe)
    page = reads(script_texts.scripts)
    get = reads(script_texts.script)
    versions = reads(script_texts.script_versions)
    latest_published = reads(script_texts.latest_published)
    text = reads(script_texts.script_text)
    save_draft = writes(drafts.save_draft)
    delete_draft = writes(drafts.delete_draft)
    draft = reads(drafts.draft_of)
    drafts = reads(drafts.drafts)


class DuckDBDelivery(Repository):
    """Store and read webhooks and deliveries."""

    save_webhook = writes(webhooks.save_webhook)
    remove_webhook = writes(webhooks.remove_webhook)
    note_attempts = writes(webhooks.note_attempts)
    replay = writes(webhooks.replay_deliveries)
    tidy = writes(webhooks.tidy_deliveries)
    webhooks_of_all = reads(webhooks.webhooks_of_all)
    ahead = reads(webhooks.deliveries_ahead)
    page = reads(webhooks.deliveries)
    get = reads(webhooks.delivery)


class DuckDBTimers(Repository):
    """Read timers, and note failed attempts to fire them."""

    ahead = reads(timers_sql.ahead)
    page = reads(timers_sql.page)
    replace = writes(timers_sql.replace)
    hold_due = writes(timers_sql.hold_due)
    note_failure = writes(timers_sql.note_failure)


class DuckDBKeys(Repository):
    """Store and read API keys."""

    add = writes(keys.add_key)
    revoke = writes(keys.revoke_key)
    note_use = writes(keys.note_key_use)
    known = reads(keys.known_keys)
    page = reads(keys.keys)


class DuckDBParticipants(Repository):
    """Store and read links and participants."""

    add_link = writes(participants.add_link)
    revoke_link = writes(participants.revoke_link)
    link = reads(participants.link)
    links = reads(participants.links)
    add = writes(participants.add_participant)
    revoke = writes(participants.revoke_participant)
    set_push = writes(participants.set_push)
    to_remind = reads(participants.to_remind)
    reminded = reads(participants.reminded)
    get = reads(participants.participant)
    resuming = reads(participants.resuming)
    page = reads(participants.participants)


class DuckDBReviews(Repository):
    """Store and read reviews and ratings."""

    add = writes(reviews.add_review)
    close = writes(reviews.close_review)
    delete = writes(reviews.delete_review)
    get = reads(reviews.review)
    page = reads(reviews.reviews)
    targets = reads(reviews.targets)
    turns_of = reads(reviews.turns_of)
    rate = writes(reviews.rate)
    rating = reads(reviews.rating)
    ratings = reads(reviews.ratings)


class DuckDBRetention(Repository):
    """Apply retention policies."""

    counts = reads(retention.counts)
    due = reads(retention.due)
    apply = writes(
        retention.apply,
        lambda result, tenant, *_: Changed(
            [(tenant, session_id) for session_id in (*result.redacted, *result.deleted)]
        ),
    )


class DuckDBMaintenance(Repository):
    """Delete data, rewrite and copy the file, and measure it."""

    def __init__(self, readers: Readers, writer: Writer | None, database: Database) -> None:
        super().__init__(readers, writer)
        self._database = database
        self._copying: asyncio.Task[CompactionResult] | asyncio.Task[int] | None = None
        self.compaction: DatabaseCopy | None = None
        self.backup: DatabaseCopy | None = None

    delete_session = writes(
        deletion.delete_session, lambda is_removed, tenant, session_id: Changed([(tenant, session_id)] * is_removed)
    )
    erase_user = writes(
        deletion.erase_user,
        lambda erased, tenant, user_id, *_: Changed(
            [(tenant, session_id) for session_id in erased.sessions], [(tenant, user_id)]
        ),
    )

    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Rewrite the file in a task, so that it continues if the caller is cancelled."""
        self._require_idle()
        compacting = asyncio.create_task(self._compact(self._writer, on_step))
        self._copying = compacting
        return await asyncio.shield(compacting)

    async def back_up(self, folder: Path, on_step: OnStep = lambda _: None) -> int:
        """Write a copy in a task, so that it continues if the caller is cancelled."""
        self._require_idle()
        backing_up = asyncio.create_task(self._back_up(folder, on_step))
        self._copying = backing_up
        return await asyncio.shield(backing_up)

    async def stop_copy(self) -> None:
        """Stop the running compaction or backup, if there is one, and wait until it has stopped."""
        copy = self.compaction or self.backup
        if copy is not None and self._copying is not None:
            copy.stop()
            await asyncio.wait({self._copying})

    async def require_compactable(self) -> None:
        """Raise CompactionRunning, BackupRunning or DiskTooSmall if the database cannot be compacted now."""
        self._require_idle()
        size = await self.size()
        require_room(size, size.disk_free)

    async def size(self) -> Size:
        """Return the size of the file and the free space of its disk."""
        return await self._readers.read(self._database.size)

    def _require_idle(self) -> None:
        if self._copying is None:
            return
        if self.backup is not None:
            raise BackupRunning("a backup of the database is being written")
        raise CompactionRunning("a compaction of the database is already running")

    async def _compact(self, writer: Writer, on_step: OnStep) -> CompactionResult:
        try:
            self._database.require_file()
            before = await self.size()
            require_room(before, before.disk_free)
            self.compaction = DatabaseCopy(self._database, self._database.fresh, before.used, on_step)
            return await compact(self.compaction, before, self._database, writer, self._readers)
        finally:
            if self.compaction is not None:
                self.compaction.close()
            self.compaction = self._copying = None

    async def _back_up(self, folder: Path, on_step: OnStep) -> int:
        try:
            self._database.require_file()
            size, target = await self.size(), target_in(folder)
            require_room(size, shutil.disk_usage(folder).free)
            self.backup = DatabaseCopy(self._database, target, size.used, on_step)
            return await back_up(self.backup, folder)
        finally:
            if self.backup is not None:
                self.backup.close()
            self.backup = self._copying = None
