"""Checks the whole database in batches, also while turns run, and rebuilds derived rows of memories.

First the sessions one by one, then the rules between tables, those of memories last, then the texts of scripts.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

from msgspec import Struct, structs

from api.catalog.catalog import Catalog
from api.errors import ApiError
from api.integrity.session_check import Programs, SessionCheck
from api.memory.memory_system import MemorySystem
from runtime.state.ports import Clock
from runtime.state.program import Program
from scripts.parse.read_script import Source, read_script
from store.interface.findings import Finding
from store.interface.pages import cursor_of, position_of
from store.interface.rows import ScriptTextRow
from store.store import Store
from store.verification.memory_rules import MEMORY_RULES
from store.verification.rules import RULES, Rule
from store.verification.session_parts import Place, SessionPart, SessionSize
from store.verification.verification_repository import VerificationRepository

BATCH_S = 2.0
"""A batch ends after this time, at the end of the current session, rule or text."""
SESSIONS_A_READ = 500
BATCH_BYTES_MAX = 16_000_000
"""Bytes of turns in memory at a time; a single turn may be larger."""
BATCH_TURNS_MAX = 5_000
TURN_MAX = 2**31 - 1
TEXTS_A_READ = 20
_RULES = (*RULES, *MEMORY_RULES)


class _Cursor(Struct, frozen=True, array_like=True):
    """The start of a batch."""

    stage: Literal["sessions", "rules", "texts"]
    rule: int = 0
    place: Place | None = None


class Batch(Struct, frozen=True):
    """The findings of a batch; `next` is the start of the next batch, None after the last."""

    findings: Sequence[Finding]
    sessions: int
    turns: int
    next: str | None


class SessionVerifier:
    """Checks one database. With `gently` it pauses as long as it works, to leave time for turns."""

    def __init__(self, store: Store, clock: Clock, *, gently: bool) -> None:
        self._lost_commits = store.lost_commits
        self._store = store.verification
        self._catalog = Catalog(store, clock)
        self._rest = 1.0 if gently else 0.0

    async def batch(self, after: str | None, *, quick: bool) -> Batch:
        """Check one batch from a cursor on; with `quick` only the latest states. Raises CursorInvalid, StoreError."""
        at = _Cursor("sessions") if after is None else position_of(after, _Cursor)
        match at.stage:
            case "sessions":
                return await self._sessions(at.place, quick=quick)
            case "rules":
                return await self._rules(at.rule)
            case "texts":
                return await self._texts(at.place)
            case _:
                assert_never(at.stage)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def _sessions(self, after: Place | None, *, quick: bool) -> Batch:
        until = time.monotonic() + BATCH_S
        findings = self._find_lost_commits() if after is None else []
        sessions = turns = 0
        ahead = await self._store.sessions_after(after, SESSIONS_A_READ)
        is_last = len(ahead) < SESSIONS_A_READ
        while ahead and time.monotonic() < until:
            batch, ahead = _batch(ahead)
            began = time.monotonic()
            findings += await self._batch(batch, quick=quick)
            await asyncio.sleep((time.monotonic() - began) * self._rest)
            sessions, turns, after = sessions + len(batch), turns + sum(each.turns for each in batch), batch[-1].place
        following = _Cursor("rules") if is_last and not ahead else _Cursor("sessions", place=after)
        return Batch(findings, sessions, turns, _cursor(following))

    def _find_lost_commits(self) -> list[Finding]:
        lost = self._lost_commits()
        return [] if lost is None else [Finding(code="commits_missing", table="commits", tenant="", what=lost)]

    async def _batch(self, batch: Sequence[SessionSize], *, quick: bool) -> list[Finding]:
        """Return the findings of some sessions; check a session with findings twice, because it may have changed."""
        found = await self._check(batch, quick=quick)
        doubtful = {(each.tenant, each.session_id or "") for each in found}
        if doubtful:
            found = await self._check([each for each in batch if each.place in doubtful], quick=quick)
        return found

    async def _check(self, batch: Sequence[SessionSize], *, quick: bool) -> list[Finding]:
        """Return the findings of some sessions; a session that was deleted in the meantime has none.

        A session that is too large for memory is alone, and is read in parts up to its latest turn at the start.
        """
        size, step = batch[0], _turns_a_read(batch[0])
        is_large = len(batch) == 1 and size.turns > step
        checks: dict[Place, SessionCheck] = {}
        for first in range(0, size.latest + 1, step) if is_large else (0,):
            last = min(first + step - 1, size.latest) if is_large else TURN_MAX
            parts = await self._store.parts([each.place for each in batch], first, last, every_state=not quick)
            if not parts:
                return []
            programs = [await self._programs(part) for part in parts]
            for part in parts:
                latest = size.latest if is_large else part.turns[-1].turn if part.turns else -1
                checks.setdefault(part.place, SessionCheck(part.start, part.moves, latest))
            await asyncio.to_thread(_check_parts, checks, parts, programs)
        return [finding for check in checks.values() for finding in check.end()]

    async def _programs(self, part: SessionPart) -> Programs:
        """Return the scripts of a session by digest; None for a missing or invalid script."""
        programs: dict[str, Program | None] = {}
        for digest in {part.start.digest, *(move.digest for move in part.moves)}:
            try:
                programs[digest] = await self._catalog.program(part.start.tenant, digest)
            except ApiError:
                programs[digest] = None  # the check of texts reports it
        return programs

    # -- between the tables, and texts --------------------------------------------------------------------------------

    async def _rules(self, first: int) -> Batch:
        until = time.monotonic() + BATCH_S
        findings: list[Finding] = []
        number = first
        while number < len(_RULES) and time.monotonic() < until:
            started = time.monotonic()
            if await self._store.broken(_RULES[number]):
                await self._store.refresh()  # a concurrent turn may be the cause
                findings += await self._store.broken(_RULES[number])
            await asyncio.sleep((time.monotonic() - started) * self._rest)
            number += 1
        return Batch(findings, 0, 0, _cursor(_Cursor("rules", number) if number < len(_RULES) else _Cursor("texts")))

    async def _texts(self, after: Place | None) -> Batch:
        until = time.monotonic() + BATCH_S
        findings: list[Finding] = []
        ahead = await self._store.texts_after(after, TEXTS_A_READ)
        is_last = len(ahead) < TEXTS_A_READ
        while ahead and time.monotonic() < until:
            text, *ahead = ahead
            findings += await asyncio.to_thread(_check_text, text)
            after = text.tenant, text.digest
        return Batch(findings, 0, 0, None if is_last and not ahead else _cursor(_Cursor("texts", place=after)))


def _cursor(at: _Cursor) -> str:
    return cursor_of(structs.astuple(at))


def _turns_a_read(size: SessionSize) -> int:
    """Return the number of turns of a session to read at a time."""
    return max(1, min(BATCH_TURNS_MAX, BATCH_BYTES_MAX * size.turns // max(size.bytes, 1)))


def _batch(ahead: list[SessionSize]) -> tuple[list[SessionSize], list[SessionSize]]:
    """Split the sessions into those to read at once, and the others."""
    turns = bytes_ = count = 0
    for each in ahead:
        turns, bytes_ = turns + each.turns, bytes_ + each.bytes
        if count and (turns > BATCH_TURNS_MAX or bytes_ > BATCH_BYTES_MAX):
            break
        count += 1
    return ahead[:count], ahead[count:]


def _check_parts(
    checks: Mapping[Place, SessionCheck], parts: Sequence[SessionPart], programs: Sequence[Programs]
) -> None:
    for part, of_part in zip(parts, programs, strict=True):
        checks[part.place].part(part.turns, of_part)


def _check_text(text: ScriptTextRow) -> list[Finding]:
    source = Source(text.text, "", text.files)
    if source.digest != text.digest:
        what = f"the text does not have its digest {text.digest}"
        return [Finding(code="script_altered", table="script_texts", tenant=text.tenant, what=what)]
    if read_script(source, "compat").script is None:
        what = f"the text with the digest {text.digest} cannot be run"
        return [Finding(code="script_unusable", table="script_texts", tenant=text.tenant, what=what)]
    return []


# -- fixing memories --------------------------------------------------------------------------------------------------


async def fix_memories(verification: VerificationRepository, memories: MemorySystem) -> list[Finding]:
    """Rebuild derived rows of memories that violate a rule, and return the fixed findings. Raises StoreError.

    Rows that are the truth are never changed. Maintenance then completes the memories: it embeds units without a vector
    and summarises units without a parent.
    """
    fixed: list[Finding] = []
    await verification.refresh()
    for rule in MEMORY_RULES:
        if rule.fix:
            fixed += await _fix(verification, memories, rule)
    return fixed


async def _fix(verification: VerificationRepository, memories: MemorySystem, rule: Rule) -> list[Finding]:
    fixed: list[Finding] = []
    done: set[tuple[str, str]] = set()
    while True:  # the number of findings is limited: there may be more memories
        found = [(each, (each.tenant, each.user_id or "")) for each in await verification.broken(rule)]
        owners = dict.fromkeys(owner for _, owner in found if owner not in done)
        if not owners:
            return fixed
        for owner in owners:
            async with memories.cache.exclusive(*owner):  # it also drops the saved index, which may have the same rows
                await verification.fix(rule, *owner)
            memories.worker.enqueue(*owner)
        fixed += [each for each, owner in found if owner in owners]
        done.update(owners)
        await verification.refresh()
