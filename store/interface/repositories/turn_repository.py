"""Turns with their messages, events, variable writes and model calls."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from store.interface.hand_over_rows import HandOverRow
from store.interface.list_rows import Hit, SearchFilter
from store.interface.pages import Page
from store.interface.rows import (
    NO_TURN,
    CallRow,
    FailureRow,
    Gaps,
    MessageRow,
    MigrationRow,
    SessionRow,
    SettledCallRow,
    SnapshotRow,
    SpentRow,
    TurnEventsRow,
    TurnRow,
    UserMessageRow,
    VariableWriteRow,
)
from store.interface.timer_rows import TimerRow
from store.interface.webhook_rows import DeliveryRow


class TurnRepository(Protocol):
    """Store and read turns. Every method concerns one tenant."""

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
        """Commit a turn atomically; return after it is on disk.

        `expected_turn` is the turn it was computed from. At creation it is NO_TURN, and `session` is the new session. A
        turn that migrates the session to another version of its script has a `migration`. With `calls_used`, the calls
        of models in the session's journal are settled: those with these ids were used, the others were not. The texts
        of `calls_withheld`, and of calls that were not used, are not stored. `prompts` are stored with the calls of
        these ids. `deliveries` are the events for webhooks. `timers` and `hand_overs` replace those of the session;
        None leaves them as they are.

        Raises TurnConflict if another turn was committed first, KeyTaken if a new session's key belongs to another
        session, UserErased if the user of a new session was erased after it began, RowRefused for an invalid row.
        """

    async def note_call(self, call: CallRow) -> None:
        """Write a call of a model to the journal: before it is made, and again with its result after it has ended.

        Raises RowRefused for an invalid row.
        """

    async def save_failure(self, failure: FailureRow) -> bool:
        """Record a turn that failed; return false if its session was deleted."""

    async def get(self, tenant: str, session_id: str, number: int) -> TurnRow | None:
        """Return one turn by its number."""

    async def range(self, tenant: str, session_id: str, *, first: int = 0, limit: int = 50) -> list[TurnRow]:
        """Return at most `limit` complete turns from turn `first` on, in order."""

    async def by_key(self, tenant: str, session_id: str, idempotency_key: str) -> TurnRow | None:
        """Return the turn that a request with this idempotency key created, once it is on disk."""

    async def messages(
        self, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 100, without: Gaps = ()
    ) -> list[MessageRow]:
        """Return at most `limit` messages with numbers above `after_seq`, in order, except those in `without`."""

    async def recent_messages(
        self, tenant: str, session_id: str, limit: int, *, before_seq: int | None = None, without: Gaps = ()
    ) -> list[MessageRow]:
        """Return the last `limit` messages with numbers below `before_seq`, in order, except those in `without`."""

    async def user_message(self, tenant: str, session_id: str, index: int, *, without: Gaps = ()) -> UserMessageRow:
        """Return the user's message at an index, from 0, in the conversation except the messages in `without`."""

    async def snapshots(
        self, tenant: str, session_id: str, *, after_turn: int = NO_TURN, limit: int = 100
    ) -> list[SnapshotRow]:
        """Return the positions of the session after at most `limit` turns after `after_turn`, in order."""

    async def events(self, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 20) -> list[TurnEventsRow]:
        """Return at most `limit` turns with events with numbers above `after_seq`, in order."""

    async def variable_history(
        self, tenant: str, session_id: str, *, name: str | None = None, after_turn: int = NO_TURN, limit: int = 100
    ) -> list[VariableWriteRow]:
        """Return the variable writes of at most `limit` turns after `after_turn`, in order; all, or those of `name`."""

    async def failures(self, tenant: str, session_id: str) -> list[FailureRow]:
        """Return the last 100 failed turns of a session, the newest first."""

    async def unsettled_calls(self, tenant: str, session_id: str) -> list[CallRow]:
        """Return the last 500 calls that attempts at the session's next turn have made, in order."""

    async def calls(
        self, tenant: str, session_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[SettledCallRow]:
        """Return a page of a session's calls of models, in order, settled or not. Raises CursorInvalid."""

    async def spent(self, tenant: str, since: datetime, until: datetime, user_id: str | None = None) -> SpentRow:
        """Return the usage of the calls of models of a tenant or of one user that started in a time range."""

    async def search(self, tenant: str, what: SearchFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Hit]:
        """Return a page of messages that contain all words, the most recent first. Raises CursorInvalid.

        A page that is not the last may have fewer than `limit` messages.
        """
