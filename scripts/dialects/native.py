"""The native form: the model's own types are its grammar."""

from scripts.model import Script
from scripts.reader import Reader
from scripts.source import Mapping


def recognises(tree: Mapping) -> bool:
    """Whether a file is meant to be in this form."""
    return tree.get("script") is not None or (tree.get("phases") is not None and tree.get("session") is None)


def read(tree: Mapping, reader: Reader) -> Script | None:
    """The script, or None; what is wrong is with the reader."""
    shared = tree.get("globals") or tree.get("form")
    if shared is not None:
        reader.add(
            "UNKNOWN_KEY",
            "globals and form are not written in a script",
            shared.at,
            "Put global variables into a file of their own and name it in `use`.",
        )
        return None
    return reader.read(tree, Script)
