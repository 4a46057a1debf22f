"""The rows of memory, as the rest of the program writes and reads them."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from store.rows import JsonObject, JsonText

Trust: TypeAlias = Literal["own", "told", "foreign"]
JobStatus: TypeAlias = Literal["queued", "running", "done", "failed"]
JobKind: TypeAlias = Literal["summarise", "forget", "embed"]


class OwnerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user of whom there is a long-term memory."""

    tenant: str
    user_id: str
    memory_id: str
    sequence: int
    """Of the latest unit there ever was."""
    is_stale: bool = False
    """Whether the summary of it all tells of what has been removed since."""
    created_at: datetime


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A chain of units: a session, or a collection that an application named."""

    tenant: str
    user_id: str
    group_id: str
    session_id: str | None = None
    turn: int = -1
    """The last turn of the session whose messages are units, or would be."""
    short_term: JsonText = msgspec.Raw(b"null")
    """What it has in mind, encoded by the runtime."""
    created_at: datetime


class UnitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of memory; one that is a message has its words in its turn."""

    tenant: str
    user_id: str
    unit_id: str
    sequence: int
    group_id: str
    session_id: str | None = None
    turn: int | None = None
    message: int | None = None
    """The number of the message it is."""
    rank: int = 0
    level: int = 0
    content: str | None
    """Never null when it is read; of a message it is not written, as its turn has it."""
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
    """Work on a memory that somebody asked for."""

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
    """What a unit's counters are after it was recalled, or one below it was."""

    sequence: int
    visit_count: int
    last_visit: int


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a unit now: everything that may change of it but its counters.

    A summary that `is_stale` is withdrawn: writing this deletes its content and vectors.
    """

    sequence: int
    parent_id: str | None
    never_delete: bool
    is_stale: bool
    valid_to: datetime | None
    superseded_by: str | None
    duplicate_of: str | None


class VectorRows(msgspec.Struct, frozen=True):
    """Vectors of one embedder, by the numbers of their units."""

    embedder: str
    sequences: list[int]
    sessions: list[str | None]
    vectors: list[bytes]
    """32-bit floats, little-endian; empty where the embedder sees nothing in a unit."""


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one memory in one transaction: all of it, or nothing."""

    tenant: str
    user_id: str
    owner: OwnerRow | None = None
    """As it is afterwards; one that has never been is made."""
    groups: list[GroupRow] = []
    """As they are afterwards."""
    groups_removed: list[str] = []
    units: list[UnitRow] = []
    """New ones, and those that take the place of one with the same number."""
    removed: list[int] = []
    """Units that go, with their vectors."""
    visits: list[Visit] = []
    relations: list[Relation] = []
    vectors: VectorRows | None = None
    """Those of the same units and embedder go."""
    only_embedder: str | None = None
    """All vectors of other embedders go."""
    jobs: list[JobRow] = []
    """As they are afterwards."""

    @property
    def removes(self) -> bool:
        """Whether units go or summaries are withdrawn, whose vectors must be found nowhere afterwards."""
        return bool(self.removed) or any(relation.is_stale for relation in self.relations)


class BehindRow(msgspec.Struct, frozen=True):
    """A session of which turns are still to be admitted."""

    session_id: str
    turn: int
    """The last turn that was."""
    turns: int
    """The last there is."""
    created_at: datetime
    digest: str
    """The script it runs now."""
    metadata: JsonObject


class AdmissionRow(msgspec.Struct, frozen=True):
    """What a turn has for memory."""

    turn: int
    finished_at: datetime
    messages: JsonText
    events: JsonText
    """Those of the kinds that concern memory."""


class VectorsRead(msgspec.Struct, frozen=True):
    """Vectors as they are read: numbers of units, and the bytes of their vectors one after the other."""

    sequences: list[int]
    vectors: list[bytes]
