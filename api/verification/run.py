"""Checks the whole record, a bounded stretch of it at a time, while turns are taken or while nothing else happens.

First session after session, then what must hold between the tables, then the texts of scripts. Memories have a doctor
of their own.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Literal, assert_never

from msgspec import Struct, structs

from api.catalogue import Catalogue
from api.errors import ApiError
from api.replaying.recorded import SessionUnknown, find_session
from api.replaying.run import Source as Recorded
from api.replaying.run import replay
from api.settings import Settings
from api.verification.session import Examination, Programs
from runtime.context.chosen import Contexts
from runtime.ports import Clock
from runtime.program import Program
from runtime.state import StateUnreadable
from scripts.parse import Source, read_script
from store.fetch import cursor_of, position_of
from store.record import Record
from store.rows import ScriptTextRow
from store.verification.findings import Finding
from store.verification.reading import Place, SessionPart, SessionSize
from store.verification.rules import RULES

STRETCH_S = 2.0
"""A stretch ends after this, or with the session, rule or text at hand."""
SESSIONS_A_READ = 500
BATCH_BYTES_MAX = 16_000_000
"""Documents of turns in memory at a time; a single turn may be larger."""
BATCH_TURNS_MAX = 5_000
TURN_MAX = 2**31 - 1
TEXTS_A_READ = 20


class _At(Struct, frozen=True, array_like=True):
    """Where a stretch begins."""

    stage: Literal["sessions", "rules", "texts"]
    rule: int = 0
    place: Place | None = None


class Wanted(Struct, frozen=True):
    """How thoroughly: `quick` leaves out all states but the latest, `replays` has the sessions run once more."""

    quick: bool = False
    replays: bool = False


class Stretch(Struct, frozen=True):
    """What was found in a stretch of the record; `next` is where the next one begins, None: that was all."""

    findings: Sequence[Finding]
    sessions: int
    turns: int
    next: str | None


class Verifying:
    """Checks of one record. With `gently` it rests as long as it works, so that turns go on beside it."""

    def __init__(self, record: Record, clock: Clock, settings: Settings, contexts: Contexts, *, gently: bool) -> None:
        self._record = record.verification
        self._catalogue = Catalogue(record, clock)
        self._recorded = Recorded(record, self._catalogue, settings.limits, contexts)
        self._rest = 1.0 if gently else 0.0

    async def stretch(self, after: str | None, wanted: Wanted) -> Stretch:
        """Checks on from a place. Raises CursorInvalid, StoreError."""
        at = _At("sessions") if after is None else position_of(after, _At)
        match at.stage:
            case "sessions":
                return await self._sessions(at.place, wanted)
            case "rules":
                return await self._rules(at.rule)
            case "texts":
                return await self._texts(at.place)
            case _:
                assert_never(at.stage)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def _sessions(self, after: Place | None, wanted: Wanted) -> Stretch:
        until = time.monotonic() + STRETCH_S
        findings: list[Finding] = []
        sessions = turns = 0
        ahead = await self._record.sessions_after(after, SESSIONS_A_READ)
        is_last = len(ahead) < SESSIONS_A_READ
        while ahead and time.monotonic() < until:
            batch, ahead = _batch(ahead)
            began = time.monotonic()
            findings += await self._batch(batch, wanted)
            await asyncio.sleep((time.monotonic() - began) * self._rest)
            sessions, turns, after = sessions + len(batch), turns + sum(each.turns for each in batch), batch[-1].place
        following = _At("rules") if is_last and not ahead else _At("sessions", place=after)
        return Stretch(findings, sessions, turns, _cursor(following))

    async def _batch(self, batch: Sequence[SessionSize], wanted: Wanted) -> list[Finding]:
        """What is wrong with some sessions; what was seen while one of them changed is looked at once more."""
        found = await self._examined(batch, wanted)
        doubtful = {(each.tenant, each.session_id or "") for each in found}
        if doubtful:
            found = await self._examined([each for each in batch if each.place in doubtful], wanted)
        if wanted.replays:
            wrong = {(each.tenant, each.session_id or "") for each in found}
            for size in batch:
                found += [] if size.place in wrong else await self._replayed(size)
        return found

    async def _examined(self, batch: Sequence[SessionSize], wanted: Wanted) -> list[Finding]:
        if len(batch) == 1 and batch[0].turns > _turns_a_read(batch[0]):
            return await self._in_parts(batch[0], wanted)
        parts = await self._record.parts([each.place for each in batch], 0, TURN_MAX, every_state=not wanted.quick)
        programs = await self._programs(parts)
        return await asyncio.to_thread(_examine, parts, programs)

    async def _in_parts(self, size: SessionSize, wanted: Wanted) -> list[Finding]:
        """What is wrong with a session that is too large to be in memory as a whole, up to what was its latest turn."""
        examination: Examination | None = None
        step = _turns_a_read(size)
        for first in range(0, size.latest + 1, step):
            last = min(first + step - 1, size.latest)
            parts = await self._record.parts([size.place], first, last, every_state=not wanted.quick)
            if not parts:
                return []  # it was deleted meanwhile
            examination = examination or Examination(parts[0].start, parts[0].moves, size.latest)
            programs = await self._programs(parts)
            await asyncio.to_thread(examination.part, parts[0].turns, programs)
        return [] if examination is None else examination.end()

    async def _programs(self, parts: Iterable[SessionPart]) -> Programs:
        """The scripts that sessions ran, by tenant and digest; None where one is not there, or cannot be run."""
        programs: dict[tuple[str, str], Program | None] = {}
        for part in parts:
            tenant = part.start.tenant
            for digest in (part.start.digest, *(move.digest for move in part.moves)):
                if (tenant, digest) in programs:
                    continue
                try:
                    programs[tenant, digest] = await self._catalogue.program(tenant, digest)
                except ApiError:
                    programs[tenant, digest] = None  # told of with the texts
        return programs

    async def _replayed(self, size: SessionSize) -> list[Finding]:
        """Where a session that is run again parts from what is recorded."""
        try:
            session = await find_session(self._recorded.record, *size.place)
            async for turn in replay(self._recorded, session):
                if turn.outcome in {"differs", "stopped"}:
                    what = "run again it comes out otherwise" if turn.outcome == "differs" else "it cannot be run again"
                    return [_finding("replay_parts", "turns", size, turn.turn, what)]
        except SessionUnknown:
            return []  # it was deleted meanwhile
        except (StateUnreadable, ApiError):
            return [_finding("replay_parts", "turns", size, None, "it cannot be run again")]
        return []

    # -- between the tables, and texts --------------------------------------------------------------------------------

    async def _rules(self, first: int) -> Stretch:
        until = time.monotonic() + STRETCH_S
        findings: list[Finding] = []
        number = first
        while number < len(RULES) and time.monotonic() < until:
            began = time.monotonic()
            found = await self._record.broken(RULES[number])
            findings += await self._record.broken(RULES[number]) if found else []  # a turn may have come in between
            await asyncio.sleep((time.monotonic() - began) * self._rest)
            number += 1
        return Stretch(findings, 0, 0, _cursor(_At("rules", number) if number < len(RULES) else _At("texts")))

    async def _texts(self, after: Place | None) -> Stretch:
        until = time.monotonic() + STRETCH_S
        findings: list[Finding] = []
        ahead = await self._record.texts_after(after, TEXTS_A_READ)
        is_last = len(ahead) < TEXTS_A_READ
        while ahead and time.monotonic() < until:
            text, *ahead = ahead
            findings += await asyncio.to_thread(_check_text, text)
            after = text.tenant, text.digest
        return Stretch(findings, 0, 0, None if is_last and not ahead else _cursor(_At("texts", place=after)))


def _cursor(at: _At) -> str:
    return cursor_of(structs.astuple(at))


def _turns_a_read(size: SessionSize) -> int:
    """As many turns of a session as are in memory at a time."""
    return max(1, min(BATCH_TURNS_MAX, BATCH_BYTES_MAX * size.turns // max(size.bytes, 1)))


def _batch(ahead: list[SessionSize]) -> tuple[list[SessionSize], list[SessionSize]]:
    """The sessions to be read at once, and those after them."""
    turns = bytes_ = count = 0
    for each in ahead:
        turns, bytes_ = turns + each.turns, bytes_ + each.bytes
        if count and (turns > BATCH_TURNS_MAX or bytes_ > BATCH_BYTES_MAX):
            break
        count += 1
    return ahead[:count], ahead[count:]


def _examine(parts: Sequence[SessionPart], programs: Programs) -> list[Finding]:
    """What is wrong with sessions that are there as a whole."""
    found: list[Finding] = []
    for part in parts:
        if not part.turns:
            start = part.start
            size = SessionSize(start.tenant, start.session_id, 0, -1, 0)
            found.append(_finding("session_empty", "session_starts", size, None, "it has no turn"))
            continue
        examination = Examination(part.start, part.moves, part.turns[-1].turn)
        examination.part(part.turns, programs)
        found += examination.end()
    return found


def _finding(code: str, table: str, size: SessionSize, turn: int | None, what: str) -> Finding:
    return Finding(code=code, table=table, tenant=size.tenant, session_id=size.session_id, turn=turn, what=what)


def _check_text(text: ScriptTextRow) -> list[Finding]:
    source = Source(text.text, "", text.files)
    if source.digest != text.digest:
        what = f"the text with the digest {text.digest} is another one"
        return [Finding(code="script_altered", table="script_texts", tenant=text.tenant, what=what)]
    if read_script(source, "compat").script is None:
        what = f"the text with the digest {text.digest} cannot be run"
        return [Finding(code="script_unusable", table="script_texts", tenant=text.tenant, what=what)]
    return []
