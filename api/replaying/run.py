"""Runs a recorded session again: turn by turn as it was, or on a new version of its script as far as that goes."""

import itertools
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from api import rows
from api.catalogue import Catalogue
from api.replaying.compare import Difference, differences
from api.replaying.recorded import (
    Session,
    Step,
    history_of,
    program_at,
    steps,
    turn_row,
    with_others,
)
from runtime.budgets import Bounds
from runtime.context.chosen import Contexts, newest
from runtime.engine import Turn, TurnFailed, run_turn
from runtime.events import Message
from runtime.inputs import Clear, Input, InputRefused, Intervention, Moved, Rewind
from runtime.memory.recorded import NotRecalled, RecordedMemory
from runtime.migration import MOVING, Plan, place_of, plan, undo
from runtime.models.offline import OfflineModel
from runtime.models.recorded import NotKept, NotRecorded, RecordedModel, ShadowModel
from runtime.models.recording import RecordingModel
from runtime.models.scripted import ScriptedModel
from runtime.ports import Hear, Model, ModelReply, ModelRequest
from runtime.program import Program
from runtime.run import Limits
from runtime.state import State, decode
from store.record import Record
from store.rows import TurnRow

Outcome: TypeAlias = Literal["same", "differs", "passed over", "stopped"]


class TurnReplay(Struct, frozen=True):
    """What came of a turn: `stopped`, nothing can be run from there on; `why` it was so, or was passed over."""

    turn: int
    outcome: Outcome
    differences: tuple[Difference, ...] = ()
    why: str = ""
    action: str = ""  # where it stopped


class _Stopped(Exception):
    """A turn that cannot be run; the message says why."""

    def __init__(self, message: str, action: str = "") -> None:
        super().__init__(message)
        self.action = action


class Source(Struct, frozen=True):
    """Where recorded sessions and their scripts are, and what a turn may cost; budgets end where they ended then."""

    record: Record
    catalogue: Catalogue
    limits: Limits
    contexts: Contexts = Contexts()

    def history_max(self, program: Program, state: State) -> int:
        """How many of the newest messages have to be at hand."""
        return self.contexts.messages_max(program.script, state)


async def replay(source: Source, session: Session, first: int = 0) -> AsyncIterator[TurnReplay]:
    """Runs a session again as it was recorded, from the `first` turn on, up to where the two part.

    Raises SessionUnknown, StateUnreadable, ApiError.
    """
    again: _Again | None = None
    async for step in steps(source.record, source.catalogue, session, first):
        program = await program_at(source.catalogue, session, step.row.turn)
        if again is None:
            again = await _again(source, session, program, step.before)
        if step.is_failure:
            again.pass_over(step)
            yield TurnReplay(step.row.turn, "passed over", why="the session could not begin")
            continue
        try:
            row = await _taken_again(source, session, again, program, step)
        except NotKept as withheld:
            again.pass_over(step)
            yield TurnReplay(step.row.turn, "passed over", why=str(withheld), action=withheld.action_id)
            continue
        except _Stopped as stopped:
            yield TurnReplay(step.row.turn, "stopped", why=str(stopped), action=stopped.action)
            return
        found = differences(step.row, row, same_script=True)
        yield TurnReplay(step.row.turn, "differs" if found else "same", found)
        if found:
            return


async def shadow(
    source: Source, session: Session, program: Program, further: Model | None, first: int = 0
) -> AsyncIterator[TurnReplay]:
    """Runs what the user did in a session on another version of its script, as far as that goes.

    From the `first` turn on it is moved there first. What the model says is taken from the recording, or asked of a
    `further` model. Raises SessionUnknown, StateUnreadable, ApiError.
    """
    again: _Again | None = None
    model = await _model_of(source, session, further, first)
    async for step in steps(source.record, source.catalogue, session, first):
        try:
            if again is None:
                again = await _shadow_of(source, session, program, step, model)
            if step.given is None:
                again.take_over(step)
                why = "the session moved to another version here" if step.move else "the session could not begin"
                yield TurnReplay(step.row.turn, "passed over", why=why)
                continue
            row = await again.turn(program, step, _of_any_version(step.given), model)
        except _Stopped as stopped:
            yield TurnReplay(step.row.turn, "stopped", why=str(stopped), action=stopped.action)
            return
        found = differences(step.row, row, same_script=False)
        yield TurnReplay(step.row.turn, "differs" if found else "same", found)


def _of_any_version(given: Input | Intervention) -> Input | Intervention:
    """What can be done to a session whatever its script is. Raises _Stopped."""
    if isinstance(given, Rewind):
        raise _Stopped("the session went back to an earlier turn here, which is none of this version's")
    return given


class _Again:
    """A session that is being run again, in memory."""

    def __init__(
        self, source: Source, session: Session, state: State, history: tuple[Message, ...], history_max: int
    ) -> None:
        self.state = state
        self._source = source
        self._session = session
        self._history = history
        self._history_max = history_max
        self._numbers = itertools.count(1)

    def take_over(self, step: Step) -> None:
        """What became of the user's variables elsewhere before a turn."""
        self.state = msgspec.structs.replace(self.state, global_cells=with_others(self.state.global_cells, step.others))

    def pass_over(self, step: Step) -> None:
        """Goes on from where a turn left the session when it was recorded."""
        self.state = step.after
        self._history = newest((*self._history, *rows.messages_of(step.row.messages)), self._history_max)

    async def turn(self, program: Program, step: Step, given: Input | Moved | Intervention, model: Model) -> TurnRow:
        """Takes a turn at the moment it was taken, as the record would keep it. Raises _Stopped, NotKept."""
        if not isinstance(given, Moved):  # its state was made with them
            self.take_over(step)
        cells = None if isinstance(given, Moved) or not program.global_names else self.state.global_cells
        try:
            turn = await run_turn(
                program,
                self.state,
                given,
                model=model,
                clock=_clock_at(step.row.started_at),
                ids=lambda: str(next(self._numbers)),
                limits=msgspec.structs.replace(self._source.limits, turn_budget=Bounds(), session_budget=Bounds()),
                meter=model if isinstance(model, RecordedModel) else None,
                global_cells=cells,
                history=self._history,
                contexts=self._source.contexts,
                now=step.row.started_at,
                memory=RecordedMemory(step.recalled),
            )
        except InputRefused as error:
            raise _Stopped(f"what the user did then is not taken here: {error}") from error
        except TurnFailed as error:
            raise _Stopped(f"the turn fails: {error}", error.place[2]) from error
        except NotKept:
            raise
        except NotRecorded as error:
            raise _Stopped(str(error), error.action_id) from error
        except NotRecalled as error:
            raise _Stopped(str(error)) from error
        row = self._follow(program, step, turn)
        if isinstance(given, Rewind | Moved):  # another part of what was said, or more of it
            self._history_max = self._source.history_max(program, self.state)
            self._history = await history_of(self._source.record, self._session, self.state, self._history_max)
        elif isinstance(given, Clear):
            self._history = ()
        return row

    def _follow(self, program: Program, step: Step, turn: Turn) -> TurnRow:
        self.state = turn.state
        self._history = newest((*self._history, *turn.messages), self._history_max)
        return rows.turn_row(
            rows.session_of(self._session.head),
            program,
            turn,
            started_at=step.row.started_at,
            finished_at=step.row.finished_at,
            idempotency_key=None,
            fingerprint=None,
            execution_status="" if turn.state.begun else "error",
        )


async def _again(source: Source, session: Session, program: Program, state: State) -> _Again:
    """A session as it was in a state."""
    most = source.history_max(program, state)
    return _Again(source, session, state, await history_of(source.record, session, state, most), most)


def _clock_at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


# -- as it was --------------------------------------------------------------------------------------------------------


async def _taken_again(source: Source, session: Session, again: _Again, program: Program, step: Step) -> TurnRow:
    """A turn as it comes out now. Raises _Stopped, NotKept."""
    model = RecordedModel(step.calls, step.budget)
    if step.given is not None:
        return await again.turn(program, step, step.given, model)
    planned = await _planned_again(source, session, again, program, step)
    if planned.verdict not in MOVING:
        raise _Stopped(f"the session cannot move any more: {'; '.join(planned.why)}")
    again.state = planned.state
    return await again.turn(program, step, Moved(planned.account, planned.restart), model)


async def _planned_again(source: Source, session: Session, again: _Again, program: Program, step: Step) -> Plan:
    """The move of a session to another version, or back, made once more."""
    number = step.row.turn
    if step.move is not None and step.move.kind == "undo":
        before = await turn_row(source.record, session, number - 2)
        return undo(again.state, decode(bytes(before.state)))
    again.take_over(step)
    old = await program_at(source.catalogue, session, number - 1)
    return plan(old, program, again.state, step.row.started_at)


# -- on another version -----------------------------------------------------------------------------------------------


async def _shadow_of(source: Source, session: Session, program: Program, step: Step, model: Model) -> _Again:
    """The session before a turn, in the new version. Raises _Stopped."""
    again = await _again(source, session, program, step.before)
    if step.row.turn == 0:
        return again
    again.take_over(step)
    old = await program_at(source.catalogue, session, step.row.turn - 1)
    planned = plan(old, program, again.state, step.row.started_at)
    if planned.verdict not in MOVING:
        raise _Stopped(f"at {place_of(again.state)} the session cannot move there: {'; '.join(planned.why)}")
    again.state = planned.state
    await again.turn(program, step, Moved(planned.account, planned.restart), model)
    return again


class _Turns:
    """The recorded models of all turns, one after the other; where nothing is recorded, none."""

    def __init__(self) -> None:
        self.now: Model = OfflineModel()

    def goes_to(self, request: ModelRequest) -> str:
        return self.now.goes_to(request)

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        return await self.now.complete(request, hear)


async def _model_of(source: Source, session: Session, further: Model | None, first: int) -> Model:
    """What the recorded session was told by its model, by action, visit and round: it is run again to find out."""
    turns = _Turns()
    listening = RecordingModel(turns)
    has_calls = False
    async for step in steps(source.record, source.catalogue, session, first):
        if step.given is None or not step.calls:
            continue
        has_calls = True
        turns.now = RecordedModel(step.calls)
        program = await program_at(source.catalogue, session, step.row.turn)
        then = await _again(source, session, program, step.before)
        try:
            await then.turn(program, step, step.given, listening)
        except (_Stopped, NotKept):
            continue  # its own version takes another way by now; what it said up to there holds
    if not has_calls and further is None:
        return OfflineModel()
    return ShadowModel(ScriptedModel(listening.replies), further)
