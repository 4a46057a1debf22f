"""A script's text, in whatever form, as a checked Script: the one way in."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from scripts.check import check_script
from scripts.diagnostics import Problem, Problems
from scripts.dialects import consciousness_form, native, session_form, stage_form, technique_form
from scripts.dialects.session_form import RESPELL
from scripts.dialects.stage_repairs import read_repaired
from scripts.ids import with_ids
from scripts.model import Script
from scripts.reader import Reader
from scripts.side_files import (
    BESIDE_STAGES,
    SIDE_FILES_MAX,
    beside,
    is_side_file,
    leaves_folder,
    used_names,
    with_side_files,
)
from scripts.source import Mapping as MappingTree
from scripts.string_checks import check_strings

Mode: TypeAlias = Literal["strict", "compat"]
FILE_BYTES_MAX = 4_000_000
_USES = ("use", "sessions")  # without these words a file has no side files, and need not be read to look for them
_NEEDS_A_SCRIPT = frozenset(
    {"FORM_UNUSED", "LOCALE_MISSING", "SKILL_UNKNOWN", "FORM_UNKNOWN", "GOTO_UNKNOWN", "ROLE_UNKNOWN"}
)
"""What a side file alone cannot be blamed for: the script and its other files may have what it names."""
_ODD_BUT_RUNS = frozenset(
    {
        "LOOP_ENDLESS",
        "QUESTION_UNANSWERABLE",
        "FIELDS_INVALID",
        "FIELD_KEY_CONFLICT",
        "COLUMNS_INVALID",
        "COMPUTED_TOO_EARLY",
    }
)
"""What keeps a native script from being run, and is told to those who wrote for a machine that did not look at it."""


class Source(Struct, frozen=True):
    """A script as it was written: its text and the side files named in `use`, by name."""

    text: str
    file: str = ""
    side_files: Mapping[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of everything that was written; a session is pinned to it."""
        parts = msgspec.json.encode([self.text, sorted(self.side_files.items())])
        return hashlib.sha256(parts).hexdigest()


class Reading(Struct, frozen=True):
    """What came of reading a source: the script, unless an error keeps it from being run, and every problem.

    `draft` is the script as far as it could be read, also where there are errors.
    """

    source: Source
    script: Script | None
    problems: tuple[Problem, ...]
    draft: Script | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the script from being run."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


class FileUnreadable(Exception):
    """A script file that cannot be opened or is no text; the message names file and reason."""


def read_file(path: Path) -> Source:
    """A script file with the side files it uses, which lie in its folder or below. Raises FileUnreadable."""
    text = _file_text(path)
    if not any(word in text for word in _USES):
        return Source(text, str(path))
    tree = read_repaired(text, Problems(), lenient=True)
    wanted = [*used_names(tree), *(BESIDE_STAGES if stage_form.recognises(tree) else ())]
    side_files: dict[str, str] = {}
    for name in wanted:  # which grows by what the side files use in turn
        if name not in side_files and len(side_files) < SIDE_FILES_MAX and _is_beside(path.parent, name):
            side_files[name] = _file_text(path.parent / name)
            wanted += [
                beside(name, used) for used in used_names(read_repaired(side_files[name], Problems(), lenient=True))
            ]
    return Source(text, str(path), side_files)


def _file_text(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise FileUnreadable(f"{path}: larger than {FILE_BYTES_MAX:,} bytes")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror or 'cannot be read'}") from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(f"{path}: byte {error.start} is not UTF-8 text") from error


def _is_beside(folder: Path, name: str) -> bool:
    """Whether a name is that of a file in the folder or below, also when links are followed."""
    side = folder / name
    try:
        return not leaves_folder(name) and side.is_file() and side.resolve().is_relative_to(folder.resolve())
    except OSError:  # longer than the file system takes
        return False


def is_script(source: Source) -> bool:
    """Whether a source is meant to be a script; side files and other YAML are not. Unreadable YAML counts as one."""
    tree = read_repaired(source.text, Problems(), lenient=True)
    if not isinstance(tree, MappingTree):
        return tree is None
    forms = (native, session_form, stage_form, technique_form, consciousness_form)
    return any(form.recognises(tree) for form in forms)


def is_for_others(source: Source) -> bool:
    """Whether a source is a side file, which scripts use, and no script itself."""
    return is_side_file(read_repaired(source.text, Problems(), lenient=True)) and not is_script(source)


def read_script(source: Source, mode: Mode = "compat") -> Reading:
    """Reads and checks a source. `compat` turns the older forms' older and unknown keys into warnings."""
    problems = Problems(source.file)
    script = _read(source, problems, mode)
    if script is not None:
        script = with_ids(with_side_files(script, source.side_files, problems, lenient=mode == "compat"), problems)
        if script.form == "stage" and mode == "compat":
            problems.soften(_ODD_BUT_RUNS)
        check_script(script, problems)
        check_strings(script, problems)
    return Reading(source, None if problems.fatal else script, problems.sorted(), script)


def read_side_file(source: Source, mode: Mode = "compat") -> Reading:
    """A side file by itself: what is wrong in it, and what it brings, as a script that does nothing but use it."""
    name = PurePath(source.file).name
    problems = Problems()
    carrier = Script(id="alone", phases=(), use=(name,))
    files = {**source.side_files, name: source.text}
    script = with_ids(with_side_files(carrier, files, problems, lenient=mode == "compat"), problems)
    check_script(script, problems)
    own = (problem for problem in problems.sorted() if problem.file and problem.code not in _NEEDS_A_SCRIPT)
    named = (msgspec.structs.replace(each, file=source.file) if each.file == name else each for each in own)
    return Reading(source, script, tuple(named))


def _read(source: Source, problems: Problems, mode: Mode) -> Script | None:
    tree = read_repaired(source.text, problems, lenient=mode == "compat")
    if tree is None:
        return None
    if isinstance(tree, MappingTree) and native.recognises(tree):
        return native.read(tree, Reader(problems, lenient=False))
    if isinstance(tree, MappingTree) and session_form.recognises(tree):
        return session_form.read(tree, Reader(problems, lenient=mode == "compat", respell=RESPELL))
    if isinstance(tree, MappingTree) and stage_form.recognises(tree):
        return stage_form.read(tree, Reader(problems, lenient=mode == "compat"))
    if isinstance(tree, MappingTree) and technique_form.recognises(tree):
        return technique_form.read_as_script(tree, Reader(problems, lenient=mode == "compat", respell=RESPELL))
    if isinstance(tree, MappingTree) and consciousness_form.recognises(tree):
        return consciousness_form.read_as_script(tree, Reader(problems, lenient=mode == "compat"))
    if isinstance(tree, MappingTree) and consciousness_form.holds_detectors(tree):
        return consciousness_form.read_detectors(tree, Reader(problems, lenient=False))
    problems.add("UNRECOGNISED_SCRIPT", "unrecognised script type: no `script:` and no `session:` at the top", tree.at)
    return None
