"""Check for names that hide others, variables that nothing reads, and misspelt members and lists."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from scripts.checks.abstract_state import Level
from scripts.checks.control_flow import ControlFlowGraph, names_written
from scripts.checks.effects import Each, Run, effect_of
from scripts.expressions.analysis import ExpressionInfo
from scripts.expressions.members import KINDS
from scripts.expressions.suggestions import SURE, likeness
from scripts.model.actions import Action, Call, Choose, arms, outputs_of, walk
from scripts.model.base import Location
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, all_actions, all_declarations
from scripts.model.variable_names import reads_below
from scripts.model.variables import Declaration, Records


def check_names(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each name that hides another or is misspelt, and a note for each name that nothing reads."""
    _shadows(layout.script, problems)
    facts = [each.compiled.facts for each in reads_below(layout.script)]
    _misspelt_members(layout, _members_written(layout.script, facts), problems)
    if not any(each.reads_any for each in facts):
        read = {name for each in facts for name in (*each.names, *each.quoted)}
        read |= {name for skill in layout.script.skills for name in skill.returns}
        _unread(layout, read, problems)
        _misspelt_lists(layout, read, problems)


# -- names that hide others ---------------------------------------------------------------------------------------


def _shadows(script: Script, problems: Problems) -> None:
    outer = {each.var: "global" for each in script.global_variables}
    _hiding(script.declare, outer, problems, "")
    session = outer | {each.var: "session" for each in script.session_variables}
    for phase in script.phases:
        _hiding(phase.declare, session, problems, phase.id)
        inside = session | {each.var: "phase" for each in phase.declare}
        for topic in phase.topics:
            path = f"{phase.id}/{topic.id}"
            _hiding(topic.declare, inside, problems, path)
            known = inside | {each.var: "topic" for each in topic.declare}
            known |= dict.fromkeys(set(names_written(topic.actions)) - known.keys(), "topic")
            _hiding_loops(topic.actions, known, problems, path)
    for skill in script.skills:
        own = (*skill.params, *skill.declare)
        # the older formats add declarations that no author wrote, at the location of the skill
        _hiding((each for each in own if each.at != skill.at), outer, problems, skill.id)
        known = outer | dict.fromkeys([*(each.var for each in own), *names_written(skill.actions)], "skill's")
        _hiding_loops(skill.actions, known, problems, skill.id)


def _hiding(declared: Iterable[Declaration], outer: dict[str, str], problems: Problems, path: str) -> None:
    for each in declared:
        if each.var in outer:
            message = f"`{each.var}` hides the {outer[each.var]} variable of the same name"
            problems.add("VARIABLE_SHADOWED", message, each.mark("var"), path=path)


def _hiding_loops(actions: tuple[Action, ...], known: dict[str, str], problems: Problems, path: str) -> None:
    for action in actions:
        body, inside = effect_of(action).body, known
        loop = body.loop if isinstance(body, Each) else body.call.loop if isinstance(body, Run) else None
        if loop is not None:
            inside = known | {loop.name: "loop"}
            if kind := known.get(loop.name):
                message = f"`{loop.name}` hides the {kind} {'name' if kind == 'loop' else 'variable'} of the same name"
                problems.add("VARIABLE_SHADOWED", message, loop.at, path=path)
        for inner in arms(action).values():
            _hiding_loops(inner, inside, problems, path)


# -- members of records ------------------------------------------------------------------------------------------


def _misspelt_members(layout: ControlFlowGraph, known: set[str], problems: Problems) -> None:
    """Report each member that nothing in the script gives a record, if it resembles one that something gives."""
    script = layout.script
    other = {name for kind in KINDS.values() for name in kind.members}
    of_bodies = ((layout.path(node), layout.sources(node)) for node, _ in layout.bodies())
    for path, sources in (*of_bodies, ("", reads_below((script.forms, script.interrupts, script.detectors)))):
        for source in sources:
            for name, line in source.compiled.facts.members:
                meant = max(known, key=partial(likeness, name), default="") if name not in known | other else ""
                if meant and (likeness(name, meant) >= SURE or sorted(name) == sorted(meant)):
                    message, at = f"nothing gives a record the member `{name}`", source.line_at(line)
                    fix = f"Did you mean `{meant}`?"
                    problems.add("MEMBER_UNKNOWN", message, at, path=path, fix=fix, severity="warning")


def _members_written(script: Script, facts: Iterable[ExpressionInfo]) -> set[str]:
    """Return the members that fields, columns, tools, skills and written values give to records."""
    found = {name for each in facts for name in each.keys}
    for action in all_actions(script):
        found |= {field.get for item in outputs_of(action) if isinstance(item, Records) for field in item.fields}
        found |= set(action.output if isinstance(action, Call) else ())
    found |= {name for skill in script.skills for name in skill.returns}
    found |= {column.name for form in script.forms for field in form.fields for column in field.columns}
    values = (*(each.value for each in all_declarations(script)), *(tool.result for tool in script.tools))
    return found | {key for value in values for key in _keys(value)}


def _keys(value: object) -> Iterator[str]:
    """Yield the keys of a value and of those inside it, such as the properties of a JSON Schema."""
    if isinstance(value, dict):
        yield from value
        yield from _keys(list(value.values()))
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


# -- variables that nothing reads --------------------------------------------------------------------------------


def _unread(layout: ControlFlowGraph, read: set[str], problems: Problems) -> None:
    """Add a note for each variable that ends with a phase, topic or skill and that nothing reads."""
    for phase in layout.script.phases:
        answered = {name for topic in phase.topics for name in _answer_names(walk(topic.actions))}
        _note({each.var: each.mark("var") for each in phase.declare}, read | answered, problems, phase.id)
    for node, body in layout.bodies():
        sight = layout.sight(node)
        found = {each.var: each.mark("var") for each in body.declare}
        actions = layout.actions(node)
        for name, at in (written for action in actions for written in effect_of(action).written):
            if sight.declaration(name) is None and sight.key(name)[0] is Level.TOPIC:
                found.setdefault(name, at)
        _note(found, read.union(_answer_names(actions)), problems, layout.path(node))


def _answer_names(actions: Iterable[Action]) -> Iterator[str]:
    """Yield the answers of the user and values computed from them, which are stored whether they are read or not."""
    for action in actions:
        yield from (item.variable for item in outputs_of(action))
        if isinstance(action, Choose):
            yield action.variable


def _note(found: Mapping[str, Location], read: set[str], problems: Problems, path: str) -> None:
    for name, at in found.items():
        if name not in read:
            problems.add("VARIABLE_NEVER_READ", f"nothing reads `{name}` before its scope ends", at, path=path)


def _misspelt_lists(layout: ControlFlowGraph, read: set[str], problems: Problems) -> None:
    """Add a note for each list of records that nothing declares or reads and that resembles a declared list."""
    for node, _ in layout.bodies():
        sight = layout.sight(node)
        lists = [each.var for each in sight.declared if each.kind in {None, "list"}]
        for item in (item for action in layout.actions(node) for item in outputs_of(action)):
            if not isinstance(item, Records) or item.tolist in read or sight.declaration(item.tolist) is not None:
                continue
            meant = max(lists, key=partial(likeness, item.tolist), default="")
            if likeness(item.tolist, meant) >= SURE:
                message, fix = f"nothing declares or reads `{item.tolist}`", f"Did you mean `{meant}`?"
                problems.add("VARIABLE_NEVER_READ", message, item.mark("tolist"), path=layout.path(node), fix=fix)
