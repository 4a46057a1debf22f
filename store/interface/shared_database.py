"""What a server needs to know of the other servers that use the same database."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from store.interface.admission import SessionId


class SessionStamp(NamedTuple):
    """What a server compares with a session that it has cached."""

    turn: int
    calls: int
    """The number of rows of the journal for the next turn: a call that has ended has two."""
    has_failed: bool
    """Whether an attempt at the next turn has failed."""
    mark: str
    """Changes with the row of the session: with its key, metadata or redaction, or another session in its place."""


class Progress(NamedTuple):
    """How far a session has come."""

    session: SessionId
    event_count: int
    is_completed: bool


class Marks(NamedTuple):
    """Fingerprints of the tables that every server has in memory."""

    keys: str
    webhooks: str
    participants: str
    erasures: dict[str, int]
    """The number of erasures, by tenant."""


class SharedDatabase(Protocol):
    """The other servers on the same database, as far as rows tell of them. All times are on the database's clock."""

    async def stamp(self, tenant: str, session_id: str) -> SessionStamp | None:
        """Return the stamp of a session, or None if there is no such session."""

    async def progress(self, sessions: Sequence[SessionId]) -> list[Progress]:
        """Return how far sessions have come; those that do not exist are left out."""

    async def marks(self) -> Marks:
        """Return the fingerprints of the tables that are cached."""

    async def memory_version(self, tenant: str, user_id: str) -> int:
        """Return the version of a memory, which every change replaces by a greater one; 0 if it was never changed."""

    async def beat(self) -> int:
        """Note that this server lives; return the number of servers that live."""

    async def lead(self, job: str, seconds: int) -> bool:
        """Return whether this server does a job alone from now on, for `seconds`."""

    async def stop_leading(self, job: str) -> None:
        """Let another server do a job that this one did alone."""

    async def is_due(self, job: str, every_s: float) -> bool:
        """Return whether no server has ended a job within the last `every_s` seconds."""

    async def note_end(self, job: str) -> None:
        """Note that a job has ended now."""

    async def leave(self) -> None:
        """Note that this server does not live any more, and let others do what it did alone."""

    async def drop_copies(self) -> None:
        """Delete what this server has copied from the database for analytics, since it may contain erased data."""

    async def agree_on_key(self, name: str, digest: str) -> bool:
        """Return whether a key file has the digest of the first server that had one of this name."""
