"""The row types of memory, as all other packages write and read them."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from store.interface.rows import JsonObject, JsonText, ModelCallRow

Trust: TypeAlias = Literal["own", "conversation", "foreign"]
JobStatus: TypeAlias = Literal["queued", "running", "done", "failed"]
JobKind: TypeAlias = Literal["summarise", "forget", "embed"]

SEQUENCE_MAX = 2**63 - 1
"""The greatest number of a unit that the database can store."""


class OwnerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user who has a long-term memory."""

    tenant: str
    user_id: str
    memory_id: str
    sequence: int
    """The highest sequence number that a unit ever had."""
    is_stale: bool = False
    """Whether the summary of the whole memory covers units that have been removed since."""
    created_at: datetime


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A chain of units: a session, or a collection with a name that an application chose."""

    tenant: str
    user_id: str
    group_id: str
    session_id: str | None = None
    turn: int = -1
    """The last turn of the session that was ingested."""
    short_term: JsonText = msgspec.Raw(b"null")
    """The short-term memory of the group, encoded by the runtime."""
    created_at: datetime


class UnitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of memory. The text of a unit that is a message is stored in the message's turn."""

    tenant: str
    user_id: str
    unit_id: str
    sequence: int
    group_id: str
    session_id: str | None = None
    turn: int | None = None
    message: int | None = None
    """The number of the message that the unit is."""
    rank: int = 0
    level: int = 0
    content: str | None
    """The text. Never null when it is read; null when the unit of a message is written, since its turn has the text."""
    source: str
    creation_time: datetime
    end_time: datetime
    metadata: JsonObject = {}
    parent_id: str | None = None
    visit_count: int = 0
    last_visit: int
    never_delete: bool = False
    trust: Trust
    is_extract: bool = False
    is_stale: bool = False
    tells_from: int = 0
    valid_from: datetime
    valid_to: datetime | None = None
    superseded_by: str | None = None
    duplicate_of: str | None = None


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A requested job that works on a memory."""

    tenant: str
    user_id: str
    job_id: str
    """A UUID."""
    kind: JobKind
    options: JsonObject
    status: JobStatus
    done: int = 0
    total: int = 0
    result: JsonObject | None = None
    error: str | None = None
    created_at: datetime
    updated_at: datetime


class Visit(msgspec.Struct, frozen=True):
    """The counters of a unit after it, or a unit below it, was recalled."""

    sequence: int
    visit_count: int
    last_visit: int


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """All columns of a unit that can change, except its counters.

    Writing a relation with `is_stale` withdraws a summary: its content and vectors are deleted.
    """

    sequence: int
    parent_id: str | None
    never_delete: bool
    is_stale: bool
    valid_to: datetime | None
    superseded_by: str | None
    duplicate_of: str | None


class VectorRows(msgspec.Struct, frozen=True):
    """Vectors of one embedder, by the sequence numbers of their units."""

    embedder: str
    sequences: list[int]
    sessions: list[str | None]
    vectors: list[bytes]
    """32-bit floats, little-endian; empty if the embedder finds nothing to embed in a unit."""


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one memory that are written in one transaction."""

    tenant: str
    user_id: str
    version: int | None = None
    """The version of the memory that the change was computed from, where several servers may change it."""
    owner: OwnerRow | None = None
    """The new row; it is inserted if there was none."""
    groups: list[GroupRow] = []
    """The new rows."""
    groups_removed: list[str] = []
    units: list[UnitRow] = []
    """New units, and units that replace one with the same sequence number."""
    removed: list[int] = []
    """Units to delete together with their vectors."""
    visits: list[Visit] = []
    relations: list[Relation] = []
    vectors: VectorRows | None = None
    """New vectors; they replace those of the same units and embedder."""
    only_embedder: str | None = None
    """If set, all vectors of other embedders are deleted."""
    jobs: list[JobRow] = []
    """The new rows."""

    @property
    def removes(self) -> bool:
        """Whether units are deleted or summaries withdrawn, so that their vectors must be removed everywhere."""
        return bool(self.removed) or any(relation.is_stale for relation in self.relations)

    @property
    def is_of_jobs(self) -> bool:
        """Whether only jobs change, which servers do not cache."""
        return self == MemoryChange(tenant=self.tenant, user_id=self.user_id, version=self.version, jobs=self.jobs)


class BehindRow(msgspec.Struct, frozen=True):
    """A session with turns that are not ingested yet."""

    session_id: str
    turn: int
    """The last turn that was ingested."""
    turns: int
    """The session's last turn."""
    created_at: datetime
    digest: str
    """The digest of the script that the session runs now."""
    metadata: JsonObject


class AdmissionRow(msgspec.Struct, frozen=True):
    """The parts of a turn that memory ingests."""

    turn: int
    finished_at: datetime
    messages: JsonText
    events: JsonText
    """The events of the kinds that memory uses."""


class StoredVectors(msgspec.Struct, frozen=True):
    """Vectors read from the database: sequence numbers of units and, at the same indexes, their vectors as bytes."""

    sequences: list[int]
    vectors: list[bytes]


class MemoryCallRow(ModelCallRow, frozen=True, kw_only=True):
    """A call of a language model for a memory."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits above which a memory needs automatic maintenance."""

    embeds: bool
    """Whether units should have vectors."""
    units_max: int
    summarise_from: int
    """Number of units of a group without a summary from which they are summarised; 0: never automatically."""


class OwnerOf(msgspec.Struct, frozen=True):
    """A user of a tenant."""

    tenant: str
    user_id: str
