"""Runs a case on the engine, with the state encoded and decoded between turns, and compares its turns and its end with
what the case expects.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct, field

from api.testing.cases.case_model import CaseEvent, CaseTurn, FoundCase, Keys
from api.testing.player import Player
from runtime.engine.engine import Turn, TurnFailed
from runtime.state.events import ActionSkipped, Body, Emitted, Event, Message, ScopeSkipped, Warned
from runtime.state.inputs import ChoiceInput, FormInput, Input, InputRefused, Reply, Start
from runtime.state.ports import Model
from runtime.state.scopes import Scopes
from runtime.state.state import State, Wait, decode, encode
from runtime.tools.examples import ScriptedTools
from runtime.turn.calls import ModelCall
from scripts.expressions.values import Value


class CaseFailure(Struct, frozen=True):
    """One unmet expectation; `turn` is None for the comparison at the end."""

    what: str
    expected: Value
    got: Value
    file: str
    line: int
    turn: int | None = None
    input_text: str = field(name="given", default="")


class CaseRunFailed(Exception):
    """The engine failed with an internal error, which no script should cause; the message says how."""


class CaseResult(Struct, frozen=True):
    """The result of a case; `turns` are those that ran, for coverage. `whole`: all turns of the case ran."""

    found: FoundCase
    turns: tuple[Turn, ...]
    failures: tuple[CaseFailure, ...]
    whole: bool = True

    @property
    def passed(self) -> bool:
        """Return whether all expectations were met."""
        return not self.failures


async def run_case(found: FoundCase, *, model: Model | None = None, to_the_end: bool = False) -> CaseResult:
    """Run a case up to the first turn with a difference, or `to_the_end`; compare also the end if it is reached.

    `model` replaces the case's own model.
    """
    player = await player_after(found, model or found.model)
    failures: list[CaseFailure] = []
    turns: list[Turn] = []
    for number, expected in enumerate(found.case.turns):
        try:
            turn = await take(player, expected)
        except (TurnFailed, InputRefused, CaseRunFailed) as failed:
            failures.append(_not_taken(found, number, expected, failed))
            break
        turns.append(turn)
        failures += turn_failures(found, number, expected, turn)
        if failures and not to_the_end:
            break
    whole = len(turns) == len(found.case.turns)
    if whole and (to_the_end or not failures):
        failures += end_failures(found, player)
    return CaseResult(found, tuple(turns), tuple(failures), whole)


def _not_taken(found: FoundCase, number: int, expected: CaseTurn, failed: Exception) -> CaseFailure:
    at = "/".join(failed.place) + ": " if isinstance(failed, TurnFailed) else ""
    difference = ExpectationDifference("the turn", "a turn without failure", f"{at}{failed}", ())
    return _turn_failure(found, number, expected, difference)


def input_of(turn: CaseTurn) -> Input:
    """Return the user's input in a turn that is not the first."""
    if turn.form is not None:
        return FormInput(turn.form)
    return Reply(turn.say or "") if turn.choose is None else ChoiceInput(turn.choose)


async def player_after(found: FoundCase, model: Model) -> Player:
    """Return the player of a case, after running the earlier case that it follows, if any, as far as possible."""
    player = player_of(found, model)
    if found.earlier is not None:
        before = await player_after(found.earlier, found.earlier.model)
        with contextlib.suppress(TurnFailed, InputRefused, CaseRunFailed):  # the earlier case reports it itself
            for turn in found.earlier.case.turns:
                await take(before, turn)
        player.memory = before.memory.in_session(str(found))
        player.state.global_cells = before.state.global_cells
    for unit in found.memories:
        player.memory = player.memory.with_unit(unit)
    return player


def player_of(found: FoundCase, model: Model) -> Player:
    """Return the player of a case without an earlier one."""
    case, numbers = found.case, itertools.count(1)
    locale = case.locale or found.script.program.locale
    program = found.script.program.in_locale(locale)
    state = State(case.seed, locale, "visitor", start_variables=dict(case.variables), timezone=case.timezone)
    tools = ScriptedTools(found.tools)
    return Player(program, state, model, lambda: found.now, lambda: f"m{next(numbers)}", tools=tools)


async def take(player: Player, turn: CaseTurn) -> Turn:
    """Run a turn of a case; all turns that timers cause while time passes count as one.

    Raises TurnFailed, InputRefused, CaseRunFailed.
    """
    if turn.time is None:
        return await step(player, input_of(turn) if player.played else Start())
    player.state = decode(encode(player.state))
    events: list[Event] = []
    calls: list[ModelCall] = []
    with _internal_errors():
        async for each in player.pass_time(turn.time, None):
            events += each.events
            calls += each.model_calls
    return Turn(player.state, encode(player.state), tuple(events), tuple(calls))


async def step(player: Player, turn_input: Input) -> Turn:
    """Run the next turn from an encoded and decoded state. Raises TurnFailed, InputRefused, CaseRunFailed."""
    player.state = decode(encode(player.state))
    with _internal_errors():
        return await player.take(turn_input, None)


@contextlib.contextmanager
def _internal_errors() -> Iterator[None]:
    """Raise CaseRunFailed for an internal error, which fails this case only, not the others."""
    try:
        yield
    except (TurnFailed, InputRefused):
        raise
    except Exception as error:
        raise CaseRunFailed(f"{type(error).__name__}: {error}") from error


# -- comparing a turn -------------------------------------------------------------------------------------------------


class ExpectationDifference(Struct, frozen=True):
    """An expected and an actual value, and the path of the expectation in the case (or its turn)."""

    what: str
    expected: Value
    got: Value
    keys: Keys


def position_of(state: State) -> str:
    """Return ``phase/topic/action``, or ``the end``."""
    return "/".join([state.phase, state.topic, state.frames[-1].action]) if state.frames else "the end"


def turn_failures(found: FoundCase, number: int, expected: CaseTurn, turn: Turn) -> Iterator[CaseFailure]:
    """Yield the unmet expectations of a turn."""
    for each in _turn_differences(found, expected, turn):
        yield _turn_failure(found, number, expected, each)


def _turn_failure(found: FoundCase, number: int, expected: CaseTurn, each: ExpectationDifference) -> CaseFailure:
    line = found.line("turns", number, *each.keys)
    return CaseFailure(
        each.what, each.expected, each.got, found.file, line, turn=number, input_text=expected.input_text
    )


def _turn_differences(found: FoundCase, expected: CaseTurn, turn: Turn) -> Iterator[ExpectationDifference]:
    bodies = [event.body for event in turn.events]
    yield from _compare_messages(expected, [message for message in turn.messages if message.role == "assistant"])
    if expected.emit is not None:
        yield from _compare_events(expected.emit, [body for body in bodies if isinstance(body, Emitted)])
    if expected.skipped is not None:
        skipped = tuple(_list_skipped(bodies))
        if skipped != expected.skipped:
            yield ExpectationDifference("skipped", list(expected.skipped), list(skipped), ("skipped",))
    yield from _waits(expected, turn.state.wait)
    values = Scopes(found.script.program, turn.state).flat() if expected.variables else {}
    yield from _unlike("variable", values, expected.variables, "variables")
    yield from _other("at", expected.position, position_of(turn.state))


def _compare_messages(expected: CaseTurn, messages: list[Message]) -> Iterator[ExpectationDifference]:
    said = [message.content for message in messages]
    pairs = itertools.zip_longest(expected.expect or (), said) if expected.expect is not None else ()
    for index, (pattern, got) in enumerate(pairs):
        if pattern is None or got is None or not _fits(got, pattern):
            yield ExpectationDifference(f"message {index + 1}", pattern, got, ("expect", index))
    for index, pattern in enumerate(expected.not_said):
        for got in said:
            if _fits(got, pattern):
                yield ExpectationDifference("not_said", f"no message like {pattern}", got, ("not_said", index))
    if expected.show is None:
        return
    shown = [media for message in messages if isinstance(media := message.metadata.get("media"), dict)]
    for index, (expectation, has) in enumerate(itertools.zip_longest(expected.show, shown)):
        texts = {name: str(value) for name, value in (has or {}).items()}
        fits = expectation is not None and all(_fits(texts.get(key, ""), each) for key, each in expectation.items())
        if not fits or has is None:
            named = None if expectation is None else dict(expectation)
            yield ExpectationDifference(f"show {index + 1}", named, has, ("show", index))


def _compare_events(expected: Iterable[CaseEvent], emitted: Iterable[Emitted]) -> Iterator[ExpectationDifference]:
    for index, (expectation, got) in enumerate(itertools.zip_longest(expected, emitted)):
        if (
            expectation is not None
            and got is not None
            and expectation.event == got.event
            and (expectation.data is None or _equal(dict(got.data), dict(expectation.data)))
        ):
            continue
        named: Value = None if expectation is None else {"event": expectation.event} | _data(expectation.data)
        has: Value = None if got is None else {"event": got.event} | _data(got.data)
        yield ExpectationDifference(f"emit {index + 1}", named, has, ("emit", index))


def _data(data: Mapping[str, Value] | None) -> dict[str, Value]:
    return {} if data is None else {"data": dict(data)}


def _list_skipped(bodies: Iterable[Body]) -> Iterator[str]:
    for body in bodies:
        if isinstance(body, ScopeSkipped):
            yield body.id
        elif isinstance(body, ActionSkipped):
            yield body.action_id


def _waits(expected: CaseTurn, wait: Wait | None) -> Iterator[ExpectationDifference]:
    yield from _other("wait", expected.wait, None if wait is None else wait.kind)
    offered = () if wait is None else wait.choices
    if expected.choices is not None:
        for index, (expectation, choice) in enumerate(itertools.zip_longest(expected.choices, offered)):
            key, pattern = _choice(expectation)
            if choice is None or expectation is None or choice.key != key or not _fits(choice.text, pattern):
                got: Value = None if choice is None else {choice.key: choice.text}
                yield ExpectationDifference(f"choice {index + 1}", expectation, got, ("choices", index))
    suggestion = None if wait is None else wait.suggestion
    if expected.suggestion is not None and not _fits(suggestion or "", expected.suggestion):
        yield ExpectationDifference("suggestion", expected.suggestion, suggestion or None, ("suggestion",))


def _choice(expectation: Value) -> tuple[str, str]:
    """Return the key of an expected choice, and the pattern of its text."""
    if isinstance(expectation, dict):
        return next(((key, str(text)) for key, text in expectation.items()), ("", "*"))
    return str(expectation), "*"


def _fits(text: str, pattern: str) -> bool:
    return pattern == text or fnmatchcase(text, pattern)


# -- at the end -------------------------------------------------------------------------------------------------------


def end_failures(found: FoundCase, player: Player) -> Iterator[CaseFailure]:
    """Yield the unmet expectations at the end of a conversation, and of the warnings of all its turns."""
    for each in (*_end_differences(found, player), *_warnings(found, player)):
        yield CaseFailure(each.what, each.expected, each.got, found.file, found.line(*each.keys))


def _end_differences(found: FoundCase, player: Player) -> Iterator[ExpectationDifference]:
    end, state, scopes = found.case.end, player.state, Scopes(player.program, player.state)
    yield from _other("status", end.status, state.execution_status, "end")
    yield from _other("reason", end.reason, state.end_reason, "end")
    yield from _other("outcome", end.outcome, state.outcome, "end")
    yield from _unlike("variable", scopes.flat(), end.variables, "end", "variables")
    for scope, variables in end.scopes.by_scope().items():
        cells = {name: cell.value for name, cell in scopes.cells(scope).items()}
        yield from _unlike(f"{scope} variable", cells, variables, "end", "scopes", scope)


def _other(what: str, expected: str | None, got: str | None, *within: str) -> Iterator[ExpectationDifference]:
    """Yield a difference unless nothing is expected or a text is the expected one."""
    if expected is not None and got != expected:
        yield ExpectationDifference(what, expected, got, (*within, what))


def _unlike(
    what: str, got: Mapping[str, Value], expected: Mapping[str, Value], *within: str
) -> Iterator[ExpectationDifference]:
    """Yield the differences of variables."""
    for name, value in expected.items():
        if not _equal(got.get(name), value):
            yield ExpectationDifference(f"{what} {name}", value, got.get(name), (*within, name))


def _equal(one: Value, other: Value) -> bool:
    """Return whether two values are equal; true is not 1, also inside lists and records."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _warnings(found: FoundCase, player: Player) -> Iterator[ExpectationDifference]:
    warned = [
        (body.code, f"{body.code} in turn {played.turn.state.turn} at {body.action_id}: {body.message}")
        for played in player.played
        for body in (event.body for event in played.turn.events)
        if isinstance(body, Warned)
    ]
    expected = found.case.warnings
    if expected is not None and tuple(code for code, _ in warned) != expected:
        yield ExpectationDifference("warnings", list(expected), [line for _, line in warned], ("warnings",))
