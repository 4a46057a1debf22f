"""The store as all other packages use it, whatever its database is."""

from abc import ABC, abstractmethod
from typing import Any

from store.analytics.analytics_repository import AnalyticsRepository
from store.interface.shared_database import SharedDatabase
from store.memory.memory_repository import MemoryRepository
from store.sql import repositories
from store.sql.repository import Engine
from store.sql.writing_thread import WritingThread
from store.verification.verification_repository import VerificationRepository

LAG_MAX_S = 5.0
"""If a group takes longer than this to write, the disk is considered not ready."""


class Store(ABC):
    """The repositories of one open database. Use it from one event loop only.

    Every read and write of a repository concerns one tenant, unless it says otherwise. A write returns after it is on
    disk. It raises StoreBusy if too many writes wait, StoreUnavailable if the disk fails, and StoreReadOnly if the
    database is open read-only. Reads raise StoreBusy, ReadTimedOut and StoreUnavailable.
    """

    shared: SharedDatabase | None = None
    """The other servers on the same database, so that what is cached may be out of date; None: there can be none."""

    turns: repositories.Turns
    sessions: repositories.Sessions
    memory: MemoryRepository
    timers: repositories.Timers
    delivery: repositories.Delivery
    maintenance: repositories.Maintenance
    analytics: AnalyticsRepository
    verification: VerificationRepository

    def __init__(self, engine: Engine[Any], writer: WritingThread[Any] | None) -> None:
        self._writer = writer
        self.scripts = repositories.Scripts(engine)
        self.keys = repositories.Keys(engine)
        self.participants = repositories.Participants(engine)
        self.reviews = repositories.Reviews(engine)
        self.retention = repositories.Retention(engine)

    @abstractmethod
    async def close(self) -> None:
        """Write the queued writes and close the database. Raises StoreUnavailable if that hangs."""

    @property
    def writer_lag_s(self) -> float:
        """Seconds since the writing of the current group of turns began; 0 if nothing is being written."""
        return 0.0 if self._writer is None else self._writer.lag_s

    @property
    def writes_waiting(self) -> int:
        """The number of writes that wait for the writing thread."""
        return 0 if self._writer is None else self._writer.waiting

    @abstractmethod
    def ready(self) -> str | None:
        """Return None if turns can be written, otherwise the reason why not."""

    def loss(self) -> str | None:
        """Return an error message if the database file is no longer at its path, so nothing is written; else None."""
        return None

    def lost_commits(self) -> str | None:
        """Return an error message if acknowledged commits are missing in the database, else None."""
        return None
