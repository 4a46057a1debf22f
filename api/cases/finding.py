"""What a walk can find, and the session it is found in: the replies of a random visitor, or the same ones again."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Set
from copy import copy
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from api.cases.answers import Words, answer
from api.cases.model import NOON
from api.cases.run import Broken, step
from api.playing import Player
from runtime.engine import TurnFailed
from runtime.inputs import Input, Reply, Start
from runtime.models.offline import OfflineModel
from runtime.program import Program
from runtime.run import Limits
from runtime.state import State
from scripts.values import Value

LIMITS = Limits(turn_s=20)
TRIES = 4
REPLIES_TRIED = 40  # in each of them

FindingKind: TypeAlias = Literal["failed", "broken", "stuck"]


class Finding(Struct, frozen=True):
    """A way a script fails or gets stuck, at a place, with the replies that lead there; `times` counts the walks."""

    kind: FindingKind
    place: str
    message: str
    seed: int
    variables: Mapping[str, Value]
    inputs: tuple[Input, ...]
    times: int = 1


async def go(
    program: Program,
    seed: int,
    variables: Mapping[str, Value],
    words: Words,
    chosen: Callable[[State], Input | None],
    same_max: Callable[[str], float],
) -> tuple[Player, Finding | None]:
    """A session with the replies that `chosen` gives, up to its end, a finding, or no reply.

    `same_max` says how often it may wait at a place before it is looked for a way out; blank replies, which change
    nothing, are not counted. Raises InputRefused.
    """
    numbers = itertools.count(1)
    state = State(seed, program.locale, "visitor", start_variables=dict(variables))
    player = Player(program, state, OfflineModel(), now, lambda: f"m{next(numbers)}", LIMITS)
    seen: Counter[tuple[object, ...]] = Counter()
    given: Input | None = Start()
    while given is not None:
        try:
            await step(player, given, first=isinstance(given, Start))
        except TurnFailed as failed:
            return player, Finding("failed", "/".join(failed.place), str(failed), seed, variables, ())
        except Broken as broken:
            return player, Finding("broken", place_of(player.state), str(broken), seed, variables, ())
        if player.state.wait is None:
            break
        at = place_of(player.state)
        seen[_exactly(player.state)] += not (isinstance(given, Reply) and not given.content.strip())
        if seen[_exactly(player.state)] > same_max(at):
            if not await _leads_away(player, seen.keys(), words):
                message = "no reply that was tried leads away from here"
                return player, Finding("stuck", at, message, seed, variables, ())
            seen[_exactly(player.state)] = 0
        given = chosen(player.state)
    return player, None


async def _leads_away(player: Player, known: Set[tuple[object, ...]], words: Words) -> bool:
    """Whether some replies lead from here to the end, to a failure, or to a place where the session has not waited."""
    for attempt in range(TRIES):
        chance = random.Random(f"{player.state.seed}:{player.state.turn}:{attempt}")  # noqa: S311  (not for secrets)
        trial = copy(player)
        trial.played = []
        for _ in range(REPLIES_TRIED):
            try:
                await step(trial, answer(chance, trial.program, trial.state, words, now().date()), first=False)
            except (TurnFailed, Broken):
                return True
            if trial.state.wait is None or _exactly(trial.state) not in known:
                return True
    return False


def _exactly(state: State) -> tuple[object, ...]:
    """Where a session waits; another item of a `foreach` is another place, another pass of a `repeat` is not."""
    frames = tuple((frame.block, frame.action, frame.passes if frame.items else 0) for frame in state.frames)
    return state.phase, state.topic, frames


def place_of(state: State) -> str:
    """``phase/topic/action``"""
    action = state.frames[-1].action if state.frames else ""
    return "/".join(part for part in (state.phase, state.topic, action) if part)


def now() -> datetime:
    return datetime.fromisoformat(NOON)
