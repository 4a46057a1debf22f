"""A finding made small: the replies that are not needed for it left out, and the rest written as a case.

Delta debugging, after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs

from api.cases.answers import Words, words_of
from api.cases.finding import Finding, go
from api.cases.model import Prepared
from runtime.inputs import Chosen, Filled, Input, InputRefused, Reply
from runtime.program import Program
from runtime.state import State
from scripts.actions import ROUNDS_MAX
from scripts.values import Value

SAME_SHOWN = ROUNDS_MAX  # so many replies in vain cannot be the rounds of one question
REPLAYS_MAX = 400


async def smallest(program: Program, finding: Finding, until: float) -> Finding:
    """The same finding with as few replies and variables, and as short ones, as still lead to it."""
    replays = itertools.count()
    words = words_of(program.script)

    async def shows(inputs: tuple[Input, ...], variables: Mapping[str, Value]) -> Finding | None:
        if next(replays) >= REPLAYS_MAX or time.monotonic() > until:
            return None
        return await _replayed(program, words, finding, inputs, variables)

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
    for at, given in enumerate(best.inputs):
        for simpler in _simpler(given):
            changed = await shows((*best.inputs[:at], simpler, *best.inputs[at + 1 :]), best.variables)
            if changed is not None and len(changed.inputs) == len(best.inputs):
                best = changed
                break
    return structs.replace(best, times=finding.times)


async def _replayed(
    program: Program, words: Words, finding: Finding, inputs: tuple[Input, ...], variables: Mapping[str, Value]
) -> Finding | None:
    """The finding again, with only the replies taken until then; None where these do not lead to it."""
    taken: list[Input] = []
    left: Iterator[Input] = iter(inputs)

    def following(_: State) -> Input | None:
        given = next(left, None)
        if given is not None:
            taken.append(given)
        return given

    def same_max(place: str) -> float:
        return SAME_SHOWN if finding.kind == "stuck" and place == finding.place else math.inf

    try:
        _, again = await go(program, finding.seed, variables, words, following, same_max)
    except InputRefused:
        return None
    if again is None or (again.kind, again.place) != (finding.kind, finding.place):
        return None
    return structs.replace(again, inputs=tuple(taken))


def _simpler(given: Input) -> Iterator[Input]:
    if isinstance(given, Filled):
        yield from (Filled({name: given.values[name]}) for name in given.values if len(given.values) > 1)
    if isinstance(given, Reply):
        yield from (Reply(text) for text in ("ok", "1", "yes") if len(text) < len(given.content))


# -- as a case --------------------------------------------------------------------------------------------------------


def case_text(script: Prepared, finding: Finding) -> str:
    """The finding as a case file, to be saved in the folder the command ran in; it fails until the script is mended."""
    words = {"failed": "fails", "broken": "breaks the machine", "stuck": "never leads away"}
    lines = [
        f"script: {_quoted(str(script.path))}",
        "cases:",
        f"  - name: {_quoted(f'{finding.place} {words[finding.kind]}')}",
        f"    seed: {finding.seed}",
    ]
    if finding.variables:
        lines.append(f"    variables: {_quoted(finding.variables)}")
    lines += ["    turns:", "      - {}", *(f"      - {_turn(given)}" for given in finding.inputs)]
    stuck = finding.kind == "stuck"
    lines += ["    end: {status: completed}" if stuck else "    end: {status: null} # wherever it leads, once mended"]
    return "\n".join([*lines, "    warnings: null", ""])


def _turn(given: Input) -> str:
    if isinstance(given, Chosen):
        return f"choose: {_quoted(given.choice)}"
    if isinstance(given, Filled):
        return f"form: {_quoted(given.values)}"
    return f"say: {_quoted(given.content) if isinstance(given, Reply) else ''}"


def _quoted(value: object) -> str:
    """JSON, which YAML reads as it is meant."""
    return msgspec.json.encode(value).decode()
