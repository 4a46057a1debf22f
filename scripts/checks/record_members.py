"""Check the members of records: what nothing writes to a variable's records, none of its records has."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from scripts.checks.abstract_state import Level, Sight
from scripts.checks.control_flow import ControlFlowGraph
from scripts.checks.effects import Each, LoopBack, Read, effect_of, inner_lists
from scripts.checks.tool_checks import kind_of_result
from scripts.checks.type_check import Cell, cell_of
from scripts.expressions.members import FAILURE, KINDS, Kind, joined, kind_of_value, list_kind, record_kind
from scripts.model import actions
from scripts.model.actions import Action, outputs_of, walk
from scripts.model.base import Expression, Template
from scripts.model.diagnostics import Problems
from scripts.model.script import FormDefinition, Script, Skill
from scripts.model.variables import Assignment, Declaration, Records

Kinds: TypeAlias = Mapping[str, Kind]
"""The kinds of the values of names, as far as they are known."""


def check_members(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each member that no write gives the records of a list or variable."""
    cells = _cells(layout)
    names = {name for _, _, name in cells}
    for node, body in layout.bodies():
        kinds = {name: kind for name in names if (kind := cells.get(cell_of(layout, node, name))) is not None}
        for source, known in _sources(body.actions, kinds, layout.script.forms):
            for fault in source.compiled.unknown_members(known):
                at, path = source.at.below(fault.line - 1), layout.path(node)
                problems.add("MEMBER_UNKNOWN", fault.message, at, path=path, fix=fault.fix, severity="warning")


# -- what is written --------------------------------------------------------------------------------------------------


def _cells(layout: ControlFlowGraph) -> dict[Cell, Kind]:
    """Return the kinds of the variables whose writes are all known; global variables have writers elsewhere."""
    found: dict[Cell, list[Kind | None]] = defaultdict(list)
    script = layout.script
    for node, body in layout.bodies():
        sight = layout.sight(node)
        for action in walk(body.actions):
            for name, kind in _writes(action, script, sight):
                found[cell_of(layout, node, name)].append(kind)
        for each in sight.declared:
            is_open = each.auto or (isinstance(body, Skill) and each in body.params)
            if is_open or each.value is not None:
                found[cell_of(layout, node, each.var)].append(None if is_open else kind_of_value(each.value))
    aside = (*(each.actions for each in script.interrupts), *(each.actions for each in script.watchers))
    for action in (action for each in aside for action in walk(each)):
        for name, _ in effect_of(action, script.forms).written:
            found[Level.SESSION, "", name].append(None)
    known = {cell: joined(kinds) for cell, kinds in found.items() if cell[0] is not Level.GLOBAL}
    return {cell: kind for cell, kind in known.items() if kind is not None and (kind.item or kind).members}


def _writes(action: Action, script: Script, sight: Sight) -> Iterator[tuple[str, Kind | None]]:
    """Yield the variables that an action writes, each with the kind of its value, None if that is unknown."""
    known: dict[str, Kind | None] = {}
    match action:
        case actions.Set():
            known = {name: _kind(value, {}) for name, value in action.assignments.items()}
        case actions.Add():
            known = {name: list_kind(_kind(value, {})) for name, value in action.additions.items()}
        case actions.Recall():
            known = {action.into: _recalled(sight.declaration(action.into))}
        case actions.Call(loop=actions.Loop(items=items)) if items.source.isidentifier():
            known = {items.source: list_kind(record_kind(action.output))}
        case actions.Call(loop=None):
            returns = [name for skill in script.skills if skill.id == action.skill for name in skill.returns]
            known = {name: record_kind(returns) for name, result in action.output.items() if not result}
        case actions.CallTool(into=actions.Into(variables=variables)):
            tools = [tool for tool in script.tools if tool.id == action.tool]
            known = {name: kind_of_result(tool.result, part) for tool in tools for name, part in variables.items()}
        case actions.Form():
            fields = (field for form in script.forms if form.id == action.sheet for field in form.fields)
            tables = {field.name: field.columns for field in fields if field.columns}
            known = {name: list_kind(record_kind(each.name for each in columns)) for name, columns in tables.items()}
        case _:
            pass
    for item in outputs_of(action):
        if isinstance(item, Records):
            known[item.tolist] = list_kind(record_kind(each.get for each in item.fields))
        elif isinstance(item, Assignment):
            known[item.set] = _kind(item.value, {})
    yield from known.items()
    yield from ((name, None) for name, _ in effect_of(action, script.forms).written if name not in known)


def _recalled(declared: Declaration | None) -> Kind | None:
    """Return the kind of what a search of the memory stores: its best result in a record, all in a list."""
    units = KINDS["recall"].returns
    kind = None if declared is None else declared.kind
    if units is None or kind not in {None, "list", "record"}:
        return None
    return units.item if kind == "record" else units


def _kind(expression: Expression, kinds: Kinds) -> Kind | None:
    return expression.compiled.kind(kinds)


# -- what is read -----------------------------------------------------------------------------------------------------


def _sources(
    actions: tuple[Action, ...], kinds: Kinds, forms: tuple[FormDefinition, ...]
) -> Iterator[tuple[Template | Expression, Kinds]]:
    """Yield every text and expression of a list of actions, with the kinds of the names in it."""
    for action in actions:
        effect = effect_of(action, forms)
        if action.when is not None:
            yield action.when, kinds
        loops = _loops(action, kinds)
        for step in effect.steps:
            if isinstance(step, Read):
                yield step.source, _within(kinds, {name: loops.get(name) for name in step.at_hand})
            elif step.value is not None:
                yield step.value, kinds
        inner = kinds
        if isinstance(effect.body, LoopBack) and effect.body.until is not None:
            yield effect.body.until, kinds
        if isinstance(effect.body, Each):
            loop = effect.body.loop
            inner = _within(kinds, {loop.name: None if loop.name == FAILURE else _item(loop, kinds)})
        for each in inner_lists(effect.body):
            yield from _sources(each, inner, forms)
        yield from _sources(effect.failing, kinds, forms)


def _loops(action: Action, kinds: Kinds) -> Mapping[str, Kind | None]:
    """Return the kinds of the items that an action names for its own texts and expressions."""
    match action:
        case actions.Choose():
            loops = [choice.loop for choice in action.choices if isinstance(choice, actions.ListedChoices)]
        case actions.Call(loop=actions.Loop() as loop):
            loops = [loop]
        case _:
            loops = []
    return {loop.name: _item(loop, kinds) for loop in loops}


def _item(loop: actions.Loop, kinds: Kinds) -> Kind | None:
    found = _kind(loop.items, kinds)
    return None if found is None else found.item


def _within(kinds: Kinds, local: Mapping[str, Kind | None]) -> Kinds:
    """Return the kinds where other names are local; those of None are unknown."""
    known = {name: kind for name, kind in kinds.items() if name not in local}
    return known | {name: kind for name, kind in local.items() if kind is not None}
