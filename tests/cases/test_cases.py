"""Scripts tested by scripts' own conversations: every ``*.case.yaml`` is played on the offline model.

A case says what is put in and what must come out: all messages of each turn in order (as glob patterns), what the
session then waits for and where, its variables at the end, and every warning. Between two turns the state is encoded
and decoded, as it is in a record.
"""

import contextlib
import itertools
from collections import abc
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from api.playing import Player
from runtime.engine import Chosen, Input, InputRefused, Limits, Reply, Turn, TurnFailed
from runtime.events import ActionEntered, ScopeEntered, Warned
from runtime.models.offline import OfflineModel
from runtime.program import Program
from runtime.scopes import Scopes
from runtime.state import ExecutionStatus, State, WaitKind, decode, encode
from scripts.diagnostics import Problems
from scripts.folder import read_path, script_files
from scripts.model import Scope, walk
from scripts.parse import is_script, read_file
from scripts.source import Mapping, Scalar, Sequence, Tree, read_tree
from scripts.values import Value

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "scripts" / "library"
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)  # a Saturday


# -- what a case file holds -------------------------------------------------------------------------------------------


class CaseTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """What is put in (nothing in the first turn) and what comes of it; what is not given is not compared."""

    expect: tuple[str, ...]
    say: str | None = None
    choose: str | None = None
    wait: WaitKind | None = None
    at: str | None = None  # phase/topic/action

    def __post_init__(self) -> None:
        if self.say is not None and self.choose is not None:
            raise ValueError("a turn either says or chooses something")


class CaseEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """How the session ends up; of the variables those named, null meaning that there is none."""

    status: ExecutionStatus = "completed"
    reason: str | None = None
    variables: abc.Mapping[str, Any] = {}
    scopes: abc.Mapping[Scope, abc.Mapping[str, Any]] = {}


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One conversation."""

    name: str
    turns: tuple[CaseTurn, ...]
    end: CaseEnd = CaseEnd()
    seed: int = 0
    now: datetime = NOON
    variables: abc.Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()  # the codes of all of them, in order

    def __post_init__(self) -> None:
        inputs = [turn.say is not None or turn.choose is not None for turn in self.turns]
        if not inputs or inputs[0] or not all(inputs[1:]):
            raise ValueError("every turn but the first has `say` or `choose`")


class CaseFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Conversations with one script; `script` is its path seen from the file."""

    script: str
    cases: tuple[Case, ...]


class Found(Struct, frozen=True):
    """A case and where it was found."""

    path: Path
    script: Path
    case: Case

    def __str__(self) -> str:
        return f"{self.path.name.removesuffix('.case.yaml')}: {self.case.name}"


def found_cases() -> Iterator[Found]:
    """Every case of this folder."""
    for path in sorted(HERE.glob("*.case.yaml")):
        file = read_cases(path.read_text("utf-8"), path.name)
        for case in file.cases:
            yield Found(path, (path.parent / file.script).resolve(), case)


def read_cases(text: str, name: str) -> CaseFile:
    """A case file, in the same YAML as scripts: ``yes`` is a word. Raises msgspec.ValidationError."""
    problems = Problems(name)
    tree = read_tree(text, problems)
    if tree is None or problems.fatal:
        raise msgspec.ValidationError("; ".join(map(str, problems.sorted())))
    try:
        return msgspec.convert(as_written(tree), CaseFile)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{name}: {error}") from error


def as_written(tree: Tree, key: str = "") -> Any:
    """The tree as plain data, where what a visitor says or chooses is always a text: ``say: 34``."""
    match tree:
        case Mapping():
            return {name.text: as_written(value, name.text) for name, value in tree.pairs}
        case Sequence():
            return [as_written(item) for item in tree.items]
        case Scalar():
            return tree.text if key in {"say", "choose"} else tree.value


CASES = tuple(found_cases())


# -- playing one ------------------------------------------------------------------------------------------------------


class CaseFailed(AssertionError):
    """What differs from the case, with the turn it differs in."""


def player_of(found: Found) -> Player:
    """What plays a case. Raises CaseFailed for a script that cannot be read."""
    reading = read_path(found.script, "strict")
    if reading.script is None:
        raise CaseFailed("\n".join(map(str, reading.errors)))
    program, case, numbers = Program(reading.script), found.case, itertools.count(1)
    state = State(case.seed, program.locale, "visitor", start_variables=dict(case.variables))
    return Player(program, state, OfflineModel(), lambda: case.now, lambda: f"m{next(numbers)}", Limits())


async def play(player: Player, case: Case) -> None:
    """Plays a case to its end. Raises CaseFailed at the first turn that differs."""
    for number, expected in enumerate(case.turns):
        turn = await taken(player, number, expected)
        if lines := [*different_turn(turn, expected)]:
            raise CaseFailed("\n".join([heading(number, expected), *lines]))
    if lines := [*different_end(player, case.end), *different_warnings(player, case.warnings)]:
        raise CaseFailed("\n".join(["at the end", *lines]))


async def taken(player: Player, number: int, expected: CaseTurn) -> Turn:
    """The next turn, from a state that was saved and read again."""
    player.state = decode(encode(player.state))
    try:
        if number == 0:
            return await player.begin()
        given: Input = Chosen(expected.choose) if expected.choose is not None else Reply(expected.say or "")
        return await player.take(given, expected.choose or expected.say)
    except (TurnFailed, InputRefused) as failed:
        raise CaseFailed(f"{heading(number, expected)}\n  {failed}") from failed


def heading(number: int, expected: CaseTurn) -> str:
    """``turn 3 (say: Ana)``"""
    if number == 0:
        return "turn 0 (the beginning)"
    how = f"choose: {expected.choose}" if expected.choose is not None else f"say: {expected.say}"
    return f"turn {number} ({how})"


def different_turn(turn: Turn, expected: CaseTurn) -> Iterator[str]:
    """What of a turn is not as expected, as lines to print."""
    said = [message.content for message in turn.messages if message.role == "assistant"]
    pairs = list(itertools.zip_longest(expected.expect, said))
    if not all(got is not None and pattern is not None and fnmatchcase(got, pattern) for pattern, got in pairs):
        yield "  the messages differ:"
        for pattern, got in pairs:
            fits = pattern is not None and got is not None and fnmatchcase(got, pattern)
            yield f"    {'  ' if fits else '! '}expected {'nothing' if pattern is None else repr(pattern)}"
            yield f"      got      {'nothing' if got is None else repr(got)}"
    state = turn.state
    kind = None if state.wait is None else state.wait.kind
    if expected.wait is not None and kind != expected.wait:
        yield f"  expected to wait for {expected.wait}, got {kind or 'no wait'}"
    at = "/".join([state.phase, state.topic, state.frames[-1].action]) if state.frames else "the end"
    if expected.at is not None and at != expected.at:
        yield f"  expected to be at {expected.at}, got {at}"


def different_end(player: Player, expected: CaseEnd) -> Iterator[str]:
    """What of the session's end is not as expected."""
    state, scopes = player.state, Scopes(player.program, player.state)
    if state.execution_status != expected.status:
        yield f"  expected {expected.status}, got {state.execution_status}"
    if expected.reason is not None and state.end_reason != expected.reason:
        yield f"  expected the reason {expected.reason!r}, got {state.end_reason!r}"
    yield from different_values("variable", scopes.flat(), expected.variables)
    for scope, variables in expected.scopes.items():
        cells = {name: cell.value for name, cell in scopes.cells(scope).items()}
        yield from different_values(f"{scope} variable", cells, variables)


def different_values(what: str, got: abc.Mapping[str, Value], expected: abc.Mapping[str, Value]) -> Iterator[str]:
    """The variables among the expected ones that have another value."""
    for name, value in expected.items():
        if got.get(name) != value or isinstance(got.get(name), bool) != isinstance(value, bool):
            yield f"  {what} {name}: expected {value!r}, got {got.get(name)!r}"


def different_warnings(player: Player, expected: tuple[str, ...]) -> Iterator[str]:
    """The warnings of the session, where they are not the expected ones."""
    warned = [
        (body.code, f"{body.code} in turn {played.turn.state.turn} at {body.action_id}: {body.message}")
        for played in player.played
        for body in (event.body for event in played.turn.events)
        if isinstance(body, Warned)
    ]
    if tuple(code for code, _ in warned) != expected:
        yield f"  expected the warnings {', '.join(expected) or 'none'}, got"
        yield from (f"    {line}" for _, line in warned) if warned else ("    none",)


def executed(player: Player) -> Iterator[str]:
    """The actions a session entered, as phase/topic/action."""
    phase = topic = ""
    for event in (event for played in player.played for event in played.turn.events):
        match event.body:
            case ScopeEntered(scope="phase", id=entered_id):
                phase = entered_id
            case ScopeEntered(scope="topic", id=entered_id):
                topic = entered_id
            case ActionEntered(action_id=action):
                yield f"{phase}/{topic}/{action}"


# -- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", CASES, ids=str)
async def test_a_conversation_goes_as_its_case_says(found):
    failure = ""
    try:
        await play(player_of(found), found.case)
    except CaseFailed as failed:
        failure = str(failed)
    if failure:
        pytest.fail(f"{found}\n{failure}", pytrace=False)  # outside of `except`, which would say it all twice


def library() -> list[Path]:
    """The scripts of the library, without their side files."""
    return [path for path in script_files(LIBRARY) if is_script(read_file(path))]


@pytest.mark.parametrize("path", library(), ids=lambda path: path.stem)
async def test_a_script_of_the_library_has_no_problem_and_no_action_that_no_case_reaches(path):
    reading = read_path(path, "strict")
    assert [str(problem) for problem in reading.problems] == []
    assert reading.script is not None

    actions = {
        f"{phase.id}/{topic.id}/{action.id}"
        for phase in reading.script.phases
        for topic in phase.topics
        for action in walk(topic.actions)
    }
    cases = [found for found in CASES if found.script == path]
    assert cases, f"no case plays {path.name}"
    reached: set[str] = set()
    for found in cases:
        player = player_of(found)
        with contextlib.suppress(CaseFailed):  # the test above tells; here counts how far it came
            await play(player, found.case)
        reached.update(executed(player))
    if missed := sorted(actions - reached):
        pytest.fail("\n  ".join([f"no case of {path.name} reaches", *missed]), pytrace=False)


# -- what a case that fails says --------------------------------------------------------------------------------------


def with_turn(number: int, **changes: Any) -> Case:
    """The first case of all, with one turn changed."""
    turns = list(CASES[0].case.turns)
    turns[number] = msgspec.structs.replace(turns[number], **changes)
    return msgspec.structs.replace(CASES[0].case, turns=tuple(turns))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"expect": ("Bye*",)}, ["turn 1 (say: Ana)", "! expected 'Bye*'", "got      'Thank you, Ana"]),
        ({"expect": ("Thank you*", "And*")}, ["  expected 'Thank you*'", "! expected 'And*'", "got      nothing"]),
        ({"expect": ()}, ["! expected nothing", "got      'Thank you, Ana"]),
        ({"expect": ("Thank*",), "wait": "choice"}, ["expected to wait for choice, got text"]),
        ({"at": "a/b/c"}, ["expected to be at a/b/c, got about_you/welcome/ask_age"]),
        ({"say": None, "choose": "x"}, ["turn 1 (choose: x)", "waits for text, not for a choice"]),
    ],
)
async def test_a_case_that_fails_names_the_turn_and_both_sides(changes, words):
    with pytest.raises(CaseFailed) as failed:
        await play(player_of(CASES[0]), with_turn(1, **changes))
    assert all(word in str(failed.value) for word in words), failed.value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"end": CaseEnd("waiting_input")}, ["expected waiting_input, got completed"]),
        ({"end": CaseEnd(reason="tired")}, ["expected the reason 'tired', got ''"]),
        ({"end": CaseEnd(variables={"age": 35})}, ["variable age: expected 35, got 34"]),
        ({"end": CaseEnd(scopes={"topic": {"age": 34}})}, ["topic variable age: expected 34, got None"]),
        ({"warnings": ("not_comparable",)}, ["expected the warnings not_comparable, got", "none"]),
    ],
)
async def test_a_case_that_fails_at_its_end_names_what_differs(changes, words):
    with pytest.raises(CaseFailed) as failed:
        await play(player_of(CASES[0]), msgspec.structs.replace(CASES[0].case, **changes))
    assert all(word in str(failed.value) for word in ["at the end", *words]), failed.value


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("{name: a, turns: []}", "every turn but the first"),
        ("{name: a, turns: [{say: hi, expect: []}]}", "every turn but the first"),
        ("{name: a, turns: [{expect: []}, {expect: []}]}", "every turn but the first"),
        ("{name: a, turns: [{expect: []}, {say: a, choose: b, expect: []}]}", "either says or chooses"),
        ("{name: a, turns: [{expect: []}], ends: {}}", "unknown field `ends`"),
        ("{name: a, turns: [{expect: [], wait: tea}]}", "Invalid enum value 'tea'"),
        ("{name: a, name: b}", "`name` stands here already"),
    ],
)
def test_a_case_that_cannot_be_meant_is_refused(case, reason):
    with pytest.raises(msgspec.ValidationError, match=reason):
        read_cases(f"script: a.yaml\ncases: [{case}]", "a.case.yaml")
