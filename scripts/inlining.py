"""What a converted script keeps in `use`, and what of its side files it holds itself instead.

A script in the stage form takes the files beside it without naming them, whatever else they hold. A native script
names its side files, and an error in one of them keeps it from running. So what a native script could not use stands
in the converted script.
"""

from collections.abc import Iterator, Mapping

import msgspec

from scripts.actions import Call, walk
from scripts.model import Script
from scripts.nodes import Location, Node
from scripts.parse import Source, read_side_file
from scripts.side_files import BESIDE_STAGES

_INLINED = ("skills", "forms", "interrupts")  # what may stand in a script as well
_STAYS = ("globals", "roles", "experiments", "repairs", "detectors", "strings")


def with_sides(script: Script, source: Source) -> Script:
    """The script with what it needs of its side files, in `use` or in itself."""
    beside = BESIDE_STAGES if script.form == "stage" else ()
    unnamed = [name for name in beside if name in source.side_files and name not in script.use]
    script = _with_called_skills(script, set(unnamed))
    needed = [name for name in unnamed if _brings_something(script, source.side_files, name)]
    script = msgspec.structs.replace(script, use=(*needed, *script.use))
    for name in script.use if script.form == "stage" else ():
        if name in source.side_files and _is_inlined(script, source, name):
            script = _inlined(script, name)
    return script


def _with_called_skills(script: Script, files: set[str]) -> Script:
    """The script without the skills of some files that nothing calls."""
    skills = {skill.id: skill for skill in script.skills}
    waiting = [
        *(topic.actions for phase in script.phases for topic in phase.topics),
        *(each.actions for each in script.interrupts),
        *(skill.actions for skill in script.skills if skill.at.file not in files),
    ]
    called: set[str] = set()
    while waiting:
        names = {action.skill for action in walk(waiting.pop()) if isinstance(action, Call)} - called
        called |= names
        waiting += [skills[name].actions for name in names if name in skills]
    needed = tuple(skill for skill in script.skills if skill.at.file not in files or skill.id in called)
    return msgspec.structs.replace(script, skills=needed)


def _from(script: Script, name: str, keys: tuple[str, ...]) -> Iterator[Node]:
    return (node for key in keys for node in getattr(script, key) if node.at.file == name)


def _brings_something(script: Script, files: Mapping[str, str], name: str) -> bool:
    return any(True for _ in _from(script, name, (*_INLINED, *_STAYS))) or "use:" in files[name]


def _is_inlined(script: Script, source: Source, name: str) -> bool:
    """Whether a native script could not use a file, or would get more forms and skills from it than this script has."""
    if any(True for _ in _from(script, name, _STAYS)) or "use:" in source.side_files[name]:
        return False
    alone = read_side_file(Source(source.side_files[name], name, source.side_files))
    if alone.errors or alone.script is None:
        return True
    here = sum(1 for _ in _from(script, name, _INLINED))
    return here != sum(1 for _ in _from(alone.script, name, _INLINED))


def _inlined(script: Script, name: str) -> Script:
    """The script with what a file brings as its own."""
    changed = {
        key: tuple(_moved(node, script.at) if node.at.file == name else node for node in getattr(script, key))
        for key in _INLINED
    }
    return msgspec.structs.replace(script, use=tuple(each for each in script.use if each != name), **changed)


def _moved(node: Node, at: Location) -> Node:
    return msgspec.structs.replace(node, at=at)
