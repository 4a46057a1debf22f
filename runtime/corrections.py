"""Correcting an earlier answer: what was asked, what it is now, and what the script had computed from it."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from runtime.actions.asking import typed_as_declared
from runtime.actions.choosing import as_output
from runtime.form_answers import as_named_output
from runtime.program import PlaceLost
from runtime.run import Run
from runtime.state import Cell
from scripts.actions import Action, AiAsk, AiThink, Ask, Choose, Form, Set
from scripts.expressions import compile_expression
from scripts.members import BUILTINS
from scripts.model import FormField, Scope
from scripts.nodes import Expression
from scripts.values import Value
from scripts.variables import Assignment, Output


class Answered(Struct, frozen=True):
    """A variable that an answer filled: where it is kept, by which action, and what the question asked for."""

    scope: Scope
    by: tuple[str, str, str]
    output: Output


def answered(run: Run) -> dict[str, Answered]:
    """The variables in sight that answers of the user filled, by name."""
    found = {}
    for name, scope in run.scopes.in_sight().items():
        cell = run.scopes.cells(scope)[name]
        output = _asked(run, _writer(run, cell), name)
        if cell.by is not None and output is not None:
            found[name] = Answered(scope, cell.by, typed_as_declared(run, output))
    return found


def _writer(run: Run, cell: Cell) -> Action | None:
    try:
        return run.program.action(*cell.by) if cell.by is not None else None
    except PlaceLost:  # the session has moved to a version without it
        return None


def _asked(run: Run, action: Action | None, name: str) -> Output | None:
    match action:
        case Form():
            field = _field(run, action, name)
            return as_named_output(run, field) if field is not None and field.computed is None else None
        case Ask() | AiAsk() | AiThink():
            outputs = (item for item in action.outputs if isinstance(item, Output))
            return next((output for output in outputs if output.get == name), None)
        case Choose() if all(choice.value is None for choice in action.choices):
            return as_output(action)
        case _:
            return None


def _field(run: Run, action: Form, name: str) -> FormField | None:
    sheet = run.program.forms.get(action.sheet)
    return next((field for field in sheet.fields if field.name == name), None) if sheet is not None else None


def correct(run: Run, values: Mapping[str, tuple[Answered, Value]]) -> list[str]:
    """Writes the new values and works out anew what depends on them; the names of everything that changed."""
    for name, (given, value) in values.items():
        run.assign_in(given.scope, name, value, "user", given.by, given.output)
    changed = list(values)
    computed = sorted(_computed(run), key=lambda each: each[1].last_updated)
    for _ in computed:  # what depends on what depends …: each is worked out at most once
        due = [each for each in computed if each[0] not in changed and each[3].intersection(changed)]
        if not due:
            break
        for name, cell, expression, _reads in due:
            changed.append(name)
            found = run.scopes.cell(name)
            if found is not None and found[1] is cell:
                run.assign_in(found[0], name, run.value(expression), "script", cell.by, _worked_out(run, cell, name))
    return changed


def _computed(run: Run) -> Iterator[tuple[str, Cell, Expression, frozenset[str]]]:
    """The variables in sight that the script computed from others that still have a value here."""
    in_sight = run.scopes.in_sight()
    for name, scope in in_sight.items():
        cell = run.scopes.cells(scope)[name]
        expression = _expression(run, _writer(run, cell), name) if cell.source == "script" else None
        if expression is None:
            continue
        reads = compile_expression(expression.source).reads
        # one that counts on from its own value would count twice
        if name not in reads and all(read in in_sight or run.scopes.find(read) for read in reads - BUILTINS):
            yield name, cell, expression, reads


def _worked_out(run: Run, cell: Cell, name: str) -> Output | None:
    """The computed field of a form that a variable is, which may name a type."""
    action = _writer(run, cell)
    field = _field(run, action, name) if isinstance(action, Form) else None
    return as_named_output(run, field) if field is not None else None


def _expression(run: Run, action: Action | None, name: str) -> Expression | None:
    match action:
        case Form():
            field = _field(run, action, name)
            return field.computed if field is not None else None
        case Set():
            return action.assignments.get(name)
        case Ask() | AiAsk() | AiThink():
            found = (item for item in action.outputs if isinstance(item, Assignment) and item.set == name)
            return next((item.value for item in found if item.when is None), None)
        case _:
            return None
