"""Reads case files, with the scripts and replies that they name, and checks the names that they use.

They use the same YAML as scripts (``yes`` is a text) and the same reader, so that every problem has a location.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from api.testing.cases.case_model import (
    Case,
    CaseFile,
    CaseReading,
    CaseTurn,
    FoundCase,
    Keys,
    PreparedScript,
    key_place,
    place,
)
from runtime.memory.units import MemoryUnit, new_unit
from runtime.models.cassette_file import ScriptedFileInvalid, read_replies
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ScriptedModel
from runtime.state.ports import Model
from runtime.state.program import Program
from runtime.tools.examples import ToolReplies
from runtime.tools.replies_file import ToolFileInvalid, read_tool_file, read_tool_replies
from scripts.checks.control_flow import ControlFlowGraph, names_written
from scripts.expressions.suggestions import suggest
from scripts.expressions.time_values import zone_of
from scripts.expressions.values import shorten
from scripts.model.actions import walk
from scripts.model.base import Location
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, actions_of, all_declarations, nodes
from scripts.parse.folder import CASE_SUFFIX, FILES_MAX, read_path, shown_files
from scripts.parse.read_script import Reading
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.parser import Tree, read_tree
from scripts.yaml.text_file import FileUnreadable, ReadText, file_text

DAY = timedelta(days=1)
THE_END = "the end"


def case_files(path: Path) -> list[Path]:
    """Return the case files of a folder and its subfolders in order, or the file itself."""
    return [path] if path.is_file() else shown_files(path, f"*{CASE_SUFFIX}")[:FILES_MAX]


def read_cases(
    path: Path, scripts: dict[Path, PreparedScript | Reading], *, recording: bool = False, read: ReadText = file_text
) -> CaseReading:
    """Return the cases of a file, none if it has an error; `scripts` caches the scripts read so far.

    With `recording`, files of replies may be missing or invalid, because they will be written.
    """
    problems = Problems(str(path))
    try:
        text = read(path)
    except FileUnreadable as error:
        problems.add("FILE_UNREADABLE", str(error).removeprefix(f"{path}: "))
        return CaseReading(str(path), (), problems.sorted(), files=frozenset({path.resolve()}))
    written = _read_file(text, problems)
    cases: tuple[FoundCase, ...] = ()
    if written is not None and not problems.fatal:
        script = prepare(beside(path, written.file.script), scripts, read)
        cases = tuple(_find_cases(str(path), written, script, partial(beside, path), recording=recording))
    files = _depends_on(path, written.file if written is not None else None, scripts)
    return CaseReading(str(path), () if problems.fatal else cases, problems.sorted(), text, files)


def read_case_text(name: str, text: str, script: PreparedScript) -> CaseReading:
    """Return the cases of a text for a script that is at hand, whichever script it names; none if it has an error.

    Its cases cannot name files of replies.
    """
    problems = Problems(name)
    written = _read_file(text, problems)
    cases: tuple[FoundCase, ...] = ()
    if written is not None and not problems.fatal:
        cases = tuple(_find_cases(name, written, script, None, recording=False))
    return CaseReading(name, () if problems.fatal else cases, problems.sorted(), text)


class _CaseFile(Struct, frozen=True):
    """A case file as it is written."""

    tree: Tree
    file: CaseFile
    reader: Reader


def _read_file(text: str, problems: Problems) -> _CaseFile | None:
    tree = read_tree(text, problems)
    reader = Reader(problems, lenient=False)
    file = reader.read(tree, CaseFile) if tree is not None else None
    return None if tree is None or file is None else _CaseFile(tree, file, reader)


def _depends_on(path: Path, file: CaseFile | None, scripts: dict[Path, PreparedScript | Reading]) -> frozenset[Path]:
    """Return the case file, its script with include files, and its files of replies."""
    found = [path]
    if file is not None:
        script = beside(path, file.script)
        read = scripts.get(script.resolve())
        reading = read.reading if isinstance(read, PreparedScript) else read
        found += [script, *(script.parent / name for name in (reading.source.side_files if reading else ()))]
        found += [beside(path, case.model) for case in file.cases if case.model is not None]
    return frozenset(each.resolve() for each in found)


def prepare(
    path: Path, scripts: dict[Path, PreparedScript | Reading], read: ReadText = file_text
) -> PreparedScript | Reading:
    """Return a script that is ready to run, or its reading if it has errors."""
    key = path.resolve()
    if key not in scripts:
        reading = read_path(path, read=read)
        scripts[key] = reading if reading.script is None else PreparedScript(path, reading, Program(reading.script))
    return scripts[key]


def _find_cases(
    name: str,
    from_file: _CaseFile,
    script: PreparedScript | Reading,
    path_of: Callable[[str], Path] | None,
    *,
    recording: bool,
) -> Iterator[FoundCase]:
    """Yield the cases of a file; `path_of` returns the path of a file that it names, None: it can name none."""
    tree, file, reader = from_file.tree, from_file.file, from_file.reader
    if isinstance(script, Reading):
        first = script.errors[0]
        reader.add("USE_NOT_FOUND", f"the script cannot be run: {first}", place(tree, "script"), first.fix)
        return
    written = tree.get("cases") if isinstance(tree, MappingTree) else None
    earlier: dict[str, FoundCase] = {}
    for case, part in zip(file.cases, written.items if isinstance(written, SequenceTree) else (), strict=True):
        _check_turns(case, part, reader)
        check_names(case, part, script.program, reader)
        cassette = path_of(case.model) if case.model is not None and path_of is not None else None
        model = _model(case, part, reader, cassette, recording=recording)
        now = _moment(case.now, place(part, "now"), reader)
        if case.timezone and zone_of(case.timezone) is None:
            reader.add("TIMEZONE_UNKNOWN", f"there is no time zone {case.timezone!r}", place(part, "timezone"))
        before = _earlier(case, part, earlier, reader)
        if now is not None:
            memories = tuple(_memories(case, part, now, reader))
            tools = _tools(part, reader, cassette, recording=recording)
            found = FoundCase(name, case, script, model, now, part, cassette, before, memories, tools)
            earlier[case.name] = found
            yield found


def _earlier(case: Case, tree: Tree, earlier: Mapping[str, FoundCase], reader: Reader) -> FoundCase | None:
    """Return the case named by `after`."""
    if case.after and case.after not in earlier:
        message = f"no case above has the name {shorten(case.after)}"
        reader.add(
            "ENUM_VALUE_INVALID", message, place(tree, "after"), suggest(case.after, list(earlier), otherwise="")
        )
    return earlier.get(case.after)


def _memories(case: Case, tree: Tree, now: datetime, reader: Reader) -> Iterator[MemoryUnit]:
    """Yield the units in the user's memory before a case."""
    for number, each in enumerate(case.memories):
        time = _moment(each.time, place(tree, "memories", number, "time"), reader) if each.time else now - DAY
        if time is not None:
            unit = new_unit(
                "known",
                f"known:{number + 1}",
                each.text,
                time,
                source=each.source,
                about=each.about,
                metadata=each.metadata,
            )
            yield structs.replace(unit, sequence=number + 1)


def beside(path: Path, name: str) -> Path:
    """Return the path of a file that another file names, as short as possible."""
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
        if sum(value is not None for value in (turn.say, turn.choose, turn.form, turn.time)) > 1:
            message = "a turn either says or chooses something, fills in a form, or lets time pass"
            reader.add("KEY_CONFLICT", message, at, "Keep one of `say`, `choose`, `form` and `pass`.")
        elif index == 0 and turn.input_text != "the beginning":
            message = "the first turn is the script's own beginning, before anything is said"
            reader.add("KEY_CONFLICT", message, at, "Begin with `- expect: [...]`.")
        elif index > 0 and turn.input_text == "the beginning":
            message = "every turn but the first has `say`, `choose`, `form` or `pass`"
            reader.add("REQUIRED_FIELD_MISSING", message, at, 'Add e.g. `say: hello`; a blank reply is `say: ""`.')


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
    elif case.model is not None and cassette is None:
        message = "a case on a server cannot name a file of replies"
        reader.add("USE_NOT_FOUND", message, place(tree, "model"), "Write the replies in the case, with `replies`.")
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


def _tools(tree: Tree, reader: Reader, cassette: Path | None, *, recording: bool) -> ToolReplies:
    """Return the replies of tools: the case's own, and those of its file of replies."""
    written = tree.get("tools") if isinstance(tree, MappingTree) else None
    own = read_tool_replies(written, reader) if written is not None else {}
    if cassette is None or not cassette.exists():
        return own
    try:
        return {**read_tool_file(cassette), **own}
    except ToolFileInvalid as error:
        if not recording:
            reader.add("USE_NOT_FOUND", f"the replies cannot be used: {error}", place(tree, "model"))
        return own


# -- names of phases, topics, actions and variables -------------------------------------------------------------------


class _Names(Struct, frozen=True):
    """The names in a script. `places` are complete paths, including those of a skill's actions in calling topics, and
    `replies` the keys of replies of a model.
    """

    places: frozenset[str]
    nodes: frozenset[str]
    actions: frozenset[str]
    replies: frozenset[str]
    variables: frozenset[str]


def check_names(case: Case, tree: Tree, program: Program, reader: Reader) -> None:
    """Report every name of a case that its script does not have. `tree` is the syntax tree of the case."""
    names = _names_of(program.script)
    variables = names.variables | case.variables.keys()
    for index, turn in enumerate(case.turns):
        _check_turn(turn, tree, ("turns", index), names, reader)
        _check_variables(turn.variables, tree, ("turns", index, "variables"), variables, reader)
    for name in case.replies:
        if name not in names.replies:
            _check_name("action", name, names.actions, key_place(tree, "replies", name), reader)
    for name in case.tools:
        _check_name("tool", name, program.tools.keys(), key_place(tree, "tools", name), reader)
    end = case.end
    _check_variables(end.variables, tree, ("end", "variables"), variables, reader)
    for scope, expected in end.scopes.by_scope().items():
        _check_variables(expected, tree, ("end", "scopes", scope), variables, reader)


def _check_turn(turn: CaseTurn, tree: Tree, keys: Keys, names: _Names, reader: Reader) -> None:
    if turn.position is not None:
        _check_name("place", turn.position, names.places, place(tree, *keys, "at"), reader)
    for index, each in enumerate(turn.skipped or ()):
        _check_name("phase, topic or action", each, names.nodes, place(tree, *keys, "skipped", index), reader)


def _check_name(what: str, name: str, known: Set[str], at: Location, reader: Reader) -> None:
    if name not in known:
        reader.add("ENUM_VALUE_INVALID", f"the script has no {what} {name}", at, suggest(name, sorted(known)))


def _check_variables(
    expected: Mapping[str, object], tree: Tree, keys: Keys, known: frozenset[str], reader: Reader
) -> None:
    """Report unknown variables as warnings only, because an application may set them."""
    for name in expected:
        if name not in known:
            fix = suggest(name, sorted(known), otherwise="Correct the spelling, or remove it.")
            reader.add("VARIABLE_NEVER_SET", f"nothing sets `{name}`", key_place(tree, *keys, name), fix)


def names_of(script: Script) -> frozenset[str]:
    """Return the variables that a script declares or sets anywhere."""
    lists = [*(actions_of(node) for _, node in nodes(script)), script.on_budget]
    declared = [*(each.var for each in all_declarations(script)), *(plan.id for plan in script.experiments)]
    declared += (field.name for form in script.forms for field in form.fields)
    return frozenset((*declared, *(name for listed in lists for name in names_written(listed))))


def _names_of(script: Script) -> _Names:
    lists = [*(skill.actions for skill in script.skills), *(each.actions for each in script.interrupts)]
    layout = ControlFlowGraph(script)
    in_topics = {
        (phase.id, topic.id): {action.id for action in walk(topic.actions)}
        for phase in script.phases
        for topic in phase.topics
    }
    elsewhere = {action.id for actions in lists for action in walk(actions)}  # they run within a topic
    elsewhere.update(*(in_topics[layout.spot(node)] for node in layout.answering_topics()))
    actions = elsewhere.union(*in_topics.values())
    parents = {each for spot in in_topics for each in spot}
    places = {THE_END, *(f"{spot[0]}/{spot[1]}/{each}" for spot, own in in_topics.items() for each in own | elsewhere)}
    aside = {f"{each}.{purpose}" for each in actions for purpose in ("extract", "route")}
    aside |= {f"{each.id}.detect" for each in script.detectors}
    aside |= {"context.summarise", "context.memo", "memory.summarise"}
    return _Names(
        frozenset(places),
        frozenset(actions | parents),
        frozenset(actions),
        frozenset(actions | aside),
        names_of(script),
    )
