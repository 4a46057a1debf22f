"""Read the choices of a value, of which some are pairs of the value and its label, such as ``{0: never}``."""

from scripts.yaml.parser import Scalar, Sequence, Tree, is_empty, items_of, pairs_of


def labels_of(choices: Tree | None) -> dict[str, str]:
    """Return the labels of choices such as ``{0: never}`` by their values."""
    pairs = (pair for each in items_of(choices) for pair in _label_of(each))
    return {value.text: label.text for value, label in pairs}


def values_of(choices: Tree) -> Sequence:
    """Return choices without their labels."""
    values = (next((value for value, _ in _label_of(each)), each) for each in items_of(choices))
    return Sequence(tuple(values), choices.at)


def _label_of(choice: Tree) -> list[tuple[Scalar, Scalar]]:
    """Return the value and the label of a choice, if it is a pair."""
    pairs = pairs_of(choice)
    return [(key, text) for key, text in pairs if len(pairs) == 1 and isinstance(text, Scalar) and not is_empty(text)]
