"""Whether what a case names is there in its script: phases, topics, actions and variables."""

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from api.cases.model import Case, CaseTurn, Keys, key_place, place
from runtime.program import Program
from scripts.actions import Call, Choose, Recall, Set, walk
from scripts.experiments import ExperimentPlan
from scripts.model import FormField, Script
from scripts.reader import Reader
from scripts.source import Tree
from scripts.suggest import suggest
from scripts.variables import Assignment, Declaration, Output, Records

THE_END = "the end"


class _Names(Struct, frozen=True):
    """What a script has. `places` are whole paths, also those of what a skill does while a topic calls it."""

    places: frozenset[str]
    nodes: frozenset[str]
    actions: frozenset[str]
    variables: frozenset[str]


def check_names(case: Case, tree: Tree, program: Program, reader: Reader) -> None:
    """Reports every name of a case that its script does not have. `tree` is the case as written."""
    names = _names_of(program.script)
    variables = names.variables | case.variables.keys()
    for index, turn in enumerate(case.turns):
        _check_turn(turn, tree, ("turns", index), names, reader)
        _check_variables(turn.variables, tree, ("turns", index, "variables"), variables, reader)
    for name in case.replies:
        if name.removesuffix(".extract") not in names.actions:
            message = f"the script has no action {name}"
            where = key_place(tree, "replies", name)
            reader.add("ENUM_VALUE_INVALID", message, where, suggest(name, sorted(names.actions)))
    end = case.end
    scopes = {"global": end.scopes.global_scope, "session": end.scopes.session}
    scopes |= {"phase": end.scopes.phase, "topic": end.scopes.topic}
    _check_variables(end.variables, tree, ("end", "variables"), variables, reader)
    for scope, expected in scopes.items():
        _check_variables(expected, tree, ("end", "scopes", scope), variables, reader)


def _check_turn(turn: CaseTurn, tree: Tree, keys: Keys, names: _Names, reader: Reader) -> None:
    at = turn.position
    if at is not None and at not in names.places:
        message = f"the script has no place {at}"
        reader.add("ENUM_VALUE_INVALID", message, place(tree, *keys, "at"), suggest(at, sorted(names.places)))
    for index, each in enumerate(turn.skipped or ()):
        if each not in names.nodes:
            message = f"the script has no phase, topic or action {each}"
            where = place(tree, *keys, "skipped", index)
            reader.add("ENUM_VALUE_INVALID", message, where, suggest(each, sorted(names.nodes)))


def _check_variables(
    expected: Mapping[str, object], tree: Tree, keys: Keys, known: frozenset[str], reader: Reader
) -> None:
    """A warning only: the application may set a variable that no script mentions."""
    for name in expected:
        if name not in known:
            fix = suggest(name, sorted(known), otherwise="Correct the spelling, or remove it.")
            reader.add("VARIABLE_NEVER_SET", f"nothing sets `{name}`", key_place(tree, *keys, name), fix)


def names_of(script: Script) -> frozenset[str]:
    """The variables that a script declares, takes or sets anywhere."""
    return frozenset(_variables(script))


def _names_of(script: Script) -> _Names:
    lists = [*(skill.actions for skill in script.skills), *(each.actions for each in script.interrupts)]
    in_skills = {action.id for actions in lists for action in walk(actions)}  # they run within a topic
    places = {THE_END}
    nodes = set(in_skills)
    for phase in script.phases:
        nodes.add(phase.id)
        for topic in phase.topics:
            inside = {action.id for action in walk(topic.actions)}
            nodes |= {topic.id} | inside
            places |= {f"{phase.id}/{topic.id}/{each}" for each in inside | in_skills}
    actions = {action.id for phase in script.phases for topic in phase.topics for action in walk(topic.actions)}
    return _Names(frozenset(places), frozenset(nodes), frozenset(actions | in_skills), names_of(script))


def _variables(part: object) -> Iterator[str]:
    match part:
        case Declaration():
            yield part.var
        case Output():
            yield part.get
        case Assignment():
            yield part.set
        case Choose():
            yield part.variable
        case FormField():
            yield part.name
        case ExperimentPlan():
            yield part.id
        case Records():
            yield part.tolist
        case Set():
            yield from part.assignments
        case Call():
            yield from part.assigned
        case Recall():
            yield part.into
        case _:
            pass
    if isinstance(part, Struct):
        for name, value in structs.asdict(part).items():
            if name not in {"at", "marks"}:
                yield from _variables(value)
    elif isinstance(part, tuple | dict):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _variables(each)
