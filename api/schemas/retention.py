"""What those who run a server are told of its retention."""

from datetime import datetime

from api.schemas.base import View
from store.retention import Drop


class PolicyView(View, frozen=True, kw_only=True):
    """A policy of the settings, and what it would drop now: `bytes` of messages, variables and events as stored,
    `oldest` the last turn of the session that was left the longest time ago.
    """

    after_days: int
    drop: Drop
    script: str | None
    tenant: str | None
    status: str | None
    sessions: int
    turns: int
    messages: int
    bytes: int
    oldest: datetime | None


class RetentionStep(View, frozen=True, kw_only=True):
    """How far a run is: sessions that were due when it began, texts and sessions dropped, sessions passed over."""

    sessions_due: int
    texts: int
    sessions: int
    passed: int


class RetentionView(View, frozen=True, kw_only=True):
    """What is due now, policy by policy, and the run that is under way."""

    policies: list[PolicyView]
    running: RetentionStep | None
    success: bool = True


class RetentionDone(RetentionStep, frozen=True, kw_only=True):
    """What a run came to."""

    success: bool = True
