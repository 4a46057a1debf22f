"""Links: created, listed and revoked by authors and applications, and opened by participants without a key."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from api.auth.api_keys import digest_of
from api.auth.rate_limit import RateLimiter
from api.errors import ApiError, invalid_field, refusing, require_found
from api.participants.access import Participants
from api.schemas.participants import LinkPage, NewEntry, NewLink
from api.sessions.session_creation import SessionCreation, timezone_of
from runtime.state.program import Program
from scripts.model.script import Locale
from scripts.translations.localisation import table_for
from store.interface.errors import IdTaken, RowRefused
from store.interface.participant_rows import LinkRow, ParticipantRow

T = TypeVar("T")


class Entry(Struct, frozen=True):
    """A participant who came through a link, and the secret of the device, which is not stored."""

    participant: ParticipantRow
    resume: str | None

    def __repr__(self) -> str:
        return f"Entry({self.participant!r})"


class Links:
    """The links of all tenants."""

    def __init__(self, participants: Participants, creation: SessionCreation) -> None:
        runner = creation.runner
        self._participants = participants
        self._creation = creation
        self._catalog = creation.catalog
        self._rows = runner.store.participants
        self._clock = runner.clock
        self._link_rates = RateLimiter(runner.settings.link_entries_per_minute, "link_entries_per_minute")
        a_minute = runner.settings.address_entries_per_minute
        self._address_rates = RateLimiter(a_minute, "address_entries_per_minute")

    # -- of a tenant --------------------------------------------------------------------------------------------------

    async def create(self, tenant: str, new: NewLink) -> LinkRow:
        """Create a link. Raises ApiError LINK_EXISTS, LINKS_FULL, and if no session could begin with it."""
        now = self._clock()
        if new.expires_at is not None and new.expires_at <= now:
            raise invalid_field("expiresAt", "it is not in the future")
        script = await self._catalog.version_to_begin(tenant, new.script_id, new.version)
        program = await self._catalog.valid_program(tenant, script.digest)
        variables = self._creation.check_variables(program, new.locale or program.locale, new.initial_variables)
        fields = asdict(new) | {
            "link_id": new.link_id or secrets.token_hex(12),
            "script_id": script.script_id,
            "initial_variables": variables,
        }
        row = LinkRow(**fields, tenant=tenant, created_at=now)
        with refusing("LINK_EXISTS", IdTaken), refusing("LINKS_FULL", RowRefused):
            await self._rows.add_link(row)
        return row

    async def get(self, tenant: str, link_id: str) -> LinkRow:
        """Return a link of a tenant. Raises ApiError LINK_NOT_FOUND."""
        link = await self._rows.link(link_id)
        return _require(link if link is not None and link.tenant == tenant else None)

    async def revoke(self, tenant: str, link_id: str) -> None:
        """Revoke a link with the access of its participants, and end their streams. Raises ApiError LINK_NOT_FOUND."""
        _require(await self._rows.revoke_link(tenant, link_id, self._clock()))
        self._participants.end_access(link_id)

    # -- of participants ----------------------------------------------------------------------------------------------

    async def look(self, link_id: str, locale: Locale | None, clients: Sequence[str]) -> LinkPage:
        """Return what a page shows of a link. Raises ApiError LINK_NOT_FOUND, RATE_LIMITED."""
        link = await self._open(link_id, clients)
        name, program = await self._script(link)
        language = link.locale or (locale if locale and _has(program, locale) else program.locale)
        title = program.script.title or name
        return LinkPage(title=title, locale=language, users=link.users, resumes=link.resumes)

    async def enter(self, link_id: str, new: NewEntry, clients: Sequence[str]) -> Entry:
        """Admit a participant, or return the one whose device comes back.

        Raises ApiError LINK_NOT_FOUND, LINK_ENDED, LINK_FULL, LINK_CODE_USED, PARTICIPANT_NOT_FOUND, RATE_LIMITED.
        """
        link = await self._open(link_id, clients)
        if new.resume is not None:
            return Entry(await self._resume(link, new.resume), new.resume)
        if link.expires_at is not None and link.expires_at <= self._clock():
            raise ApiError("LINK_ENDED", "this link admits no more participants")
        timezone_of(new.timezone)
        participant_id, resume = secrets.token_hex(16), secrets.token_urlsafe(32) if link.resumes else None
        now = self._clock()
        row = ParticipantRow(
            tenant=link.tenant,
            participant_id=participant_id,
            link_id=link.link_id,
            user_id=f"link:{link.link_id}/{_code(link, new) or participant_id}",
            session_id=await self._participants.session_id_of(link.tenant, participant_id),
            script_id=link.script_id,
            version=link.version,
            locale=link.locale or await self._locale(link, new.locale),
            timezone=new.timezone,
            resume_digest=digest_of(resume) if resume is not None else None,
            created_at=now,
            expires_at=now + timedelta(days=link.access_days),
        )
        await self._participants.add(row, link.sessions_max)
        return Entry(row, resume)

    async def _open(self, link_id: str, clients: Sequence[str]) -> LinkRow:
        """Return a link for a participant. Raises ApiError LINK_NOT_FOUND, RATE_LIMITED."""
        for client in clients:
            if client.startswith("address "):
                self._address_rates.take(client, "participants of this address")
        link = _require(await self._rows.link(link_id))
        self._link_rates.take(link_id, "participants of this link")
        return link

    async def _resume(self, link: LinkRow, secret: str) -> ParticipantRow:
        row = await self._rows.resuming(link.link_id, digest_of(secret))
        if row is None or row.expires_at <= self._clock():
            raise ApiError("PARTICIPANT_NOT_FOUND", "there is no conversation of this device to come back to")
        return row

    async def _script(self, link: LinkRow) -> tuple[str, Program]:
        """Return the name and the program of the script that a session of a link runs."""
        script = await self._catalog.version_to_begin(link.tenant, link.script_id, link.version)
        return script.name, await self._catalog.program(link.tenant, script.digest)

    async def _locale(self, link: LinkRow, locale: Locale | None) -> Locale | None:
        """Return the language of a browser if the script has it; None for that of the script."""
        if locale is None:
            return None
        _, program = await self._script(link)
        return locale if _has(program, locale) else None


def _has(program: Program, locale: Locale) -> bool:
    same_language = program.locale.partition("-")[0].lower() == locale.partition("-")[0].lower()
    return same_language or table_for(program.script, locale) is not None


def _code(link: LinkRow, new: NewEntry) -> str | None:
    """Return the code of a participant. Raises ApiError REQUEST_INVALID."""
    code = new.code.strip() if new.code is not None else None
    if link.users == "named" and not code:
        raise invalid_field("code", "this link needs the code of the participant")
    if link.users == "anonymous" and code is not None:
        raise invalid_field("code", "this link takes no code, because its participants are anonymous")
    return code


def _require(found: T | None) -> T:
    return require_found(found, "LINK_NOT_FOUND", "there is no such link, or it was revoked")
