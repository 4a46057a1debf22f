"""Migrates sessions to another version of their script, and back: the plan, the turn and the migration row."""

import asyncio
from datetime import datetime

import msgspec
from cachetools import LRUCache
from msgspec import Struct

from api.catalog.catalog import Catalog, unusable
from api.errors import ApiError, invalid_field, refusing
from api.schemas.lifecycle import NewVersion
from api.sessions.chat import Chat
from api.sessions.session_cache import CachedSession
from api.sessions.turn_runner import TurnRunner, code_of
from runtime.engine.engine import Turn, TurnFailed
from runtime.migration.migration import MOVING, Plan, Verdict, place_of, plan, undo
from runtime.state.inputs import MigrationInput
from runtime.state.program import Program
from runtime.state.state import State, StateUnreadable, decode
from scripts.parse.read_script import Source, read_script
from store.interface.rows import MigrationRow, SessionRow, TurnRow

TRIED_MAX = 4  # cached programs of dry runs


class MigrationTarget(Struct, frozen=True):
    """The target version of a migration; it has no number if the text is not stored."""

    program: Program
    digest: str
    script_uuid: str = ""
    script_id: str = ""
    version: int | None = None


class MigrationOutcome(Struct, frozen=True):
    """The result of a migration. `state` and `program` are those of the session after it, or after a dry run."""

    session: SessionRow
    verdict: Verdict
    why: tuple[str, ...]
    place: str
    new_place: str
    version: int | None
    program: Program
    state: State
    row: TurnRow | None = None  # None: nothing changed


class SessionMigrator(Struct, frozen=True):
    """Migrates the sessions of all tenants."""

    chat: Chat
    runner: TurnRunner
    catalog: Catalog
    tried: LRUCache[str, Program] = msgspec.field(default_factory=lambda: LRUCache(TRIED_MAX))
    """Programs of texts that are not stored, by digest."""

    async def migrate(
        self, tenant: str, session_id: str, request: NewVersion, expected_turn: int | None
    ) -> MigrationOutcome:
        """Migrate a session or, with `dry_run`, preview it. A session that cannot migrate does not change; the verdict
        says why.

        Raises ApiError, also if the restarted topic fails; then nothing has changed.
        """
        if request.yaml_content is not None and not request.dry_run:
            raise invalid_field("yamlContent", "it is for a dry run; import the script, then name it")
        return await self.chat.run_shielded(self._migrate(tenant, session_id, request, expected_turn))

    async def _migrate(
        self, tenant: str, session_id: str, request: NewVersion, expected_turn: int | None
    ) -> MigrationOutcome:
        async with self.chat.exclusive(tenant, session_id, expected_turn=expected_turn) as cached:
            target = await self._target(tenant, cached, request)
            if target.digest == cached.session.digest and target.version in {None, cached.session.script_version}:
                why = ("the session runs this version already",)
                current = Plan("current", why, cached.state, place=place_of(cached.state))
                return _outcome(cached, current, target, cached.program, cached.state)
            state = await self._with_globals(cached)
            zone = self.runner.settings.timezone
            planned = await asyncio.to_thread(plan, cached.program, target.program, state, self.runner.clock(), zone)
            if planned.verdict not in MOVING:
                return _outcome(cached, planned, target, cached.program, cached.state)
            if request.dry_run:
                return _outcome(cached, planned, target, target.program, planned.state)
            session = _moved_session(cached.session, target)
            row, state = await self._settle(cached, session, target.program, planned, "migrate")
            return _outcome(cached, planned, target, target.program, state, row)

    async def undo(self, tenant: str, session_id: str, expected_turn: int | None) -> MigrationOutcome:
        """Undo the last migration of a session if no turn followed it. Raises ApiError."""
        return await self.chat.run_shielded(self._undo(tenant, session_id, expected_turn))

    async def _undo(self, tenant: str, session_id: str, expected_turn: int | None) -> MigrationOutcome:
        async with self.chat.exclusive(tenant, session_id, expected_turn=expected_turn) as cached:
            moves = await self.runner.store.sessions.migrations(tenant, session_id)
            last = moves[0] if moves else None
            if last is None or last.kind == "undo":
                raise ApiError("MIGRATION_BLOCKED", "the session has no migration to undo")
            if last.turn != cached.state.turn:
                message = f"the migration in turn {last.turn} cannot be undone: later turns followed it"
                raise ApiError("MIGRATION_BLOCKED", message)
            row = await self.runner.store.turns.get(tenant, session_id, last.turn - 1)
            if row is None:
                raise ApiError("MIGRATION_BLOCKED", "the turn before the migration is not in the database")
            planned = undo(cached.state, _decode(row))
            program = await self.catalog.program_in(planned.state.locale, tenant, last.from_digest)
            target = MigrationTarget(
                program, last.from_digest, last.from_script_uuid, last.from_script_id, last.from_version
            )
            session = _moved_session(cached.session, target)
            row, state = await self._settle(cached, session, program, planned, "undo")
            return _outcome(cached, planned, target, program, state, row)

    # -- parts --------------------------------------------------------------------------------------------------

    async def _target(self, tenant: str, cached: CachedSession, request: NewVersion) -> MigrationTarget:
        """Return the target version, in the language of the session."""
        locale = cached.state.locale
        if request.yaml_content is not None:
            source = Source(request.yaml_content, file="", side_files=request.files or {})
            return MigrationTarget((await self._trial(source)).in_locale(locale), source.digest)
        script = await self.catalog.version(tenant, request.script_id or cached.session.script_uuid, request.version)
        await self.catalog.valid_program(tenant, script.digest)
        program = await self.catalog.program_in(locale, tenant, script.digest)
        return MigrationTarget(program, script.digest, script.script_uuid, script.script_id, script.version)

    async def _trial(self, source: Source) -> Program:
        """Return the program of a text that is not stored, parsed once for all sessions of a dry run."""
        program = self.tried.get(source.digest)
        if program is None:
            reading = await asyncio.to_thread(read_script, source, "compat")
            if reading.script is None:
                raise unusable(reading.errors)
            program = self.tried[source.digest] = Program(reading.script)
        return program

    async def _with_globals(self, cached: CachedSession) -> State:
        """Return the state with the current global variables of the user."""
        cells = await self.runner.global_cells(cached)
        return cached.state if cells is None else msgspec.structs.replace(cached.state, global_cells=cells)

    async def _settle(
        self, cached: CachedSession, session: SessionRow, program: Program, planned: Plan, kind: str
    ) -> tuple[TurnRow, State]:
        """Run the migration and commit its turn and its row together."""
        started = self.runner.clock()
        moved = CachedSession(session, program, cached.state, cached.history, cached.history_max)
        moved.keys, moved.knows_all_keys, moved.attempts = cached.keys, cached.knows_all_keys, cached.attempts
        turn = await self._run(moved, planned, started)
        row = MigrationRow(
            tenant=session.tenant,
            session_id=session.session_id,
            turn=turn.state.turn,
            kind="undo" if kind == "undo" else "migrate",
            verdict=planned.verdict,
            why=list(planned.why),
            from_script_uuid=cached.session.script_uuid,
            from_script_id=cached.session.script_id,
            from_version=cached.session.script_version,
            from_digest=cached.session.digest,
            script_uuid=session.script_uuid,
            script_id=session.script_id,
            script_version=session.script_version,
            digest=session.digest,
            migrated_at=self.runner.clock(),
        )
        answer = await self.chat.settle(moved, turn, started, row)
        return answer.row, answer.state

    async def _run(self, cached: CachedSession, planned: Plan, started: datetime) -> Turn:
        moved = MigrationInput(planned.account, planned.restart)
        try:
            return await self.runner.turn(cached, planned.state, moved, started=started)
        except TurnFailed as failed:
            code = code_of(failed.kind)
            message = f"the topic cannot be restarted in the new version: {failed}"
            raise ApiError(code, message, context={"sessionId": cached.session.session_id}) from failed


def _decode(row: TurnRow) -> State:
    with refusing("VARIABLE_STORE_INIT_ERROR", StateUnreadable, context={"sessionId": row.session_id}):
        return decode(bytes(row.state))


def _moved_session(session: SessionRow, target: MigrationTarget) -> SessionRow:
    return msgspec.structs.replace(
        session,
        script_uuid=target.script_uuid,
        script_id=target.script_id,
        script_version=target.version or 0,
        digest=target.digest,
    )


def _outcome(
    cached: CachedSession,
    planned: Plan,
    target: MigrationTarget,
    program: Program,
    state: State,
    row: TurnRow | None = None,
) -> MigrationOutcome:
    return MigrationOutcome(
        session=cached.session,
        verdict=planned.verdict,
        why=planned.why,
        place=place_of(cached.state),
        new_place=planned.place if row is None else place_of(state),
        version=target.version,
        program=program,
        state=state,
        row=row,
    )
