"""A simulated session: the engine runs each turn at its simulated time, and the turn becomes the rows of a server."""

import math
import random
from datetime import datetime, timedelta

from msgspec import Struct

from api.sessions.row_mapping import cells_of, session_before_first_turn, turn_row
from api.sessions.session_cache import CachedSession, Failure
from api.sessions.turn_runner import code_of
from api.testing.player import LOCAL
from api.testing.simulation.published_scripts import Versions
from api.testing.simulation.replies import draw_reply
from api.testing.simulation.visits import draw_id
from runtime.context.selection import Contexts
from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.memory.local_memory import LocalMemory
from runtime.models.offline_model import OfflineModel
from runtime.state.inputs import Input, Start, TimerDue
from runtime.state.limits import Limits
from runtime.timers.timers import pending_timers
from store.interface.rows import NO_TURN, FailureRow, SessionRow, TurnRow, UserVariableRow

LEAVE = 0.03  # probability that a user leaves instead of replying
PAUSE_S = 12.0  # median time to reply
BREAK = 0.012  # probability that a user replies only after hours
BREAK_S = 5 * 3_600.0  # median of such a break
TURN_MS = (2.0, 9.0)  # shortest and longest duration of a turn
FAILURES_MAX = 2  # failed attempts at a turn before the user leaves


class TurnSettings(Struct, frozen=True):
    """The settings of a server that apply to turns."""

    limits: Limits = Limits()
    contexts: Contexts = Contexts()


class SimulatedTurn(Struct, frozen=True):
    """The rows that one moment adds to the database: a turn, a failed attempt at one, or both.

    `number` is that of the session's visit; it orders turns of the same moment.
    """

    at: datetime
    number: int
    turn: TurnRow | None
    expected_turn: int
    session: SessionRow | None
    failure: FailureRow | None


class SimulatedUser(Struct):
    """A user across sessions: the global variables and the memory that a server would have."""

    number: int
    sessions: int = 0
    script: Versions | None = None  # of the last session
    variables: dict[str, UserVariableRow] = {}
    memory: LocalMemory = LOCAL

    def update_variables(self, turn: TurnRow) -> None:
        """Apply a turn's writes of global variables; null unsets one."""
        for write in turn.variables:
            if write.scope == "global":
                self.variables[write.name] = UserVariableRow(
                    turn.tenant, turn.user_id, write.name, write.new, write.type, write.source, turn.finished_at
                )
                if write.new is None:
                    del self.variables[write.name]


class SimulatedSession(Struct):
    """A session in progress, of the visit with a number. `due` is the time of its next turn, None after the last."""

    settings: TurnSettings
    user: SimulatedUser
    cached: CachedSession
    rng: random.Random
    number: int
    uses_memory: bool
    due: datetime | None
    input: Input = Start()
    failures: int = 0  # of the next turn

    async def take_turn(self, started: datetime) -> SimulatedTurn:
        """Run the turn that is due, then draw the user's next reply and its time.

        A session whose first turn fails is stored with an empty turn, as a server does.
        """
        cached, expected, failure, row = self.cached, self.cached.state.turn, None, None
        finished = started + timedelta(milliseconds=self.rng.uniform(*TURN_MS))
        try:
            turn: Turn | None = await self._run(started, finished)
            self.failures = 0
        except TurnFailed as failed:
            failure = cached.failure_row(Failure(code_of(failed.kind), str(failed), failed.place), finished)
            turn = session_before_first_turn(cached.state) if expected == NO_TURN else None
            self.failures += 1
        if turn is not None:
            status = "error" if failure is not None else ""
            row = turn_row(
                cached.session, cached.program, turn, started_at=started, finished_at=finished, execution_status=status
            )
            self._apply(turn, row)
        self._draw_next(finished)
        session = cached.session if expected == NO_TURN else None
        return SimulatedTurn(started, self.number, row, expected, session, failure)

    async def _run(self, started: datetime, finished: datetime) -> Turn:
        """Run one turn. Raises TurnFailed."""
        cached, user = self.cached, self.user
        return await run_turn(
            cached.program,
            cached.state,
            self.input,
            model=OfflineModel(),
            clock=lambda: finished,
            ids=lambda: draw_id(self.rng),
            limits=self.settings.limits,
            global_cells=cells_of(list(user.variables.values())) if cached.program.global_names else None,
            history=cached.history,
            now=started,
            contexts=self.settings.contexts,
            memory=user.memory.in_session(cached.session.session_id),
        )

    def _apply(self, turn: Turn, row: TurnRow) -> None:
        self.cached.apply_turn(row, turn)
        self.user.update_variables(row)
        if self.uses_memory:
            memory = self.user.memory.in_session(row.session_id)
            self.user.memory = memory.after(turn.events, row.finished_at, self.cached.program.script.memory)

    def _draw_next(self, finished: datetime) -> None:
        """Draw the next reply and its time, unless the session is over or the user leaves; repeat a failed turn."""
        cached, wait, rng = self.cached, self.cached.state.wait, self.rng
        is_over = self.failures > FAILURES_MAX if self.failures else wait is None
        self.due = None if is_over or rng.random() < LEAVE else finished + draw_pause(rng)
        if self.failures:
            return
        timers = pending_timers(cached.program, cached.state, "UTC") if cached.program.has_time else ()
        sleeps = wait is not None and wait.kind == "time"
        if timers and (sleeps or self.due is None or timers[0].due <= self.due):
            self.due, self.input = max(timers[0].due, finished), TimerDue()
        elif self.due is not None and wait is not None:
            self.input = draw_reply(cached.program, cached.state, wait, finished.date(), rng)


def draw_pause(rng: random.Random) -> timedelta:
    """Draw the time that a user takes to reply: log-normal, and now and then hours longer."""
    seconds = rng.lognormvariate(math.log(PAUSE_S), 0.9)
    if rng.random() < BREAK:
        seconds += rng.lognormvariate(math.log(BREAK_S), 1.3)
    return timedelta(seconds=seconds)
