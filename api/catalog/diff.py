"""Compares two versions of a script by line and by part."""

import asyncio
import difflib

from api.catalog.catalog import Catalog
from api.schemas.scripts import BreakingChangeView, DifferenceView, ScriptDiff, VersionRef
from scripts.model.script import Script
from scripts.parse.read_script import Reading
from scripts.versions.breaking_changes import changes
from scripts.versions.diff import differences
from scripts.versions.rename_map import format_path
from store.interface.rows import ScriptRow

LINES_MAX = 10_000
"""The greatest number of lines of either text; the comparison takes quadratic time."""


async def diff(catalog: Catalog, tenant: str, script_id: str, earlier: int | None, later: int | None) -> ScriptDiff:
    """Return the differences between two versions, by default the latest and the one before it.

    Raises ApiError SCRIPT_NOT_FOUND.
    """
    versions = await catalog.versions(tenant, script_id)
    new = versions[0] if later is None else await catalog.version(tenant, script_id, later)
    before = [row for row in versions if row.version < new.version] or [new]
    old = before[0] if earlier is None else await catalog.version(tenant, script_id, earlier)
    old_reading, new_reading = await catalog.reading(old), await catalog.reading(new)
    text = await asyncio.to_thread(_by_lines, old, old_reading, new, new_reading)
    touching, otherwise = None, None
    if old_reading.script is not None and new_reading.script is not None:
        touching, otherwise = await asyncio.to_thread(_by_parts, old_reading.script, new_reading.script)
    return ScriptDiff(
        script_id=new.script_uuid,
        script_key=new.script_id,
        from_=VersionRef.of(old),
        to=VersionRef.of(new),
        text=text,
        touching=touching,
        differences=otherwise,
    )


def _by_lines(old: ScriptRow, old_reading: Reading, new: ScriptRow, new_reading: Reading) -> str | None:
    before, after = (reading.source.text.splitlines() for reading in (old_reading, new_reading))
    if max(len(before), len(after)) > LINES_MAX:
        return None
    names = f"version {old.version}", f"version {new.version}"
    return "".join(f"{line}\n" for line in difflib.unified_diff(before, after, names[0], names[1], lineterm=""))


def _by_parts(old: Script, new: Script) -> tuple[list[BreakingChangeView], list[DifferenceView]]:
    touching = [
        BreakingChangeView.of(change, path=format_path(change.path), line=change.at.line)
        for change in changes(old, new)
    ]
    return touching, [DifferenceView.of(each) for each in differences(old, new)]
