"""Action types of installed packages: entry points of the group `cuebook.actions`.

They are looked up when a script contains an action that the language does not have, so that scripts without them cost
nothing.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from scripts.model.actions import OwnAction, key_field
from scripts.model.base import Variable

GROUP = "cuebook.actions"


class ActionType(Struct, frozen=True):
    """An action type: the Struct of its fields, and the function that carries it out."""

    fields: type[OwnAction]
    run: Callable[[Any, Any], Any]

    def __call__(self, turn: Any, action: Any) -> Any:
        """Call the function itself."""
        return self.run(turn, action)


class ActionTypeInvalid(ValueError):
    """An entry point that is no usable action type; the message says why."""


def action(function: Callable[[Any, Any], Any]) -> ActionType:
    """Make a function an action type of scripts. Name the result as an entry point of the group `cuebook.actions`.

    The function takes the turn (`ActionTurn`) and the action, whose annotation is a subclass of `OwnAction`: its fields
    are the keys of the action, the first required one names it. It may be a coroutine. It returns None to continue with
    the next action, or `turn.wait()`, `turn.goto(…)` or `turn.end(…)`.

    Raises ActionTypeInvalid.
    """
    parameters = list(inspect.signature(function).parameters)
    found = get_type_hints(function).get(parameters[1]) if len(parameters) == 2 else None
    if not (inspect.isclass(found) and issubclass(found, OwnAction) and found is not OwnAction):
        raise ActionTypeInvalid("the function takes the turn and an action, annotated with a subclass of OwnAction")
    if next((each for each in fields(found) if each.required), None) is None:
        raise ActionTypeInvalid(f"{found.__name__} has no required field, which would name the action")
    return ActionType(found, function)


@cache
def installed_actions() -> Mapping[str, ActionType]:
    """Return the installed action types by the key that names them. Raises ActionTypeInvalid."""
    from importlib.metadata import entry_points  # not needed for scripts without such actions

    found = {}
    for entry in entry_points(group=GROUP):
        loaded = entry.load()
        if not isinstance(loaded, ActionType):
            raise ActionTypeInvalid(f"the entry point {entry.name} is not made with `cuebook.action`")
        if (key := key_field(loaded.fields).encode_name) != entry.name:
            raise ActionTypeInvalid(f"the entry point {entry.name} has another name than its action `{key}`")
        found[entry.name] = loaded
    return found


def action_type_of(action: OwnAction) -> ActionType | None:
    """Return the type of an action of a package; None if the package is not installed any more."""
    return next((each for each in installed_actions().values() if each.fields is type(action)), None)


def variables_of(action: OwnAction) -> tuple[tuple[str, Variable], ...]:
    """Return the variables that an action sets, each with the field that names it."""
    values = ((name, getattr(action, name)) for name in type(action).__struct_fields__)
    return tuple((name, value) for name, value in values if isinstance(value, Variable))
