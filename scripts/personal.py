"""Which variables of a script are personal (`pii: true`), and which of its actions ask for them."""

from collections.abc import Iterator, Mapping

from scripts.actions import Action, AiAsk, AiThink, Ask, Choose, Form
from scripts.model import Script, all_actions, all_declarations
from scripts.variables import Assignment, Output, OutputItem, Records


def personal_names(script: Script) -> frozenset[str]:
    """The names of its personal variables. One that is personal anywhere in the script is so in all of it: a value that
    goes from one scope to another of the same name stays what it is.
    """
    return frozenset(each.var for each in all_declarations(script) if each.pii)


def asking(script: Script, names: frozenset[str]) -> Mapping[str, str]:
    """By the id of each action that asks for one of these variables: the first of them it asks for."""
    forms = {sheet.id: tuple(each.name for each in sheet.fields) for sheet in script.forms}
    found: dict[str, str] = {}
    for action in all_actions(script):
        asked = next((name for name in _asked(action, forms) if name in names), None)
        if asked is not None:
            found.setdefault(action.id, asked)
    return found


def choices(script: Script, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What the script lists for these variables to hold, and how it says so to the user. Where one of several choices
    is left out of a text, all of them must be, or what is missing would tell which it was.
    """
    for declared in all_declarations(script):
        if declared.var in names:
            yield from ((declared.var, choice) for choice in declared.choices)
    for sheet in script.forms:
        for each in sheet.fields:
            if each.name in names:
                yield from ((each.name, text) for text in (*each.choices, *each.labels.values()))
    for action in all_actions(script):
        match action:
            case Choose() if action.variable in names:
                yield from ((action.variable, text) for item in action.choices for text in (item.key, item.text.source))
            case Ask() | AiAsk() | AiThink():
                for output in action.outputs:
                    if isinstance(output, Output) and output.get in names:
                        yield from ((output.get, text) for text in (*output.choices, *output.labels.values()))
            case _:
                pass


def _asked(action: Action, forms: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    match action:
        case Ask() | AiAsk() | AiThink():
            yield from (name for item in action.outputs if (name := _filled(item)))
        case Choose():
            yield action.variable
        case Form():
            yield from forms.get(action.sheet, ())
        case _:
            pass


def _filled(item: OutputItem) -> str:
    match item:
        case Output():
            return item.get
        case Records():
            return item.tolist
        case Assignment():
            return ""  # it is computed, not asked for
