"""The access of participants: their tokens, what a token permits, and how it ends.

A participant has access to one session, begun with the script that the link or the application named.
"""

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from cachetools import LRUCache
from msgspec import Struct

from api.auth.participant_tokens import ParticipantTokens
from api.auth.principal import Principal
from api.errors import ApiError, invalid_field
from api.schemas.participants import NewToken
from api.schemas.sessions import NewSession
from api.sessions.live_turns import PendingTurn
from api.sessions.session_cache import CachedSession
from api.sessions.session_creation import SessionCreation, timezone_of
from api.sessions.turn_runner import Preconditions
from store.interface.errors import IdTaken, RowRefused
from store.interface.participant_rows import ParticipantRow

KNOWN_MAX = 10_000
"""Cached participants, those with the latest requests: reading one from the database takes longer than a request."""
TOKENS_MAX = 100_000
"""The most participants of one tenant that have access by an application's tokens."""


class _Revocation(asyncio.Event):
    """Ends the streams of a participant when it is set."""

    def __init__(self, link_id: str | None) -> None:
        super().__init__()
        self.link_id = link_id


class SignedToken(Struct, frozen=True):
    """A token with its expiry time."""

    text: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"SignedToken({self.expires_at})"


class Participants:
    """The participants of all tenants."""

    def __init__(self, creation: SessionCreation, tokens: ParticipantTokens) -> None:
        self._creation = creation
        self._chat = creation.chat
        self._runner = creation.runner
        self._catalog = creation.catalog
        self._rows = creation.runner.store.participants
        self._settings = creation.runner.settings
        self._clock = creation.runner.clock
        self._tokens = tokens
        self._revocations: WeakValueDictionary[str, _Revocation] = WeakValueDictionary()
        self._beginning: WeakValueDictionary[str, PendingTurn] = WeakValueDictionary()
        self._known: LRUCache[str, ParticipantRow] = LRUCache(KNOWN_MAX)
        self._changes = 0  # a row that was read before a change is not cached after it
        self._chat.on_evicted = self._forget_session

    # -- a request ----------------------------------------------------------------------------------------------------

    async def principal(self, participant_id: str) -> tuple[Principal, asyncio.Event]:
        """Return the principal whom a token names, and the event that ends its streams.

        Raises ApiError UNAUTHENTICATED if the access is revoked, has ended, or is of a link that was revoked.
        """
        revocation = self._revocations.get(participant_id)
        row = self._known.get(participant_id) or await self._read(participant_id)
        if row is None or row.expires_at <= self._clock():
            raise ApiError("UNAUTHENTICATED", "the participant has no access any more")
        if revocation is None:
            revocation = self._revocations.setdefault(participant_id, _Revocation(row.link_id))
        name = f"participant {row.participant_id}"
        return Principal(row.tenant, frozenset({"participant"}), row.user_id, name, participant=row), revocation

    async def _read(self, participant_id: str) -> ParticipantRow | None:
        changes = self._changes
        row = await self._rows.get(participant_id)
        if row is not None and changes == self._changes:
            self._known[participant_id] = row
        return row

    def _forget(self, is_changed: Callable[[ParticipantRow], bool]) -> None:
        """Drop the cached participants that changed in the database."""
        self._changes += 1
        for participant_id, row in list(self._known.items()):
            if is_changed(row):
                del self._known[participant_id]

    async def reload(self) -> None:
        """Forget all participants, after another server changed some; end the streams of those without access."""
        self._forget(lambda _: True)
        for participant_id, revocation in list(self._revocations.items()):
            if await self._rows.get(participant_id) is None:
                revocation.set()

    def _forget_session(self, tenant: str, session_id: str) -> None:
        self._forget(lambda row: (row.tenant, row.session_id) == (tenant, session_id))

    def token(self, row: ParticipantRow) -> SignedToken:
        """Return a new token of a participant."""
        end = self._clock() + timedelta(seconds=self._settings.participant_token_s)
        expires_at = min(end, row.expires_at).replace(microsecond=0)
        return SignedToken(self._tokens.sign(row.participant_id, expires_at), expires_at)

    async def renew(self, row: ParticipantRow) -> SignedToken:
        """Return the next token of a participant. Raises ApiError SESSION_ENDED."""
        cached = await self.session(row)
        if cached is not None and cached.state.status == "completed":
            raise ApiError("SESSION_ENDED", "the conversation has ended")
        return self.token(row)

    # -- a session ----------------------------------------------------------------------------------------------------

    async def session(self, row: ParticipantRow) -> CachedSession | None:
        """Return the session of a participant; None if it has not begun."""
        try:
            return await self._chat.session(row.tenant, row.session_id)
        except ApiError as error:
            if error.code != "SESSION_NOT_FOUND":
                raise
            return None

    async def to_begin(self, row: ParticipantRow) -> NewSession:
        """Return the session that a participant begins. Raises ApiError UNAUTHENTICATED."""
        if await self._rows.get(row.participant_id) is None:  # another server may just have erased the user
            raise ApiError("UNAUTHENTICATED", "the participant has no access any more")
        link = await self._rows.link(row.link_id) if row.link_id is not None else None
        return NewSession(
            user_id=row.user_id,
            script_id=row.script_id,
            script_version=row.version,
            initial_variables=dict(link.initial_variables) if link is not None else {},
            metadata={"link": row.link_id} if row.link_id is not None else {},
            locale=row.locale,
            timezone=row.timezone,
        )

    def begin(self, row: ParticipantRow, new: NewSession) -> PendingTurn:
        """Begin the session of a participant, once for all requests; awaiting the result raises ApiError."""
        running = self._beginning.get(row.participant_id)
        if running is not None and not running.is_answered:
            return running
        condition = Preconditions(_creation_key(row.participant_id), None, False)
        pending = self._creation.submit(row.tenant, new, condition, join=True)
        self._beginning[row.participant_id] = pending
        return pending

    async def session_id_of(self, tenant: str, participant_id: str) -> str:
        """Return the id of the session that a participant will begin."""
        return await self._runner.new_session_id(tenant, _creation_key(participant_id))

    # -- changes ------------------------------------------------------------------------------------------------------

    async def add(self, row: ParticipantRow, places: int) -> None:
        """Give a participant access. Raises ApiError LINK_FULL, LINK_CODE_USED, PARTICIPANTS_FULL, StoreError."""
        try:
            async with self._chat.creations.begin((row.tenant, row.user_id)):
                await self._rows.add(row, places, self._clock())
        except IdTaken as error:
            raise ApiError("LINK_CODE_USED", "this code was used already") from error
        except RowRefused as error:
            code = "PARTICIPANTS_FULL" if row.link_id is None else "LINK_FULL"
            raise ApiError(code, str(error)) from error

    async def admit(self, tenant: str, new: NewToken) -> ParticipantRow:
        """Give a user of an application access to a session, a new one or one that exists. Raises ApiError."""
        timezone_of(new.timezone)
        participant_id, now = secrets.token_hex(16), self._clock()
        version = new.version
        if new.session_id is not None:
            session_id, script_id, version = await self._session_of(tenant, new)
        else:
            script = await self._catalog.version_to_begin(tenant, _script_of(new), new.version)
            await self._catalog.valid_program(tenant, script.digest)
            session_id = await self.session_id_of(tenant, participant_id)
            script_id = script.script_id
        row = ParticipantRow(
            tenant=tenant,
            participant_id=participant_id,
            link_id=None,
            user_id=new.user_id,
            session_id=session_id,
            script_id=script_id,
            version=version,
            locale=new.locale,
            timezone=new.timezone,
            resume_digest=None,
            created_at=now,
            expires_at=now + timedelta(hours=new.access_hours),
        )
        await self.add(row, TOKENS_MAX)
        return row

    async def _session_of(self, tenant: str, new: NewToken) -> tuple[str, str, int]:
        """Return the id, script and version of a session of the user. Raises ApiError."""
        if new.script_id is not None or new.version is not None:
            raise invalid_field("sessionId", "it cannot be combined with `scriptId` or `version`")
        cached = await self._chat.session(tenant, new.session_id or "")
        session = cached.session
        if session.user_id != new.user_id:
            context = {"sessionId": new.session_id}
            raise ApiError("SESSION_NOT_FOUND", "the user has no such session", context=context)
        return session.session_id, session.script_id, session.script_version

    async def get(self, tenant: str, participant_id: str) -> ParticipantRow:
        """Return a participant who has access. Raises ApiError PARTICIPANT_NOT_FOUND."""
        row = await self._rows.get(participant_id)
        if row is None or row.tenant != tenant:
            raise ApiError("PARTICIPANT_NOT_FOUND", "there is no such participant, or the access is revoked")
        return row

    async def revoke(self, tenant: str, participant_id: str) -> None:
        """Revoke the access of a participant at once, and end the streams. Raises ApiError PARTICIPANT_NOT_FOUND."""
        if not await self._rows.revoke(tenant, participant_id, self._clock()):
            raise ApiError("PARTICIPANT_NOT_FOUND", "there is no such participant, or the access is revoked already")
        self._forget(lambda row: row.participant_id == participant_id)
        revocation = self._revocations.get(participant_id)
        if revocation is not None:
            revocation.set()

    def end_access(self, link_id: str) -> None:
        """Forget all participants of a link that was revoked, and end their streams."""
        self._forget(lambda row: row.link_id == link_id)
        for revocation in list(self._revocations.values()):
            if revocation.link_id == link_id:
                revocation.set()


def _creation_key(participant_id: str) -> str:
    """Return the idempotency key with which a participant's session is created."""
    return f"participant {participant_id}"


def _script_of(new: NewToken) -> str:
    if new.script_id is None:
        raise invalid_field("scriptId", "it or `sessionId` is missing")
    return new.script_id
