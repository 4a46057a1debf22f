"""The scripts of a simulation: read from files, published in the database, and prepared for running."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from api.catalog.catalog import Catalog
from api.ids import TENANT
from api.testing.simulation.visits import LoadProfile
from runtime.state.program import Program
from scripts.model.script import Script
from scripts.parse.folder import read_folder
from scripts.parse.read_script import Reading, Source, read_script
from store.interface.rows import ScriptRow
from store.store import Store

# The programs of each version by its digest: in the script's own language and in its translations.
Programs: TypeAlias = dict[str, list[Program]]


class SimulationFailed(Exception):
    """A simulation that cannot start or continue; the message says what to do."""


class Version(Struct, frozen=True):
    """A published version of a script; sessions that start from `starts_at` on use it."""

    row: ScriptRow
    source: Source
    starts_at: datetime

    @property
    def uses_memory(self) -> bool:
        """Whether the script may search the user's memory; every way to do so is spelled `recall`."""
        return any("recall" in text for text in (self.source.text, *self.source.side_files.values()))


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
            versions.append(Version(saved.row, reading.source, starts_at))
        published.append(tuple(versions))
    return tuple(published)


def _catalog_at(store: Store, moment: datetime) -> Catalog:
    return Catalog(store, lambda: moment)


def load_programs(scripts: Sequence[Versions]) -> Programs:
    """Return the programs of all versions."""
    programs: Programs = {}
    for version in (version for versions in scripts for version in versions):
        script = read_script(version.source, "compat").script
        if script is not None:  # as it was when it was published
            own = Program(script)
            programs[version.row.digest] = [own, *(own.in_locale(table.locale) for table in script.strings)]
    return programs
