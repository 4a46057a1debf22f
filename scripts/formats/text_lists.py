"""Split texts that authors of the older formats write in place of lists."""

import re

from scripts.yaml.parser import Scalar, Sequence

_SEPARATORS = re.compile(r"[,，、;；|｜\n]")


def choices_in(tree: Scalar) -> Sequence:
    """Return the choices in a text: `good, bad` with any separator or on lines, otherwise `yes/no`."""
    pattern = _SEPARATORS if _SEPARATORS.search(tree.text.strip()) else re.compile("/")
    parts = [part.strip() for part in pattern.split(tree.text)]
    found = tuple(Scalar(part, False, tree.at) for part in parts if part and tree.value is not None)
    return Sequence(found, tree.at)
