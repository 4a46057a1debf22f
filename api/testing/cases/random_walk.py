"""Random walks: random conversations that search for failing turns and for positions without a way out.

A finding is shrunk to the replies that it needs by delta debugging, after Zeller and Hildebrandt, "Simplifying and
Isolating Failure-Inducing Input" (2002), and written as a case.
"""

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from copy import copy
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from api.testing.cases.case_model import NOON, PreparedScript
from api.testing.cases.case_run import CaseRunFailed, step
from api.testing.cases.coverage import Item, items_reached
from api.testing.cases.walk_replies import ScriptValues, answer, script_values_of
from api.testing.player import Player
from runtime.engine.engine import TurnFailed
from runtime.models.offline_model import OfflineModel
from runtime.state.events import ScopeEntered, Warned
from runtime.state.inputs import ChoiceInput, FormInput, Input, InputRefused, Reply, Start, TimerDue
from runtime.state.limits import Limits
from runtime.state.program import Program
from runtime.state.state import State
from scripts.expressions.values import Value
from scripts.model.actions import ROUNDS_MAX
from scripts.model.moments import parse_duration

TURNS_MAX = 200  # per walk
SAME_MAX = 40  # replies at one position without progress, before a search for a way out
FINDINGS_MAX = 20  # per script
GLOBALS_MAX = 0.3  # share of walks by a returning user


Replies: TypeAlias = Callable[[State], Input | None]
"""Returns the reply to what a session waits for, or None to stop."""
FindingKind: TypeAlias = Literal["failed", "broken", "stuck", "warned"]
NOW = datetime.fromisoformat(NOON)
LIMITS = Limits(turn_s=20)
TRIES = 4
REPLIES_TRIED = 40  # in each attempt
SAME_SHOWN = ROUNDS_MAX  # more replies without progress than the rounds of one question
REPLAYS_MAX = 400


class WalkFinding(Struct, frozen=True):
    """A failure, dead end or failed expression at a position of a script, with the replies that lead there.

    `times` counts the walks.
    """

    kind: FindingKind
    place: str
    message: str
    seed: int
    variables: Mapping[str, Value]
    inputs: tuple[Input, ...]
    times: int = 1


class RandomWalks(Struct, frozen=True):
    """The results of random walks through a script. `unfinished`: not at the end after `TURNS_MAX` turns, not stuck."""

    script: PreparedScript
    requested: int
    walked: int
    completed: int
    unfinished: int
    turns: int
    findings: tuple[WalkFinding, ...]
    reached: frozenset[Item]


async def walk_script(
    script: PreparedScript, walks: int, seed: int, *, until: float, tick: Callable[[], None] = lambda: None
) -> RandomWalks:
    """Run random walks through a script, reproducible by `seed`. Stop early when `time.monotonic()` passes `until`.

    `tick` is called after each walk.
    """
    walker = _Walker(script.program, script_values_of(script.program.script))
    found: dict[tuple[str, str], WalkFinding] = {}
    reached: set[Item] = set()
    walked = completed = unfinished = turns = 0
    known: Mapping[str, Value] = {}
    while walked < walks and time.monotonic() < until:
        chance = random.Random(f"{seed}:{walked}")  # noqa: S311  (chance, not secrets)
        variables = {**(known if chance.random() < GLOBALS_MAX else {}), **_arms(script.program, chance)}
        player, findings = await walker.run(seed + walked, variables, walker.replies(chance), lambda _: SAME_MAX)
        walked += 1
        turns += len(player.played)
        done = player.state.status == "completed"
        completed += done
        unfinished += not done and all(each.kind == "warned" for each in findings)
        known = {name: cell.value for name, cell in player.state.global_cells.items()} or known
        reached |= items_reached(script.program, (played.turn for played in player.played))
        for finding in findings:
            _note(found, finding)
        tick()
    shrunk = [await walker.shrink(each, until) for each in itertools.islice(found.values(), FINDINGS_MAX)]
    return RandomWalks(script, walks, walked, completed, unfinished, turns, tuple(shrunk), frozenset(reached))


def _arms(program: Program, chance: random.Random) -> dict[str, Value]:
    """Choose an arm for each experiment, or leave it to the engine, so that walks reach all arms."""
    drawn = {id: chance.choice([None, *plan.names]) for id, plan in program.experiments.items()}
    return {id: arm for id, arm in drawn.items() if arm is not None}


def _note(found: dict[tuple[str, str], WalkFinding], finding: WalkFinding) -> None:
    """Count a finding, and store the shortest path to it."""
    key = (finding.kind, finding.place)
    before = found.get(key, finding)
    best = min(before, finding, key=lambda each: (len(each.inputs), len(each.variables)))
    found[key] = structs.replace(best, times=before.times + (key in found))


class _Walker(Struct, frozen=True):
    """Runs sessions of one script; `words` are the values that its conditions compare with."""

    program: Program
    words: ScriptValues

    def replies(self, chance: random.Random) -> Replies:
        """Return a function that draws replies at random, at most TURNS_MAX."""
        return lambda state: self._answer(chance, state) if state.turn < TURNS_MAX else None

    def _answer(self, chance: random.Random, state: State) -> Input:
        return answer(chance, self.program, state, self.words, NOW.date())

    # -- one session --------------------------------------------------------------------------------------------------

    async def run(
        self, seed: int, variables: Mapping[str, Value], replies: Replies, same_max: Callable[[str], float]
    ) -> tuple[Player, list[WalkFinding]]:
        """Run a session with these replies, up to its end, a failure or dead end, or the last reply.

        `same_max` is the number of waits at one position before the search for a way out; blank replies, which change
        nothing, do not count. Return the player and the findings: that at which it stopped, and the first failed
        expression of each place. Raises InputRefused.
        """
        numbers = itertools.count(1)
        state = State(seed, self.program.locale, "visitor", start_variables=dict(variables))
        player = Player(self.program, state, OfflineModel(), lambda: NOW, lambda: f"m{next(numbers)}", LIMITS)
        inputs: list[Input] = []
        stop = await self._play(player, inputs, replies, same_max)
        found = [
            WalkFinding("warned", place, message, seed, variables, tuple(inputs[:turn]))
            for turn, place, message in _failed_expressions(player)
        ]
        if stop is not None:
            found.append(WalkFinding(*stop, seed, variables, tuple(inputs)))
        return player, list({(each.kind, each.place): each for each in reversed(found)}.values())

    async def _play(
        self, player: Player, inputs: list[Input], replies: Replies, same_max: Callable[[str], float]
    ) -> tuple[FindingKind, str, str] | None:
        """Play a session and add its replies to `inputs`; return kind, place and message of what stops it."""
        seen: Counter[tuple[object, ...]] = Counter()
        turn_input: Input | None = Start()
        while turn_input is not None:
            try:
                await step(player, turn_input)
            except TurnFailed as failed:
                return "failed", "/".join(failed.place), str(failed)
            except CaseRunFailed as broken:
                return "broken", place_of(player.state), str(broken)
            if player.state.wait is None:
                return None
            at, exactly = place_of(player.state), _exactly(player.state)
            seen[exactly] += not (isinstance(turn_input, Reply) and not turn_input.content.strip())
            if seen[exactly] > same_max(at):
                if not await self._leads_away(player, seen.keys()):
                    return "stuck", at, "none of the tried replies leads away from here"
                seen[exactly] = 0
            turn_input = replies(player.state)
            inputs += [] if turn_input is None else [turn_input]
        return None

    async def _leads_away(self, player: Player, known: Set[tuple[object, ...]]) -> bool:
        """Return whether some replies lead to the end, to a failure, or to a position where the session has not
        waited.
        """
        for attempt in range(TRIES):
            chance = random.Random(f"{player.state.seed}:{player.state.turn}:{attempt}")  # noqa: S311  (no secrets)
            trial = copy(player)
            trial.played = []
            for _ in range(REPLIES_TRIED):
                try:
                    await step(trial, self._answer(chance, trial.state))
                except (TurnFailed, CaseRunFailed):
                    return True
                if trial.state.wait is None or _exactly(trial.state) not in known:
                    return True
        return False

    # -- shrinking ----------------------------------------------------------------------------------------------------

    async def shrink(self, finding: WalkFinding, until: float) -> WalkFinding:
        """Return the same finding with the fewest and shortest replies and variables that reproduce it."""
        replays = itertools.count()

        async def shows(inputs: tuple[Input, ...], variables: Mapping[str, Value]) -> WalkFinding | None:
            if next(replays) >= REPLAYS_MAX or time.monotonic() > until:
                return None
            return await self._replay(finding, inputs, variables)

        best = await shows(finding.inputs, finding.variables) or finding
        if best.variables:
            best = await shows(best.inputs, {}) or best
        size = max(1, len(best.inputs) // 2)
        while size:
            at = 0
            while at < len(best.inputs):
                fewer = await shows(best.inputs[:at] + best.inputs[at + size :], best.variables)
                best, at = (fewer, at) if fewer is not None else (best, at + size)
            size //= 2
        for at, reply in enumerate(best.inputs):
            for simpler in _simpler(reply):
                changed = await shows((*best.inputs[:at], simpler, *best.inputs[at + 1 :]), best.variables)
                if changed is not None and len(changed.inputs) == len(best.inputs):
                    best = changed
                    break
        return structs.replace(best, times=finding.times)

    async def _replay(
        self, finding: WalkFinding, inputs: tuple[Input, ...], variables: Mapping[str, Value]
    ) -> WalkFinding | None:
        """Replay the inputs; return the finding with only the used replies, or None if they do not reproduce it."""
        left: Iterator[Input] = iter(inputs)

        def same_max(place: str) -> float:
            return SAME_SHOWN if finding.kind == "stuck" and place == finding.place else math.inf

        try:
            _, found = await self.run(finding.seed, variables, lambda _: next(left, None), same_max)
        except InputRefused:
            return None
        return next((each for each in found if (each.kind, each.place) == (finding.kind, finding.place)), None)


def _failed_expressions(player: Player) -> Iterator[tuple[int, str, str]]:
    """Yield the turn, place and message of each expression that failed in a session."""
    phase = topic = ""
    for number, played in enumerate(player.played):
        for body in (event.body for event in played.turn.events):
            match body:
                case ScopeEntered(scope="phase"):
                    phase, topic = body.id, ""
                case ScopeEntered():
                    topic = body.id
                case Warned(code="expression_failed"):
                    yield number, "/".join(part for part in (phase, topic, body.action_id) if part), body.message
                case _:
                    pass


def _exactly(state: State) -> tuple[object, ...]:
    """Return the exact position of a session; each item of a `foreach` is one, but not each pass of a `repeat`."""
    frames = tuple((frame.block, frame.action, frame.passes if frame.items else 0) for frame in state.frames)
    return state.phase, state.topic, frames


def place_of(state: State) -> str:
    """``phase/topic/action``"""
    action = state.frames[-1].action if state.frames else ""
    return "/".join(part for part in (state.phase, state.topic, action) if part)


def _simpler(reply: Input) -> Iterator[Input]:
    if isinstance(reply, FormInput):
        yield from (FormInput({name: reply.values[name]}) for name in reply.values if len(reply.values) > 1)
    if isinstance(reply, Reply):
        yield from (Reply(text) for text in ("ok", "1", "yes") if len(text) < len(reply.content))


# -- as a case --------------------------------------------------------------------------------------------------------


def case_text(script: PreparedScript, finding: WalkFinding) -> str:
    """Return the finding as a case file, relative to the working folder; it fails until the script is fixed."""
    words = {
        "failed": "fails",
        "broken": "breaks the engine",
        "stuck": "never leads away",
        "warned": "has an expression that fails",
    }
    lines = [
        f"script: {_quote(str(script.path))}",
        "cases:",
        f"  - name: {_quote(f'{finding.place} {words[finding.kind]}')}",
        f"    seed: {finding.seed}",
    ]
    if finding.variables:
        lines.append(f"    variables: {_quote(finding.variables)}")
    lines += ["    turns:", "      - {}", *(f"      - {_turn(reply)}" for reply in finding.inputs)]
    stuck = finding.kind == "stuck"
    lines += ["    end: {status: completed}" if stuck else "    end: {status: null} # adapt it after fixing the script"]
    return "\n".join([*lines, f"    warnings: {'[]' if finding.kind == 'warned' else 'null'}", ""])


def _turn(reply: Input) -> str:
    if isinstance(reply, TimerDue):  # the id ends with the moment
        written = reply.timer_id.rpartition(":")[2]
        return f"pass: {written if parse_duration(written) is not None else '7 days'}"
    if isinstance(reply, ChoiceInput):
        return f"choose: {_quote(reply.choice)}"
    if isinstance(reply, FormInput):
        return f"form: {_quote(reply.values)}"
    return f"say: {_quote(reply.content) if isinstance(reply, Reply) else ''}"


def _quote(value: object) -> str:
    """Return a value as JSON, which is valid YAML."""
    return msgspec.json.encode(value).decode()
