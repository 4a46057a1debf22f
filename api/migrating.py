"""Moving sessions to another version of their script, and back: the plan, the turn it becomes, and its row."""

import asyncio
from collections import OrderedDict
from datetime import datetime

import msgspec
from msgspec import Struct

from api.catalogue import Catalogue, unusable
from api.chat import Chat
from api.errors import ApiError
from api.hot import Hot
from api.running import Running, code_of
from api.schemas.migrations import NewVersion
from runtime.engine import Turn, TurnFailed
from runtime.inputs import Moved
from runtime.migration import MOVING, Plan, Verdict, place_of, plan, undo
from runtime.program import Program
from runtime.state import State, StateUnreadable, decode
from scripts.parse import Source, read_script
from store.rows import MigrationRow, SessionRow, TurnRow

TRIED_MAX = 4  # texts of dry runs kept ready to run


class Target(Struct, frozen=True):
    """The version a session is to move to; no number where the text is not kept."""

    program: Program
    digest: str
    script_uuid: str = ""
    script_id: str = ""
    version: int | None = None


class Outcome(Struct, frozen=True):
    """What a move came to. `state` and `program` are those the session then has, or would have before it goes on."""

    session: SessionRow
    verdict: Verdict
    why: tuple[str, ...]
    place: str
    new_place: str
    version: int | None
    program: Program
    state: State
    row: TurnRow | None = None  # none: nothing was changed


class Migrating:
    """The moves of all tenants' sessions."""

    def __init__(self, chat: Chat, running: Running, catalogue: Catalogue) -> None:
        self._chat = chat
        self._running = running
        self._record = running.record
        self._catalogue = catalogue
        self._clock = running.clock
        self._tried: OrderedDict[str, Program] = OrderedDict()

    async def migrate(self, tenant: str, session_id: str, wanted: NewVersion) -> Outcome:
        """Moves a session, or says what that would come to. A session that cannot move stays; the verdict says why.

        Raises ApiError, also where the topic that must begin again cannot: then nothing has changed.
        """
        if wanted.yaml_content is not None and not wanted.dry_run:
            raise ApiError("REQUEST_INVALID", "`yamlContent` is for a dry run; import the script, then name it")
        return await self._chat.to_its_end(self._migrate(tenant, session_id, wanted))

    async def _migrate(self, tenant: str, session_id: str, wanted: NewVersion) -> Outcome:
        async with self._chat.held(tenant, session_id) as hot:
            target = await self._target(tenant, hot, wanted)
            place = place_of(hot.state)
            if target.digest == hot.session.digest and target.version in {None, hot.session.script_version}:
                why = ("the session runs this version already",)
                return self._stays(hot, Plan("current", why, hot.state, place=place), target)
            state = await self._with_globals(hot)
            planned = await asyncio.to_thread(plan, hot.program, target.program, state, self._clock())
            if planned.verdict not in MOVING:
                return self._stays(hot, planned, target)
            if wanted.dry_run:
                return _outcome(hot, planned, target, place, target.program, planned.state)
            session = _moved_session(hot.session, target)
            row, state = await self._settle(hot, session, target.program, planned, "migrate")
            return _outcome(hot, planned, target, place, target.program, state, row)

    def _stays(self, hot: Hot, planned: Plan, target: Target) -> Outcome:
        return _outcome(hot, planned, target, place_of(hot.state), hot.program, hot.state)

    async def undo(self, tenant: str, session_id: str) -> Outcome:
        """Takes back the last move of a session, where no turn has been taken since. Raises ApiError."""
        return await self._chat.to_its_end(self._undo(tenant, session_id))

    async def _undo(self, tenant: str, session_id: str) -> Outcome:
        async with self._chat.held(tenant, session_id) as hot:
            moves = await self._record.migrations(tenant, session_id)
            last = moves[0] if moves else None
            if last is None or last.kind == "undo":
                raise ApiError("MIGRATION_BLOCKED", "the session has not moved, so there is no way back")
            if last.turn != hot.state.turn:
                message = f"the session has gone on since it moved in turn {last.turn}; there is no way back"
                raise ApiError("MIGRATION_BLOCKED", message)
            row = await self._record.turn(tenant, session_id, last.turn - 1)
            if row is None:
                raise ApiError("MIGRATION_BLOCKED", "the turn before the move is not in the record")
            planned = undo(hot.state, _decoded(row))
            program = await self._catalogue.program_in(planned.state.locale, tenant, last.from_digest)
            target = Target(program, last.from_digest, last.from_script_uuid, last.from_script_id, last.from_version)
            place = place_of(hot.state)
            session = _moved_session(hot.session, target)
            taken, state = await self._settle(hot, session, program, planned, "undo")
            return _outcome(hot, planned, target, place, program, state, taken)

    # -- parts --------------------------------------------------------------------------------------------------

    async def _target(self, tenant: str, hot: Hot, wanted: NewVersion) -> Target:
        """The version to move to, in the language of the session."""
        locale = hot.state.locale
        if wanted.yaml_content is not None:
            source = Source(wanted.yaml_content, file="", side_files=wanted.files)
            return Target((await self._trial(source)).in_locale(locale), source.digest)
        script = await self._catalogue.version(tenant, wanted.script_id or hot.session.script_uuid, wanted.version)
        await self._catalogue.valid_program(tenant, script.digest)
        program = await self._catalogue.program_in(locale, tenant, script.digest)
        return Target(program, script.digest, script.script_uuid, script.script_id, script.version)

    async def _trial(self, source: Source) -> Program:
        """A text that is not kept, read once for all the sessions it is tried with."""
        program = self._tried.get(source.digest)
        if program is None:
            reading = await asyncio.to_thread(read_script, source, "compat")
            if reading.script is None:
                raise unusable(reading.errors)
            program = self._tried[source.digest] = Program(reading.script)
            if len(self._tried) > TRIED_MAX:
                self._tried.popitem(last=False)
        return program

    async def _with_globals(self, hot: Hot) -> State:
        """The state with the user's global variables as they are now."""
        cells = await self._running.global_cells(hot)
        return hot.state if cells is None else msgspec.structs.replace(hot.state, global_cells=cells)

    async def _settle(
        self, hot: Hot, session: SessionRow, program: Program, planned: Plan, kind: str
    ) -> tuple[TurnRow, State]:
        """Runs the move, and commits its turn and its row together."""
        started = self._clock()
        moved = Hot(session, program, hot.state, hot.history, hot.history_max)
        moved.keys, moved.knows_all_keys, moved.attempts = hot.keys, hot.knows_all_keys, hot.attempts
        turn = await self._run(moved, planned, started)
        row = MigrationRow(
            tenant=session.tenant,
            session_id=session.session_id,
            turn=turn.state.turn,
            kind="undo" if kind == "undo" else "migrate",
            verdict=planned.verdict,
            why=list(planned.why),
            from_script_uuid=hot.session.script_uuid,
            from_script_id=hot.session.script_id,
            from_version=hot.session.script_version,
            from_digest=hot.session.digest,
            script_uuid=session.script_uuid,
            script_id=session.script_id,
            script_version=session.script_version,
            digest=session.digest,
            migrated_at=self._clock(),
        )
        answer = await self._chat.settle(moved, turn, started, row)
        return answer.row, answer.state

    async def _run(self, hot: Hot, planned: Plan, started: datetime) -> Turn:
        moved = Moved(planned.account, planned.restart)
        try:
            return await self._running.turn(hot, planned.state, moved, started=started)
        except TurnFailed as failed:
            code = code_of(failed.kind)
            message = f"the topic cannot begin again in the new version: {failed}"
            raise ApiError(code, message, context={"sessionId": hot.session.session_id}) from failed


def _decoded(row: TurnRow) -> State:
    try:
        return decode(bytes(row.state))
    except StateUnreadable as error:
        raise ApiError("VARIABLE_STORE_INIT_ERROR", str(error), context={"sessionId": row.session_id}) from error


def _moved_session(session: SessionRow, target: Target) -> SessionRow:
    return msgspec.structs.replace(
        session,
        script_uuid=target.script_uuid,
        script_id=target.script_id,
        script_version=target.version or 0,
        digest=target.digest,
    )


def _outcome(
    hot: Hot, planned: Plan, target: Target, place: str, program: Program, state: State, row: TurnRow | None = None
) -> Outcome:
    return Outcome(
        session=hot.session,
        verdict=planned.verdict,
        why=planned.why,
        place=place,
        new_place=planned.place if row is None else place_of(state),
        version=target.version,
        program=program,
        state=state,
        row=row,
    )
