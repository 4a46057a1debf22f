"""Two versions of a script side by side: line by line, and part by part."""

import asyncio
import difflib

from api.catalogue import Catalogue
from api.schemas.scripts import DifferenceView, ScriptDiff, TouchingChange, VersionRef
from scripts.changes import changes
from scripts.differences import differences
from scripts.model import Script
from scripts.parse import Reading
from scripts.renames import written
from store.rows import ScriptRow

LINES_MAX = 10_000
"""Lines of either text; comparing texts by lines takes time by the square."""


async def diff(catalogue: Catalogue, tenant: str, script_id: str, earlier: int | None, later: int | None) -> ScriptDiff:
    """What is otherwise from one version to another: the latest and the one before it, unless they are named.

    Raises ApiError SCRIPT_NOT_FOUND.
    """
    versions = await catalogue.versions(tenant, script_id)
    new = versions[0] if later is None else await catalogue.version(tenant, script_id, later)
    before = [row for row in versions if row.version < new.version] or [new]
    old = before[0] if earlier is None else await catalogue.version(tenant, script_id, earlier)
    old_reading, new_reading = await catalogue.reading(old), await catalogue.reading(new)
    text = await asyncio.to_thread(_by_lines, old, old_reading, new, new_reading)
    touching, otherwise = None, None
    if old_reading.script is not None and new_reading.script is not None:
        touching, otherwise = await asyncio.to_thread(_by_parts, old_reading.script, new_reading.script)
    return ScriptDiff(
        script_id=new.script_uuid,
        script_key=new.script_id,
        from_=_ref(old),
        to=_ref(new),
        text=text,
        touching=touching,
        differences=otherwise,
    )


def _ref(row: ScriptRow) -> VersionRef:
    return VersionRef(version=row.version, version_label=row.version_label, digest=row.digest)


def _by_lines(old: ScriptRow, old_reading: Reading, new: ScriptRow, new_reading: Reading) -> str | None:
    before, after = (reading.source.text.splitlines() for reading in (old_reading, new_reading))
    if max(len(before), len(after)) > LINES_MAX:
        return None
    names = f"version {old.version}", f"version {new.version}"
    return "".join(f"{line}\n" for line in difflib.unified_diff(before, after, names[0], names[1], lineterm=""))


def _by_parts(old: Script, new: Script) -> tuple[list[TouchingChange], list[DifferenceView]]:
    touching = [
        TouchingChange(
            kind=change.kind, path=written(change.path), message=change.message, fix=change.fix, line=change.at.line
        )
        for change in changes(old, new)
    ]
    otherwise = [
        DifferenceView(what=each.what, how=each.how, path=each.path, was=each.was) for each in differences(old, new)
    ]
    return touching, otherwise
