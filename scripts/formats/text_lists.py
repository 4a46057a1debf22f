"""Read lists of choices of the older formats, and split texts that authors write in place of lists."""

import re
from collections.abc import Collection

from scripts.expressions.suggestions import resembles
from scripts.expressions.values import number_in, shorten
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, items_of, pairs_of, word
from scripts.yaml.unknown_keys import is_note

_LABELS = ("text", "label", "name")
_SEPARATORS = re.compile(r"[,，、;；|｜\n]")


def choices_in(tree: Scalar) -> Sequence:
    """Return the choices in a text: `good, bad` with any separator or on lines, otherwise `yes/no`."""
    pattern = _SEPARATORS if _SEPARATORS.search(tree.text.strip()) else re.compile("/")
    parts = [part.strip() for part in pattern.split(tree.text)]
    return Sequence(tuple(Scalar(part, False, tree.at) for part in parts if part and tree.value is not None), tree.at)


def choice_texts(tree: Tree) -> Sequence:
    """Return the allowed values: texts, ``{A: text}`` or ``{value, label}`` for each, or one text with separators.

    A value with a label becomes a pair of the two.
    """
    if isinstance(tree, Scalar):
        return choices_in(tree)
    if isinstance(tree, Mapping):
        return Sequence(tuple(value for _, value in tree.pairs), tree.at)
    found: list[Tree] = []
    for each in tree.items:
        pairs = pairs_of(each)
        parts = {key.text: part for key, part in pairs}
        shown = next((parts[name] for name in ("text", "label", "value", "name", "key") if name in parts), None)
        value, label = parts.get("value"), next((parts[name] for name in _LABELS if name in parts), None)
        if isinstance(value, Scalar) and isinstance(label, Scalar):
            found.append(Mapping(((value, label),), each.at))
        elif shown is None and pairs:
            found += [key if is_coded(key, value) else value for key, value in pairs]
        else:
            found.append(shown or each)
    return Sequence(tuple(found), tree.at)


def has_variable_name(tree: Mapping, own: Collection[str]) -> bool:
    """Whether `name` in ``{name: meaning, age: meaning}`` is a variable: no other key is one of a part's `own`."""
    keys = list(tree.keys())
    others = [key for key in keys if key != "name"]
    is_own = any(is_note(key) or resembles(key, own) for key in others)
    return "name" in keys and bool(others) and not is_own


def report_letters(reader: Reader, tree: Tree | None) -> None:
    """Record that no answer is a letter of ``{A: text, B: other}``, of which `choice_texts` returns the texts."""
    pairs = [pair for each in (tree, *items_of(tree)) for pair in pairs_of(each) if not is_coded(*pair)]
    named = (value if key.text in {"key", "value"} else key for key, value in pairs)
    letters = [each for each in named if isinstance(each, Scalar) and re.fullmatch(r"[A-Za-z]", each.text.strip())]
    if tree is not None and letters:
        texts = (each.text for each in choice_texts(tree).items if isinstance(each, Scalar))
        written = (f"{letter.text}. {text}" for letter, text in zip(letters, texts, strict=False))
        message = f"`{letters[0].text}` is no answer here: the answers are the texts of the choices"
        fix = f"Write `[{', '.join(written)}]`; the value is then the whole text."
        reader.add("KEY_IGNORED", message, letters[0].at, fix, severity="note")


def report_meaning(reader: Reader, name: Scalar, text: Scalar) -> None:
    """Record that the text in ``declare: {city: Rome}`` is no value."""
    message = f"{shorten(text.text)} is read as the meaning of `{name.text}`, which nothing sets"
    fix = f"Write `{name.text}: {{value: {shorten(text.text)}}}` if it is the value."
    reader.add("VALUE_AMBIGUOUS", message, text.at, fix, severity="note")


def is_coded(key: Scalar, value: Tree) -> bool:
    """Return whether a choice is ``{text: 1}`` with its value, not ``{A: text}``."""
    is_number = isinstance(value, Scalar) and isinstance(value.value, int | float)
    return is_number and re.fullmatch(r"\w\d*|\d+", key.text.strip(), re.ASCII) is None


def with_name(name: str, key: Scalar, value: Tree, otherwise: str) -> Mapping:
    """Return a pair of a name and its part as the part with the name in it.

    A value that is no mapping becomes that of the key `otherwise`.
    """
    inner = value.pairs if isinstance(value, Mapping) else ((word(otherwise, key), value),)
    return Mapping(((word(name, key), key), *inner), key.at)


def is_meaning(value: Tree) -> bool:
    """Return whether the part of a declared variable ``{name: part}`` is its meaning: a text that spells no value."""
    if not isinstance(value, Scalar) or not isinstance(value.value, str):
        return False
    return number_in(value.text) is None and value.text.strip().lower() not in {"true", "false"}


def is_record(value: Tree, own: Collection[str]) -> bool:
    """Return whether the part of a declared variable is a value: a mapping without a declaration's `own` keys."""
    keys = [key.text for key, _ in pairs_of(value)]
    return bool(keys) and not any(resembles(key, own) for key in keys)
