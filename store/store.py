"""The store as all other packages use it, whatever its database is."""

from abc import ABC, abstractmethod

from store.analytics.analytics_repository import AnalyticsRepository
from store.interface.repositories.delivery_repository import DeliveryRepository
from store.interface.repositories.key_repository import KeyRepository
from store.interface.repositories.maintenance_repository import MaintenanceRepository
from store.interface.repositories.memory_repository import MemoryRepository
from store.interface.repositories.participant_repository import ParticipantRepository
from store.interface.repositories.retention_repository import RetentionRepository
from store.interface.repositories.review_repository import ReviewRepository
from store.interface.repositories.script_repository import ScriptRepository
from store.interface.repositories.session_repository import SessionRepository
from store.interface.repositories.timer_repository import TimerRepository
from store.interface.repositories.turn_repository import TurnRepository
from store.interface.shared_database import SharedDatabase
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

    turns: TurnRepository
    sessions: SessionRepository
    scripts: ScriptRepository
    memory: MemoryRepository
    timers: TimerRepository
    delivery: DeliveryRepository
    keys: KeyRepository
    participants: ParticipantRepository
    maintenance: MaintenanceRepository
    reviews: ReviewRepository
    retention: RetentionRepository
    analytics: AnalyticsRepository
    verification: VerificationRepository

    @abstractmethod
    async def close(self) -> None:
        """Write the queued writes and close the database. Raises StoreUnavailable if that hangs."""

    @property
    @abstractmethod
    def writer_lag_s(self) -> float:
        """Seconds since the writing of the current group of turns began; 0 if nothing is being written."""

    @property
    @abstractmethod
    def writes_waiting(self) -> int:
        """The number of writes that wait."""

    @abstractmethod
    def ready(self) -> str | None:
        """Return None if turns can be written, otherwise the reason why not."""

    @abstractmethod
    def lost(self) -> str | None:
        """Return an error message if the database file is no longer at its path, so nothing is written; else None."""

    @abstractmethod
    def lost_commits(self) -> str | None:
        """Return an error message if acknowledged commits are missing in the database, else None."""
