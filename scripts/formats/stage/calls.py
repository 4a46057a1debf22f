"""The actions `call`, with its parameters, `foreach` and `user_option` of the stage format."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

from scripts.formats.stage.keywords import DO, FOREACH, INNER_WORDS, UNSUPPORTED
from scripts.formats.stage.names import KnownNames, bare, is_name, node_id, variable_name
from scripts.formats.stage.stage_reader import Item, StageReader, content_at, entries, placeholder_of
from scripts.formats.text_lists import choices_in, is_coded
from scripts.formats.words import VERBS
from scripts.model.actions import ROUNDS_DEFAULT, ROUNDS_MAX, Action, Ask, Call, ChoiceItem, Choose, ListedChoices, Loop
from scripts.model.base import Expression, Location, Template, unused_name
from scripts.model.variables import Output
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null, pairs_of, word

_CALL = re.compile(r"(?P<skill>[^()（）]+?)\s*[(（](?P<parameters>[^()（）]+)[)）]")
_ARGUMENT = re.compile(r"\s*(?P<name>[^=:：]+?)\s*[=:：](?P<value>[^=]+)")
_INPUTS = ("input", "inputs", "with", "args", "params", "parameters", "declare")
_FROM = ("from", "get")
CHOICE = "choice"  # variable of a choice without a variable
_CHOICE_KEYS = {"key", "text", "value", "id", "when", "if", "condition", "label", "desc"}
_SURELY_ACTIONS = {*DO, "say", "goto", "call", "set", *(verb for verb in VERBS if "_" in verb)}
"""Keywords that no author means as a choice, unlike `stop` or `chat`."""
ReadInner: TypeAlias = Callable[[Item], tuple[Action, ...]]


# -- call -------------------------------------------------------------------------------------------------------------


def call(
    notation: StageReader, item: Item, tree: Tree, loop: Loop | None, common: dict[str, Any], other: Collection[str]
) -> Action | None:
    """Read a call as it is written; implicit parameters are added when all skills are known (`links`).

    `other` are sibling keys that are not parameters.
    """
    if isinstance(tree, Mapping):
        inner = Item(notation, _named_skill(tree))
        name = inner.word("goal", "skill", "name", "call", "topic")
        parameters = dict(_parameters(notation, inner))
        returned = _read_results(notation, inner)
        parameters |= _beside(notation, inner, ())
    else:
        name, parameters = _read_skill(notation, tree)
        returned = {}
    parameters |= dict(_parameters(notation, item))
    returned |= _read_results(notation, item)
    parameters |= _beside(notation, item, other)
    return Call(skill=node_id(name), input=parameters, output=returned, loop=loop, marks=item.marks, **common)


def _named_skill(tree: Mapping) -> Mapping:
    """Convert ``{SKILL: {name: value, …}}``."""
    key, value = tree.pairs[0] if len(tree.pairs) == 1 else (None, None)
    is_named = key is not None and key.text in {"goal", "skill", "name", "call", "topic"}
    if key is None or is_named or (isinstance(value, Scalar) and value.value is not None):
        return tree
    given = ((word("input", key), value),) if isinstance(value, Mapping | Sequence) else ()
    return Mapping(((word("goal", key), key), *given), tree.at)


def _beside(notation: StageReader, item: Item, other: Collection[str]) -> dict[str, Expression]:
    """Read the parameters beside the name of the skill."""
    parameters = {}
    for key, value in item.the_rest(but=other):
        if key.text in UNSUPPORTED:
            notation.report_unknown(key, value, _INPUTS)
        else:
            parameters[variable_name(key.text)] = notation.value_expression(value)
    return parameters


def _read_skill(notation: StageReader, tree: Tree) -> tuple[str, dict[str, Expression]]:
    """Read ``SKILL``, or ``SKILL(name=value, …)`` as in programs."""
    written = notation.word(tree)
    found = _CALL.fullmatch(written)
    parts = [_ARGUMENT.fullmatch(part) for part in re.split(r"[,，]", found["parameters"])] if found is not None else []
    if found is None or not all(parts):
        return written, {}
    given = [(part["name"], Scalar(part["value"].strip(), True, tree.at)) for part in parts if part is not None]
    return found["skill"], {variable_name(name): notation.value_expression(value) for name, value in given}


def _parameters(notation: StageReader, item: Item) -> Iterator[tuple[str, Expression]]:
    """Read parameters: a mapping, a list of ``{set, value}`` or ``{name: value}``, or names alone."""
    for tree in entries(item.take(*_INPUTS)):
        if not isinstance(tree, Mapping):
            yield from ((word, Expression(notation.refer(word), tree.at)) for word in notation.variables(tree))
        elif _is_one(tree):
            yield from _one_given(notation, Item(notation, tree))
        else:
            yield from ((notation.variable(key), notation.value_expression(value)) for key, value in tree.pairs)


def _is_one(tree: Mapping) -> bool:
    """Return whether a mapping is a single parameter with its value, rather than several parameters by name."""
    keys = set(tree.keys())
    is_named = "name" in keys and bool(keys & {"value", *_FROM})
    is_taken = "get" in keys and ("value" in keys or keys <= {"get", "define", "desc", "description", "type"})
    return is_named or is_taken or bool(keys & {"set", "var", *FOREACH})


def _one_given(notation: StageReader, item: Item) -> Iterator[tuple[str, Expression]]:
    """Read ``{set: PARAMETER, value: …}``; with `fromlist`, the field of the current record."""
    name = item.take("set", "var", "name") or item.take("get")
    value = item.take("value", "to", "as", "=")
    source = item.take(*_FROM)
    listed = item.take(*FOREACH)
    for key in ("define", "desc", "description", "type"):
        item.take(key)
    item.finish()
    if isinstance(name, Mapping) and placeholder_of(name) is None and value is None and source is None:
        yield from ((notation.variable(key), notation.value_expression(each)) for key, each in name.pairs)
    elif name is not None:
        yield notation.variable(name), _argument(notation, name, value, source, listed)


def _argument(
    notation: StageReader, name: Tree, value: Tree | None, source: Tree | None, listed: Tree | None
) -> Expression:
    placeholder = value if isinstance(value, Scalar) and is_name(value.text) else None
    if value is not None and (listed is None or placeholder is None):
        return notation.value_expression(value)
    if listed is None:
        read = source or name
        return Expression(notation.refer(notation.word(read)), read.at)
    field = bare(notation.word(listed)).partition(".")[2] or bare(notation.word(placeholder or source or name))
    return Expression(notation.refer(f"{notation.loops[-1].name}.{field}"), listed.at)


def list_of_input(notation: StageReader, item: Item, tree: Tree) -> Scalar | None:
    """Read the list that `fromlist` names in the parameters: the call runs once for each of its records."""
    held = [each for key in _INPUTS if (each := item.tree.get(key)) is not None]
    held += [each for key in _INPUTS if isinstance(tree, Mapping) and (each := tree.get(key)) is not None]
    pairs = [pair for each in held for one in entries(each) for pair in pairs_of(one)]
    found = [value for key, value in pairs if key.text in FOREACH and isinstance(value, Scalar)]
    lists = {bare(value.text).partition(".")[0] for value in found}
    if len(lists) > 1:
        notation.refuse("KEY_CONFLICT", "a call loops over one list; this one has two", found[-1].at)
    return Scalar(bare(found[0].text), False, found[0].at) if found else None


def _read_results(notation: StageReader, item: Item) -> dict[str, str]:
    """Read the variables that store the results of a skill."""
    found: dict[str, str] = {}
    for tree in entries(item.take("output", "outputs", "returns", "get")):
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


def choose(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any], own: ReadInner) -> Action | None:
    """Read a closed choice. `own` reads the actions of a choice."""
    asked: Template | None = None
    listed = item.take("choices", "options", "option", "items")
    if listed is None and isinstance(tree, Scalar) and len(choices_in(tree).items) > 1:
        tree = _split_list(notation, tree) or tree
    if isinstance(tree, Sequence | Mapping):  # the choices in place of a variable's name
        name = item.take("var", "output", "get", "name")
        if listed is not None:
            fix = "Name the variable, and list them once."
            notation.refuse("KEY_CONFLICT", "two keys list choices", listed.at, fix)
        listed, variable = listed or tree, notation.variable(name) if name is not None else CHOICE
    else:
        asked, variable = _read_question(notation, item, tree)
    question = item.template("question", "text", "title", "prompt") or asked
    rounds = notation.number(item.take("max_rounds"), 0, ROUNDS_MAX)
    choices = _Choices(notation, own)
    from_list = _from_list(notation, listed)
    if from_list is None:
        choices.every(_split_list(notation, listed))
    if not choices.found and from_list is None:
        notation.slip("CHOICES_INVALID", "there are no choices; any answer is accepted", item.at)
        return Ask(question=question or Template("", item.at), outputs=(Output(get=variable, at=item.at),), **common)
    if variable is CHOICE and from_list is None and not all(each.actions for each in choices.found):
        message = f"the choices name no variable; the answer is stored in `{CHOICE}`"
        notation.slip("CHOICES_INVALID", message, item.at, "Write `user_option: VARIABLE` with `choices` beside it.")
    return Choose(
        variable=variable,
        choices=tuple(choices.found) if from_list is None else (from_list,),
        question=question,
        max_rounds=ROUNDS_DEFAULT if rounds is None else rounds,
        invalid=item.template("invalid"),
        marks=item.marks,
        **common,
    )


def _read_question(notation: StageReader, item: Item, tree: Tree) -> tuple[Template | None, str]:
    """Return the question and variable of ``user_option: VARIABLE``, or ``user_option: QUESTION`` whose variable is
    `var` or the only `output`.
    """
    key = next(iter(item.keys_in(("output", "outputs", "var", "get", "name"))), None)
    names = notation.variables(item.tree.get(key)) if key is not None else []
    written = bare(notation.word(tree))
    if key is None or len(names) != 1 or (written != names[0] and notation.knows(written)):
        return None, notation.variable(tree) if written else CHOICE
    item.take(key)
    return notation.template(tree) if written not in {"", names[0]} else None, names[0]


def _from_list(notation: StageReader, tree: Tree | None) -> ListedChoices | None:
    """Return the choices of ``choices: "{LIST}"``, the items of a list."""
    if not isinstance(tree, Scalar) or "{" not in tree.text or not is_name(tree.text):
        return None
    loop, _ = loop_of(notation, tree, "", tree.at)
    text = Template(f"{{{{ {loop.name} }}}}", tree.at)
    return ListedChoices(loop=loop, key=Expression(loop.name, tree.at), text=text, at=tree.at)


def _split_list(notation: StageReader, listed: Tree | None) -> Tree | None:
    """Return a list, also if it is written as a text."""
    if not isinstance(listed, Scalar) or len((found := choices_in(listed)).items) < 2:
        return listed
    fix = f"Write `[{', '.join(each.text for each in found.items if isinstance(each, Scalar))}]`."
    notation.slip("TYPE_MISMATCH", f"a text in place of a list is read as {len(found.items)} choices", listed.at, fix)
    return found


class _Choices:
    """Collects the choices of an action, each with a unique key."""

    def __init__(self, notation: StageReader, own: ReadInner) -> None:
        self.found: list[ChoiceItem] = []
        self._notation = notation
        self._own = own

    def every(self, tree: Tree | None) -> None:
        for each in entries(tree):
            match each:
                case Sequence():
                    self.every(each)
                case Scalar():
                    if each.value is not None:
                        self.keep(each.text.strip(), self._notation.template(each), each)
                case Mapping() if {"key", "text", "label"} & set(each.keys()):
                    self.read_by_key(each)
                case Mapping():
                    self.pairs(each, is_whole=each is tree)

    def read_by_key(self, tree: Mapping) -> None:
        """Read ``{key, text}`` with the actions of the choice."""
        item = Item(self._notation, tree)
        key, text = item.take("key", "id"), item.take("text", "label", "desc")
        if (shown := text or key) is not None:
            value, actions = item.take("value"), self._own(item)
            label = self._notation.template(shown)
            self.keep(self._notation.word(key or shown), label, tree, self._notation.value(value), actions)
        item.finish()

    def pairs(self, tree: Mapping, *, is_whole: bool) -> None:
        """Read ``{A: text}`` for each choice, with its actions beside or below it.

        `is_whole`: the mapping has all choices. Then a word such as `stop` is a choice, as in the first key of an item.
        """
        item = Item(self._notation, tree)
        actions_of_it = {key for index, key in enumerate(tree.keys()) if index and not is_whole} | _SURELY_ACTIONS
        others = (INNER_WORDS & actions_of_it) | _CHOICE_KEYS
        labels = [(key, value) for key, value in tree.pairs if key.text not in others]
        for index, (key, value) in enumerate(labels):
            item.take(key.text)
            if isinstance(value, Mapping) and not _is_text(value):
                head = (Scalar("key", True, key.at), key)
                text = () if value.get("text") is not None else ((Scalar("text", True, key.at), key),)
                self.read_by_key(Mapping((head, *text, *value.pairs), value.at))
                continue
            actions: tuple[Action, ...] = ()
            if isinstance(value, Sequence):
                actions = self._own(Item(self._notation, Mapping(((word("do", value), value),), value.at)))
            coded = is_coded(key, value)
            shown = key if coded or isinstance(value, Sequence) or is_null(value) else value
            actions += self._own(item) if index == len(labels) - 1 else ()
            parameters = self._notation.value(item.take("value")) if index == len(labels) - 1 else None
            parameters = self._notation.value(value) if coded else parameters
            self.keep(key.text.strip(), self._notation.template(shown), tree, parameters, actions)
        item.finish()

    def keep(self, key: str, text: Template, tree: Tree, value: Any = None, actions: tuple[Action, ...] = ()) -> None:
        used_keys = {each.key.casefold() for each in self.found}
        if key.casefold() in used_keys or not key:
            self._notation.slip("CHOICES_INVALID", f"duplicate choice key `{key}`; a key is added to this one", tree.at)
            key = next(each for each in map(str, itertools.count(len(used_keys) + 1)) if each not in used_keys)
        at = tree.at if isinstance(tree, Mapping) and tree.at not in {each.at for each in self.found} else text.at
        self.found.append(ChoiceItem(key=key, text=text, value=value, actions=actions, at=at))


def _is_text(tree: Mapping) -> bool:
    return len(tree.pairs) == 1 and is_null(tree.pairs[0][1])


# -- foreach ---------------------------------------------------------------------------------------------------------


ITEM = "item"
_AS = re.compile(r"(?P<list>.+?)\s+as\s+(?P<name>\S+)\s*", re.DOTALL)
_IN = re.compile(r"(?P<name>\S+)\s+(?:in|of)\s+(?P<list>.+)", re.DOTALL)


def foreach_of(notation: StageReader, item: Item) -> tuple[Loop, KnownNames]:
    """Read the loop of an item, from its `foreach` and sibling keys."""
    tree = item.take(*FOREACH)
    written = item.word("as", "item", "var", "each")
    if isinstance(tree, Mapping) and placeholder_of(tree) is None:
        inner = Item(notation, tree)
        written = written or inner.word("as", "item", "var", "each", "name")
        tree = inner.take("list", "in", "of", "items", "from", *FOREACH)
        inner.finish()
    elif isinstance(tree, Scalar) and tree.text and (listed := item.take("in", "of")) is not None:
        tree, written = listed, written or notation.word(tree)  # foreach: NAME, in: LIST
    return loop_of(notation, tree, written, item.at)


def loop_of(notation: StageReader, tree: Tree | None, written: str, at: Location) -> tuple[Loop, KnownNames]:
    """Read a loop from a text: ``LIST as NAME``, ``NAME in LIST``, ``{LIST}``, or a literal list."""
    if isinstance(tree, Sequence):
        source, listed, place = notation.value_expression(tree).source, "", tree.at
    else:
        text = (placeholder_of(tree) or "") if isinstance(tree, Mapping) else notation.word(tree)
        found = None if is_name(text) and "{" in text else _AS.fullmatch(text.strip()) or _IN.fullmatch(text.strip())
        if found is not None:
            text, written = found["list"], written or found["name"]
        place = content_at(tree) if isinstance(tree, Scalar) else at
        source, listed = _list(notation, text.strip(), place)
    name = re.sub(r"\W+", "_", variable_name(written)) if written else _default_name(notation)
    return Loop(items=Expression(source, place), name=name, at=place), KnownNames(written or ITEM, name, listed)


def _list(notation: StageReader, text: str, at: Location) -> tuple[str, str]:
    """Return the expression of a list, and its name if it is a variable."""
    if not text:
        notation.lacks("`foreach` has no list", at, "Write `foreach: LIST as item`.")
        return "[]", ""
    return (notation.refer(text), bare(text)) if is_name(text) else (notation.formula(text, at).source, "")


def _default_name(notation: StageReader) -> str:
    """Return a default name for an item that differs from those of enclosing loops."""
    return unused_name(ITEM, {loop.name for loop in notation.loops})
