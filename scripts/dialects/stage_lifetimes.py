"""How long the variables of a stage-form script live: what a goal declares and a later one reads outlives its goal."""

from collections.abc import Iterator

import msgspec

from scripts.diagnostics import Problems
from scripts.model import Phase, Script, Topic
from scripts.names import read_names
from scripts.variables import Declaration


def with_lifetimes(script: Script, problems: Problems) -> Script:
    """The script with such declarations moved to the session, which a note tells of each."""
    everywhere = {each.var for each in (*script.globals, *script.declare)}
    moved: dict[str, Declaration] = {}
    for each, path in _outlived(script):
        if each.var not in everywhere and each.var not in moved:
            moved[each.var] = each
            message = f"`{each.var}` is read outside of where it is declared, so it lives as long as the session"
            problems.add("CROSS_TOPIC_READ", message, each.mark("var"), path=path)
    if not moved:
        return script
    phases = tuple(_without(phase, moved) for phase in script.phases)
    return msgspec.structs.replace(script, declare=(*script.declare, *moved.values()), phases=phases)


def _outlived(script: Script) -> Iterator[tuple[Declaration, str]]:
    """The declarations of stages and goals whose variable is read elsewhere, where nothing declares it."""
    reads = {(phase.id, topic.id): set(_reads(topic)) for phase in script.phases for topic in phase.topics}
    declared = {(phase.id, topic.id): _names(phase, topic) for phase in script.phases for topic in phase.topics}
    free = {place: names - declared[place] for place, names in reads.items()}
    for phase in script.phases:
        elsewhere = set[str]().union(*(names for place, names in free.items() if place[0] != phase.id))
        for each in phase.declare:
            if each.var in elsewhere:
                yield each, phase.id
        for topic in phase.topics:
            others = set[str]().union(*(names for place, names in free.items() if place != (phase.id, topic.id)))
            yield from ((each, f"{phase.id}/{topic.id}") for each in topic.declare if each.var in others)


def _reads(topic: Topic) -> Iterator[str]:
    if topic.when is not None:
        yield from read_names(topic.when)
    yield from read_names(topic.actions)


def _names(phase: Phase, topic: Topic) -> set[str]:
    return {each.var for each in (*phase.declare, *topic.declare)}


def _without(phase: Phase, moved: dict[str, Declaration]) -> Phase:
    """The phase without the declarations that moved."""
    topics = (msgspec.structs.replace(topic, declare=_kept(topic.declare, moved)) for topic in phase.topics)
    return msgspec.structs.replace(phase, declare=_kept(phase.declare, moved), topics=tuple(topics))


def _kept(declared: tuple[Declaration, ...], moved: dict[str, Declaration]) -> tuple[Declaration, ...]:
    return tuple(each for each in declared if each.var not in moved)
