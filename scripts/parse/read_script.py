"""Read a script's text of any format into a checked Script: the entry point of this package."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scripts.checks.check import check_script
from scripts.checks.translation_checks import check_strings
from scripts.formats import native, technique
from scripts.formats.detector_config import detector_file
from scripts.formats.session import session_format
from scripts.formats.session.session_format import RESPELL
from scripts.formats.stage import stage_format
from scripts.formats.stage.yaml_fixups import read_repaired, readable
from scripts.model.action_ids import with_ids
from scripts.model.diagnostics import Problem, Problems
from scripts.model.languages import LANGUAGE_KEY
from scripts.model.script import Script
from scripts.parse import includes
from scripts.yaml.comments import report_cut_texts
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Tree
from scripts.yaml.text_file import ReadText, file_text

Mode: TypeAlias = Literal["strict", "compat"]
# A file without these words has no include files and need not be parsed for them.
_NEEDS_A_SCRIPT = {"FORM_UNUSED", "LOCALE_MISSING", "SKILL_UNKNOWN", "FORM_UNKNOWN", "GOTO_UNKNOWN", "ROLE_UNKNOWN"}
"""Problems that are not reported for an include file alone: the script or its other files may define the names."""
_ODD_BUT_RUNS = frozenset({
    "LOOP_ENDLESS", "QUESTION_UNANSWERABLE", "FIELDS_INVALID", "FIELD_KEY_CONFLICT", "COLUMNS_INVALID",
    "COMPUTED_TOO_EARLY",
})  # fmt: skip
"""Errors of native scripts that are only warnings in the older formats, whose runtimes did not check them."""
_OLDER_RUNS = frozenset({"ANSWER_TYPE_MISMATCH"})
"""Errors that are only warnings in files without `cuebook: 1`, which are read as before."""


class Source(Struct, frozen=True):
    """The source of a script: its text, and the include files listed in `use`, by name."""

    text: str
    file: str = ""
    side_files: Mapping[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of the text and all include files; a session is pinned to it."""
        return hashlib.sha256(msgspec.json.encode([self.text, sorted(self.side_files.items())])).hexdigest()


class Reading(Struct, frozen=True):
    """The result of reading a source: the script, or None if it has errors, and every problem.

    `draft` is the part of the script that could be read, also if there are errors.
    """

    source: Source
    script: Script | None
    problems: tuple[Problem, ...]
    draft: Script | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent the script from running."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def read_file(path: Path, read: ReadText = file_text) -> Source:
    """Read a script file and its include files, from its folder and subfolders. Raises FileUnreadable."""
    text = read(path)
    if not any(word in text for word in ("use", "session", "stages", "include", "import")):
        return Source(text, str(path))
    tree = read_repaired(text, Problems(), lenient=True)
    wanted = [*includes.used_names(tree), *_beside(path, tree, text, read)]
    side_files: dict[str, str] = {}
    for name in wanted:  # grows by the files that include files use
        if name not in side_files and len(side_files) < includes.INCLUDE_FILES_MAX and _is_beside(path.parent, name):
            side_files[name] = read(path.parent / name)
            used = includes.used_names(read_repaired(side_files[name], Problems(), lenient=True))
            wanted += [includes.beside(name, each) for each in used]
    return Source(text, str(path), side_files)


def _beside(path: Path, tree: Tree | None, text: str, read: ReadText) -> tuple[str, ...]:
    """Return the names of the files that a script uses without naming them, if they are in its folder: in the session
    format, those with a global variable that the script names.
    """
    if not isinstance(tree, MappingTree) or native.recognises(tree) or not session_format.recognises(tree):
        return includes.BESIDE["stage"] if stage_format.recognises(tree) else ()
    found = {name: read(path.parent / name) for name in includes.BESIDE["session"] if _is_beside(path.parent, name)}
    named = {name: includes.global_names({name: side}).known for name, side in found.items()}
    return tuple(name for name, known in named.items() if any(each in text for each in known))


def _is_beside(folder: Path, name: str) -> bool:
    """Return whether a name is that of a file in the folder or a subfolder, also after links are resolved."""
    side = folder / name
    try:
        return not includes.leaves_folder(name) and side.is_file() and side.resolve().is_relative_to(folder.resolve())
    except OSError:  # longer than the file system allows
        return False


def is_script(source: Source) -> bool:
    """Return whether a source is a script, not an include file or other YAML. Invalid YAML counts as a script."""
    tree = read_repaired(source.text, Problems(), lenient=True)
    if not isinstance(tree, MappingTree):
        return tree is None
    forms = (native, session_format, stage_format, technique, detector_file)
    return any(form.recognises(tree) for form in forms)


def is_for_others(source: Source) -> bool:
    """Return whether a source is an include file and not a script."""
    return includes.is_include_file(read_repaired(source.text, Problems(), lenient=True)) and not is_script(source)


def read_script(source: Source, mode: Mode = "compat") -> Reading:
    """Read and check a source. `compat` reports obsolete and unknown keys of the older formats as warnings."""
    problems = Problems(source.file)
    script = _read(source, problems, mode)
    if script is not None:
        script = includes.with_includes(script, source.side_files, problems, lenient=mode == "compat")
        script = with_ids(script, problems)
        if script.form == "stage" and mode == "compat":
            problems.soften(_ODD_BUT_RUNS)
        is_whole = not problems.fatal
        check_script(script, problems, {"": source.text, **source.side_files})
        check_strings(script, problems, is_whole=is_whole)
    return Reading(source, None if problems.fatal else script, problems.sorted(), script)


def read_include_file(source: Source, mode: Mode = "compat") -> Reading:
    """Read an include file alone: its problems, and its content as a script that only uses it."""
    name = PurePath(source.file).name
    problems = Problems()
    if LANGUAGE_KEY not in source.text:
        problems.soften(_OLDER_RUNS)
    carrier = Script(id="alone", phases=(), use=(name,))
    files = {**source.side_files, name: source.text}
    script = with_ids(includes.with_includes(carrier, files, problems, lenient=mode == "compat"), problems)
    check_script(script, problems, files)
    own = (problem for problem in problems.sorted() if problem.file and problem.code not in _NEEDS_A_SCRIPT)
    named = (replace(each, file=source.file) if each.file == name else each for each in own)
    return Reading(source, script, tuple(named))


def _read(source: Source, problems: Problems, mode: Mode) -> Script | None:
    lenient = mode == "compat"
    tree = read_repaired(source.text, problems, lenient=lenient)
    if tree is None:
        return None
    message = "unrecognised script type: no `script:` and no `session:` at the top"
    if not isinstance(tree, MappingTree):
        problems.add("UNRECOGNISED_SCRIPT", message, tree.at)
        return None
    if tree.get(LANGUAGE_KEY) is None:
        problems.soften(_OLDER_RUNS)
    if native.recognises(tree):
        report_cut_texts(readable(source.text), problems)
        return native.read(tree, problems)
    if session_format.recognises(tree):
        return session_format.read(tree, Reader(problems, lenient=lenient, respell=RESPELL))
    if stage_format.recognises(tree):
        return stage_format.read(tree, Reader(problems, lenient=lenient), includes.global_names(source.side_files))
    if technique.recognises(tree):
        return technique.read_as_script(tree, Reader(problems, lenient=lenient, respell=RESPELL))
    if detector_file.recognises(tree):
        return detector_file.read_as_script(tree, Reader(problems, lenient=lenient))
    if detector_file.holds_detectors(tree):
        return detector_file.read_detectors(*native.reader_of(tree, problems))
    fix = native.script_key_fix(tree)
    if not fix and includes.is_include_file(tree):
        message, fix = "this is an include file, not a script", "Name a script that lists this file in `use`."
    problems.add("UNRECOGNISED_SCRIPT", message, tree.at, fix=fix)
    return None
