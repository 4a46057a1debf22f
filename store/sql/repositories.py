"""What the store offers: a class for each kind of data. What a method does is said where its SQL is.

An abstract method is not the same in every database. Every method concerns one tenant, unless it says otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from store.interface.admission import Entry, ProposedTurn
from store.interface.list_rows import Hit, ListedSession, Order, SearchFilter, SessionFilter
from store.interface.maintenance_rows import CompactionResult, OnStep, RunningCopy, Size
from store.interface.pages import Page
from store.interface.rows import CallRow, LoadedSession, SessionHead, UserVariableRow
from store.sql import (
    access,
    copies,
    deletion,
    retention,
    reviews,
    script_texts,
    sessions,
    timers,
    turns,
    variables,
    webhooks,
)
from store.sql import calls as calls_sql
from store.sql.repository import ChangedIds, Engine, Repository, reads, reads_durable, writes
from store.sql.statistics import statistics

P = ParamSpec("P")


def _commits(entry: Callable[P, Entry]) -> Callable[Concatenate["Turns", P], Coroutine[Any, Any, None]]:
    """Return the method that commits what `entry` returns from the same arguments."""

    async def method(self: "Turns", /, *args: P.args, **fields: P.kwargs) -> None:
        await self._commit(entry(*args, **fields))

    return method


class Turns(Repository, ABC):
    """Store and read turns. `commit` commits a turn, or a call for the journal, with the other waiting ones."""

    def __init__(self, engine: Engine[Any], commit: Callable[[Entry], Awaitable[None]]) -> None:
        super().__init__(engine)
        self._commit = commit

    commit = _commits(ProposedTurn)
    """Commit a turn atomically, in a group with the other waiting turns; return after it is on disk.

    `expected_turn` is the turn it was computed from. At creation it is NO_TURN, and `session` is the new session. A
    turn that migrates the session to another version of its script has a `migration`. With `calls_used`, the calls
    of models and tools in the session's journal are settled: those with these ids were used, the others were not.
    The texts of `calls_withheld`, and of calls that were not used, are not stored. `calls_unsettled` stay in the
    journal. `prompts` are stored with the calls of these ids. `deliveries` are the events for webhooks. `timers` and
    `hand_overs` replace those of the session; None leaves them as they are.

    Raises TurnConflict if another turn was committed first, KeyTaken if a new session's key belongs to another
    session, UserErased if the user of a new session was erased after it began, RowRefused for an invalid row.
    """

    async def note_call(self, call: CallRow) -> None:
        """Write a call of a model to the journal: before it is made, and again with its result after it has ended.

        Raises RowRefused for an invalid row.
        """
        await self._commit(call)

    @abstractmethod
    async def search(self, tenant: str, what: SearchFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Hit]:
        """Return a page of messages that contain all words, the most recent first. Raises CursorInvalid.

        A page that is not the last may have fewer than `limit` messages.
        """

    save_failure = writes(turns.save_failure)
    get = reads(turns.turn)
    range = reads(turns.turns)
    by_key = reads_durable(turns.turn_by_key)
    messages = reads(turns.messages)
    recent_messages = reads(turns.recent_messages)
    user_message = reads(turns.user_message)
    snapshots = reads(turns.snapshots)
    events = reads(turns.events)
    variable_history = reads(turns.variable_history)
    failures = reads(turns.failures)
    unsettled_calls = reads(calls_sql.unsettled_calls)
    calls = reads(calls_sql.calls)
    spent = reads(calls_sql.spent)


class Sessions(Repository, ABC):
    """Store and read sessions and the variables of users."""

    @abstractmethod
    async def head(self, tenant: str, session_id: str) -> SessionHead | None:
        """Return a session with the state after its latest turn."""

    @abstractmethod
    async def load(self, tenant: str, session_id: str) -> LoadedSession | None:
        """Return a session with all that is needed to continue it."""

    @abstractmethod
    async def page(
        self,
        tenant: str,
        which: SessionFilter | None = None,
        *,
        order: Order = "created",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ListedSession]:
        """Return a page of sessions, the newest or the most recently active first. Raises CursorInvalid."""

    @abstractmethod
    async def user_variables(self, tenant: str, user_id: str) -> list[UserVariableRow]:
        """Return a user's variables of the global scope that are set, ordered by name."""

    start = reads(sessions.session_start)
    by_key = reads(sessions.session_by_key)
    by_creation_key = reads_durable(sessions.creation_by_key)
    hand_overs = reads(sessions.hand_overs)
    migrations = reads(sessions.migrations)
    label = writes(sessions.label)
    ids_of_user = reads(deletion.sessions_of_user)
    statistics = reads(statistics)
    user_history = reads(variables.user_history)
    fork = writes(copies.fork)
    import_session = writes(
        copies.import_session,
        lambda _, whole, **__: ChangedIds(
            [(whole.session.tenant, whole.session.session_id)], [(row.tenant, row.user_id) for row in whole.variables]
        ),
    )
    set_user_variables = writes(
        variables.set_user_variables, lambda _, rows, *__: ChangedIds(users=[(rows[0].tenant, rows[0].user_id)])
    )


class Scripts(Repository):
    """Store and read scripts."""

    save = writes(script_texts.save_script)
    set_statuses = writes(script_texts.set_statuses)
    describe = writes(script_texts.describe)
    page = reads(script_texts.scripts)
    get = reads(script_texts.script)
    versions = reads(script_texts.script_versions)
    latest_published = reads(script_texts.latest_published)
    text = reads(script_texts.script_text)
    save_draft = writes(script_texts.save_draft)
    delete_draft = writes(script_texts.delete_draft)
    draft = reads(script_texts.DRAFTS.find)
    drafts = reads(script_texts.drafts)


class Delivery(Repository):
    """Store and read webhooks and deliveries."""

    add_webhook = writes(webhooks.add_webhook)
    change_webhook = writes(webhooks.change_webhook)
    remove_webhook = writes(webhooks.remove_webhook)
    note_attempts = writes(webhooks.note_attempts)
    replay = writes(webhooks.replay_deliveries)
    tidy = writes(webhooks.tidy_deliveries)
    webhooks_of_all = reads(webhooks.webhooks_of_all)
    ahead = reads(webhooks.deliveries_ahead)
    page = reads(webhooks.deliveries)
    get = reads(webhooks.delivery)


class Timers(Repository):
    """Read timers, and note failed attempts to fire them."""

    ahead = reads(timers.ahead)
    page = reads(timers.page)
    replace = writes(timers.replace)
    hold_due = writes(timers.hold_due)
    note_failure = writes(timers.note_failure)


class Keys(Repository):
    """Store and read API keys."""

    add = writes(access.KEYS.add)
    revoke = writes(access.revoke_key)
    note_use = writes(access.note_key_use)
    known = reads(access.known_keys)
    get = reads(access.KEYS.find)
    page = reads(access.KEYS.page)


class Participants(Repository):
    """Store and read links and participants."""

    add_link = writes(access.add_link)
    revoke_link = writes(access.revoke_link)
    link = reads(access.link)
    links = reads(access.LINKS.page)
    add = writes(access.add_participant)
    revoke = writes(access.revoke_participant)
    set_push = writes(access.set_push)
    to_remind = reads(access.to_remind)
    reminded = reads(access.sessions_reminded)
    get = reads(access.participant)
    resuming = reads(access.resuming)
    page = reads(access.participants)


class Reviews(Repository):
    """Store and read reviews and ratings."""

    add = writes(reviews.add_review)
    close = writes(reviews.close_review)
    delete = writes(reviews.delete_review)
    get = reads(reviews.REVIEWS.find)
    page = reads(reviews.REVIEWS.page)
    targets = reads(reviews.targets)
    turns_of = reads(reviews.turns_of)
    rate = writes(reviews.rate)
    rating = reads(reviews.rating)
    ratings = reads(reviews.ratings)


class Retention(Repository):
    """Apply retention policies to the database."""

    counts = reads(retention.counts)
    count_due = reads(retention.count_due)
    due = reads(retention.due)
    apply = writes(
        retention.apply,
        lambda result, tenant, *_: ChangedIds(
            [(tenant, session_id) for session_id in (*result.redacted, *result.deleted)]
        ),
    )


class Maintenance(Repository, ABC):
    """Delete data, rewrite and copy the database, and measure it."""

    compaction: RunningCopy | None = None
    """The running compaction, if there is one."""
    backup: RunningCopy | None = None
    """The running backup, if there is one."""

    delete_session = writes(
        deletion.delete_session, lambda is_removed, tenant, session_id: ChangedIds([(tenant, session_id)] * is_removed)
    )
    erase_user = writes(
        deletion.erase_user,
        lambda erased, tenant, user_id, *_: ChangedIds(
            [(tenant, session_id) for session_id in erased.sessions], [(tenant, user_id)]
        ),
    )

    @abstractmethod
    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Rewrite the file, so that it no longer contains deleted data. Turns wait until it is done.

        If the caller is cancelled, the compaction continues until the store is closed. `on_step` is called in a thread
        with the name of each step. Raises CompactionRunning, BackupRunning, DiskTooSmall, StoreUnavailable.
        """

    @abstractmethod
    async def back_up(self, folder: Path, on_step: OnStep = lambda _: None) -> int:
        """Copy the database into a folder, with the rows of one moment; return the size of the copy in bytes.

        Turns continue meanwhile. If the caller is cancelled, the backup continues until the store is closed. Raises
        CompactionRunning, BackupRunning, DiskTooSmall, OSError, StoreUnavailable.
        """

    @abstractmethod
    async def stop_copy(self) -> None:
        """Stop the running compaction or backup, if there is one, and wait until it has stopped."""

    @abstractmethod
    async def require_compactable(self) -> None:
        """Raise CompactionRunning, BackupRunning or DiskTooSmall if the database cannot be compacted now."""

    @abstractmethod
    async def size_to_copy(self) -> Size:
        """Return the size as `size` does, if the database can be compacted and backed up. Raises NotWithPostgres."""

    @abstractmethod
    async def size(self) -> Size:
        """Return the size of the database and the free space of its disk, in bytes."""
