"""Conditions and exit criteria of the older formats that are written as mappings and lists."""

from collections.abc import Callable
from collections.abc import Mapping as MappingType
from typing import Any

from msgspec.structs import replace

from scripts.expressions.suggestions import snake_case
from scripts.expressions.values import literal, number_in
from scripts.formats import words
from scripts.model.older_keys import CustomCondition, ExitCriteria
from scripts.yaml.parser import (
    Mapping,
    Scalar,
    Sequence,
    Tree,
    keys_renamed,
    plain_value,
    text_in,
    text_replaced,
    with_value,
    word,
)

_JOINS = {"all": " && ", "and": " && ", "any": " || ", "or": " || "}

_PRESENCE = {"is set": "!=", "is missing": "=="}  # beside an empty text
_SIGNS = {"lacks": "不包含", "not in": "不属于"}  # as conditions are written


def condition_text(tree: Tree) -> Tree:
    """Return the text of a condition that is written as ``{variable: x, operator: ">", value: 1}``, as a list of
    conditions that must all hold, as ``{all: […]}``, ``{any: […]}`` or ``{not: …}``. Without an operator, a comparison
    is for the same value; `exists` and the like need no value.
    """
    key, listed = tree.pairs[0] if isinstance(tree, Mapping) and len(tree.pairs) == 1 else (None, tree)
    if isinstance(listed, Sequence) and (key is None or key.text in _JOINS):
        parts = [condition_text(each) for each in listed.items]
        texts = [f"({each.text})" for each in parts if isinstance(each, Scalar)]
        joint = " && " if key is None else _JOINS[key.text]
        return Scalar(joint.join(texts), False, tree.at) if texts and len(texts) == len(parts) else tree
    if key is not None and key.text == "not":
        inner = condition_text(Sequence((listed,), listed.at))
        return Scalar(f"!{inner.text}", False, tree.at) if isinstance(inner, Scalar) else tree
    found = comparison(tree) if isinstance(tree, Mapping) else None
    name, sign, value = (found.get(key) if found is not None else None for key in ("variable", "operator", "value"))
    if not isinstance(name, Scalar) or isinstance(sign, Mapping | Sequence) or (sign is None and value is None):
        return tree
    compared = f" {literal(plain_value(value))}" if value is not None else ""
    written = sign.text if sign is not None else "=="
    return Scalar(f"{{{name.text}}} {_SIGNS.get(written, written)}{compared}", False, tree.at)


def exit_criteria(tree: Mapping) -> Mapping:
    """Convert the understanding of exit criteria to percent, if it is a fraction of one or a text such as `80%`."""
    listed = with_value(
        tree, "custom_conditions", lambda value: Sequence((value,), value.at) if isinstance(value, Mapping) else value
    )
    return with_value(listed, "understanding_threshold", _percent)


def _percent(tree: Tree) -> Tree:
    number = number_in(text_in(tree).strip().rstrip("%％").strip())
    if not isinstance(tree, Scalar) or number is None or number < 0:
        return tree
    is_part = number <= 1 and tree.text.strip()[-1] not in "%％"
    return word(str(round(number * 100 if is_part else number)), tree)


def comparison(tree: Mapping) -> Mapping:
    """Convert the keys and the operator of a comparison to the spelling of the session format."""
    tree = text_replaced(keys_renamed(tree, words.COMPARISON_KEYS), "variable", lambda name: name.strip("${} "))
    return text_replaced(tree, "operator", _comparison_sign)


def criterion(tree: Mapping) -> Mapping:
    """Convert a comparison of exit criteria; `exists` and the like compare with the empty text."""
    found = comparison(tree)
    sign = found.get("operator")
    if not isinstance(sign, Scalar) or sign.text not in _PRESENCE:
        return found
    others = tuple((key, value) for key, value in found.pairs if key.text not in {"operator", "value"})
    pairs = (*others, (word("operator", sign), word(_PRESENCE[sign.text], sign)), (word("value", sign), word("", sign)))
    return replace(found, pairs=pairs)


def _comparison_sign(written: str) -> str:
    sign = written.strip()
    return words.COMPARISONS.get(sign) or words.COMPARISONS.get(snake_case(sign)) or words.OPERATORS.get(sign, sign)


CRITERIA: MappingType[Any, Callable[[Mapping], Mapping]] = {ExitCriteria: exit_criteria, CustomCondition: criterion}
