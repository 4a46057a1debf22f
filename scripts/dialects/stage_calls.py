"""The actions of the stage form that have much beside them: `call` with what is handed over, `user_option`."""

import re
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Sequence_
from typing import Any

from scripts.actions import ROUNDS_DEFAULT, ROUNDS_MAX, Action, Ask, Call, ChoiceItem, Choose, Loop
from scripts.dialects.stage_keys import Item, Notation, braced, mappings
from scripts.dialects.stage_names import bare, is_name, variable_name
from scripts.dialects.stage_words import FOREACH, UNSUPPORTED
from scripts.nodes import Expression, Template
from scripts.source import Mapping, Scalar, Sequence, Tree
from scripts.variables import Output

_CALL = re.compile(r"(?P<skill>[^()（）]+?)\s*[(（](?P<given>[^()（）]+)[)）]")
_ARGUMENT = re.compile(r"\s*(?P<name>[^=:：]+?)\s*[=:：](?P<value>[^=]+)")
_INPUTS = ("input", "inputs", "with", "args", "params", "parameters", "declare")
_FROM = ("from", "get")
CHOICE = "choice"  # the variable of a choice that names none
_CHOICE_KEYS = {"key", "text", "value", "id", "when", "if", "condition", "label", "desc"}


# -- call -------------------------------------------------------------------------------------------------------------


def call(
    notation: Notation, item: Item, tree: Tree, loop: Loop | None, common: dict[str, Any], other: Sequence_[str]
) -> Action | None:
    """A call as it is written; what goes without saying is added once all skills are known (stage_links).

    `other` are keys beside it that are no parameters.
    """
    if isinstance(tree, Mapping):
        inner = Item(notation, tree)
        name = inner.word("goal", "skill", "name", "call", "topic")
        given = dict(_given(notation, inner))
        returned = _returned(notation, inner)
        given |= _beside(notation, inner, ())
    else:
        name, given = _called(notation, tree)
        returned = {}
    given |= dict(_given(notation, item))
    returned |= _returned(notation, item)
    given |= _beside(notation, item, other)
    return Call(skill=notation.id(name), input=given, output=returned, loop=loop, marks=item.marks, **common)


def _beside(notation: Notation, item: Item, other: Sequence_[str]) -> dict[str, Expression]:
    """The parameters that stand beside the name of the skill."""
    given = {}
    for key, value in item.the_rest(but=other):
        if key.text in UNSUPPORTED:
            notation.left_over(key, value, _INPUTS)
        else:
            given[variable_name(key.text)] = notation.given(value)
    return given


def _called(notation: Notation, tree: Tree) -> tuple[str, dict[str, Expression]]:
    """``SKILL``, or ``SKILL(name=value, …)`` as programs write it."""
    written = notation.word(tree)
    found = _CALL.fullmatch(written)
    parts = [_ARGUMENT.fullmatch(part) for part in re.split(r"[,，]", found["given"])] if found is not None else []
    if found is None or not all(parts):
        return written, {}
    given = {
        variable_name(part["name"]): notation.given(Scalar(part["value"].strip(), True, tree.at, tree.at.line))
        for part in parts
        if part is not None
    }
    return found["skill"], given


def _given(notation: Notation, item: Item) -> Iterator[tuple[str, Expression]]:
    """What is handed over: a mapping, a list of ``{set, value}`` or ``{name: value}``, or names alone."""
    for tree in mappings(item.take(*_INPUTS)):
        if not isinstance(tree, Mapping):
            for word in notation.variables(tree):
                yield word, Expression(notation.refer(word), tree.at)
        elif _is_one(tree):
            yield from _one_given(notation, Item(notation, tree))
        else:
            for key, value in tree.pairs:
                yield notation.variable(key), notation.given(value)


def _is_one(tree: Mapping) -> bool:
    """Whether a mapping is one parameter with what it is given, rather than parameters by their names."""
    keys = set(tree.keys())
    return bool(keys & {"set", "var", *FOREACH}) or ("name" in keys and bool(keys & {"value", *_FROM}))


def _one_given(notation: Notation, item: Item) -> Iterator[tuple[str, Expression]]:
    """``{set: PARAMETER, value: …}``; of a `fromlist`, the field of the record at hand."""
    name = item.take("set", "var", "name")
    value = item.take("value", "to", "as", "=")
    source = item.take(*_FROM)
    listed = item.take(*FOREACH)
    for key in ("define", "desc", "description", "type"):
        item.take(key)
    item.finish()
    if isinstance(name, Mapping) and braced(name) is None and value is None and source is None:
        yield from ((notation.variable(key), notation.given(each)) for key, each in name.pairs)
    elif name is not None:
        yield notation.variable(name), _handed(notation, name, value, source, listed)


def _handed(notation: Notation, name: Tree, value: Tree | None, source: Tree | None, listed: Tree | None) -> Expression:
    placeholder = value if isinstance(value, Scalar) and is_name(value.text) else None
    if value is not None and (listed is None or placeholder is None):
        return notation.given(value)
    if listed is None:
        return _read(notation, source or name)
    field = bare(notation.word(listed)).partition(".")[2] or bare(notation.word(placeholder or source or name))
    return Expression(notation.refer(f"{notation.loops[-1].name}.{field}"), listed.at)


def list_of_input(notation: Notation, item: Item, tree: Tree) -> Scalar | None:
    """The list that `fromlist` names among what a call hands over: the call is made once for each of its records."""
    held = [each for key in _INPUTS if (each := item.tree.get(key)) is not None]
    held += [each for key in _INPUTS if isinstance(tree, Mapping) and (each := tree.get(key)) is not None]
    found = [
        value
        for each in held
        for one in mappings(each)
        if isinstance(one, Mapping)
        for key, value in one.pairs
        if key.text in FOREACH and isinstance(value, Scalar)
    ]
    lists = {bare(value.text).partition(".")[0] for value in found}
    if len(lists) > 1:
        notation.refuse("KEY_CONFLICT", "one call goes through one list; here are two", found[-1].at)
    return Scalar(bare(found[0].text), False, found[0].at, found[0].at.line) if found else None


def _read(notation: Notation, name: Tree) -> Expression:
    return Expression(notation.refer(notation.word(name)), name.at)


def _returned(notation: Notation, item: Item) -> dict[str, str]:
    """The variables that what a skill returns goes to."""
    found: dict[str, str] = {}
    for tree in mappings(item.take("output", "outputs", "returns", "get")):
        if not isinstance(tree, Mapping):
            found |= {name: name for name in notation.variables(tree)}
            continue
        inner = Item(notation, tree)
        name = inner.take("set", "var") or inner.take("get")
        source = bare(inner.word("from", "value", "get"))
        inner.take("define", "desc")
        if name is not None:
            found[notation.variable(name)] = variable_name(source) if source else notation.variable(name)
            inner.finish()
        else:
            pairs = inner.the_rest()
            found |= {notation.variable(key): variable_name(bare(notation.word(value))) for key, value in pairs}
    return found


# -- user_option ------------------------------------------------------------------------------------------------------


def is_choice_list(tree: Tree) -> bool:
    """Whether what stands where a variable's name should is the choices themselves."""
    return isinstance(tree, Sequence | Mapping)


def choose(
    notation: Notation,
    item: Item,
    tree: Tree,
    common: dict[str, Any],
    own: Callable[[Item], tuple[Action, ...]],
    verbs: set[str],
) -> Action | None:
    """A closed choice. `own` takes the actions that a choice carries."""
    listed = item.take("choices", "options", "option", "items")
    if is_choice_list(tree):
        name = item.take("var", "output", "get", "name")
        if listed is not None:
            notation.refuse(
                "KEY_CONFLICT", "two keys list choices", listed.at, "Name the variable, and list them once."
            )
        listed, variable = listed or tree, notation.variable(name) if name is not None else CHOICE
    else:
        variable = notation.variable(tree) if isinstance(tree, Scalar) and tree.text.strip() else CHOICE
    question = item.template("question", "text", "title", "prompt")
    rounds = notation.number(item.take("max_rounds"), 0, ROUNDS_MAX)
    choices = _Choices(notation, own, verbs)
    choices.every(listed)
    if not choices.found:
        notation.slip("CHOICES_INVALID", "there is nothing to choose from; any answer will do", item.at)
        asked = question or Template("", item.at)
        return Ask(question=asked, outputs=(Output(get=variable, at=item.at),), **common)
    return Choose(
        variable=variable,
        choices=tuple(choices.found),
        question=question,
        max_rounds=ROUNDS_DEFAULT if rounds is None else rounds,
        invalid=item.template("invalid"),
        marks=item.marks,
        **common,
    )


class _Choices:
    """Collects the choices of one action, each with a key of its own."""

    def __init__(self, notation: Notation, own: Callable[[Item], tuple[Action, ...]], verbs: set[str]) -> None:
        self.found: list[ChoiceItem] = []
        self._notation = notation
        self._own = own
        self._verbs = verbs

    def every(self, tree: Tree | None) -> None:
        for each in mappings(tree):
            match each:
                case Sequence():
                    self.every(each)
                case Scalar():
                    if each.value is not None:
                        self.keep(each.text.strip(), self._notation.template(each), each)
                case Mapping() if {"key", "text", "label"} & set(each.keys()):
                    self.named(each)
                case Mapping():
                    self.pairs(each)

    def named(self, tree: Mapping) -> None:
        """``{key, text}`` with what the choice does."""
        item = Item(self._notation, tree)
        key, text = item.take("key", "id"), item.take("text", "label", "desc")
        shown = text or key
        if shown is not None:
            value, actions = item.take("value"), self._own(item)
            label = self._notation.template(shown)
            self.keep(self._notation.word(key or shown), label, tree, self._notation.value(value), actions)
        item.finish()

    def pairs(self, tree: Mapping) -> None:
        """``{A: text}`` for each, with what the choice does beside or below it."""
        item = Item(self._notation, tree)
        labels = [(key, value) for key, value in tree.pairs if key.text not in self._verbs | _CHOICE_KEYS]
        for index, (key, value) in enumerate(labels):
            item.take(key.text)
            if isinstance(value, Mapping) and not _is_text(value):
                head = (Scalar("key", True, key.at, 0), key)
                text = () if value.get("text") is not None else ((Scalar("text", True, key.at, 0), key),)
                self.named(Mapping((head, *text, *value.pairs), value.at, value.size))
                continue
            actions: tuple[Action, ...] = ()
            if isinstance(value, Sequence):
                actions = self._own(_as_do(self._notation, value))
            shown = key if isinstance(value, Sequence) or _is_empty(value) else value
            actions += self._own(item) if index == len(labels) - 1 else ()
            given = self._notation.value(item.take("value")) if index == len(labels) - 1 else None
            self.keep(key.text.strip(), self._notation.template(shown), tree, given, actions)
        item.finish()

    def keep(self, key: str, text: Template, tree: Tree, value: Any = None, actions: tuple[Action, ...] = ()) -> None:
        taken = {each.key.casefold() for each in self.found}
        if key.casefold() in taken or not key:
            self._notation.slip("CHOICES_INVALID", f"`{key}` names a choice already; this one gets a key", tree.at)
            key = next(each for each in map(str, range(len(taken) + 1, len(taken) + 1_000)) if each not in taken)
        at = tree.at if isinstance(tree, Mapping) and tree.at not in {each.at for each in self.found} else text.at
        self.found.append(ChoiceItem(key=key, text=text, value=value, actions=actions, at=at))


def _is_text(tree: Mapping) -> bool:
    return len(tree.pairs) == 1 and _is_empty(tree.pairs[0][1])


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None


def _as_do(notation: Notation, tree: Sequence) -> Item:
    return Item(notation, Mapping(((Scalar("do", True, tree.at, 0), tree),), tree.at, 1))
