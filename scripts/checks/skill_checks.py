"""Check the calls of skills by skills."""

from collections.abc import Iterator, Mapping, Sequence

from scripts.model.actions import Call, walk
from scripts.model.diagnostics import Fault
from scripts.model.script import Skill


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
