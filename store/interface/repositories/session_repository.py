"""Sessions: their start, current state, lists, copies and users' variables."""

from typing import Protocol

from store.interface.hand_over_rows import HandOverRow, HandOverStatus
from store.interface.list_rows import Order, SessionFilter, SessionListed
from store.interface.pages import Page
from store.interface.rows import (
    ForkRow,
    Gaps,
    JsonObject,
    LoadedSession,
    MigrationRow,
    SessionDocument,
    SessionHead,
    SessionRow,
    UserHistoryRow,
    UserVariableRow,
)
from store.interface.statistics_rows import SessionStatistics


class SessionRepository(Protocol):
    """Store and read sessions and the variables of users. Every method concerns one tenant."""

    async def head(self, tenant: str, session_id: str) -> SessionHead | None:
        """Return a session with the state after its latest turn."""

    async def load(self, tenant: str, session_id: str) -> LoadedSession | None:
        """Return a session with all that is needed to continue it."""

    async def start(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return a session as it was created, but with its current key and metadata."""

    async def by_key(self, tenant: str, key: str) -> SessionRow | None:
        """Return the session with this key."""

    async def by_creation_key(self, tenant: str, idempotency_key: str) -> SessionRow | None:
        """Return the session that a request with this idempotency key created, once it is on disk."""

    async def page(
        self,
        tenant: str,
        which: SessionFilter | None = None,
        *,
        order: Order = "created",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SessionListed]:
        """Return a page of sessions, the newest or the most recently active first. Raises CursorInvalid."""

    async def hand_overs(
        self,
        tenant: str,
        *,
        user_id: str | None = None,
        status: HandOverStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[HandOverRow]:
        """Return a page of sessions for a person, those that wait longest first. Raises CursorInvalid."""

    async def statistics(self, tenant: str, session_id: str, *, without: Gaps = ()) -> SessionStatistics | None:
        """Return the statistics of a session, without the messages in the ranges `without`."""

    async def migrations(self, tenant: str, session_id: str) -> list[MigrationRow]:
        """Return the session's last 1,000 script migrations, the newest first."""

    async def fork(self, fork: ForkRow) -> None:
        """Store a copy of a session up to one of its turns under another id, atomically.

        Raises KeyTaken, or RowRefused if there is no such turn.
        """

    async def label(self, before: SessionRow, key: str | None, metadata: JsonObject) -> bool:
        """Set the key and the metadata of a session; return false if they are no longer those of `before`, or the
        session is redacted or deleted. Raises KeyTaken, RowRefused.
        """

    async def import_session(self, whole: SessionDocument, *, replaces: bool = False) -> None:
        """Add a session with all its rows, atomically; with `replaces`, replace an existing session with the same id.

        Raises SessionTaken if the id exists and `replaces` is false, KeyTaken if one of its keys belongs to another
        session, RowRefused for an invalid row.
        """

    async def user_variables(self, tenant: str, user_id: str) -> list[UserVariableRow]:
        """Return a user's variables of the global scope that are set, ordered by name."""

    async def set_user_variables(self, rows: list[UserVariableRow], count_max: int) -> list[UserVariableRow]:
        """Set variables of one user outside any session, unset those whose value is null, and return all that are set.

        Raises VariablesFull if there would be more than `count_max`, RowRefused for an invalid row.
        """

    async def user_history(
        self, tenant: str, user_id: str, *, offset: int = 0, limit: int = 100
    ) -> list[UserHistoryRow]:
        """Return at most `limit` writes of a user's global variables, in sessions and outside, the oldest first."""

    async def ids_of_user(self, tenant: str, user_id: str) -> list[str]:
        """Return the ids of all sessions of a user that have any rows, including sessions that were never created."""
