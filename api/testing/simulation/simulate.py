"""A simulation from its scripts to its last turn: the engine runs each turn at its simulated time, and the turns of all
sessions are stored in the order of time, as a server would store them.
"""

import asyncio
import heapq
import math
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from api.schemas.ids import TENANT
from api.sessions.row_mapping import cells_of, seed_of, session_before_first_turn, turn_row
from api.sessions.session_cache import CachedSession
from api.sessions.turn_runner import code_of
from api.testing.plausible_replies import draw_reply
from api.testing.player import LOCAL
from api.testing.simulation.traffic import (
    LoadProfile,
    SimulationFailed,
    Versions,
    Visit,
    draw_id,
    publish,
    schedule,
    session_id_of,
    version_at,
)
from runtime.context.selection import Contexts
from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.memory.local_memory import LocalMemory
from runtime.models.offline_model import OfflineModel
from runtime.state.inputs import Input, Start, TimerDue
from runtime.state.limits import Limits
from runtime.state.state import State
from runtime.timers.timers import pending_timers
from runtime.turn.context import TurnEnvironment
from scripts.parse.read_script import Reading
from store.interface.errors import TurnConflict
from store.interface.rows import NO_TURN, FailureRow, SessionRow, TurnRow, UserVariableRow
from store.store import Store

LEAVE = 0.03  # probability that a user leaves instead of replying
PAUSE_S = 12.0  # median time to reply
BREAK = 0.012  # probability that a user replies only after hours
BREAK_S = 5 * 3_600.0  # median of such a break
TURN_MS = (2.0, 9.0)  # shortest and longest duration of a turn
FAILURES_MAX = 2  # failed attempts at a turn before the user leaves
SAME_SCRIPT = 0.5  # probability that a returning user starts the script of the last session again
BATCH = 128  # turns stored together


# -- one session ------------------------------------------------------------------------------------------------------


class TurnSettings(Struct, frozen=True):
    """The settings of a server that apply to turns."""

    limits: Limits = Limits()
    contexts: Contexts = Contexts()


class SimulatedTurn(Struct, frozen=True):
    """The rows that one moment adds to the database: a turn, a failed attempt at one, or both."""

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
    """A session in progress. `due` is the time of its next turn, None after the last."""

    settings: TurnSettings
    user: SimulatedUser
    cached: CachedSession
    rng: random.Random
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
            turn: Turn | None = await self._run(started)
            self.failures = 0
        except TurnFailed as failed:
            failure = cached.failure_row(code_of(failed.kind), str(failed), failed.place, finished)
            turn = session_before_first_turn(cached.state) if expected == NO_TURN else None
            self.failures += 1
        if turn is not None:
            row = turn_row(cached.session, cached.program, turn, started_at=started, finished_at=finished)
            self._apply(turn, row)
        self._draw_next(finished)
        session = cached.session if expected == NO_TURN else None
        return SimulatedTurn(row, expected, session, failure)

    async def _run(self, started: datetime) -> Turn:
        """Run one turn. Raises TurnFailed."""
        cached, user = self.cached, self.user
        return await run_turn(
            cached.program,
            cached.state,
            self.input,
            TurnEnvironment(
                model=OfflineModel(),
                ids=lambda: draw_id(self.rng),
                limits=self.settings.limits,
                history=cached.history,
                now=started,
                contexts=self.settings.contexts,
                memory=user.memory.in_session(cached.session.session_id),
            ),
            global_cells=cells_of(list(user.variables.values())) if cached.program.global_names else None,
        )

    def _apply(self, turn: Turn, row: TurnRow) -> None:
        self.cached.apply_turn(row, turn, ())
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


# -- timeline ---------------------------------------------------------------------------------------------------------


Batches: TypeAlias = AsyncGenerator[list[SimulatedTurn], None]


class Simulation(Struct, frozen=True):
    """Everything that determines the turns of a simulation."""

    profile: LoadProfile
    scripts: tuple[Versions, ...]
    settings: TurnSettings


async def timeline(simulation: Simulation) -> Batches:
    """Run the sessions of all users up to the end of the last day."""
    users: dict[int, SimulatedUser] = {}
    due: list[tuple[datetime, int, Visit | SimulatedSession]] = [
        (visit.at, visit.number, visit) for visit in schedule(simulation.profile)
    ]
    batch: list[SimulatedTurn] = []
    while due:  # a heap from the beginning, since visits are in the order of time
        at, number, entry = heapq.heappop(due)
        if isinstance(entry, Visit):
            entry = _start(simulation, users.setdefault(entry.user, SimulatedUser(entry.user)), entry)
        batch.append(await entry.take_turn(at))
        if entry.due is not None and entry.due < simulation.profile.ends_at:
            heapq.heappush(due, (entry.due, number, entry))
        if len(batch) == BATCH or not due:
            yield batch
            batch = []


def _start(simulation: Simulation, user: SimulatedUser, visit: Visit) -> SimulatedSession:
    """Create the next session of a user. Its random numbers are its own, so that no other session changes them."""
    seed, contexts = simulation.profile.seed, simulation.settings.contexts
    user.sessions += 1
    rng = random.Random(f"{seed}:{user.number}:{user.sessions}")  # noqa: S311  (no secrets)
    if user.script is None or rng.random() >= SAME_SCRIPT:
        user.script = rng.choice(simulation.scripts)
    version = version_at(user.script, visit.at)
    program = rng.choice(version.programs)
    session_id = session_id_of(seed, user.number, user.sessions)
    session = SessionRow(
        tenant=TENANT,
        session_id=session_id,
        user_id=f"sim{seed}-{user.number + 1:06}",
        key=None,
        script_uuid=version.row.script_uuid,
        script_id=version.row.script_id,
        script_version=version.row.version,
        digest=version.row.digest,
        locale=program.locale,
        seed=seed_of(session_id),
        metadata={"simulated": seed},
        created_at=visit.at,
        idempotency_key=None,
    )
    state = State(session.seed, program.locale, session.user_id)
    cached = CachedSession(session, program, state, (), contexts.messages_max(program.script, state))
    return SimulatedSession(simulation.settings, user, cached, rng, version.uses_memory, visit.at)


# -- storing it -------------------------------------------------------------------------------------------------------


class SimulationCounts(Struct):
    """What a simulation has stored so far."""

    sessions: int = 0
    completed: int = 0
    turns: int = 0
    failures: int = 0


OnProgress = Callable[[SimulationCounts], None]  # called after each batch that is stored


async def simulate(
    store: Store,
    profile: LoadProfile,
    readings: Sequence[Reading],
    settings: TurnSettings,
    counts: SimulationCounts,
    on_progress: OnProgress = lambda _: None,
) -> None:
    """Store a simulation in a database and update `counts`. If cancelled, every stored session is complete so far.

    Raises SimulationFailed, StoreError.
    """
    seed_is_used = SimulationFailed(f"the database has sessions of the seed {profile.seed}; name another with --seed")
    if await store.sessions.head(TENANT, session_id_of(profile.seed, 0, 1)) is not None:
        raise seed_is_used
    simulation = Simulation(profile, await publish(store, profile, readings), settings)
    try:
        await _store_all(store, timeline(simulation), counts, on_progress)
    except TurnConflict as error:
        raise seed_is_used from error


async def _store_all(store: Store, batches: Batches, counts: SimulationCounts, on_progress: OnProgress) -> None:
    """Store batch after batch; one is written while the next is computed."""
    writing: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
    try:
        async with aclosing(batches):
            async for batch in batches:
                await asyncio.shield(writing)  # a cancellation must not interrupt a write
                on_progress(counts)
                writing = asyncio.create_task(_store(store, batch, counts))
    finally:
        await asyncio.wait([writing])
    writing.result()
    on_progress(counts)


async def _store(store: Store, batch: Sequence[SimulatedTurn], counts: SimulationCounts) -> None:
    commits = [store.turns.commit(one.turn, one.expected_turn, one.session) for one in batch if one.turn is not None]
    await asyncio.gather(*commits)
    for each in batch:
        if each.failure is not None:
            await store.turns.save_failure(each.failure)
            counts.failures += 1
        if each.turn is not None:
            counts.turns += 1
            counts.sessions += each.session is not None
            counts.completed += each.turn.status == "completed"
