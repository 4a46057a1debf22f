"""``cuebook simulate``: generate simulated sessions in a database of their own."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import click
from msgspec.structs import asdict
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

from api.cli.options import EXISTING_PATH, SEED, in_json, moment_of, with_settings
from api.cli.output import end, errors, fail, print_json
from api.cli.progress import progress_bar
from api.schemas.ids import TENANT
from api.schemas.timestamps import utc_now
from api.settings import EXAMPLES, Settings
from api.testing.simulation.simulate import SimulationCounts, TurnSettings, simulate
from api.testing.simulation.traffic import DAYS_MAX, SESSIONS_MAX, LoadProfile, SimulationFailed, read_scripts
from scripts.parse.read_script import Reading
from store.interface.errors import DatabaseLocked, StoreError
from store.interface.private_files import FILE_NAME, restrict_umask
from store.open_store import open_store


@click.command(
    "simulate",
    epilog="Examples:\n\n  cuebook simulate --sessions 2000 --data traffic\n\n"
    "  cuebook simulate intake.yaml intake_2.yaml --sessions 5000 --until 2026-06-01 --data traffic",
)
@click.argument("scripts", nargs=-1, metavar="[SCRIPT]...", type=EXISTING_PATH)
@click.option("--sessions", type=click.IntRange(1, SESSIONS_MAX), default=1_000, help="Number of sessions [1000].")
@click.option("--users", type=click.IntRange(1, SESSIONS_MAX), help="Number of users [a third of the sessions].")
@click.option(
    "--days", type=click.IntRange(1, DAYS_MAX), default=30, help="Number of days over which the sessions start [30]."
)
@click.option("--until", help="End of the last day: a date or time in UTC [the beginning of today].")
@click.option("--seed", type=SEED, default=1, help="Seed of all random choices [1].")
@click.option("--append", is_flag=True, help="Add to an existing database.")
@in_json
@with_settings("data")
def simulate_traffic(
    settings: Settings,
    scripts: Sequence[Path],
    sessions: int,
    users: int | None,
    days: int,
    until: str | None,
    seed: int,
    append: bool,
    as_json: bool,
) -> None:
    """Generate simulated sessions, to try reports and to test loads without real users.

    Simulated users start sessions and return, answer, misunderstand, pause and leave at random. The engine runs every
    turn, without a language model, at a simulated time, and records it as a server does: the database can be served,
    queried and replayed. A server leaves its sessions as they are: they have no timers. Without SCRIPT the examples are
    used. If two files contain the same script, the second replaces the first halfway. The same seed, scripts and dates
    produce the same database.
    """
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    profile = LoadProfile(
        sessions=sessions,
        users=min(users or max(1, sessions // 3), sessions),
        days=days,
        seed=seed,
        ends_at=today if until is None else moment_of(until, "--until").astimezone(UTC),
    )
    began, counts = time.monotonic(), SimulationCounts()
    try:
        readings = read_scripts(scripts or [EXAMPLES])
        asyncio.run(_simulate(settings, profile, readings, counts, append=append))
    except KeyboardInterrupt:
        _print_counts("stopped; the database has", counts, began)
        end(130)
    except DatabaseLocked as error:
        fail(f"{error} Stop the server first, or name another folder with --data.")
    except (SimulationFailed, StoreError) as error:
        fail(str(error))
    _print_counts("simulated", counts, began)
    if as_json:
        period = {"since": profile.starts_at, "until": profile.ends_at}
        print_json(asdict(counts) | {"users": profile.users, "seed": profile.seed} | period)


async def _simulate(
    settings: Settings, profile: LoadProfile, readings: Sequence[Reading], counts: SimulationCounts, *, append: bool
) -> None:
    restrict_umask()
    if not append and settings.database_url is None and (settings.data / FILE_NAME).exists():
        raise SimulationFailed(
            f"there is already a database in {settings.data}; name a new folder with --data, or add to it with --append"
        )
    store = await asyncio.to_thread(open_store, settings.data, settings.database_url)
    turn_settings = TurnSettings(settings.limits, settings.contexts)
    began = time.monotonic()
    columns = (MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    try:
        if not append and (await store.sessions.page(TENANT, limit=1)).rows:
            raise SimulationFailed("the database has sessions already; name another one, or add to it with --append")
        with progress_bar("sessions", *columns, total=profile.sessions, rate="") as bar:

            def on_progress(counts: SimulationCounts) -> None:
                rate = counts.turns / max(time.monotonic() - began, 0.001)
                bar.update(completed=counts.sessions, rate=f"{rate:,.0f} turns/s")

            await simulate(store, profile, readings, turn_settings, counts, on_progress)
    finally:
        await store.close()


def _print_counts(what: str, counts: SimulationCounts, began: float) -> None:
    took_s = max(time.monotonic() - began, 0.001)
    errors.print(
        f"{what} {counts.sessions:,} sessions with {counts.turns:,} turns; {counts.completed:,} sessions were"
        f" completed. It took {took_s:.1f} s, {counts.turns / took_s:,.0f} turns a second."
    )
