"""Collect the words of a file in the session format: its names and texts, and what may be meant otherwise."""

from collections.abc import Collection, Iterator

from scripts.formats.text_lists import is_meaning, report_letters, report_meaning
from scripts.formats.words import OUTPUT_KEYS, SESSION_KEYS
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Scalar, Tree, items_of, pairs_of, pairs_within


def report_letters_in(tree: Tree, reader: Reader) -> None:
    """Record the choices of outputs and fields, in the whole tree, whose letters are lost."""
    for key, value in pairs_within(tree):
        if key.text in _CHOICES:
            report_letters(reader, value)


_CHOICES = {"choices", *(key for key, name in OUTPUT_KEYS.items() if name == "choices")} - {"values"}
_CONDITIONS = {"condition", "entry_condition", "when", "if"}


def words_in(tree: Tree) -> Iterator[str]:
    """Yield all keys and texts of a tree, without conditions."""
    waiting = [tree]
    while waiting:
        tree = waiting.pop()
        yield from (tree.text,) if isinstance(tree, Scalar) else (key.text for key, _ in pairs_of(tree))
        waiting += (*items_of(tree), *(value for key, value in pairs_of(tree) if key.text not in _CONDITIONS))


_NAMES = {"get", "set", "var", "name", "variable", "target_variable", "save_to", "field", "id", "key"}
_RESULTS = {"output", "outputs", "output_list", "output_variables", "returns"}


def variables_in(tree: Tree) -> Iterator[str]:
    """Yield the texts that name variables, under the keys for names and for results."""
    for key, value in pairs_within(tree):
        if key.text in {*_NAMES, *_RESULTS}:
            yield from (each.text for each in (items_of(value) or (value,)) if isinstance(each, Scalar))
        if key.text in _RESULTS:
            for name, part in (pair for each in (value, *items_of(value)) for pair in pairs_of(each)):
                yield from (name.text, part.text) if isinstance(part, Scalar) else (name.text,)


def report_meanings(tree: Tree, reader: Reader, known: Collection[str]) -> None:
    """Record the first text in ``variables: {city: Rome}`` that may be meant as a value: of a variable not in `known`,
    the variables that something sets.
    """
    for key, value in pairs_within(tree):
        found = [(name, text) for name, text in pairs_of(value) if isinstance(text, Scalar) and is_meaning(text)]
        is_one = any(name.text in _NAMES for name, _ in pairs_of(value))
        unset = next(((name, text) for name, text in found if name.text not in known), None)
        if key.text in _DECLARING and not is_one and unset is not None:
            report_meaning(reader, *unset)


_DECLARING = {"declare", *(key for key, name in SESSION_KEYS.items() if name == "declare")}
