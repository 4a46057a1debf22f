"""The scripts that a file of an editor belongs to, with their include files and test cases, as the editor has them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scripts.editing.name_occurrences import Name, Occurrence, occurrences_in, topics_in
from scripts.editing.rename import TextEdit, rename
from scripts.model.languages import LANGUAGE_KEY
from scripts.model.script import IncludeFile, Script, StringTable
from scripts.parse.folder import CASE_SUFFIX, FILES_MAX, read_path, shown_files, users_of
from scripts.parse.includes import BRINGS
from scripts.parse.read_script import (
    Reading,
    Source,
    is_for_others,
    is_script,
    read_file,
    read_include_file,
    read_script,
)
from scripts.yaml.text_file import FileUnreadable, ReadText

_TOP_KEY = re.compile(r"^[\"']?([\w-]+)[\"']?:", re.MULTILINE)
_SCRIPT_OF_CASES = re.compile(r"^script:[ \t]*[\"']?([^\"'#\r\n]+)", re.MULTILINE)


def check_file(path: Path, read: ReadText) -> tuple[Reading, ...]:
    """Check a file: a script, test cases, or an include file with the scripts that use it; none for other YAML."""
    if path.name.endswith(CASE_SUFFIX):
        from api.testing.cases.case_reader import read_cases  # loads the runtime, which scripts do not need

        found = read_cases(path, {}, read=read)
        return (Reading(Source(found.text, found.file), None, found.problems),)
    try:
        source = read_file(path, read)
    except FileUnreadable:
        return (read_path(path, read=read),)
    if is_for_others(source):
        users = [read_path(each, read=read) for each in users_of(path, read)]
        return tuple(users) or (read_include_file(source),)
    return (read_script(source),) if is_script(source) or LANGUAGE_KEY in source.text else ()


def kind_of_file(path: Path, text: str) -> type[Struct]:
    """Return the type that a file is read into, by its name and the keys at its top, also in a text with errors."""
    if path.name.endswith(CASE_SUFFIX):
        from api.testing.cases.case_model import CaseFile  # loads the runtime, which scripts do not need

        return CaseFile
    keys = set(_TOP_KEY.findall(text))
    if "strings" in keys:
        return StringTable
    return IncludeFile if keys & {*BRINGS} and not keys & {"script", "phases", "actions"} else Script


class ScriptFiles(Struct, frozen=True):
    """A script with its include files, and its cases by their paths."""

    source: Source
    cases: Mapping[str, str] = {}

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts by name; that of the script is empty."""
        return {"": self.source.text, **self.source.side_files, **self.cases}

    def path(self, name: str) -> Path:
        """Return the path of a file by its name."""
        script = Path(self.source.file)
        return script.parent / name if name else script

    def occurrences(self) -> Iterator[tuple[Path, Occurrence]]:
        """Yield the names in all files."""
        topics = topics_in(self.source.text)
        for name, text in self.texts.items():
            path = self.path(name)
            yield from ((path, each) for each in occurrences_in(text, topics))

    def name_at(self, path: Path, offset: int) -> Occurrence | None:
        """Return the name at an offset of a file; the innermost of several."""
        found = [each for file, each in self.occurrences() if file == path and each.start <= offset <= each.end]
        return min(found, key=lambda each: each.end - each.start, default=None)


def files_of(script: Path, read: ReadText) -> ScriptFiles:
    """Return the files of a script, with the cases below its folder. Raises FileUnreadable."""
    cases: dict[str, str] = {}
    for path in shown_files(script.parent, f"*{CASE_SUFFIX}")[:FILES_MAX]:
        text = read(path)
        if (found := _SCRIPT_OF_CASES.search(text)) and (path.parent / found[1].strip()).resolve() == script.resolve():
            cases[str(path)] = text
    return ScriptFiles(read_file(script, read), cases)


def files_now(path: Path, reading: Reading, read: ReadText) -> list[ScriptFiles]:
    """Return the files of the script that a file was read for, with their texts as they are now, without its cases.

    For a file of cases, return the files of the script that it names. Raises FileUnreadable.
    """
    script = Path(reading.source.file)
    if not path.name.endswith(CASE_SUFFIX):
        side_files = {name: read(script.parent / name) for name in reading.source.side_files}
        return [ScriptFiles(Source(read(script), str(script), side_files))]
    found = _SCRIPT_OF_CASES.search(read(path))
    return [files_of((path.parent / found[1].strip()).resolve(), read)] if found else []


def rename_everywhere(scripts: list[Path], name: Name, new: str, read: ReadText) -> Mapping[Path, list[TextEdit]]:
    """Return the edits that rename something in scripts, and in all others that share an include file that names it.

    Raises RenameRefused and FileUnreadable.
    """
    edits: dict[Path, set[TextEdit]] = {}
    for script in scripts:  # grows by those that share an include file
        files = files_of(script, read)
        for file, inner in rename(files.source, files.cases, name, new).items():
            edits.setdefault(files.path(file), set()).update(inner)
            if file in files.source.side_files:
                scripts += [each for each in users_of(files.path(file), read) if each not in scripts]
    return {path: sorted(inner) for path, inner in edits.items()}
