"""Links and participants."""

from datetime import datetime
from typing import Protocol

from store.interface.pages import Page
from store.interface.participant_rows import LinkRow, ParticipantRow, PushSubscription


class ParticipantRepository(Protocol):
    """Store and read links and participants."""

    async def add_link(self, link: LinkRow) -> None:
        """Add a link. Raises RowRefused if its tenant has too many, IdTaken if the id was ever used."""

    async def revoke_link(self, tenant: str, link_id: str, now: datetime) -> bool:
        """Revoke a link and the access of its participants; return whether it was not revoked before."""

    async def link(self, link_id: str) -> LinkRow | None:
        """Return a link of any tenant that is not revoked, because a browser does not name the tenant of its link."""

    async def links(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[LinkRow]:
        """Return a page of a tenant's links, the newest first, including revoked links. Raises CursorInvalid."""

    async def add(self, participant: ParticipantRow, places: int, now: datetime) -> None:
        """Add a participant.

        Raises RowRefused if the link, or the tenant without a link, has `places` already, and IdTaken if the link has
        one with the same user.
        """

    async def revoke(self, tenant: str, participant_id: str, now: datetime) -> bool:
        """Revoke the access of a participant; return whether it had any."""

    async def set_push(
        self, tenant: str, participant_id: str, push: PushSubscription | None, of: str | None = None
    ) -> bool:
        """Set or remove the browser of a participant that is reminded, with `of` only if it has this endpoint; return
        whether anything changed.
        """

    async def to_remind(self, tenant: str, session_id: str, now: datetime) -> list[ParticipantRow]:
        """Return the participants of a session with access to it whose browsers are reminded."""

    async def reminded(self) -> set[tuple[str, str]]:
        """Return the sessions, by tenant and id, that have a participant whose browser is reminded."""

    async def get(self, participant_id: str) -> ParticipantRow | None:
        """Return a participant of any tenant whose access is not revoked, because a token does not name the tenant."""

    async def resuming(self, link_id: str, resume_digest: str) -> ParticipantRow | None:
        """Return the participant of a link whose device has the secret with this digest, unless revoked."""

    async def page(
        self,
        tenant: str,
        *,
        link_id: str | None = None,
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ParticipantRow]:
        """Return a page of participants, the newest first, including revoked ones. Raises CursorInvalid."""
