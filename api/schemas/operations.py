"""Operations of the server: their state, retention, and verification."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from api.schemas.base import PageView, View
from store.interface.retention_rows import RetentionAction


class Health(View, frozen=True, kw_only=True):
    """The process is alive."""

    status: Literal["ok"]
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """Whether turns can be taken, and what prevents it."""

    ready: bool
    checks: Mapping[str, str]


class CopyStep(View, frozen=True, kw_only=True):
    """The progress of a compaction or backup."""

    step: str
    bytes_written: int
    bytes_expected: int


class CompactionView(View, frozen=True, kw_only=True):
    """The size of the database, and the space that a compaction needs. `reclaimable` is the least it would free."""

    bytes: int
    reclaimable_bytes: int
    needed_bytes: int
    disk_free_bytes: int
    log_bytes: int
    """The part of `bytes` that is in the log: commits that no checkpoint has written to the database file yet."""
    running: CopyStep | None


class CompactionResultView(View, frozen=True, kw_only=True):
    """The result of a compaction."""

    bytes_before: int
    bytes_after: int


class LanguageModelView(View, frozen=True, kw_only=True):
    """A language model."""

    name: str
    """As `POST /api/sessions/:sessionId/model` and scripts name it."""
    is_default: bool
    """Whether it answers if a script names none."""


class LanguageModelList(PageView, frozen=True, kw_only=True):
    """A page of the language models of the server."""

    data: list[LanguageModelView]


class BackupView(View, frozen=True, kw_only=True):
    """A complete backup."""

    backup_id: str
    """The name of its folder: the time at which it was begun."""
    created_at: datetime
    bytes: int
    """The size of the copy of the database."""
    version: str
    """The version of Cuebook that wrote it."""


class BackupList(PageView, frozen=True, kw_only=True):
    """A page of the backups in the server's folder, the newest first, and the one that is being written."""

    folder: str
    """The path of the folder on the server."""
    data: list[BackupView]
    running: CopyStep | None


class BudgetView(View, frozen=True, kw_only=True):
    """What is used of language models, and its limit."""

    unit: Literal["calls", "tokens", "cost"]
    used: float
    """By all users of the tenant today."""
    limit: float | None
    """The limit of a tenant in a day; null: none."""
    user_limit: float | None
    """The limit of one user in a day; null: none."""


class BudgetList(View, frozen=True, kw_only=True):
    """The use of language models of a tenant today."""

    since: datetime
    """Midnight UTC, when the day began."""
    data: list[BudgetView]


class PolicyView(View, frozen=True, kw_only=True):
    """A policy of the settings and the sessions due now: `bytes` of stored messages, variables and events; `oldest` is
    the last turn of the session that has been inactive for the longest time.
    """

    after_days: int
    action: RetentionAction
    script: str | None
    tenant: str | None
    status: str | None
    sessions: int
    turns: int
    messages: int
    bytes: int
    oldest: datetime | None


class RetentionStep(View, frozen=True, kw_only=True):
    """Progress of a run: sessions due at its start, redacted, deleted, and left because a turn was running."""

    sessions_due: int
    redacted: int
    deleted: int
    passed: int


class RetentionView(View, frozen=True, kw_only=True):
    """The sessions due now by policy, and the current run."""

    policies: list[PolicyView]
    running: RetentionStep | None


class RetentionResultView(RetentionStep, frozen=True, kw_only=True):
    """The result of a run, with the number of policies."""

    policy_count: int


class FlawView(View, frozen=True, kw_only=True):
    """A finding in the database: its position, its meaning, and its fix.

    If it is no damage, it may result from normal use of the database during the check.
    """

    code: str
    table: str
    tenant: str
    session_id: str | None
    user_id: str | None
    turn: int | None
    what: str
    remedy: str
    is_damage: bool


class VerificationBatch(View, frozen=True, kw_only=True):
    """The result of one batch of a check: `next` is the start of the next batch; null: the check is complete."""

    findings: Sequence[FlawView]
    sessions: int
    turns: int
    sessions_total: int
    next: str | None


class FixResultView(View, frozen=True, kw_only=True):
    """The findings that a fix removed."""

    fixed: Sequence[FlawView]
