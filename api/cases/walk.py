"""Random walks: conversations nobody wrote, in search of a turn that fails or a place that nobody gets away from."""

import itertools
import random
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from api.cases.answers import Words, answer, words_of
from api.cases.coverage import Item, reached_by
from api.cases.finding import Finding, go, now
from api.cases.model import Prepared
from api.cases.smallest import smallest
from runtime.engine import Turn
from runtime.inputs import Input
from runtime.program import Program
from runtime.state import State
from scripts.values import Value

TURNS_MAX = 200  # of one walk
SAME_MAX = 40  # so many answers in vain at one place are too many
FINDINGS_MAX = 20  # of one script
GLOBALS_KEPT = 0.3  # how often a visitor has been here before


class Walks(Struct, frozen=True):
    """What some random walks through a script came to. `unfinished`: still going after `TURNS_MAX` turns, not stuck."""

    script: Prepared
    asked: int
    walked: int
    completed: int
    unfinished: int
    turns: int
    findings: tuple[Finding, ...]
    reached: frozenset[Item]


class _Path(Struct, frozen=True):
    """One walk."""

    turns: tuple[Turn, ...]
    inputs: tuple[Input, ...]
    finding: Finding | None
    globals: Mapping[str, Value]


async def walk_script(
    script: Prepared,
    walks: int,
    seed: int,
    *,
    until: float,
    tick: Callable[[], None] = lambda: None,
) -> Walks:
    """Walks through a script; the same seed walks the same ways. Ends early once `time.monotonic()` is past `until`.

    `tick` is called after each walk.
    """
    words = words_of(script.program.script)
    found: dict[tuple[str, str], Finding] = {}
    reached: set[Item] = set()
    walked = completed = unfinished = turns = 0
    known: Mapping[str, Value] = {}
    while walked < walks and time.monotonic() < until:
        chance = random.Random(f"{seed}:{walked}")  # noqa: S311  (chance, not secrets)
        variables = {**(known if chance.random() < GLOBALS_KEPT else {}), **_arms(script.program, chance)}
        path = await _walk(script.program, chance, words, seed + walked, variables)
        walked += 1
        turns += len(path.turns)
        done = bool(path.turns) and path.turns[-1].state.status == "completed"
        completed += done
        unfinished += not done and path.finding is None
        known = path.globals or known
        reached |= reached_by(script.program, path.turns)
        if path.finding is not None:
            _note(found, path.finding)
        tick()
    findings = [await smallest(script.program, each, until) for each in itertools.islice(found.values(), FINDINGS_MAX)]
    return Walks(script, walks, walked, completed, unfinished, turns, tuple(findings), frozenset(reached))


def _arms(program: Program, chance: random.Random) -> dict[str, Value]:
    """An arm for each experiment, or none, which then is drawn: so that no arm is left out by one visitor's luck."""
    drawn = {id: chance.choice([None, *plan.names]) for id, plan in program.experiments.items()}
    return {id: arm for id, arm in drawn.items() if arm is not None}


def _note(found: dict[tuple[str, str], Finding], finding: Finding) -> None:
    """Counts a finding, and keeps the shortest way to it."""
    key = (finding.kind, finding.place)
    before = found.get(key, finding)
    best = min(before, finding, key=lambda each: (len(each.inputs), len(each.variables)))
    found[key] = structs.replace(best, times=before.times + (key in found))


async def _walk(
    program: Program, chance: random.Random, words: Words, seed: int, variables: Mapping[str, Value]
) -> _Path:
    inputs: list[Input] = []

    def chosen(state: State) -> Input | None:
        if len(inputs) >= TURNS_MAX:
            return None
        inputs.append(answer(chance, program, state, words, now().date()))
        return inputs[-1]

    player, finding = await go(program, seed, variables, words, chosen, lambda _: SAME_MAX)
    cells = {name: cell.value for name, cell in player.state.global_cells.items()}
    if finding is not None:
        finding = structs.replace(finding, inputs=tuple(inputs))
    return _Path(tuple(played.turn for played in player.played), tuple(inputs), finding, cells)
