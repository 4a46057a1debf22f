"""Replays a recorded session turn by turn, on its own script or as far as possible on a new version."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from api.replay.differences import TurnDifference, differences
from api.replay.recorded_session import RecordedSession, RecordedStep, SessionUnknown, with_others
from api.sessions import row_mapping
from runtime.context.selection import newest
from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.migration.migration import MOVING, Plan, place_of, plan, undo
from runtime.models.cassette_file import Replies
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import RecordingModel, ScriptedModel
from runtime.models.recorded_turn import (
    NotRecalled,
    NotRecorded,
    RecordedCall,
    RecordedMemory,
    RecordedModel,
    ReplyRedacted,
    ShadowModel,
)
from runtime.state.events import Message
from runtime.state.inputs import Clear, InputRefused, MigrationInput, Rewind, TurnInput
from runtime.state.limits import Bounds
from runtime.state.ports import Model, ModelRequest
from runtime.state.program import Program
from runtime.state.state import State
from runtime.tools.examples import EXAMPLES, RecordedTools, ToolNotRecorded
from runtime.turn.context import TurnEnvironment
from store.interface.rows import TurnRow

Outcome: TypeAlias = Literal["same", "differs", "passed over", "stopped"]


class TurnReplay(Struct, frozen=True):
    """The result of a turn: with `stopped` the replay cannot continue; `why` is the reason, or that of passing over."""

    turn: int
    outcome: Outcome
    differences: tuple[TurnDifference, ...] = ()
    why: str = ""
    action: str = ""  # the action at which it stopped


class _TurnNotReplayable(Exception):
    """The turn cannot be replayed; the message says why."""

    def __init__(self, message: str, action: str = "") -> None:
        super().__init__(message)
        self.action = action


async def replay(session: RecordedSession, first: int = 0) -> AsyncIterator[TurnReplay]:
    """Replay a session on its own script from turn `first` on, up to the first difference.

    Raises SessionUnknown, StateUnreadable, ApiError.
    """
    again: _Replayer | None = None
    async for step in session.steps(first):
        program = await session.program(step.row.turn)
        if again is None:
            again = await _replayer(session, program, step.before)
        if step.is_failure:
            again.pass_over(step)
            yield TurnReplay(step.row.turn, "passed over", why="the session could not start")
            continue
        try:
            row = await again.replay(program, step, RecordedModel(step.calls, step.budget))
        except ReplyRedacted as withheld:
            again.pass_over(step)
            yield TurnReplay(step.row.turn, "passed over", why=str(withheld), action=withheld.action_id)
            continue
        except _TurnNotReplayable as stopped:
            yield TurnReplay(step.row.turn, "stopped", why=str(stopped), action=stopped.action)
            return
        found = differences(step.row, row, same_script=True)
        yield TurnReplay(step.row.turn, "differs" if found else "same", found)
        if found:
            return


class NotRepeatable(Exception):
    """A session that cannot be repeated; the message says why."""


async def record_again(session: RecordedSession, steps: Sequence[RecordedStep]) -> Replies:
    """Replay steps of a session in order, and return the replies of the model by action, as a cassette has them.

    Raises NotRepeatable, SessionUnknown, StateUnreadable, ApiError.
    """
    recording = RecordingModel(OfflineModel())
    again: _Replayer | None = None
    for step in steps:
        program = await session.program(step.row.turn)
        again = again or await _replayer(session, program, step.before)
        recording.model = RecordedModel(step.calls, step.budget)
        try:
            await again.replay(program, step, recording)
        except (_TurnNotReplayable, ReplyRedacted) as error:
            raise NotRepeatable(f"turn {step.row.turn} cannot be repeated: {error}") from error
    return recording.replies if any(step.calls for step in steps) else {}  # without a model there is nothing to write


class CallAgain(Struct, frozen=True):
    """A recorded call and its request, which a replay of the turn made again."""

    call: RecordedCall
    request: ModelRequest


async def calls_of_turn(session: RecordedSession, turn: int) -> tuple[CallAgain, ...]:
    """Return the calls of a turn whose requests its replay makes again, in their order.

    Raises SessionUnknown, StateUnreadable, ApiError.
    """
    async for step in session.steps(turn):
        model = RecordedModel(step.calls, step.budget)
        if not step.is_failure:
            program = await session.program(turn)
            again = await _replayer(session, program, step.before)
            with contextlib.suppress(_TurnNotReplayable, ReplyRedacted):
                await again.replay(program, step, model)
        made = model.requests
        return tuple(CallAgain(call, made[call.digest]) for call in step.calls if call.digest in made)
    raise SessionUnknown(f"session {session.head.session_id} has no turn {turn}")


async def replay_on_new_version(
    session: RecordedSession, program: Program, further: Model | None, first: int = 0
) -> AsyncIterator[TurnReplay]:
    """Replay the user's inputs on another version of the script, as far as possible.

    The session is first migrated to that version at turn `first`. Model replies come from the recording, else from the
    `further` model. Raises SessionUnknown, StateUnreadable, ApiError.
    """
    again: _Replayer | None = None
    model = await _model_of(session, further, first)
    async for step in session.steps(first):
        if isinstance(step.input, Rewind):
            why = "the session was rewound here to a turn of another version"
            yield TurnReplay(step.row.turn, "stopped", why=why)
            return
        try:
            if again is None:
                again = await _migrated_replayer(session, program, step, model)
            if step.input is None:
                again.apply_others(step)
                why = "the session moved to another version here" if step.move else "the session could not start"
                yield TurnReplay(step.row.turn, "passed over", why=why)
                continue
            row = await again.turn(program, step, step.input, model)
        except _TurnNotReplayable as stopped:
            yield TurnReplay(step.row.turn, "stopped", why=str(stopped), action=stopped.action)
            return
        found = differences(step.row, row, same_script=False)
        yield TurnReplay(step.row.turn, "differs" if found else "same", found)


class _Replayer(Struct):
    """Replays the turns of one session in memory, from `state` on."""

    session: RecordedSession
    state: State
    history: tuple[Message, ...]
    history_max: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def apply_others(self, step: RecordedStep) -> None:
        """Apply the changes that other sessions made to the user variables before a turn."""
        self.state = msgspec.structs.replace(self.state, global_cells=with_others(self.state.global_cells, step.others))

    def pass_over(self, step: RecordedStep) -> None:
        """Skip a turn: continue with its recorded state and messages."""
        self.state = step.after
        self.history = newest((*self.history, *row_mapping.messages_of(step.row.messages)), self.history_max)

    async def turn(self, program: Program, step: RecordedStep, turn_input: TurnInput, model: Model) -> TurnRow:
        """Run a turn at its recorded time and return its row. Raises _TurnNotReplayable, ReplyRedacted."""
        source = self.session.source
        if not isinstance(turn_input, MigrationInput):  # the state of a migration already contains them
            self.apply_others(step)
        cells = None if isinstance(turn_input, MigrationInput) or not program.global_names else self.state.global_cells
        try:
            turn = await run_turn(
                program,
                self.state,
                turn_input,
                TurnEnvironment(
                    model=model,
                    ids=lambda: str(next(self.numbers)),
                    limits=msgspec.structs.replace(source.limits, turn_budget=Bounds(), session_budget=Bounds()),
                    meter=model if isinstance(model, RecordedModel) else None,
                    history=self.history,
                    contexts=source.contexts,
                    now=step.row.started_at,
                    memory=RecordedMemory(step.recalled),
                    tools=RecordedTools(step.tool_calls, None if isinstance(model, RecordedModel) else EXAMPLES),
                    default_zone=source.timezone,
                ),
                global_cells=cells,
            )
        except InputRefused as error:
            raise _TurnNotReplayable(f"the recorded input is refused here: {error}") from error
        except TurnFailed as error:
            raise _TurnNotReplayable(f"the turn fails: {error}", error.place[2]) from error
        except ReplyRedacted:
            raise
        except (NotRecorded, ToolNotRecorded) as error:
            raise _TurnNotReplayable(str(error), error.action_id) from error
        except NotRecalled as error:
            raise _TurnNotReplayable(str(error)) from error
        row = self._follow(program, step, turn)
        if isinstance(turn_input, Rewind | MigrationInput):  # the conversation has other or more messages now
            self.history_max = source.contexts.messages_max(program.script, self.state)
            self.history = await self.session.history(self.state, self.history_max)
        elif isinstance(turn_input, Clear):
            self.history = ()
        return row

    def _follow(self, program: Program, step: RecordedStep, turn: Turn) -> TurnRow:
        self.state = turn.state
        self.history = newest((*self.history, *turn.messages), self.history_max)
        return row_mapping.turn_row(
            row_mapping.session_of(self.session.head),
            program,
            turn,
            started_at=step.row.started_at,
            finished_at=step.row.finished_at,
        )

    async def replay(self, program: Program, step: RecordedStep, model: Model) -> TurnRow:
        """Replay a turn or a migration and return its row. Raises _TurnNotReplayable, ReplyRedacted."""
        if step.input is not None:
            return await self.turn(program, step, step.input, model)
        refused = "the session can no longer be migrated"
        if step.move is not None and step.move.kind == "undo":
            migration = undo(self.state, await self.session.state(step.row.turn - 2))
            return await self._move(program, step, migration, model, refused)
        return await self.migrate(program, step, model, refused)

    async def migrate(self, program: Program, step: RecordedStep, model: Model, refused: str) -> TurnRow:
        """Migrate the session before a turn from its own version. Raises _TurnNotReplayable with the text `refused`."""
        self.apply_others(step)
        old = await self.session.program(step.row.turn - 1)
        migration = plan(old, program, self.state, step.row.started_at, self.session.source.timezone)
        return await self._move(program, step, migration, model, refused)

    async def _move(self, program: Program, step: RecordedStep, migration: Plan, model: Model, refused: str) -> TurnRow:
        if migration.verdict not in MOVING:
            raise _TurnNotReplayable(f"{refused}: {'; '.join(migration.why)}")
        self.state = migration.state
        return await self.turn(program, step, MigrationInput(migration.account, migration.restart), model)


async def _replayer(session: RecordedSession, program: Program, state: State) -> _Replayer:
    """Return a replayer of the session from a state on."""
    most = session.source.contexts.messages_max(program.script, state)
    return _Replayer(session, state, await session.history(state, most), most)


# -- on another version -----------------------------------------------------------------------------------------------


async def _migrated_replayer(session: RecordedSession, program: Program, step: RecordedStep, model: Model) -> _Replayer:
    """Return a replayer of the session before a turn, migrated to the new version. Raises _TurnNotReplayable."""
    again = await _replayer(session, program, step.before)
    if step.row.turn > 0:
        refused = f"at {place_of(again.state)} the session cannot be migrated to this version"
        await again.migrate(program, step, model, refused)
    return again


async def _model_of(session: RecordedSession, further: Model | None, first: int) -> Model:
    """Return a model with the recorded replies by action, visit and round, collected by a replay on the old script."""
    recording = RecordingModel(OfflineModel())
    has_calls = False
    async for step in session.steps(first):
        if step.input is None or not step.calls:
            continue
        has_calls = True
        recording.model = RecordedModel(step.calls)
        program = await session.program(step.row.turn)
        replayer = await _replayer(session, program, step.before)
        try:
            await replayer.turn(program, step, step.input, recording)
        except (_TurnNotReplayable, ReplyRedacted):
            continue  # the old version behaves differently by now; the replies up to there are valid
    if not has_calls and further is None:
        return OfflineModel()
    return ShadowModel(ScriptedModel(recording.replies), further)
