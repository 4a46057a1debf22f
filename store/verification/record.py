"""The part of the record that checks it."""

from collections.abc import Sequence

from store.readers import Readers
from store.rows import ScriptTextRow
from store.script_texts import texts_after
from store.verification import reading, rules
from store.verification.findings import Finding
from store.verification.reading import Place, SessionPart, SessionSize
from store.verification.rules import Rule


class VerificationRecord:
    """Reads for those who check the record, of all tenants. Raises what the record raises."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def session_count(self) -> int:
        """How many sessions there are."""
        return await self._readers.read(reading.session_count)

    async def sessions_after(self, after: Place | None, limit: int) -> list[SessionSize]:
        """At most `limit` sessions after a place, in order."""
        return await self._readers.read(lambda cursor: reading.sessions_after(cursor, after, limit))

    async def parts(self, places: Sequence[Place], first: int, last: int, *, every_state: bool) -> list[SessionPart]:
        """Turns `first` to `last` of sessions, as they are at one moment; those that are gone are left out."""
        return await self._readers.read(
            lambda cursor: reading.read_parts(cursor, places, first, last, every_state=every_state)
        )

    async def broken(self, rule: Rule) -> list[Finding]:
        """What breaks a rule between tables."""
        return await self._readers.read(lambda cursor: rules.broken(cursor, rule))

    async def texts_after(self, after: Place | None, limit: int) -> list[ScriptTextRow]:
        """At most `limit` texts of scripts after a tenant and digest, in order."""
        return await self._readers.read(lambda cursor: texts_after(cursor, after, limit))
