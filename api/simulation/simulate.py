"""A simulation from its scripts to its last turn: what visitors do is kept in a record, as a server would keep it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from api.caller import TENANT
from api.catalogue import Catalogue
from api.simulation.conversation import Happened, Rules
from api.simulation.course import Course, session_id_of
from api.simulation.processes import in_processes, in_this_process
from api.simulation.stage import Offered, Version
from api.simulation.visits import Wish
from scripts.folder import read_folder
from scripts.parse import Reading
from store.errors import TurnConflict
from store.record import Record

JOBS_MAX = 64


class NotSimulated(Exception):
    """What keeps a simulation from being begun, or from going on; the message says what to do."""


class Simulated:
    """How much there is so far."""

    def __init__(self) -> None:
        self.sessions = 0
        self.completed = 0
        self.turns = 0
        self.failures = 0


Tell = Callable[[Simulated], None]
"""Hears how far it is, after each commit."""


def readings_of(paths: Sequence[Path]) -> list[Reading]:
    """The scripts of files and folders, in their order. Raises NotSimulated where one cannot be run."""
    readings = [reading for path in paths for reading in read_folder(path)]
    broken = [reading for reading in readings if reading.script is None]
    if broken:
        file = broken[0].source.file
        raise NotSimulated(f"{file} cannot be run: {broken[0].errors[0]}. See `cuebook check {file}`")
    if not readings:
        raise NotSimulated(f"there is no script in {', '.join(map(str, paths))}")
    return readings


async def publish(record: Record, wish: Wish, readings: Sequence[Reading]) -> tuple[Offered, ...]:
    """Publishes scripts: of several with one id each is a version, and takes the place of the one before as time goes
    by: with two of them halfway.
    """
    by_id: dict[str, list[Reading]] = {}
    for reading in readings:
        if reading.script is not None:
            by_id.setdefault(reading.script.id, []).append(reading)
    return tuple([await _published(record, wish, each) for each in by_id.values()])


async def _published(record: Record, wish: Wish, readings: Sequence[Reading]) -> Offered:
    versions: list[Version] = []
    for place, reading in enumerate(readings):
        since = wish.since + (wish.until - wish.since) * (place / len(readings))
        catalogue = Catalogue(record, _clock_at(since))
        if reading.script is not None:
            saved = await catalogue.publish(TENANT, reading, reading.script)
            versions.append(Version(saved.row, reading.source, since))
    return Offered(tuple(versions))


def _clock_at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


async def simulate(
    record: Record,
    wish: Wish,
    readings: Sequence[Reading],
    rules: Rules,
    jobs: int,
    simulated: Simulated,
    tell: Tell = lambda _: None,
) -> None:
    """Keeps a simulation in a record, and counts what is `simulated`. Whenever it is cancelled, what was kept so far is
    whole.

    Raises NotSimulated, ProcessEnded, StoreError.
    """
    first = session_id_of(wish.seed, 0, 1)
    if await record.session_head(rules.tenant, first) is not None:
        raise _again(wish.seed)
    course = Course(wish, await publish(record, wish, readings), rules)
    happening = in_this_process(course) if jobs == 1 else in_processes(course, jobs)
    try:
        await _keep(record, happening, simulated, tell)
    except TurnConflict as error:
        raise _again(wish.seed) from error


def _again(seed: int) -> NotSimulated:
    return NotSimulated(f"the record has sessions of the seed {seed} already; name another one with --seed")


async def _keep(
    record: Record, happening: AsyncGenerator[list[Happened], None], simulated: Simulated, tell: Tell
) -> None:
    """Commits what happens group by group: while one is written, the next one is computed."""
    writing: list[asyncio.Task[None]] = []
    try:
        async with aclosing(happening):
            async for group in happening:
                writing.append(asyncio.create_task(_commit(record, group, simulated)))
                if len(writing) > 1:
                    await asyncio.wait(writing[:1])  # as it is, so that who is cancelled here does not cancel it
                    writing.pop(0).result()
                    tell(simulated)
        await asyncio.gather(*writing)
    finally:
        await asyncio.gather(*writing, return_exceptions=True)
    tell(simulated)


async def _commit(record: Record, group: Sequence[Happened], simulated: Simulated) -> None:
    turns = [each for each in group if each.turn is not None]
    commits = [record.commit(each.turn, each.expected_turn, each.session) for each in turns if each.turn is not None]
    await asyncio.gather(*commits)
    for each in group:
        if each.failure is not None:
            await record.save_failure(each.failure)
    _count(simulated, group)


def _count(simulated: Simulated, group: Sequence[Happened]) -> None:
    for each in group:
        simulated.failures += each.failure is not None
        if each.turn is not None:
            simulated.turns += 1
            simulated.sessions += each.session is not None
            simulated.completed += each.turn.status == "completed"
