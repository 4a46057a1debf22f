"""``cuebook simulate``: realistic traffic over scripts, kept in a record of its own."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from api.app import utc_now
from api.caller import TENANT
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json
from api.settings import EXAMPLES, Settings
from api.simulation.conversation import Rules
from api.simulation.processes import ProcessEnded
from api.simulation.simulate import JOBS_MAX, NotSimulated, Simulated, readings_of, simulate
from api.simulation.visits import DAYS_MAX, SESSIONS_MAX, Wish
from scripts.parse import Reading
from store.database import FILE_NAME
from store.errors import DatabaseLocked, StoreError
from store.private import restrict_umask
from store.record import Record

FEW = 2_000
"""Sessions that one process is done with before others have started."""


@click.command(
    "simulate",
    epilog="Examples:\n\n  cuebook simulate --sessions 2000 --data traffic\n\n"
    "  cuebook simulate intake.yaml intake_2.yaml --sessions 5000 --until 2026-06-01 --data traffic",
)
@click.argument("scripts", nargs=-1, metavar="[SCRIPT]...", type=click.Path(exists=True, path_type=Path))
@click.option("--sessions", type=click.IntRange(1, SESSIONS_MAX), default=1_000, help="How many [1000].")
@click.option("--users", type=click.IntRange(1, SESSIONS_MAX), help="Visitors who make them [a third as many].")
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=30, help="Over how many days they begin [30].")
@click.option("--until", help="When the last day ends: a date or time, UTC [the beginning of today].")
@click.option("--seed", type=click.IntRange(0, 2**53), default=1, help="Chance: another number, other traffic [1].")
@click.option("--append", is_flag=True, help="Add to a record that is there already.")
@click.option("--jobs", type=click.IntRange(1, JOBS_MAX), help="Processes that take turns [as many as processors].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data")
def simulate_traffic(
    scripts: Sequence[Path],
    sessions: int,
    users: int | None,
    days: int,
    until: str | None,
    seed: int,
    append: bool,
    jobs: int | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Makes realistic traffic: visitors come and return, answer, misunderstand, pause and leave, by chance.

    Every turn is taken by the engine, without any model, at a time of the simulation, and recorded as a server does
    it: the record can be served, queried and replayed. Without a SCRIPT visitors come to the examples. Of two files of
    one script the second takes the place of the first halfway. The same seed, scripts and dates make the same record.
    """
    settings = settings_of(config, **flags)
    wish = Wish(
        sessions=sessions,
        users=min(users or max(1, sessions // 3), sessions),
        days=days,
        seed=seed,
        until=_moment(until),
    )
    _require_free(settings.data, append=append)
    jobs = jobs or (1 if sessions <= FEW else min(os.cpu_count() or 1, JOBS_MAX))
    began, simulated = time.monotonic(), Simulated()
    try:
        readings = readings_of(scripts or [EXAMPLES])
        asyncio.run(_simulate(settings, wish, readings, jobs, simulated))
    except KeyboardInterrupt:
        _tell("stopped; the record has", simulated, began)
        raise SystemExit(130) from None
    except DatabaseLocked as error:
        fail(f"{error} Stop the server first, or name another folder with --data.")
    except (NotSimulated, ProcessEnded, StoreError) as error:
        fail(str(error))
    _tell("simulated", simulated, began)
    if as_json:
        print_json(_document(wish, simulated))


def _document(wish: Wish, simulated: Simulated) -> dict[str, object]:
    return {
        "sessions": simulated.sessions,
        "users": wish.users,
        "turns": simulated.turns,
        "completed": simulated.completed,
        "failures": simulated.failures,
        "since": wish.since,
        "until": wish.until,
        "seed": wish.seed,
    }


def _moment(until: str | None) -> datetime:
    if until is None:
        return utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        fail(f"--until {until} is no date or time, such as 2026-01-31 or 2026-01-31T18:00")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _require_free(data: Path, *, append: bool) -> None:
    """What is simulated is not mixed with what people said, unless somebody wants that."""
    if (data / FILE_NAME).exists() and not append:
        fail(f"there is a record in {data} already; name a new folder with --data, or add to it with --append")


async def _simulate(
    settings: Settings, wish: Wish, readings: Sequence[Reading], jobs: int, simulated: Simulated
) -> None:
    restrict_umask()
    record = await asyncio.to_thread(Record.open, settings.data)
    rules = Rules(TENANT, settings.limits, settings.contexts)
    try:
        with _bar(wish.sessions) as tell:
            await simulate(record, wish, readings, rules, jobs, simulated, tell)
    finally:
        await record.close()


def _tell(what: str, simulated: Simulated, began: float) -> None:
    took_s = max(time.monotonic() - began, 0.001)
    errors.print(
        f"{what} {simulated.sessions:,} sessions with {simulated.turns:,} turns; {simulated.completed:,} sessions were"
        f" completed. It took {took_s:.1f} s, {simulated.turns / took_s:,.0f} turns a second."
    )


@contextmanager
def _bar(sessions: int) -> Iterator[Callable[[Simulated], None]]:
    """A bar on standard error, where a person looks; gives what moves it on."""
    columns = (TextColumn("sessions"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    began = time.monotonic()
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, transient=True, disable=not errors.is_terminal
    ) as progress:
        task = progress.add_task("sessions", total=sessions, rate="")

        def tell(simulated: Simulated) -> None:
            rate = simulated.turns / max(time.monotonic() - began, 0.001)
            progress.update(task, completed=simulated.sessions, rate=f"{rate:,.0f} turns/s")

        yield tell
