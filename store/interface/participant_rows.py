"""Rows of links, and of the participants that come through links or with tokens of an application."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Users: TypeAlias = Literal["anonymous", "named"]


class PushSubscription(Struct, frozen=True):
    """Where a browser receives reminders (RFC 8030), and the keys with which they are encrypted for it (RFC 8291)."""

    endpoint: str
    p256dh: str
    """Its public key, a point of P-256 in base64url."""
    auth: str
    """Its secret, 16 bytes in base64url."""

    def __repr__(self) -> str:
        return "PushSubscription()"


class LinkRow(Struct, frozen=True, kw_only=True):
    """A link that opens a script to participants."""

    tenant: str
    link_id: str
    """Unique over all tenants."""
    script_id: str
    version: int | None
    """The version that sessions run; None for the published one at the time."""
    users: Users
    resumes: bool
    """Whether a participant can come back on the same device."""
    sessions_max: int
    access_days: int
    initial_variables: Mapping[str, Any]
    locale: str | None
    created_at: datetime
    expires_at: datetime | None = None
    """From then on it admits no more participants."""
    revoked_at: datetime | None = None


class ParticipantRow(Struct, frozen=True, kw_only=True):
    """A person in a browser, with access to one session."""

    tenant: str
    participant_id: str
    link_id: str | None
    user_id: str
    session_id: str
    """The session, which may not have begun."""
    script_id: str
    version: int | None
    locale: str | None
    timezone: str | None
    resume_digest: str | None
    """SHA-256 of the secret with which the device comes back, in hexadecimal."""
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    push: PushSubscription | None = None
    """Where the browser is reminded when the session speaks by itself; None for not."""

    @property
    def is_reminded(self) -> bool:
        """Return whether the browser is reminded when the session speaks by itself."""
        return self.push is not None

    def __repr__(self) -> str:
        return f"ParticipantRow({self.tenant}, {self.participant_id})"  # keeps digests out of logs
