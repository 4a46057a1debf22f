"""Retention policies, and the sessions that are due.

The first policy with the action `redact` that matches a session applies to it, and likewise the first with `delete`,
whatever their ages. So an exception must precede the general policy.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

RetentionAction: TypeAlias = Literal["redact", "delete"]


DAYS_MAX = 36_500


DUE_MAX = 10_000
"""Maximum number of due sessions that one query returns; the next query returns more."""


_Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Policy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule for which sessions are redacted or deleted, and when. A filter that is null matches all sessions."""

    after_days: Annotated[int, Meta(ge=1, le=DAYS_MAX)]
    """Days since the session's last turn."""
    action: RetentionAction = "redact"
    """`redact` removes texts and values and retains what is counted; `delete` deletes the whole session."""
    script: _Text | None = None
    """The author's id of the script that the session runs now; `*` matches any characters."""
    tenant: _Text | None = None
    """The tenant of the session."""
    status: Literal["active", "paused", "completed"] | None = None
    """The status of the session."""

    def covers(self, other: "Policy") -> bool:
        """Return whether it matches all sessions that the other policy matches, with the same action."""
        pairs = ((self.script, other.script), (self.tenant, other.tenant), (self.status, other.status))
        return self.action == other.action and all(mine in {None, theirs} for mine, theirs in pairs)


def check_policies(policies: Sequence[Policy]) -> None:
    """Raise ValueError for a policy that never applies, because an earlier one matches all its sessions."""
    for number, policy in enumerate(policies):
        for before, other in enumerate(policies[:number]):
            if other.covers(policy):
                raise ValueError(
                    f"retention[{number}] never applies: the earlier retention[{before}] matches all its sessions; "
                    "put the policy for fewer sessions first"
                )


class Due(Struct, frozen=True):
    """A session that is due for redaction or deletion."""

    tenant: str
    session_id: str
    user_id: str
    action: RetentionAction
    turns: int


class DueByPolicy(Struct, frozen=True):
    """The totals of the sessions that one policy would redact or delete now."""

    number: int
    """The policy's index in the list, from 0."""
    sessions: int
    turns: int
    messages: int
    bytes: int
    """The stored size of messages, variable writes and events."""
    oldest: datetime
    """The time of the last turn of the session that has been inactive the longest."""


class RetentionResult(Struct, frozen=True):
    """The ids of the sessions of a tenant that one transaction redacted or deleted."""

    redacted: list[str]
    deleted: list[str]
    users: list[str]
    """The users whose memory contained rows of these sessions."""
