"""Check calls: the parameters of skills and tools, the results of skills, and skills that call themselves."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from scripts.expressions.suggestions import colon_fix, stands_for, suggest
from scripts.model.actions import Call, walk
from scripts.model.base import Location
from scripts.model.diagnostics import Fault
from scripts.model.script import Skill
from scripts.model.tools import Given


def skill_faults(call: Call, skill: Skill) -> Iterator[Fault]:
    """Check the parameters and results of a call of a skill."""
    known = [each.var for each in skill.params]
    required = [each.var for each in skill.params if each.required and each.value is None]
    callee, within = f"the skill {skill.id}", "`with`, or to `input` in a file without `cuebook: 1`"
    yield from parameter_faults(callee, call.input, known, required, call.mark("call"), within)
    for name in call.output.values():
        if name and name not in skill.returns:
            fix = suggest(name, list(skill.returns))
            yield Fault("RETURN_UNKNOWN", f"{callee} does not return `{name}`", call.mark("output"), fix)


def parameter_faults(
    callee: str,
    given: Mapping[str, Given],
    known: Collection[str],
    required: Iterable[str],
    at: Location,
    within: str = "`with`",
) -> Iterator[Fault]:
    """Check that a call at `at` gives no unknown parameter, and all required ones; `within` is where they are added."""
    missing = [name for name in required if name not in given]
    for name, value in given.items():
        if name not in known:
            fix = colon_fix(name, known) or suggest(name, list(known))
            yield Fault("PARAMETER_UNKNOWN", f"{callee} has no parameter `{name}`", value.at, fix)
            missing = [each for each in missing if not stands_for(name, each)]
    for name in missing:
        yield Fault("PARAMETER_MISSING", f"{callee} requires `{name}`", at, f"Add `{name}:` to {within}.")


def recursion_faults(skills: Sequence[Skill]) -> Iterator[Fault]:
    """Check that no skill calls itself, directly or through others; each circle of calls is one problem."""
    calls = {skill.id: [each for each in walk(skill.actions) if isinstance(each, Call)] for skill in skills}
    reported: set[str] = set()
    for skill in skills:
        for call in calls[skill.id]:
            way = _way(calls, call.skill, skill.id)
            if way and reported.isdisjoint(way):
                through = f" through {', '.join(way[:-1])}" if way[:-1] else ""
                yield Fault("SKILL_CALLS_ITSELF", f"the skill {skill.id} calls itself{through}", call.mark("call"))
                reported.update(way)


def _way(calls: Mapping[str, Sequence[Call]], begin: str, end: str) -> tuple[str, ...]:
    """Return the skills of a shortest way of calls, with both ends; empty if there is none."""
    ways: list[tuple[str, ...]] = [(begin,)]
    seen = {begin}
    for way in ways:  # grows by each skill once
        if way[-1] == end:
            return way
        for each in calls.get(way[-1], ()):
            if each.skill not in seen:
                seen.add(each.skill)
                ways.append((*way, each.skill))
    return ()
