"""Runs a case: plays it on the machine, with the state saved and read again between all turns, and compares."""

import contextlib
import itertools

from msgspec import Struct

from api.cases.compare import Failure, end_failures, turn_failures
from api.cases.model import CaseTurn, FoundCase
from api.playing import Player
from runtime.engine import Turn, TurnFailed
from runtime.inputs import Chosen, Filled, Input, InputRefused, Reply
from runtime.ports import Model
from runtime.run import Limits
from runtime.state import State, decode, encode


class Broken(Exception):
    """The machine itself failed, which no script should bring about; the message says how."""


class Result(Struct, frozen=True):
    """What came of a case; `turns` are those that were taken, for coverage. `whole`: all of the case's were."""

    found: FoundCase
    turns: tuple[Turn, ...]
    failures: tuple[Failure, ...]
    whole: bool = True

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.failures


async def run_case(found: FoundCase, *, model: Model | None = None, to_the_end: bool = False) -> Result:
    """Plays a case up to the first turn that differs, or `to_the_end`; what gets there is compared there too.

    A `model` takes the place of the case's own.
    """
    player = await player_after(found, model or found.model)
    failures: list[Failure] = []
    for number, expected in enumerate(found.case.turns):
        try:
            turn = await step(player, given_by(expected), first=number == 0)
        except (TurnFailed, InputRefused, Broken) as failed:
            failures.append(_not_taken(found, number, expected, failed))
            break
        failures += turn_failures(found, number, expected, turn)
        if failures and not to_the_end:
            break
    whole = len(player.played) == len(found.case.turns)
    if whole and (to_the_end or not failures):
        failures += end_failures(found, player)
    return Result(found, tuple(played.turn for played in player.played), tuple(failures), whole)


def _not_taken(found: FoundCase, number: int, expected: CaseTurn, failed: Exception) -> Failure:
    at = "/".join(failed.place) + ": " if isinstance(failed, TurnFailed) else ""
    line = found.line("turns", number)
    what, wanted = "the turn", "a turn without failure"
    return Failure(what, wanted, f"{at}{failed}", found.file, line, turn=number, given=expected.given)


def given_by(turn: CaseTurn) -> Input:
    """What the user does in a turn that is not the first."""
    if turn.form is not None:
        return Filled(turn.form)
    return Reply(turn.say or "") if turn.choose is None else Chosen(turn.choose)


async def player_after(found: FoundCase, model: Model) -> Player:
    """What plays a case: one that comes after another, once that was played as far as it goes."""
    player = player_of(found, model)
    if found.earlier is not None:
        before = await player_after(found.earlier, found.earlier.model)
        with contextlib.suppress(TurnFailed, InputRefused, Broken):  # which is told of the earlier case itself
            for number, turn in enumerate(found.earlier.case.turns):
                await step(before, given_by(turn), first=number == 0)
        player.memory = before.memory.in_session(str(found))
        player.state.global_cells = before.state.global_cells
    for unit in found.memories:
        player.memory = player.memory.with_unit(unit)
    return player


def player_of(found: FoundCase, model: Model) -> Player:
    """What plays a case by itself."""
    case, numbers = found.case, itertools.count(1)
    locale = case.locale or found.script.program.locale
    program = found.script.program.in_locale(locale)
    state = State(case.seed, locale, "visitor", start_variables=dict(case.variables))
    return Player(program, state, model, lambda: found.now, lambda: f"m{next(numbers)}", Limits())


async def step(player: Player, given: Input, *, first: bool) -> Turn:
    """The next turn, from a state that was saved and read again. Raises TurnFailed, InputRefused, Broken."""
    player.state = decode(encode(player.state))
    try:
        return await player.begin() if first else await player.take(given, None)
    except (TurnFailed, InputRefused):
        raise
    except Exception as error:  # a defect of the machine is a finding about this case, not the end of the others
        raise Broken(f"{type(error).__name__}: {error}") from error
