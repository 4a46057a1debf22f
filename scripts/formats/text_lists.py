"""Read lists of choices of the older formats, and split texts that authors write in place of lists."""

import re

from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, pairs_of, word

_SHOWN = ("text", "label", "value", "name", "key")
_SEPARATORS = re.compile(r"[,，、;；|｜\n]")


def choices_in(tree: Scalar) -> Sequence:
    """Return the choices in a text: `good, bad` with any separator or on lines, otherwise `yes/no`."""
    pattern = _SEPARATORS if _SEPARATORS.search(tree.text.strip()) else re.compile("/")
    parts = [part.strip() for part in pattern.split(tree.text)]
    found = tuple(Scalar(part, False, tree.at) for part in parts if part and tree.value is not None)
    return Sequence(found, tree.at)


def choice_texts(tree: Tree) -> Sequence:
    """Return the allowed values: texts, ``{A: text}`` or ``{value, label}`` for each, or one text with separators."""
    if isinstance(tree, Scalar):
        return choices_in(tree)
    if isinstance(tree, Mapping):
        return Sequence(tuple(value for _, value in tree.pairs), tree.at)
    found: list[Tree] = []
    for each in tree.items:
        pairs = pairs_of(each)
        shown = next((value for name in _SHOWN for key, value in pairs if key.text == name), None)
        if shown is None and pairs:
            found += [key if is_coded(key, value) else value for key, value in pairs]
        else:
            found.append(shown or each)
    return Sequence(tuple(found), tree.at)


def is_coded(key: Scalar, value: Tree) -> bool:
    """Return whether a choice is ``{text: 1}`` with its value, not ``{A: text}``."""
    is_number = isinstance(value, Scalar) and isinstance(value.value, int | float)
    return is_number and re.fullmatch(r"\w\d*|\d+", key.text.strip(), re.ASCII) is None


def named(name: str, key: Scalar, value: Tree, otherwise: str) -> Mapping:
    """Return a pair of a name and its part as the part with the name in it.

    A value that is no mapping becomes that of the key `otherwise`.
    """
    inner = value.pairs if isinstance(value, Mapping) else ((word(otherwise, key), value),)
    return Mapping(((word(name, key), key), *inner), key.at)
