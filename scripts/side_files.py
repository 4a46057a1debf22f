"""What a script takes from the files named in its `use`, and from those that these use in turn."""

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import msgspec

from scripts.actions import Form
from scripts.brought import SideFile
from scripts.diagnostics import Problems
from scripts.dialects import consciousness_form, stage_sections, technique_form
from scripts.dialects.session_form import RESPELL
from scripts.dialects.stage_links import linked
from scripts.dialects.stage_repairs import read_repaired
from scripts.model import Script, all_actions
from scripts.nodes import Location
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, Tree
from scripts.source import Sequence as SequenceTree
from scripts.string_tables import read_table

SIDE_FILES_MAX = 20
BESIDE_STAGES = ("global.yaml", "roles.yaml", "skills.yaml", "forms.yaml", "rules.yaml")
"""What a script in the stage form takes without naming it, where it lies beside the script."""


_SHARED = ("skills", "roles", "forms", "experiments", "interrupts", "repairs", "detectors", "strings")
BRINGS = ("globals", *_SHARED)
"""What side files may bring, by the names it has in a script."""
_KEYS = frozenset({"globals", "global", "rules", "use", *_SHARED})  # of which a side file has one at its top
_NOTHING = SideFile()
_LAST_LINE = 1_000_000_000


def leaves_folder(name: str) -> bool:
    """Whether a side file's name leads out of the script's folder."""
    return PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts


def beside(name: str, used: str) -> str:
    """The name, seen from the script's folder, of what a side file of this name uses."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), used))


def used_names(tree: Tree | None) -> list[str]:
    """The names in the `use` of a file, in any form."""
    session = tree.get("session") if isinstance(tree, MappingTree) else None
    holder = session if isinstance(session, MappingTree) else tree
    used = holder.get("use") if isinstance(holder, MappingTree) else None
    if isinstance(used, Scalar):
        return [used.text]
    items = used.items if isinstance(used, SequenceTree) else ()
    return [item.text for item in items if isinstance(item, Scalar)]


def is_side_file(tree: Tree | None) -> bool:
    """Whether a file is one for scripts to use rather than one of them."""
    return isinstance(tree, MappingTree) and bool(_KEYS & set(tree.keys()))


def with_side_files(script: Script, files: Mapping[str, str], problems: Problems, *, lenient: bool) -> Script:
    """The script with what its side files bring; each file counts once, however often it is used."""
    gathering = _Gathering(files, problems, lenient=lenient, in_stages=script.form == "stage")
    automatic = [name for name in BESIDE_STAGES if script.form == "stage" and name in files and name not in script.use]
    gathering.take([*automatic, *script.use], script.mark("use"), ())
    found = gathering.found
    script = msgspec.structs.replace(script, globals=tuple(each for side in found for each in side.globals))
    for key in _SHARED:
        brought = tuple(each for side in found for each in getattr(side, key))
        script = msgspec.structs.replace(script, **{key: (*getattr(script, key), *brought)})
    in_stages = gathering.stage_files | ({script.at.file} if script.form == "stage" else set())
    script = linked(script, in_stages, problems, lenient=lenient) if in_stages else script
    return _with_shown_forms(script, problems, lenient=lenient) if script.form == "stage" else script


def _with_shown_forms(script: Script, problems: Problems, *, lenient: bool) -> Script:
    """The script without the forms of files beside it that it never shows; `lenient`, their errors are warnings."""
    shown = {action.sheet for action in all_actions(script) if isinstance(action, Form)}
    usable = tuple(each for each in script.forms if each.id in shown or each.at.file == script.at.file)
    for unused in (each for each in script.forms if lenient and each not in usable):
        lines = [each.at.line for each in script.forms if each.at.file == unused.at.file]
        below = (line for line in lines if line > unused.at.line)
        problems.soften_within(unused.at, min(below, default=_LAST_LINE))
    return msgspec.structs.replace(script, forms=usable)


class _Gathering:
    """Follows `use` from file to file."""

    def __init__(self, files: Mapping[str, str], problems: Problems, *, lenient: bool, in_stages: bool) -> None:
        self.found: list[SideFile] = []
        self.stage_files: set[str] = set()  # those in the stage form
        self._in_stages = in_stages  # whether the script itself is
        self._files = files
        self._problems = problems
        self._lenient = lenient
        self._seen: set[str] = set()

    def take(self, names: Iterable[str], at: Location, chain: tuple[str, ...]) -> None:
        for name in names:
            if name in chain:
                message = f"{chain[-1]} uses {name}, which uses it in turn"
                self._problems.add("USE_CYCLE", message, at)
            elif name not in self._seen:
                self._take(name, at, chain)

    def _take(self, name: str, at: Location, chain: tuple[str, ...]) -> None:
        if len(self._seen) >= SIDE_FILES_MAX:
            self._problems.add("CONSTRAINT_VIOLATION", f"at most {SIDE_FILES_MAX} side files", at)
            return
        self._seen.add(name)
        if name not in self._files:
            fix = "A side file lies in the script's folder or below." if leaves_folder(name) else ""
            self._problems.add("USE_NOT_FOUND", f"no file {name} beside the script", at, fix=fix)
            return
        inner = Problems(name)
        side = self._side_file(name, inner)
        self._problems.extend(inner)
        self.found.append(side)
        self.take([beside(name, used) for used in side.use], side.mark("use"), (*chain, name))

    def _side_file(self, name: str, problems: Problems) -> SideFile:
        tree = read_repaired(self._files[name], problems, lenient=self._lenient)
        named = PurePosixPath(name).name if self._in_stages and isinstance(tree, SequenceTree) else ""
        if isinstance(tree, SequenceTree) and named in BESIDE_STAGES:  # the file's name says what its list is of
            key = Scalar(named.removesuffix(".yaml"), True, tree.at, tree.at.line)
            tree = MappingTree(((key, tree),), tree.at, 1)
        if not isinstance(tree, MappingTree) or not _is_known(tree):
            fix = "Write e.g. `globals:`, `skills:`, `forms:`, `detectors:` and a list, or `strings:` and a language."
            if tree is not None:
                problems.add("UNRECOGNISED_SCRIPT", f"{name} holds nothing that a script can use", tree.at, fix=fix)
            return _NOTHING
        return self._read(name, tree, Reader(problems, lenient=self._lenient)) or _NOTHING

    def _read(self, name: str, tree: MappingTree, reader: Reader) -> SideFile | None:
        """What a side file brings, in whatever form it is."""
        strict = Reader(reader.problems, lenient=False)
        if technique_form.recognises(tree):
            found = technique_form.read(tree, Reader(reader.problems, lenient=self._lenient, respell=RESPELL))
            return SideFile(skills=(found[0],), forms=found[1]) if found is not None else None
        if consciousness_form.recognises(tree):
            detector = consciousness_form.read(tree, reader)
            return SideFile(detectors=(detector,)) if detector is not None else None
        if tree.get("strings") is not None:
            table = read_table(tree, strict)
            return SideFile(strings=(table,)) if table is not None else None
        if self._in_stages or stage_sections.recognises(tree):
            self.stage_files.add(name)
            return stage_sections.read(tree, reader)
        spelled = tuple((_globals_key(key), value) for key, value in tree.pairs)
        return strict.read(MappingTree(spelled, tree.at, tree.size), SideFile)


def _is_known(tree: MappingTree) -> bool:
    return technique_form.recognises(tree) or consciousness_form.recognises(tree) or is_side_file(tree)


def _globals_key(key: Scalar) -> Scalar:
    return msgspec.structs.replace(key, text="globals") if key.text == "global" else key
