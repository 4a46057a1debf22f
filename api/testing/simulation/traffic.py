"""What a simulation consists of: its profile, the visits of users, and the scripts that it publishes."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
from msgspec import Struct

from api.catalog.catalog import Catalog
from api.schemas.ids import TENANT
from runtime.state.program import Program
from scripts.model.script import Script
from scripts.parse.folder import read_folder
from scripts.parse.read_script import Reading
from store.interface.rows import ScriptRow
from store.store import Store

SESSIONS_MAX = 1_000_000
DAYS_MAX = 3_650

HOUR_WEIGHTS = (2, 1, 1, 1, 1, 2, 4, 7, 9, 9, 9, 8, 8, 7, 7, 7, 8, 9, 11, 13, 14, 13, 9, 5)  # by hour, UTC
WEEKDAY_WEIGHTS = (1.15, 1.1, 1.05, 1.0, 0.9, 0.75, 0.95)  # from Monday
REGULARITY = 1.5  # 1: all users return equally often; above 1: some return more often, by a power law


class LoadProfile(Struct, frozen=True, kw_only=True):
    """The amount of traffic: number of sessions, of users (at most one per session) and of days, and their end."""

    sessions: int
    users: int
    days: int
    seed: int
    ends_at: datetime

    @property
    def starts_at(self) -> datetime:
        """The beginning of the first day."""
        return self.ends_at - timedelta(days=self.days)


class Visit(NamedTuple):
    """The start of a session; both numbers count from 0."""

    at: datetime
    number: int
    user: int


def draw_id(rng: random.Random) -> str:
    """Draw a UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def session_id_of(seed: int, user: int, number: int) -> str:
    """Return the id of a user's session; `number` counts from 1."""
    return draw_id(random.Random(f"{seed}:{user}:{number}:session"))  # noqa: S311  (no secrets)


def schedule(profile: LoadProfile) -> Iterator[Visit]:
    """Yield all visits in the order of time. Every user has at least one."""
    rng = np.random.default_rng(profile.seed)
    hours = [profile.starts_at + timedelta(hours=number) for number in range(profile.days * 24)]
    weights = np.array([HOUR_WEIGHTS[hour.hour] * WEEKDAY_WEIGHTS[hour.weekday()] for hour in hours])
    drawn = rng.choice(len(hours), profile.sessions, p=weights / weights.sum())
    starts_s = np.sort((drawn + rng.random(profile.sessions)) * 3_600.0)
    returning = (profile.users * rng.random(profile.sessions - profile.users) ** REGULARITY).astype(np.int64)
    users = rng.permutation(np.concatenate([np.arange(profile.users), returning]))
    for number, (start_s, user) in enumerate(zip(starts_s.tolist(), users.tolist(), strict=True)):
        yield Visit(profile.starts_at + timedelta(seconds=start_s), number, user)


# -- scripts ----------------------------------------------------------------------------------------------------------


class SimulationFailed(Exception):
    """A simulation that cannot start or continue; the message says what to do."""


class Version(Struct, frozen=True):
    """A published version of a script; sessions that start from `starts_at` on use it."""

    row: ScriptRow
    programs: tuple[Program, ...]  # in the script's own language and in its translations
    starts_at: datetime
    uses_memory: bool


Versions: TypeAlias = tuple[Version, ...]  # of one script, the oldest first


def version_at(versions: Versions, moment: datetime) -> Version:
    """Return the version that a session uses which starts at a moment."""
    return next((each for each in reversed(versions) if each.starts_at <= moment), versions[0])


def read_scripts(paths: Sequence[Path]) -> list[Reading]:
    """Read the scripts of files and folders, in their order. Raises SimulationFailed if one cannot be run."""
    readings = [reading for path in paths for reading in read_folder(path)]
    for reading in readings:
        if reading.script is None:
            file = reading.source.file
            raise SimulationFailed(f"{file} cannot be run: {reading.errors[0]}. See `cuebook check {file}`")
    if not readings:
        raise SimulationFailed(f"there is no script in {', '.join(map(str, paths))}")
    return readings


async def publish(store: Store, profile: LoadProfile, readings: Sequence[Reading]) -> tuple[Versions, ...]:
    """Publish scripts. Files with the same id become versions that divide the days evenly."""
    by_id: dict[str, list[tuple[Reading, Script]]] = {}
    for reading in readings:
        if reading.script is not None:
            by_id.setdefault(reading.script.id, []).append((reading, reading.script))
    published = []
    for files in by_id.values():
        versions = []
        for number, (reading, script) in enumerate(files):
            starts_at = profile.starts_at + (profile.ends_at - profile.starts_at) * number / len(files)
            saved = await _catalog_at(store, starts_at).publish(TENANT, reading, script)
            own, texts = Program(script), (reading.source.text, *reading.source.side_files.values())
            programs = (own, *(own.in_locale(table.locale) for table in script.strings))
            uses_memory = any("recall" in text for text in texts)  # every way to search the memory is spelled `recall`
            versions.append(Version(saved.row, programs, starts_at, uses_memory))
        published.append(tuple(versions))
    return tuple(published)


def _catalog_at(store: Store, moment: datetime) -> Catalog:
    return Catalog(store, lambda: moment)
