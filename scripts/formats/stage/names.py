"""The names of the stage format: the variables of a script, and the meaning of its placeholders."""

import re
from collections.abc import Iterable, Iterator, Mapping

import regex
from msgspec import Struct

from scripts.expressions.expressions import is_reserved, is_syntax
from scripts.expressions.values import infer_type, number_in
from scripts.formats.placeholders import NAME, member_reference, reference, variable_reference
from scripts.model.actions import Action, Call, Choose, Foreach, Set, outputs_of, walk
from scripts.model.base import ID_CHARS_MAX
from scripts.model.script import FormDefinition, Interrupt, Script, Skill, all_actions, all_declarations
from scripts.model.variables import Output, Records

BRACES = re.compile(r"\$?\{[{%]?\s*(?P<name>[^{}]*?)\s*[}%]?\}")
_VARIABLE = regex.compile(r"[^\W\d][\w.\-（）()· ]*")
_EVENT = regex.compile(r"\w[\w.\-]*")


class Names(Struct, frozen=True):
    """The variables of a script.

    `known` are all of them, `valued` those that something sets, `numbers` those that are known to be numbers, `fields`
    the fields of the records of each list.
    """

    known: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    fields: Mapping[str, frozenset[str]] = {}

    def with_others(self, others: "Names") -> "Names":
        """Return these variables and others."""
        fields = {name: others.fields.get(name, frozenset()) | found for name, found in self.fields.items()}
        numbers = self.numbers | others.numbers
        return Names(self.known | others.known, self.valued | others.valued, numbers, {**others.fields, **fields})


class KnownNames(Struct, frozen=True):
    """An enclosing loop: the name of its item as the author writes it and in the script, and its list."""

    written: str
    name: str
    items: str


def bare(name: str) -> str:
    """Return a variable's name without optional braces."""
    found = BRACES.fullmatch(name.strip())
    return (found["name"] if found else name).strip().lstrip("$").strip()


def variable_name(written: str) -> str:
    """Return a valid variable name: the written name if it is valid, otherwise the most similar valid name."""
    name = bare(written)[:ID_CHARS_MAX].strip()
    if not _VARIABLE.fullmatch(name):
        name = regex.sub(r"[^\w.\-（）()· ]+", "_", name).strip("_ ") or "variable"
        name = name if _VARIABLE.fullmatch(name) else f"v_{name}".replace("v__", "v_")
    return f"{name.strip('_')}_" if is_reserved(name) else name


def node_id(written: str) -> str:
    """Return the id for a name, which may contain spaces and punctuation but no slash."""
    printable = "".join(c if c.isprintable() else " " for c in written)
    name = re.sub(r"\s+", " ", printable).strip().replace("/", "／")[:ID_CHARS_MAX].strip()
    return re.sub("^:", "：", name)


def event_name(written: str) -> str:
    """Return the event name for a name: a single word."""
    name = node_id(written)
    if not name or _EVENT.fullmatch(name):
        return name
    return regex.sub(r"[^\w.\-]+|^[.\-]+", "_", name).strip("_") or "event"


def refer(names: Names, loops: Iterable[KnownNames], written: str) -> str:
    """Return the expression of a placeholder."""
    inner = list(loops)[::-1]
    name = bare(written)
    for loop in inner:
        if name in {loop.written, loop.name}:
            return loop.name
    for loop in inner:
        if name in names.fields.get(loop.items, ()) and name not in names.valued:
            return member_reference(loop.name, [name])
    head, _, rest = name.partition(".")
    if name in names.known or not rest:
        return variable_reference(variable_name(name) if not is_syntax(name) else name)
    parts = rest.split(".")
    for loop in inner:
        if head in {loop.written, loop.name} or (head == loop.items and parts[0] in names.fields.get(head, ())):
            return member_reference(loop.name, parts)
        if head in names.fields.get(loop.items, ()) and head not in names.valued:
            return member_reference(loop.name, [head, *parts])
    is_known = head in names.known or variable_name(head) in names.known  # a variable `user` is renamed to `user_`
    return member_reference(variable_reference(variable_name(head)), parts) if is_known else reference(name)


def is_name(text: str) -> bool:
    """Return whether a text is a variable's name, with or without braces."""
    return re.fullmatch(NAME, bare(text)) is not None


# -- variables of a script ------------------------------------------------------------------------------------


def names_of(script: Script, *, with_calls: bool = True) -> Names:
    """Return the variables of a script, including its own skills and rules, and those that calls set."""
    known: set[str] = set()
    valued: set[str] = set()
    numbers: set[str] = set()
    fields: dict[str, set[str]] = {}
    for each in all_declarations(script):
        known.add(each.var)
        numbers |= {each.var} if each.type == "number" or infer_type(each.value) == "number" else set()
        valued |= {each.var} if each.value not in (None, "", []) else set()
        records = [row for row in each.value if isinstance(row, dict)] if isinstance(each.value, list) else []
        if records:
            fields.setdefault(each.var, set()).update(*records)
    for action in all_actions(script):
        known |= {action.loop.name} if isinstance(action, Foreach) else set()
        if with_calls or not isinstance(action, Call):
            valued |= set(names_written(action, script.forms))
        assigned = action.assignments if isinstance(action, Set) else {}
        numbers |= {name for name, value in assigned.items() if number_in(value.source) is not None}
        for item in outputs_of(action):
            numbers |= {item.get} if isinstance(item, Output) and item.type == "number" else set()
            if isinstance(item, Records):
                fields.setdefault(item.tolist, set()).update(each.get for each in item.fields)
    known |= {each.name for sheet in script.forms for each in sheet.fields}
    known |= valued | set(fields)
    found = {name: frozenset(each) for name, each in fields.items()}
    return Names(frozenset(known), frozenset(valued), frozenset(numbers), found)


def names_written(action: Action, forms: Iterable[FormDefinition] = ()) -> Iterator[str]:
    """Yield the variables that an action sets."""
    match action:
        case Set():
            yield from action.assignments
        case Choose():
            yield action.variable
        case Call():
            yield from action.assigned
    yield from (item.variable for item in outputs_of(action))
    sheet = getattr(action, "sheet", None)
    yield from (each.name for form in forms if form.id == sheet for each in form.fields)


def of_owner(owner: Skill | Interrupt) -> tuple[str, ...]:
    """Return the variables that the actions of a skill or interrupt set, each once, in order."""
    return tuple(dict.fromkeys(name for action in walk(owner.actions) for name in names_written(action)))
