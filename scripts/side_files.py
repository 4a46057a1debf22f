"""What a script takes from the files named in its `use`: global variables and skills."""

from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from scripts.diagnostics import Problems
from scripts.dialects import technique_form
from scripts.dialects.session_form import RESPELL
from scripts.model import Declaration, Node, Script, Skill
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, read_tree

SIDE_FILES_MAX = 20


class _SideFile(Node, frozen=True, kw_only=True):
    globals: tuple[Declaration, ...] = ()
    skills: tuple[Skill, ...] = ()


_NOTHING = _SideFile()


def leaves_folder(name: str) -> bool:
    """Whether a side file's name leads out of the script's folder."""
    return PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts


def with_side_files(script: Script, files: Mapping[str, str], problems: Problems, *, lenient: bool) -> Script:
    """The script with the global variables and skills of the side files it uses."""
    if len(script.use) > SIDE_FILES_MAX:
        problems.add("CONSTRAINT_VIOLATION", f"at most {SIDE_FILES_MAX} side files", script.mark("use"))
    found = []
    for name in script.use[:SIDE_FILES_MAX]:
        if name in files:
            found.append(_side_file(name, files[name], problems, lenient=lenient))
        else:
            fix = "A side file lies in the script's folder or below." if leaves_folder(name) else ""
            problems.add("USE_NOT_FOUND", f"no file {name} beside the script", script.mark("use"), fix=fix)
    return msgspec.structs.replace(
        script,
        globals=tuple(each for side in found for each in side.globals),
        skills=(*script.skills, *(each for side in found for each in side.skills)),
    )


def _side_file(name: str, text: str, problems: Problems, *, lenient: bool) -> _SideFile:
    inner = Problems(name)
    tree = read_tree(text, inner)
    side: _SideFile | None = None
    if isinstance(tree, MappingTree) and technique_form.recognises(tree):
        skill = technique_form.read(tree, Reader(inner, lenient=lenient, respell=RESPELL))
        side = _SideFile(skills=(skill,)) if skill is not None else None
    elif isinstance(tree, MappingTree) and {"globals", "global", "skills"} & set(tree.keys()):
        spelled = tuple((_globals_key(key), value) for key, value in tree.pairs)
        side = Reader(inner, lenient=False).read(MappingTree(spelled, tree.at, tree.size), _SideFile)
    elif tree is not None:
        fix = "Write `globals:` or `skills:` and a list."
        inner.add("UNRECOGNISED_SCRIPT", f"{name} holds no `globals:` and no `skills:`", tree.at, fix=fix)
    problems.extend(inner)
    return side or _NOTHING


def _globals_key(key: Scalar) -> Scalar:
    return msgspec.structs.replace(key, text="globals") if key.text == "global" else key
