"""Other spellings of the session and technique forms, brought into the keys that those forms have."""

from collections.abc import Callable
from collections.abc import Mapping as MappingType

import msgspec

from scripts.dialects.stage_widgets import FIELD_TYPES
from scripts.source import Mapping, Scalar, Sequence, Tree

ACTION_KEYS = {"action_type", "type", "action_id", "id", "condition", "config", "action_name", "description"}
_SKILL_KEYS = {
    **dict.fromkeys(("skill_id", "skill_name", "technique", "technique_id"), "skill"),
    **dict.fromkeys(("inputs", "params", "parameters", "input_parameters", "input_mapping", "arguments"), "input"),
    **dict.fromkeys(("output", "outputs", "output_variables", "output_mapping"), "returns"),
}
_FORM_KEYS = {"form_id": "form", "form_name": "title", "form_title": "title", "form_fields": "fields"}
_FIELD_KEYS = {
    **dict.fromkeys(("name", "var", "key", "id", "field_id", "field_name", "variable"), "field"),
    **dict.fromkeys(("title", "question"), "label"),
    **dict.fromkeys(("options", "enum"), "choices"),
    **dict.fromkeys(("description", "desc"), "define"),
    **dict.fromkeys(("hint",), "placeholder"),
    **dict.fromkeys(("value", "default_value"), "default"),
}
_OPERATORS = {
    **dict.fromkeys(("=", "===", "eq", "equals"), "=="),
    **dict.fromkeys(("!==", "<>", "ne", "not_equals"), "!="),
    **dict.fromkeys(("gt",), ">"),
    **dict.fromkeys(("lt",), "<"),
    **dict.fromkeys(("gte", "ge"), ">="),
    **dict.fromkeys(("lte", "le"), "<="),
    "includes": "contains",
}


def action(tree: Mapping) -> Mapping:
    """An action whose config keys stand inline, as one with `config`; what `config` itself says stands first."""
    names = {"type": "action_type", "id": "action_id"}
    inline = tuple((key, value) for key, value in tree.pairs if key.text not in ACTION_KEYS)
    config = tree.get("config")
    kept = [
        (msgspec.structs.replace(key, text=names.get(key.text, key.text)), value)
        for key, value in tree.pairs
        if key.text in ACTION_KEYS and key.text != "config"
    ]
    if config is not None and not isinstance(config, Mapping):
        return Mapping((*kept, (_word("config", config), config)), tree.at, tree.size)
    pairs = (*(config.pairs if config is not None else ()), *inline)
    if config is not None or pairs:
        at = config.at if config is not None else pairs[0][0].at
        own = Mapping(pairs, at, len(pairs))
        kept.append((_word("config", own), _config(_text(tree.get("action_type") or tree.get("type")), own)))
    return Mapping(tuple(kept), tree.at, tree.size)


def _config(kind: str, config: Mapping) -> Mapping:
    match kind:
        case "use_skill":
            renamed = keys_renamed(config, _SKILL_KEYS)
            return Mapping(tuple(_by_name(*pair) for pair in renamed.pairs), config.at, config.size)
        case "show_form":
            return keys_renamed(config, _FORM_KEYS)
        case _:
            return config


def _by_name(key: Scalar, value: Tree) -> tuple[Scalar, Tree]:
    """``returns: [x, {get: y}]`` as what goes where."""
    if key.text != "returns" or not isinstance(value, Sequence):
        return key, value
    named = [each.get("get") or each.get("name") if isinstance(each, Mapping) else each for each in value.items]
    pairs = tuple((each, each) for each in named if isinstance(each, Scalar))
    return key, Mapping(pairs, value.at, len(pairs)) if len(pairs) == len(value.items) else value


def topic(tree: Mapping) -> Mapping:
    """A topic that calls its condition as a phase does."""
    return keys_renamed(tree, {"entry_condition": "condition"})


def phase(tree: Mapping) -> Mapping:
    """A phase that calls its condition as a topic does."""
    return keys_renamed(tree, {"condition": "entry_condition"})


def exit_criteria(tree: Mapping) -> Mapping:
    """Exit criteria with the understanding in percent, which some write as a part of one."""
    return _changed(tree, "understanding_threshold", _percent)


def _percent(tree: Scalar) -> Scalar:
    part = tree.value
    is_part = isinstance(part, float) and 0 < part <= 1
    return _number(round(part * 100), tree) if is_part and isinstance(part, float) else tree


def comparison(tree: Mapping) -> Mapping:
    """A condition among exit criteria with its sign as this form writes it."""
    return _changed(tree, "operator", lambda sign: _said(_OPERATORS.get(sign.text.strip(), sign.text.strip()), sign))


def form_field(tree: Mapping) -> Mapping:
    """A field of a form."""
    renamed = keys_renamed(tree, _FIELD_KEYS)
    return _changed(renamed, "type", lambda kind: _said(FIELD_TYPES.get(kind.text.strip().lower(), kind.text), kind))


def technique(tree: Mapping) -> Mapping:
    """A technique whose outputs are only names, whatever else was said of them."""
    outputs = tree.get("output_variables")
    if not isinstance(outputs, Sequence):
        return tree
    named = tuple((each.get("name") or each) if isinstance(each, Mapping) else each for each in outputs.items)
    own = msgspec.structs.replace(outputs, items=named)
    pairs = tuple((key, own if key.text == "output_variables" else value) for key, value in tree.pairs)
    return Mapping(pairs, tree.at, tree.size)


def keys_renamed(tree: Mapping, names: MappingType[str, str]) -> Mapping:
    """A mapping with other names for its keys, unless it has those as well."""
    taken = set(tree.keys())
    pairs = []
    for key, value in tree.pairs:
        name = names.get(key.text, key.text)
        if name != key.text and name not in taken:
            taken.add(name)
            pairs.append((msgspec.structs.replace(key, text=name), value))
        else:
            pairs.append((key, value))
    return Mapping(tuple(pairs), tree.at, tree.size)


def _changed(tree: Mapping, name: str, change: Callable[[Scalar], Scalar]) -> Mapping:
    pairs = tuple(
        (key, change(value) if key.text == name and isinstance(value, Scalar) else value) for key, value in tree.pairs
    )
    return Mapping(pairs, tree.at, tree.size)


def _text(tree: Tree | None) -> str:
    return tree.text if isinstance(tree, Scalar) else ""


def _word(text: str, near: Tree) -> Scalar:
    return Scalar(text, True, near.at, near.at.line)


def _said(text: str, near: Scalar) -> Scalar:
    return Scalar(text, False, near.at, near.at.line)


def _number(value: int, near: Scalar) -> Scalar:
    return Scalar(str(value), True, near.at, near.at.line)
