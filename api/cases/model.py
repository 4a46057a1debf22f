"""What a case is: one conversation with a script, what is put in and what must come out; and reading a file of them.

The same YAML as scripts (``yes`` is a word), read by the same reader, so that every problem has its place.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field

from runtime.models.offline import OfflineModel
from runtime.models.scripted import ScriptedFileInvalid, ScriptedModel, ScriptedReply
from runtime.ports import Model
from runtime.program import Program
from runtime.state import ExecutionStatus, WaitKind
from scripts.diagnostics import Problem, Problems
from scripts.folder import CASE_SUFFIX, FILES_MAX, read_path
from scripts.model import Locale, Location
from scripts.parse import FileUnreadable, Reading, read_file
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Sequence as SequenceTree
from scripts.source import Tree, read_tree
from scripts.suggest import suggest
from scripts.values import Value

NOON = "2026-01-31T12:00:00Z"  # a Saturday; what time it is in a case that does not say


class CaseTurn(Struct, frozen=True):
    """What is put in (nothing in the first turn) and what comes of it; what is not given is not compared."""

    say: str | None = None
    choose: str | None = None  # a choice by its key, as a button sends it
    expect: tuple[str, ...] | None = None  # a glob pattern for each message
    wait: WaitKind | None = None
    position: str | None = field(name="at", default=None)  # phase/topic/action

    @property
    def given(self) -> str:
        """``say: Ana``, or nothing for the first turn."""
        if self.choose is not None:
            return f"choose: {self.choose}"
        return "the beginning" if self.say is None else f"say: {self.say}"


class CaseScopes(Struct, frozen=True):
    """Variables as they are in each scope at the end."""

    global_scope: Mapping[str, Value] = field(name="global", default={})
    session: Mapping[str, Value] = {}
    phase: Mapping[str, Value] = {}
    topic: Mapping[str, Value] = {}


class CaseEnd(Struct, frozen=True):
    """How the session ends up; of the variables those named, null meaning that there is none."""

    status: ExecutionStatus | None = "completed"
    reason: str | None = None
    variables: Mapping[str, Value] = {}
    scopes: CaseScopes = CaseScopes()


class Case(Struct, frozen=True):
    """One conversation."""

    name: str
    turns: tuple[CaseTurn, ...]
    end: CaseEnd = CaseEnd()
    seed: int = 0
    now: str = NOON
    locale: Locale | None = None
    variables: Mapping[str, Value] = {}
    replies: Mapping[str, tuple[Value, ...]] = {}  # what the model says, by action id
    model: str | None = None  # or a file of such replies
    warnings: tuple[str, ...] | None = ()  # the codes of all of them, in order; null: not compared


class CaseFile(Struct, frozen=True):
    """Conversations with one script; `script` is its path seen from the file."""

    script: str
    cases: tuple[Case, ...]


class Prepared(Struct, frozen=True):
    """A script that can be run."""

    path: Path
    reading: Reading
    program: Program


class FoundCase(Struct, frozen=True):
    """A case, where it stands, and everything it needs to be played."""

    file: str
    case: Case
    script: Prepared
    model: Model
    now: datetime
    tree: Tree

    def line(self, *keys: str | int) -> int:
        """The line of a part of the case, or of the nearest part around it that was written."""
        return place(self.tree, *keys).line

    def __str__(self) -> str:
        return f"{Path(self.file).name.removesuffix(CASE_SUFFIX)}: {self.case.name}"


class CaseReading(Struct, frozen=True):
    """What came of reading a case file."""

    file: str
    cases: tuple[FoundCase, ...]
    problems: tuple[Problem, ...]


def case_files(path: Path) -> list[Path]:
    """The case files of a folder and the folders below it, in order; a file stands for itself."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob(f"*{CASE_SUFFIX}"))
    return [each for each in found if not any(part.startswith(".") for part in each.relative_to(path).parts)][
        :FILES_MAX
    ]


def read_cases(path: Path, scripts: dict[Path, Prepared | Reading]) -> CaseReading:
    """The cases of a file, none where anything is wrong with it; `scripts` keeps the scripts read so far."""
    problems = Problems(str(path))
    try:
        text = read_file(path).text
    except FileUnreadable as error:
        problems.add("FILE_UNREADABLE", str(error).removeprefix(f"{path}: "))
        return CaseReading(str(path), (), problems.sorted())
    tree = read_tree(text, problems)
    reader = Reader(problems, lenient=False)
    file = reader.read(tree, CaseFile) if tree is not None else None
    cases: tuple[FoundCase, ...] = ()
    if tree is not None and file is not None and not problems.fatal:
        cases = tuple(_found(path, tree, file, reader, scripts))
    return CaseReading(str(path), () if problems.fatal else cases, problems.sorted())


def prepare(path: Path, scripts: dict[Path, Prepared | Reading]) -> Prepared | Reading:
    """A script ready to be run, or its reading where it cannot be."""
    key = path.resolve()
    if key not in scripts:
        reading = read_path(path)
        scripts[key] = reading if reading.script is None else Prepared(path, reading, Program(reading.script))
    return scripts[key]


def place(tree: Tree, *keys: str | int) -> Location:
    """Where a part of a tree stands, or the nearest part around it that was written."""
    for key in keys:
        inner: Tree | None = None
        if isinstance(tree, MappingTree):
            inner = tree.get(str(key))
        elif isinstance(tree, SequenceTree) and isinstance(key, int) and key < len(tree.items):
            inner = tree.items[key]
        if inner is None:
            break
        tree = inner
    return tree.at


def _found(
    path: Path, tree: Tree, file: CaseFile, reader: Reader, scripts: dict[Path, Prepared | Reading]
) -> Iterator[FoundCase]:
    script = prepare(_beside(path, file.script), scripts)
    if isinstance(script, Reading):
        first = script.errors[0]
        reader.add("USE_NOT_FOUND", f"the script cannot be run: {first}", place(tree, "script"), first.fix)
        return
    written = tree.get("cases") if isinstance(tree, MappingTree) else None
    for case, part in zip(file.cases, written.items if isinstance(written, SequenceTree) else (), strict=True):
        _check_turns(case, part, reader)
        model, now = _model(path, case, part, reader), _now(case, part, reader)
        if now is not None:
            yield FoundCase(str(path), case, script, model, now, part)


def _beside(path: Path, name: str) -> Path:
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
        if turn.say is not None and turn.choose is not None:
            reader.add("KEY_CONFLICT", "a turn either says or chooses something", at, "Keep `say` or `choose`.")
        elif index == 0 and turn.given != "the beginning":
            message = "the first turn is the script's own beginning, before anything is said"
            reader.add("KEY_CONFLICT", message, at, "Begin with `- expect: [...]`.")
        elif index > 0 and turn.given == "the beginning":
            message = "every turn but the first has `say` or `choose`"
            reader.add("REQUIRED_FIELD_MISSING", message, at, 'Add e.g. `say: hello`; a blank reply is `say: ""`.')


def _now(case: Case, tree: Tree, reader: Reader) -> datetime | None:
    try:
        now = datetime.fromisoformat(case.now)
    except ValueError:
        at = place(tree, "now")
        reader.add("TYPE_MISMATCH", f"{case.now} is no point in time", at, "Write e.g. 2026-01-31T12:00:00Z.")
        return None
    return now if now.tzinfo is not None else now.replace(tzinfo=UTC)


def _model(path: Path, case: Case, tree: Tree, reader: Reader) -> Model:
    if case.model is not None and case.replies:
        reader.add("KEY_CONFLICT", "`replies` and `model` in one case", place(tree, "model"), "Keep one of them.")
    elif case.model is not None:
        try:
            return ScriptedModel.from_file(_beside(path, case.model))
        except ScriptedFileInvalid as error:
            reader.add("USE_NOT_FOUND", f"the replies cannot be used: {error}", place(tree, "model"))
    elif case.replies:
        return ScriptedModel({name: _replies(name, given, tree, reader) for name, given in case.replies.items()})
    return OfflineModel()


def _replies(name: str, given: tuple[Value, ...], tree: Tree, reader: Reader) -> list[str | ScriptedReply]:
    try:
        return msgspec.convert(list(given), list[str | ScriptedReply])
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        keys = [int(index) if index else key for index, key in re.findall(r"\[(\d+)\]|\.(\w+)", path)]
        unknown = re.search(r"unknown field `(.*)`", message)
        fix = suggest(unknown[1], ScriptedReply.__struct_fields__) if unknown else ""
        keys += [unknown[1]] if unknown else []
        reader.add("UNKNOWN_KEY" if unknown else "TYPE_MISMATCH", message, place(tree, "replies", name, *keys), fix)
        return []
