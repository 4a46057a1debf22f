"""Merge a script with the include files listed in its `use`, and with the files that these use."""

import posixpath
from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from pathlib import PurePosixPath

from msgspec.structs import replace

from scripts.formats import native, technique
from scripts.formats.detector_config import detector_file
from scripts.formats.session.session_format import RESPELL
from scripts.formats.stage import sections
from scripts.formats.stage.links import link
from scripts.formats.stage.names import Names, names_of
from scripts.formats.stage.yaml_fixups import read_repaired
from scripts.model.action_ids import with_variable_ids
from scripts.model.actions import Action, Call, Form
from scripts.model.base import NOWHERE, Location
from scripts.model.diagnostics import Problems
from scripts.model.languages import LANGUAGE_KEY
from scripts.model.script import SHARED, IncludeFile, Script, Topic, all_actions
from scripts.translations.string_tables import read_table
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, as_items, word

INCLUDE_FILES_MAX = 20
BESIDE = {
    form: tuple(f"{stem}.{suffix}" for suffix in ("yaml", "yml") for stem in stems)
    for form, stems in {"stage": ("global", "roles", "skills", "forms", "rules"), "session": ("global",)}.items()
}
"""The files that a script of a format uses without naming them, if they are in its folder."""


_ADDED = (*SHARED, "strings")
BRINGS = ("globals", *_ADDED)
"""The keys of include files, by the corresponding fields of a script."""
_KEYS = frozenset({"globals", "global", "rules", "use", *_ADDED})  # an include file has one of these at its top level
_VARIABLES = frozenset({"declare", "variables", "vars", "global_variables"})  # in a file that is named `global`
_NOTHING = IncludeFile()
_LAST_LINE = 1_000_000_000


def leaves_folder(name: str) -> bool:
    """Return whether the path of an include file is outside the script's folder."""
    return PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts


def beside(name: str, used: str) -> str:
    """Return the path, relative to the script's folder, of a file that an include file uses."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), used))


def used_names(tree: Tree | None) -> list[str]:
    """Return the names in the `use` of a file, in any format."""
    if not isinstance(tree, Mapping):
        return []
    written = [part for key in ("session", "sessions") if (part := tree.get(key)) is not None]
    sessions = [each for part in written for each in as_items(part)]
    holders = [each for each in (*sessions, tree) if isinstance(each, Mapping)]
    used = [each for holder in holders for key in ("use", "include", "import") if (each := holder.get(key)) is not None]
    names = [item for each in used for item in as_items(each)]
    return [item.text for item in names if isinstance(item, Scalar)]


def is_include_file(tree: Tree | None) -> bool:
    """Return whether a file is an include file rather than a script."""
    return isinstance(tree, Mapping) and bool(_KEYS & set(tree.keys()))


def with_includes(script: Script, files: MappingType[str, str], problems: Problems, *, lenient: bool) -> Script:
    """Return the script merged with its include files; each file is merged once, however often it is used."""
    is_stage = script.form == "stage"
    gathering = _IncludeReader(files, problems, global_names(files), lenient=lenient, in_stages=is_stage)
    automatic = [name for name in BESIDE.get(script.form, ()) if name in files and name not in script.use]
    gathering.take([*automatic, *script.use], script.mark("use"), ())
    found = gathering.found
    script = replace(script, globals=tuple(each for side in found for each in side.globals))
    for key in _ADDED:
        parts = tuple(each for side in found for each in getattr(side, key))
        script = replace(script, **{key: (*getattr(script, key), *parts)})
    in_stages = gathering.stage_files | ({script.at.file} if script.form == "stage" else set())
    script = link(script, in_stages, problems, lenient=lenient) if in_stages else script
    script = _with_results(script) if script.form == "session" else script
    return _with_shown_forms(script, problems, lenient=lenient) if is_stage else script


def _with_results(script: Script) -> Script:
    """Return a script whose calls without variables store the results of their skills in variables of the same names.

    Variables that are written as ``{result: variable}`` change places.
    """
    returns = {each.id: each.returns for each in script.skills}

    def store(action: Action) -> Action:
        known = returns.get(action.skill, ()) if isinstance(action, Call) else ()
        if not isinstance(action, Call) or not known:
            return action
        pairs = action.output.items() if action.output else zip(known, known, strict=True)
        turned = ((own, name) if name in known and own not in known else (name, own) for name, own in pairs)
        return replace(action, output=dict(turned))

    def replace_actions(topic: Topic) -> Topic:
        return replace(topic, actions=tuple(map(store, topic.actions)))

    phases = (replace(each, topics=tuple(map(replace_actions, each.topics))) for each in script.phases)
    return replace(script, phases=tuple(phases))


def global_names(files: MappingType[str, str]) -> Names:
    """Return the global variables that include files declare, for the files of the stage format that read them."""
    found = {name: text for name, text in files.items() if "global" in f"{name} {text}"}
    gathering = _IncludeReader(found, Problems(), Names(), lenient=True, in_stages=True)
    gathering.take(found, NOWHERE, ())
    declared = tuple(each for side in gathering.found for each in side.globals)
    return replace(names_of(Script(id="", phases=(), globals=declared)), valued=frozenset())


def _with_shown_forms(script: Script, problems: Problems, *, lenient: bool) -> Script:
    """Return the script without unused forms of its implicit include files; `lenient`: their errors are warnings."""
    shown = {action.sheet for action in all_actions(script) if isinstance(action, Form)}
    usable = tuple(each for each in script.forms if each.id in shown or each.at.file == script.at.file)
    for unused in (each for each in script.forms if lenient and each not in usable):
        lines = [each.at.line for each in script.forms if each.at.file == unused.at.file]
        below = (line for line in lines if line > unused.at.line)
        problems.soften_within(unused.at, min(below, default=_LAST_LINE))
    return replace(script, forms=usable)


class _IncludeReader:
    """Reads the files of `use` recursively."""

    def __init__(
        self, files: MappingType[str, str], problems: Problems, outside: Names, *, lenient: bool, in_stages: bool
    ) -> None:
        self.found: list[IncludeFile] = []
        self.stage_files: set[str] = set()  # files in the stage format
        self._outside = outside  # the variables that files of the stage format may read without declaring them
        self._in_stages = in_stages  # whether the script itself is in it
        self._files = files
        self._problems = problems
        self._lenient = lenient
        self._seen: set[str] = set()

    def take(self, names: Iterable[str], at: Location, chain: tuple[str, ...]) -> None:
        for name in names:
            if name in chain:
                self._problems.add("USE_CYCLE", f"{chain[-1]} uses {name}, which in turn uses it", at)
            elif name not in self._seen:
                self._take(name, at, chain)

    def _take(self, name: str, at: Location, chain: tuple[str, ...]) -> None:
        if len(self._seen) >= INCLUDE_FILES_MAX:
            self._problems.add("CONSTRAINT_VIOLATION", f"at most {INCLUDE_FILES_MAX} include files", at)
            return
        self._seen.add(name)
        if name not in self._files:
            fix = "An include file must be in the script's folder or a subfolder." if leaves_folder(name) else ""
            self._problems.add("USE_NOT_FOUND", f"file {name} not found in the script's folder", at, fix=fix)
            return
        inner = Problems(name)
        side = self._side_file(name, inner)
        self._problems.extend(inner)
        self.found.append(side)
        self.take([beside(name, used) for used in side.use], side.mark("use"), (*chain, name))

    def _side_file(self, name: str, problems: Problems) -> IncludeFile:
        tree = read_repaired(self._files[name], problems, lenient=self._lenient)
        named = PurePosixPath(name)
        if isinstance(tree, Sequence) and named.name in BESIDE["stage"]:  # its name determines the type of the list
            key = Scalar(named.stem, True, tree.at)
            tree = Mapping(((key, tree),), tree.at)
        if isinstance(tree, Mapping) and not _is_known(tree) and named.name in BESIDE["session"]:
            tree = _as_globals(tree)
        if not isinstance(tree, Mapping) or not _is_known(tree):
            fix = "Write e.g. `globals:`, `skills:`, `forms:`, `detectors:` and a list, or `strings:` and a language."
            if tree is not None:
                problems.add("UNRECOGNISED_SCRIPT", f"{name} contains nothing that a script can use", tree.at, fix=fix)
            return _NOTHING
        return self._read(name, tree, Reader(problems, lenient=self._lenient)) or _NOTHING

    def _read(self, name: str, tree: Mapping, reader: Reader) -> IncludeFile | None:
        """Read an include file in any format."""
        if technique.recognises(tree):
            found = technique.read(tree, Reader(reader.problems, lenient=self._lenient, respell=RESPELL))
            return IncludeFile(skills=(found[0],), forms=found[1]) if found is not None else None
        if detector_file.recognises(tree):
            detector = detector_file.read(tree, reader)
            return IncludeFile(detectors=(detector,)) if detector is not None else None
        if tree.get("strings") is not None:
            table = read_table(tree, Reader(reader.problems, lenient=False))
            return IncludeFile(strings=(table,)) if table is not None else None
        if not self._in_stages and not sections.recognises(tree):
            problems = Problems(name)
            file = _native_file(tree, problems)
            is_marked = any(tree.get(key) is not None for key in (LANGUAGE_KEY, "globals"))
            if not problems.fatal or is_marked or self._fails_in_stages(name, tree):
                reader.problems.extend(problems)
                return file
        self.stage_files.add(name)
        return sections.read(tree, reader, self._outside)

    def _fails_in_stages(self, name: str, tree: Mapping) -> bool:
        """Return whether a file has errors in the stage format, too."""
        problems = Problems(name)
        sections.read(tree, Reader(problems, lenient=True), self._outside)
        return problems.fatal


def _native_file(tree: Mapping, problems: Problems) -> IncludeFile | None:
    written, reader = native.reader_of(tree, problems)
    spelled = ((word("globals", key) if key.text == "global" else key, value) for key, value in written.pairs)
    file = reader.read(Mapping(tuple(spelled), tree.at), IncludeFile)
    return with_variable_ids(file) if file is not None and written is not tree else file


def _as_globals(tree: Mapping) -> Mapping:
    """Return the file of global variables that are written under another key, or by name."""
    only = tree.pairs[0] if len(tree.pairs) == 1 else None
    listed_below = only[1] if only is not None and only[0].text in _VARIABLES else tree
    return Mapping(((Scalar("global", True, tree.at), listed_below),), tree.at)


def _is_known(tree: Mapping) -> bool:
    return technique.recognises(tree) or detector_file.recognises(tree) or is_include_file(tree)
