"""A simulation from its scripts to its last turn, stored in a database as a server would store it.

The timeline has the turns of all sessions in the order of time, from one process or several. Each process runs a share
of the users. No random number depends on the number of processes, so the turns are the same.
"""

import asyncio
import heapq
import itertools
import multiprocessing
import os
import random
import signal
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from datetime import datetime
from multiprocessing.connection import Connection
from typing import TypeAlias

from msgspec import Struct

from api.ids import TENANT
from api.sessions.row_mapping import seed_of
from api.sessions.session_cache import CachedSession
from api.testing.simulation.published_scripts import (
    Programs,
    SimulationFailed,
    Versions,
    load_programs,
    publish,
    version_at,
)
from api.testing.simulation.simulated_session import SimulatedSession, SimulatedTurn, SimulatedUser, TurnSettings
from api.testing.simulation.visits import LoadProfile, Visit, schedule, session_id_of
from runtime.state.state import State
from scripts.parse.read_script import Reading
from store.interface.errors import TurnConflict
from store.interface.rows import SessionRow
from store.store import Store

SAME_SCRIPT = 0.5  # probability that a returning user starts the script of the last session again
BATCH = 128  # turns sent or stored together; a process that is ahead waits until its pipe is read
STOP_S = 5.0

Batches: TypeAlias = AsyncGenerator[list[SimulatedTurn], None]


# -- timeline ---------------------------------------------------------------------------------------------------------


class Simulation(Struct, frozen=True):
    """Everything that determines the turns of a simulation."""

    profile: LoadProfile
    scripts: tuple[Versions, ...]
    settings: TurnSettings


async def timeline(simulation: Simulation, share: int = 0, shares: int = 1) -> Batches:
    """Run the sessions of every `shares`-th user from number `share` on, up to the end of the last day."""
    programs, users = load_programs(simulation.scripts), dict[int, SimulatedUser]()
    visits = [visit for visit in schedule(simulation.profile) if visit.user % shares == share]
    due: list[tuple[datetime, int, Visit | SimulatedSession]] = [(visit.at, visit.number, visit) for visit in visits]
    batch: list[SimulatedTurn] = []
    while due:  # a heap from the beginning, since visits are in the order of time
        at, number, entry = heapq.heappop(due)
        if isinstance(entry, Visit):
            user = users.setdefault(entry.user, SimulatedUser(entry.user))
            entry = _start(simulation, programs, user, entry)
        batch.append(await entry.take_turn(at))
        if entry.due is not None and entry.due < simulation.profile.ends_at:
            heapq.heappush(due, (entry.due, number, entry))
        if len(batch) == BATCH or not due:
            yield batch
            batch = []


async def timeline_in_processes(simulation: Simulation, processes: int) -> Batches:
    """Yield the turns in the order of time, in batches. Raises SimulationFailed."""
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(simulation, share, processes)) for share in range(processes)]
        turns = heapq.merge(*workers, key=lambda turn: (turn.at, turn.number))
        while batch := await asyncio.to_thread(lambda: list(itertools.islice(turns, BATCH))):
            yield batch


@contextmanager
def _worker(simulation: Simulation, share: int, shares: int) -> Iterator[Iterator[SimulatedTurn]]:
    """Run a process for a share; give its turns, and stop it at the end."""
    context = multiprocessing.get_context("spawn")
    pipe, other_end = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(other_end, simulation, share, shares), daemon=True)
    process.start()
    other_end.close()  # now only the process has it open: the pipe ends when the process ends
    try:
        yield _received(pipe)
    finally:
        process.terminate()
        process.join(STOP_S)
        pipe.close()


def _received(pipe: Connection) -> Iterator[SimulatedTurn]:
    """Yield the turns that a process sends, up to its message None. Raises SimulationFailed."""
    try:
        while (batch := pipe.recv()) is not None:
            yield from batch
    except EOFError:
        raise SimulationFailed("a process of the simulation has ended; it may have run out of memory") from None


def _work(pipe: Connection, simulation: Simulation, share: int, shares: int) -> None:
    """Run one share and send its turns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C stops the first process, which stops this one
    with suppress(BrokenPipeError):  # the first process has stopped
        asyncio.run(_send(pipe, simulation, share, shares))
    pipe.close()
    os._exit(0)  # without the interpreter's shutdown, in which DuckDB prints warnings about leaks


async def _send(pipe: Connection, simulation: Simulation, share: int, shares: int) -> None:
    async for batch in timeline(simulation, share, shares):
        pipe.send(batch)
    pipe.send(None)


def _start(simulation: Simulation, programs: Programs, user: SimulatedUser, visit: Visit) -> SimulatedSession:
    """Create the next session of a user. Its random numbers are its own, so that no other session changes them."""
    seed, contexts = simulation.profile.seed, simulation.settings.contexts
    user.sessions += 1
    rng = random.Random(f"{seed}:{user.number}:{user.sessions}")  # noqa: S311  (no secrets)
    if user.script is None or rng.random() >= SAME_SCRIPT:
        user.script = rng.choice(simulation.scripts)
    version = version_at(user.script, visit.at)
    program = rng.choice(programs[version.row.digest])
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
    return SimulatedSession(simulation.settings, user, cached, rng, visit.number, version.uses_memory, visit.at)


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
    jobs: int,
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
    batches = timeline(simulation) if jobs == 1 else timeline_in_processes(simulation, jobs)
    try:
        await _store_all(store, batches, counts, on_progress)
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
