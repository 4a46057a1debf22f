"""Convert other spellings of the session and technique formats to the keys of those formats."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingType

from msgspec.structs import replace

from scripts.expressions.suggestions import resembles, snake_case
from scripts.formats import words
from scripts.formats.condition_trees import condition_text
from scripts.formats.session.config import TEXT_KEYS, Config
from scripts.formats.text_lists import choice_texts, has_variable_name, is_meaning, is_record, with_name
from scripts.model.variables import Declaration, Output
from scripts.yaml.parser import (
    Mapping,
    Scalar,
    Sequence,
    Tree,
    as_items,
    is_null,
    items_of,
    keys_renamed,
    pairs_of,
    text_in,
    text_replaced,
    with_value,
    word,
)

_ACTION_NAMES = {"type": "action_type", "id": "action_id", "when": "condition", "if": "condition"}
_CONDITIONS = {"condition", *(key for key, name in _ACTION_NAMES.items() if name == "condition")}
_CONFIG_NAMES = {*words.SKILL_KEYS, *words.FORM_KEYS, *words.PICTURE_KEYS, *words.SPOKEN_KEYS}
ACTION_KEYS = {*_ACTION_NAMES, *_ACTION_NAMES.values(), "config", "action_name", "description"}


def action(tree: Mapping) -> Mapping:
    """Move inline config keys of an action into `config`; keys of `config` itself come first."""
    tree = _with_type(tree)
    for name in ("action_type", "type"):
        tree = text_replaced(tree, name, snake_case)
    inline = tuple((key, value) for key, value in tree.pairs if not _is_of_action(key.text))
    config = tree.get("config")
    if config is not None and is_null(config):  # its keys may be beside it
        config = None
    if isinstance(config, Mapping) and not _CONDITIONS & set(tree.keys()):
        conditions = tuple(pair for pair in config.pairs if pair[0].text == "condition")
        tree = Mapping((*tree.pairs, *conditions), tree.at)
        config = Mapping(tuple(pair for pair in config.pairs if pair not in conditions), config.at)
    outer = [(key, value) for key, value in tree.pairs if _is_of_action(key.text) and key.text != "config"]
    entries = [(replace(key, text=_ACTION_NAMES.get(key.text, key.text)), value) for key, value in outer]
    if config is not None and not isinstance(config, Mapping):
        return Mapping((*entries, (word("config", config), config)), tree.at)
    pairs = (*(config.pairs if config is not None else ()), *inline)
    if config is not None or pairs:
        at = config.at if config is not None else pairs[0][0].at
        own = Mapping(pairs, at)
        entries.append((word("config", own), _config(text_in(tree.get("action_type") or tree.get("type")), own)))
    return with_value(Mapping(tuple(entries), tree.at), "condition", condition_text)


def _with_type(tree: Mapping) -> Mapping:
    """Convert ``{ai_say: text}`` to an action with its type and its text."""
    keys = set(tree.keys())
    verb = next((key for key, _ in tree.pairs if key.text in ("ai_say", "ai_ask", "ai_think")), None)
    if verb is None or keys & {"action_type", "type", "content"}:
        return tree
    pairs = (pair for key, text in tree.pairs for pair in (_typed_text(key, text) if key is verb else ((key, text),)))
    return Mapping(tuple(pairs), tree.at)


def _typed_text(verb: Scalar, text: Tree) -> tuple[tuple[Scalar, Tree], ...]:
    return (word("action_type", verb), verb), (replace(verb, text="content", written=verb.text), text)


def _is_of_action(key: str) -> bool:
    """Return whether a key is one of an action, also if it is misspelt, and not of its `config`."""
    if key in ACTION_KEYS or key in {*Config.__struct_fields__, *_CONFIG_NAMES}:
        return key in ACTION_KEYS
    return resembles(key, ACTION_KEYS)


def _config(kind: str, config: Mapping) -> Mapping:
    match kind:
        case "use_skill":
            renamed = keys_renamed(config, words.SKILL_KEYS)
            return Mapping(tuple(_by_name(*pair) for pair in renamed.pairs), config.at)
        case "show_form":
            return keys_renamed(config, words.FORM_KEYS)
        case "show_pic":
            return keys_renamed(config, words.PICTURE_KEYS)
        case _:
            is_described = any(isinstance(each, Mapping) for each in items_of(config.get("output_variables")))
            names = {"output_variables": "output"} if is_described else {}
            if isinstance(config.get("exit_criteria"), Scalar):  # words of when the question is answered
                names |= {"exit_criteria": "exit"}
            renamed = keys_renamed(config, {**words.SPOKEN_KEYS, **names})
            written = (pair for pair in renamed.pairs if pair[0].text not in TEXT_KEYS or not _is_blank(pair[1]))
            spelled = Mapping(tuple((key, _spoken_value(key, value)) for key, value in written), config.at)
            return _choosing(_with_assignments(spelled))


def _spoken_value(key: Scalar, value: Tree) -> Tree:
    """Return the outputs as a list, also a single one, and ``{name: meaning}`` for each; and an exit as a text."""
    if key.text == "exit" and isinstance(value, Mapping):
        return condition_text(value)
    if key.text != "output" or is_null(value):
        return value
    return Sequence(tuple(each for item in as_items(value) for each in _outputs_by_name(item)), value.at)


def _outputs_by_name(item: Tree) -> Iterator[Tree]:
    """Yield an output, or each of ``{name: meaning, …}``, whose keys are those of no output."""
    pairs = pairs_of(item)
    is_one = any(resembles(key.text, _OUTPUT_KEYS) or isinstance(value, Sequence) for key, value in pairs)
    if not isinstance(item, Mapping) or not pairs or (is_one and not has_variable_name(item, _OUTPUT_KEYS)):
        yield item
        return
    yield from (with_name("get", key, value, "define") for key, value in pairs)


_OUTPUT_KEYS = {*Output.__struct_fields__, *words.OUTPUT_KEYS, "set"}


def _with_assignments(config: Mapping) -> Mapping:
    """Move the outputs ``{set: x, value: …}``, which come from no answer, out of the list."""
    listed = config.get("output")
    items = items_of(listed)
    computed = tuple(each for each in items if isinstance(each, Mapping) and each.get("set") and not each.get("get"))
    if listed is None or not computed:
        return config
    rest = tuple(each for each in items if each not in computed)
    pairs = tuple((key, Sequence(rest, value.at) if value is listed else value) for key, value in config.pairs)
    return Mapping((*pairs, (word("assignments", computed[0]), Sequence(computed, listed.at))), config.at)


def _choosing(config: Mapping) -> Mapping:
    """Move the choices of a question into its only output."""
    listed, target = config.get("output"), config.get("target_variable")
    outputs = listed.items if isinstance(listed, Sequence) else (target,) if target is not None else ()
    choices = config.get("choices")
    if choices is None or len(outputs) != 1 or isinstance(outputs[0], Sequence):
        return config
    output = outputs[0]
    own = output.pairs if isinstance(output, Mapping) else ((word("get", output), output),)
    chosen = Mapping((*own, (word("choices", choices), choices)), output.at)
    rest = tuple(pair for pair in config.pairs if pair[0].text not in {"output", "choices"})
    return Mapping((*rest, (word("output", output), Sequence((chosen,), output.at))), config.at)


def _of(tree: Tree, *names: str) -> Tree | None:
    return next((each for name in names if isinstance(tree, Mapping) and (each := tree.get(name)) is not None), None)


def _by_name(key: Scalar, value: Tree) -> tuple[Scalar, Tree]:
    """Convert ``returns: [x, {get: y}]`` and ``input: [x, {name: y, value: 1}]`` to mappings."""
    if key.text not in {"input", "returns"} or not isinstance(value, Sequence):
        return key, value
    if key.text == "input":
        given = [
            (each, Scalar(f"{{{each.text}}}", False, each.at))
            if isinstance(each, Scalar)
            else (_of(each, "name", "var", "get", "set"), _of(each, "value"))
            for each in value.items
        ]
        inputs = tuple((name, part) for name, part in given if isinstance(name, Scalar) and part is not None)
        return key, Mapping(inputs, value.at) if len(inputs) == len(value.items) else value
    named = [each.get("get") or each.get("name") if isinstance(each, Mapping) else each for each in value.items]
    pairs = tuple((each, each) for each in named if isinstance(each, Scalar))
    return key, Mapping(pairs, value.at) if len(pairs) == len(value.items) else value


_NAMES_OF_VARIABLES = {"var", *(key for key, name in words.DECLARATION_KEYS.items() if name == "var")}
_DECLARATION_KEYS = {*Declaration.__struct_fields__, *words.DECLARATION_KEYS}
_OF_SESSION = {"use", "roles", "forms", "phases", "default_scope", "locale", "declare"}
_OF_SESSION |= {"version", "author", "description", "tags"}
_OF_SESSION |= {key for key, name in words.SESSION_KEYS.items() if name in {"use", "declare", "locale"}}


def has_phase_ids(tree: Mapping) -> bool:
    """Return whether a file has phases of this format, which may lack their session."""
    phases = items_of(tree.get("phases"))
    return bool(phases) and all(isinstance(each, Mapping) and each.get("phase_id") is not None for each in phases)


def listed_sessions(tree: Mapping) -> tuple[Tree, ...]:
    """Return the sessions of a list in `session`, or in `sessions` if they have the keys of this format."""
    items = items_of(tree.get("session") or tree.get("sessions"))
    has_keys = any(isinstance(each, Mapping) and each.get("session_id") and not each.get("stages") for each in items)
    return items if has_keys or tree.get("session") is not None else ()


def document(tree: Mapping) -> Mapping:
    """Return the keys of a session in `session`, also if they are beside it or the file is the session."""
    if listed := listed_sessions(tree):
        tree = keys_renamed(tree, {"sessions": "session"})
        tree = with_value(tree, "session", lambda _: listed[0])
    own = tree.get("session")
    if own is not None and not isinstance(own, Mapping):
        return tree
    held = set(own.keys()) if own is not None else {"metadata"}
    moved = [pair for pair in tree.pairs if own is None or pair[0].text in _OF_SESSION]
    moved = [pair for pair in moved if pair[0].text not in held]
    inner = Mapping((*(own.pairs if own is not None else ()), *moved), own.at if own is not None else tree.at)
    rest = tuple(pair for pair in tree.pairs if pair not in moved and pair[0].text != "session")
    return Mapping((*rest, (word("session", inner), inner)), tree.at)


def part(tree: Mapping, keys: MappingType[str, str], condition: str = "entry_condition") -> Mapping:
    """Convert the keys, the condition and the variables of a session, phase or topic."""
    renamed = text_replaced(keys_renamed(tree, keys), "locale", _language_tag)
    return with_value(with_value(renamed, condition, condition_text), "declare", _list_declarations)


def _language_tag(written: str) -> str:
    """Return the tag of a language that may be written as a word or with underscores."""
    return words.LOCALES.get(written.casefold(), written.replace("_", "-"))


def _list_declarations(tree: Tree) -> Tree:
    """Return a list of declarations, also of ``{name: meaning, name: 0, name: {type: number}}``."""
    is_one = isinstance(tree, Mapping) and not _NAMES_OF_VARIABLES.isdisjoint(tree.keys())
    if not isinstance(tree, Mapping) or (is_one and not has_variable_name(tree, _DECLARATION_KEYS)):
        return tree
    found = []
    for key, value in tree.pairs:
        if is_record(value, _DECLARATION_KEYS - _NAMES_OF_VARIABLES):
            found.append(Mapping(((word("var", key), key), (word("value", key), value)), key.at))
        else:
            found.append(with_name("var", key, value, "define" if is_meaning(value) else "value"))
    return Sequence(tuple(found), tree.at)


def declaration(tree: Mapping) -> Mapping:
    """Convert a declared variable."""
    return _in_model_words(keys_renamed(tree, words.DECLARATION_KEYS))


def output(tree: Mapping) -> Mapping:
    """Convert an output, also the ends in ``range: [1, 10]`` or ``range: 1-10``."""
    pairs = (each for pair in keys_renamed(tree, words.OUTPUT_KEYS).pairs for each in _ends(*pair))
    return _in_model_words(Mapping(tuple(pairs), tree.at))


_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:[-~–—～至到]|\.\.|to)\s*(-?\d+(?:\.\d+)?)")


def _ends(key: Scalar, value: Tree) -> tuple[tuple[Scalar, Tree], ...]:
    if key.text == "range" and isinstance(value, Scalar) and (found := _RANGE.fullmatch(value.text.strip())):
        return ((word("min", key), word(found[1], value)), (word("max", key), word(found[2], value)))
    if key.text != "range" or not isinstance(value, Sequence) or len(value.items) != 2:
        return ((key, value),)
    return ((word("min", key), value.items[0]), (word("max", key), value.items[1]))


def _in_model_words(tree: Mapping, kinds: MappingType[str, str] = words.VARIABLE_TYPES) -> Mapping:
    """Return the type in the words of the model, and the choices as a list of texts."""
    typed = text_replaced(tree, "type", lambda kind: kinds.get(kind.strip().lower(), kind))
    return with_value(typed, "choices", choice_texts)


def computed_output(tree: Mapping) -> Mapping:
    """Convert an output that is computed."""
    return with_value(keys_renamed(tree, {"condition": "when", "if": "when"}), "when", condition_text)


def form_field(tree: Mapping) -> Mapping:
    """Convert a field of a form."""
    renamed = keys_renamed(tree, words.FIELD_KEYS)
    alone = {} if renamed.get("choices") is not None else {"checkbox": "boolean"}
    return _in_model_words(renamed, {**words.FIELD_TYPES, **alone})


def _is_blank(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and (tree.value is None or not tree.text.strip())
