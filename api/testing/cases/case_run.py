"""Runs a case on the engine, with the state encoded and decoded between turns, and compares the results."""

import contextlib
import itertools
from collections.abc import Iterator

from msgspec import Struct

from api.testing.cases.case_model import CaseTurn, FoundCase
from api.testing.cases.expectations import CaseFailure, end_failures, turn_failures
from api.testing.player import Player
from runtime.engine.engine import Turn, TurnFailed
from runtime.state.events import Event
from runtime.state.inputs import Chosen, Filled, Input, InputRefused, Reply
from runtime.state.limits import Limits
from runtime.state.ports import Model
from runtime.state.state import State, decode, encode
from runtime.tools.examples import ScriptedTools
from runtime.turn.calls import ModelCall


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
            turn = await take(player, expected, first=number == 0)
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
    line = found.line("turns", number)
    what, expectation = "the turn", "a turn without failure"
    return CaseFailure(
        what, expectation, f"{at}{failed}", found.file, line, turn=number, input_text=expected.input_text
    )


def input_of(turn: CaseTurn) -> Input:
    """Return the user's input in a turn that is not the first."""
    if turn.form is not None:
        return Filled(turn.form)
    return Reply(turn.say or "") if turn.choose is None else Chosen(turn.choose)


async def player_after(found: FoundCase, model: Model) -> Player:
    """Return the player of a case, after running the earlier case that it follows, if any, as far as possible."""
    player = player_of(found, model)
    if found.earlier is not None:
        before = await player_after(found.earlier, found.earlier.model)
        with contextlib.suppress(TurnFailed, InputRefused, CaseRunFailed):  # the earlier case reports it itself
            for number, turn in enumerate(found.earlier.case.turns):
                await take(before, turn, first=number == 0)
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
    return Player(
        program,
        state,
        model,
        lambda: found.now,
        lambda: f"m{next(numbers)}",
        Limits(),
        tools=ScriptedTools(found.tools),
    )


async def take(player: Player, turn: CaseTurn, *, first: bool) -> Turn:
    """Run a turn of a case; all turns that timers cause while time passes count as one.

    Raises TurnFailed, InputRefused, CaseRunFailed.
    """
    if turn.time is None:
        return await step(player, input_of(turn), first=first)
    player.state = decode(encode(player.state))
    events: list[Event] = []
    calls: list[ModelCall] = []
    with _internal_errors():
        async for each in player.pass_time(turn.time, None):
            events += each.events
            calls += each.model_calls
    return Turn(player.state, encode(player.state), tuple(events), tuple(calls))


async def step(player: Player, turn_input: Input, *, first: bool) -> Turn:
    """Run the next turn from an encoded and decoded state. Raises TurnFailed, InputRefused, CaseRunFailed."""
    player.state = decode(encode(player.state))
    with _internal_errors():
        return await player.begin() if first else await player.take(turn_input, None)


@contextlib.contextmanager
def _internal_errors() -> Iterator[None]:
    """Raise CaseRunFailed for an internal error, which fails this case only, not the others."""
    try:
        yield
    except (TurnFailed, InputRefused):
        raise
    except Exception as error:
        raise CaseRunFailed(f"{type(error).__name__}: {error}") from error
