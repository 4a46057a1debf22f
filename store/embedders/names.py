"""Parse the names of embedders, as they are set: a kind, and a model, folder or dimension."""

from typing import Literal, TypeAlias

from msgspec import Struct

WORDLLAMA = "wordllama"

Kind: TypeAlias = Literal["wordllama", "sentence-transformers", "openai", "hashed", "none"]

_PLAIN: tuple[Kind, ...] = ("wordllama", "none")
_NAMED: tuple[Kind, ...] = ("sentence-transformers", "openai", "hashed")
DIMENSION_MAX = 4_096


class EmbedderName(Struct, frozen=True):
    """The name of an embedder: its kind, and a model, a folder or a number of dimensions."""

    kind: Kind
    what: str = ""


def parse_name(name: str) -> EmbedderName:
    """Parse a name. Raises ValueError, with the fix."""
    for plain in _PLAIN:
        if name == plain:
            return EmbedderName(plain)
    before, _, what = name.partition(":")
    for kind in _NAMED:
        if before == kind and what.strip():
            return EmbedderName(kind, what.strip() if kind != "hashed" else _dimension(what))
    raise ValueError(
        f"there is no embedder {name!r}; use `wordllama`, `sentence-transformers:NAME_OR_FOLDER`, `openai:NAME`, "
        "or `none`"
    )


def _dimension(what: str) -> str:
    if not what.isdecimal() or not 8 <= int(what) <= DIMENSION_MAX:
        raise ValueError(f"`hashed:{what}` must name the number of dimensions, from 8 to {DIMENSION_MAX}")
    return str(int(what))
