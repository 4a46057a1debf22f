"""Read and check the scripts of a folder."""

from collections.abc import Iterator
from pathlib import Path

from scripts.model.diagnostics import problem_at
from scripts.parse.read_script import Mode, Reading, Source, is_script, read_file, read_script
from scripts.yaml.text_file import FileUnreadable, ReadText, file_text

FILES_MAX = 2_000
ABOVE_MAX = 3  # parent folders in which to search for scripts that use an include file
CASE_SUFFIX = ".case.yaml"  # test cases, not scripts


def script_files(path: Path) -> list[Path]:
    """Return the YAML files of a folder and its subfolders in order, except test cases; for a file, the file."""
    if path.is_file():
        return [path]
    yaml = [each for pattern in ("*.yaml", "*.yml") for each in shown_files(path, pattern)]
    return sorted(each for each in yaml if not each.name.endswith(CASE_SUFFIX))[:FILES_MAX]


def shown_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder and its subfolders with such a name, except hidden ones, in order."""
    found = (each for each in folder.rglob(pattern) if each.is_file())
    return sorted(each for each in found if not any(part.startswith(".") for part in each.relative_to(folder).parts))


def read_folder(folder: Path) -> Iterator[Reading]:
    """Read every script of a folder. Include files (globals and the like) and other YAML are skipped, as is a file that
    could be a script but is used by another script.
    """
    readings = [(path, read_path(path)) for path in script_files(folder)]
    used = {(path.parent / name).resolve() for path, reading in readings for name in reading.source.side_files}
    for path, reading in readings:
        if path.resolve() in used or (reading.errors and reading.source.text and not is_script(reading.source)):
            continue
        yield reading


def users_of(side_file: Path, read: ReadText = file_text) -> list[Path]:
    """Return the scripts that use an include file, from its folder or one of its parents."""
    wanted = side_file.resolve()
    for folder in (wanted.parent, *wanted.parents[1:ABOVE_MAX]):
        found = sorted(each for each in folder.glob("*.y*ml") if each.is_file())[:FILES_MAX]
        users = [each for each in found if wanted in _side_files(each, read)]
        if users:
            return users
    return []


def _side_files(path: Path, read: ReadText) -> set[Path]:
    try:
        source = read_file(path, read)
    except FileUnreadable:
        return set()
    return {(path.parent / name).resolve() for name in source.side_files}


def read_path(path: Path, mode: Mode = "compat", read: ReadText = file_text) -> Reading:
    """Read a script file; for a file that cannot be opened, return a reading with that problem."""
    try:
        return read_script(read_file(path, read), mode)
    except FileUnreadable as error:
        problem = problem_at("FILE_UNREADABLE", str(error).removeprefix(f"{path}: "), file=str(path))
        return Reading(Source("", str(path)), None, (problem,))
