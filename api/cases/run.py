"""Runs a case: plays it on the machine, with the state saved and read again between all turns, and compares."""

import itertools
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from msgspec import Struct

from api.cases.model import CaseEnd, CaseTurn, FoundCase
from api.playing import Player
from runtime.engine import Chosen, Input, InputRefused, Reply, Turn, TurnFailed
from runtime.events import Warned
from runtime.run import Limits
from runtime.scopes import Scopes
from runtime.state import State, decode, encode
from scripts.model import Scope
from scripts.values import Value

Keys: TypeAlias = tuple[str | int, ...]


class Broken(Exception):
    """The machine itself failed, which no script should bring about; the message says how."""


class Failure(Struct, frozen=True):
    """One thing that is not as expected; `turn` is none for what is compared at the end."""

    what: str
    expected: Value
    got: Value
    file: str
    line: int
    turn: int | None = None
    given: str = ""


class Result(Struct, frozen=True):
    """What came of a case; `turns` are those that were taken, for coverage."""

    found: FoundCase
    turns: tuple[Turn, ...]
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.failures


async def run_case(found: FoundCase) -> Result:
    """Plays a case up to the first turn that differs; a case that gets to its end is compared there too."""
    player = player_of(found)
    failures: list[Failure] = []
    for number, expected in enumerate(found.case.turns):
        given = Reply(expected.say or "") if expected.choose is None else Chosen(expected.choose)
        try:
            turn = await step(player, given, first=number == 0)
        except (TurnFailed, InputRefused, Broken) as failed:
            at = "/".join(failed.place) + ": " if isinstance(failed, TurnFailed) else ""
            failures = [Failure("the turn", "a turn without failure", f"{at}{failed}", *_at(found, "turns", number))]
        else:
            failures = list(_turn_failures(found, number, expected, turn))
        if failures:
            failures = [_in_turn(failure, number, expected) for failure in failures]
            break
    else:
        failures = [*_end_failures(found, player), *_warning_failures(found, player)]
    return Result(found, tuple(played.turn for played in player.played), tuple(failures))


def player_of(found: FoundCase) -> Player:
    """What plays a case."""
    case, numbers = found.case, itertools.count(1)
    locale = case.locale or found.script.program.locale
    program = found.script.program.in_locale(locale)
    state = State(case.seed, locale, "visitor", start_variables=dict(case.variables))
    return Player(program, state, found.model, lambda: found.now, lambda: f"m{next(numbers)}", Limits())


async def step(player: Player, given: Input, *, first: bool) -> Turn:
    """The next turn, from a state that was saved and read again. Raises TurnFailed, InputRefused, Broken."""
    player.state = decode(encode(player.state))
    try:
        return await player.begin() if first else await player.take(given, None)
    except (TurnFailed, InputRefused):
        raise
    except Exception as error:  # a defect of the machine is a finding about this case, not the end of the others
        raise Broken(f"{type(error).__name__}: {error}") from error


def position_of(state: State) -> str:
    """``phase/topic/action``, or the end."""
    return "/".join([state.phase, state.topic, state.frames[-1].action]) if state.frames else "the end"


def _at(found: FoundCase, *keys: str | int) -> tuple[str, int]:
    return found.file, found.line(*keys)


def _in_turn(failure: Failure, number: int, expected: CaseTurn) -> Failure:
    return Failure(
        failure.what, failure.expected, failure.got, failure.file, failure.line, turn=number, given=expected.given
    )


def _turn_failures(found: FoundCase, number: int, expected: CaseTurn, turn: Turn) -> Iterator[Failure]:
    said = [message.content for message in turn.messages if message.role == "assistant"]
    pairs = itertools.zip_longest(expected.expect or (), said) if expected.expect is not None else ()
    for index, (pattern, got) in enumerate(pairs):
        if pattern is None or got is None or not (pattern == got or fnmatchcase(got, pattern)):
            yield Failure(f"message {index + 1}", pattern, got, *_at(found, "turns", number, "expect", index))
    kind = None if turn.state.wait is None else turn.state.wait.kind
    if expected.wait is not None and kind != expected.wait:
        yield Failure("wait", expected.wait, kind, *_at(found, "turns", number, "wait"))
    at = position_of(turn.state)
    if expected.position is not None and at != expected.position:
        yield Failure("at", expected.position, at, *_at(found, "turns", number, "at"))


def _end_failures(found: FoundCase, player: Player) -> Iterator[Failure]:
    end, state, scopes = found.case.end, player.state, Scopes(player.program, player.state)
    if end.status is not None and state.execution_status != end.status:
        yield Failure("status", end.status, state.execution_status, *_at(found, "end", "status"))
    if end.reason is not None and state.end_reason != end.reason:
        yield Failure("reason", end.reason, state.end_reason, *_at(found, "end", "reason"))
    yield from _value_failures(found, "variable", scopes.flat(), end.variables, ("variables",))
    for scope, key, variables in _expected_scopes(end):
        cells = {name: cell.value for name, cell in scopes.cells(scope).items()}
        yield from _value_failures(found, f"{scope} variable", cells, variables, ("scopes", key))


def _expected_scopes(end: CaseEnd) -> Iterator[tuple[Scope, str, Mapping[str, Value]]]:
    yield "global", "global", end.scopes.global_scope
    yield "session", "session", end.scopes.session
    yield "phase", "phase", end.scopes.phase
    yield "topic", "topic", end.scopes.topic


def _value_failures(
    found: FoundCase, what: str, got: Mapping[str, Value], expected: Mapping[str, Value], keys: Keys
) -> Iterator[Failure]:
    for name, value in expected.items():
        has = got.get(name)
        if has != value or isinstance(has, bool) != isinstance(value, bool):
            yield Failure(f"{what} {name}", value, has, *_at(found, "end", *keys, name))


def _warning_failures(found: FoundCase, player: Player) -> Iterator[Failure]:
    warned = [
        (body.code, f"{body.code} in turn {played.turn.state.turn} at {body.action_id}: {body.message}")
        for played in player.played
        for body in (event.body for event in played.turn.events)
        if isinstance(body, Warned)
    ]
    expected = found.case.warnings
    if expected is not None and tuple(code for code, _ in warned) != expected:
        got: Value = [line for _, line in warned]
        yield Failure("warnings", list(expected), got, *_at(found, "warnings"))
