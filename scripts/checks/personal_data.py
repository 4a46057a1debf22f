"""Find the personal variables of a script (`pii: true`), the actions that ask for them, and copies of their values."""

from collections.abc import Iterator, Mapping

from scripts.model.actions import Action, Add, Call, Choose, Form, Set, outputs_of
from scripts.model.base import Expression
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, all_actions, all_declarations
from scripts.model.variables import Assignment, Output


def personal_names(script: Script) -> frozenset[str]:
    """Return the names of personal variables. A name that is personal anywhere is personal in the whole script,
    because a value may move from one scope to another under the same name.
    """
    return frozenset(each.var for each in all_declarations(script) if each.pii)


def asking(script: Script, names: frozenset[str]) -> Mapping[str, str]:
    """Return, by action id, the first of these variables that each action asks for."""
    forms = {sheet.id: tuple(each.name for each in sheet.fields) for sheet in script.forms}
    found: dict[str, str] = {}
    for action in all_actions(script):
        name = next((name for name in _asked_names(action, forms) if name in names), None)
        if name is not None:
            found.setdefault(action.id, name)
    return found


def choices(script: Script, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the choices of these variables and their labels. If a text masks one of several choices, it must mask
    all of them, otherwise the missing one would reveal the value.
    """
    for declared in all_declarations(script):
        if declared.var in names:
            yield from ((declared.var, choice) for choice in declared.choices)
    for sheet in script.forms:
        for each in sheet.fields:
            if each.name in names:
                yield from ((each.name, text) for text in (*each.choices, *each.labels.values()))
    for action in all_actions(script):
        if isinstance(action, Choose) and action.variable in names:
            yield from ((action.variable, text) for item in action.fixed for text in (item.key, item.text.source))
        for output in outputs_of(action):
            if isinstance(output, Output) and output.get in names:
                yield from ((output.get, text) for text in (*output.choices, *output.labels.values()))


def _asked_names(action: Action, forms: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    yield from (item.variable for item in outputs_of(action) if not isinstance(item, Assignment))
    if isinstance(action, Choose):
        yield action.variable
    if isinstance(action, Form):
        yield from forms.get(action.sheet, ())


# -- copies ----------------------------------------------------------------------------------------------------------


def check_copies(script: Script, problems: Problems) -> None:
    """Add a problem for each variable that gets a personal value but is not personal. Its value is masked only where
    the personal value occurs in it literally, which is not the case for a computed date or number.
    """
    names = personal_names(script)
    if not names:
        return
    written = [(action.id, *each) for action in all_actions(script) for each in _writes(action)]
    fields = ((sheet.id, field) for sheet in script.forms for field in sheet.fields)
    values = ((place, field.name, value) for place, field in fields for value in (field.computed, field.default))
    written += [(place, name, value) for place, name, value in values if isinstance(value, Expression)]
    for place, target, value in written:
        source = None if target in names else min(value.facts.carried & names, default=None)
        if source is not None:
            message = f"`{target}` is derived from the personal variable `{source}` but is not personal itself"
            problems.add("PERSONAL_COPIED", message, value.at, path=place)


def _writes(action: Action) -> Iterator[tuple[str, Expression]]:
    match action:
        case Set():
            yield from action.assignments.items()
        case Add():
            yield from action.additions.items()
        case Call():
            yield from action.input.items()
    for item in outputs_of(action):
        if isinstance(item, Assignment):
            yield item.set, item.value
        elif isinstance(item, Output) and isinstance(item.default, Expression):
            yield item.get, item.default
