"""The native format: the types of the model are its grammar."""

from scripts.model.script import Script
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping

_NOT_WRITTEN = {
    "globals": "Write global variables to a separate file and list it in `use`.",
    "strings": "Write a string table to a separate file and list it in `use`.",
    "phrases": "Write translations of the runtime's texts to a string table, a separate file.",
    "form": "Remove it; the format is detected from the keys.",
}


def recognises(tree: Mapping) -> bool:
    """Whether a file has this format."""
    return tree.get("script") is not None or (tree.get("phases") is not None and tree.get("session") is None)


def read(tree: Mapping, reader: Reader) -> Script | None:
    """Read the script, or None; the reader collects the problems."""
    written = []
    for key, value in tree.pairs:
        if key.text in _NOT_WRITTEN:
            reader.add("UNKNOWN_KEY", f"`{key.text}` is not allowed in a script", key.at, _NOT_WRITTEN[key.text])
        else:
            written.append((key, value))
    return reader.read(Mapping(tuple(written), tree.at), Script)
