"""The native form: the model's own types are its grammar."""

from scripts.model import Script
from scripts.reader import Reader
from scripts.source import Mapping

_NOT_WRITTEN = {
    "globals": "Put global variables into a file of their own and name it in `use`.",
    "strings": "Put a string table into a file of its own and name it in `use`.",
    "phrases": "Put the runtime's own sentences into a string table, a file of its own.",
    "form": "Remove it; the form is seen from the keys.",
}


def recognises(tree: Mapping) -> bool:
    """Whether a file is meant to be in this form."""
    return tree.get("script") is not None or (tree.get("phases") is not None and tree.get("session") is None)


def read(tree: Mapping, reader: Reader) -> Script | None:
    """The script, or None; what is wrong is with the reader."""
    written = []
    for key, value in tree.pairs:
        if key.text in _NOT_WRITTEN:
            reader.add("UNKNOWN_KEY", f"`{key.text}` is not written in a script", key.at, _NOT_WRITTEN[key.text])
        else:
            written.append((key, value))
    return reader.read(Mapping(tuple(written), tree.at, tree.size), Script)
