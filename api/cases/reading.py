"""Reads case files, with the scripts and replies they name.

The same YAML as scripts (``yes`` is a word), read by the same reader, so that every problem has its place.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from api.cases.model import Case, CaseFile, CaseReading, FoundCase, Prepared, place
from api.cases.names import check_names
from runtime.memory.local import ABOUT
from runtime.memory.units import MemoryUnit
from runtime.models.cassette import ScriptedFileInvalid, read_replies
from runtime.models.offline import OfflineModel
from runtime.models.scripted import ScriptedModel
from runtime.ports import Model
from runtime.program import Program
from scripts.diagnostics import Problems
from scripts.folder import CASE_SUFFIX, FILES_MAX, read_path
from scripts.nodes import Location
from scripts.parse import FileUnreadable, Reading, read_file
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Sequence as SequenceTree
from scripts.source import Tree, read_tree
from scripts.suggest import suggest
from scripts.values import shorten

DAY = timedelta(days=1)


def case_files(path: Path) -> list[Path]:
    """The case files of a folder and the folders below it, in order; a file stands for itself."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob(f"*{CASE_SUFFIX}"))
    return [each for each in found if not any(part.startswith(".") for part in each.relative_to(path).parts)][
        :FILES_MAX
    ]


def read_cases(path: Path, scripts: dict[Path, Prepared | Reading], *, recording: bool = False) -> CaseReading:
    """The cases of a file, none where anything is wrong with it; `scripts` keeps the scripts read so far.

    While `recording`, files of replies may be missing or broken: they are about to be written.
    """
    problems = Problems(str(path))
    try:
        text = read_file(path).text
    except FileUnreadable as error:
        problems.add("FILE_UNREADABLE", str(error).removeprefix(f"{path}: "))
        return CaseReading(str(path), (), problems.sorted(), frozenset({path.resolve()}))
    tree = read_tree(text, problems)
    reader = Reader(problems, lenient=False)
    file = reader.read(tree, CaseFile) if tree is not None else None
    cases: tuple[FoundCase, ...] = ()
    if tree is not None and file is not None and not problems.fatal:
        cases = tuple(_found(path, tree, file, reader, scripts, recording=recording))
    files = _depends_on(path, file, scripts)
    return CaseReading(str(path), () if problems.fatal else cases, problems.sorted(), files, text)


def _depends_on(path: Path, file: CaseFile | None, scripts: dict[Path, Prepared | Reading]) -> frozenset[Path]:
    """A case file, its script with the side files of that, and its files of replies."""
    found = [path]
    if file is not None:
        script = beside(path, file.script)
        read = scripts.get(script.resolve())
        reading = read.reading if isinstance(read, Prepared) else read
        found += [script, *(script.parent / name for name in (reading.source.side_files if reading else ()))]
        found += [beside(path, case.model) for case in file.cases if case.model is not None]
    return frozenset(each.resolve() for each in found)


def prepare(path: Path, scripts: dict[Path, Prepared | Reading]) -> Prepared | Reading:
    """A script ready to be run, or its reading where it cannot be."""
    key = path.resolve()
    if key not in scripts:
        reading = read_path(path)
        scripts[key] = reading if reading.script is None else Prepared(path, reading, Program(reading.script))
    return scripts[key]


def _found(
    path: Path, tree: Tree, file: CaseFile, reader: Reader, scripts: dict[Path, Prepared | Reading], *, recording: bool
) -> Iterator[FoundCase]:
    script = prepare(beside(path, file.script), scripts)
    if isinstance(script, Reading):
        first = script.errors[0]
        reader.add("USE_NOT_FOUND", f"the script cannot be run: {first}", place(tree, "script"), first.fix)
        return
    written = tree.get("cases") if isinstance(tree, MappingTree) else None
    earlier: dict[str, FoundCase] = {}
    for case, part in zip(file.cases, written.items if isinstance(written, SequenceTree) else (), strict=True):
        _check_turns(case, part, reader)
        check_names(case, part, script.program, reader)
        cassette = beside(path, case.model) if case.model is not None else None
        model = _model(case, part, reader, cassette, recording=recording)
        now = _now(case, part, reader)
        before = _earlier(case, part, earlier, reader)
        if now is not None:
            memories = tuple(_memories(case, part, now, reader))
            found = FoundCase(str(path), case, script, model, now, part, cassette, before, memories)
            earlier[case.name] = found
            yield found


def _earlier(case: Case, tree: Tree, earlier: Mapping[str, FoundCase], reader: Reader) -> FoundCase | None:
    """The case that it comes after."""
    if case.after and case.after not in earlier:
        message = f"no case above is called {shorten(case.after)}"
        reader.add(
            "ENUM_VALUE_INVALID", message, place(tree, "after"), suggest(case.after, list(earlier), otherwise="")
        )
    return earlier.get(case.after)


def _memories(case: Case, tree: Tree, now: datetime, reader: Reader) -> Iterator[MemoryUnit]:
    """What the user's memory holds before a case."""
    for number, each in enumerate(case.memories):
        time = _moment(each.time, place(tree, "memories", number, "time"), reader) if each.time else now - DAY
        if time is not None:
            yield MemoryUnit(
                unit_id=f"known:{number + 1}",
                sequence=number + 1,
                content=each.text,
                source=each.source,
                creation_time=time,
                end_time=time,
                metadata={**each.metadata, **({ABOUT: each.about} if each.about else {})},
                group_id="known",
            )


def beside(path: Path, name: str) -> Path:
    """A file named in another one, as short as its path can be."""
    found = path.parent / name
    try:
        return found.resolve().relative_to(Path.cwd())
    except ValueError:
        return found.resolve()


def _check_turns(case: Case, tree: Tree, reader: Reader) -> None:
    if not case.turns:
        reader.add("REQUIRED_FIELD_MISSING", "a case has at least one turn", place(tree, "turns"), "- expect: [Hello.]")
    for index, turn in enumerate(case.turns):
        at = place(tree, "turns", index)
        if sum(given is not None for given in (turn.say, turn.choose, turn.form)) > 1:
            message = "a turn either says or chooses something, or fills in a form"
            reader.add("KEY_CONFLICT", message, at, "Keep one of `say`, `choose` and `form`.")
        elif index == 0 and turn.given != "the beginning":
            message = "the first turn is the script's own beginning, before anything is said"
            reader.add("KEY_CONFLICT", message, at, "Begin with `- expect: [...]`.")
        elif index > 0 and turn.given == "the beginning":
            message = "every turn but the first has `say`, `choose` or `form`"
            reader.add("REQUIRED_FIELD_MISSING", message, at, 'Add e.g. `say: hello`; a blank reply is `say: ""`.')


def _now(case: Case, tree: Tree, reader: Reader) -> datetime | None:
    return _moment(case.now, place(tree, "now"), reader)


def _moment(written: str, at: Location, reader: Reader) -> datetime | None:
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        reader.add("TYPE_MISMATCH", f"{written} is no point in time", at, "Write e.g. 2026-01-31T12:00:00Z.")
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _model(case: Case, tree: Tree, reader: Reader, cassette: Path | None, *, recording: bool) -> Model:
    if case.replies and cassette is not None:
        reader.add("KEY_CONFLICT", "`replies` and `model` in one case", place(tree, "model"), "Keep one of them.")
    elif case.replies and isinstance(tree, MappingTree) and (written := tree.get("replies")) is not None:
        return ScriptedModel(read_replies(written, reader))
    elif cassette is not None and not recording:
        return _from_cassette(cassette, place(tree, "model"), reader)
    return OfflineModel()


def _from_cassette(cassette: Path, at: Location, reader: Reader) -> Model:
    if not cassette.exists():
        message, fix = f"there is no file {cassette}", "`cuebook test --record` writes it, with what a model says."
        reader.add("USE_NOT_FOUND", message, at, fix)
        return OfflineModel()
    try:
        return ScriptedModel.from_file(cassette)
    except ScriptedFileInvalid as error:
        reader.add("USE_NOT_FOUND", f"the replies cannot be used: {error}", at)
    return OfflineModel()
