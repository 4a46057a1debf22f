"""The names of embedders, as they are set: which kind, and what of it."""

from typing import Literal, TypeAlias

from msgspec import Struct

WORDLLAMA = "wordllama"
NONE = "none"

Kind: TypeAlias = Literal["wordllama", "sentence-transformers", "openai", "hashed", "none"]

_PLAIN: tuple[Kind, ...] = ("wordllama", "none")
_NAMED: tuple[Kind, ...] = ("sentence-transformers", "openai", "hashed")
DIMENSION_MAX = 4_096


class Named(Struct, frozen=True):
    """An embedder by its kind, and which of that kind: a model, a folder, how many numbers."""

    kind: Kind
    what: str = ""


def named(name: str) -> Named:
    """What a name means. Raises ValueError, with the fix."""
    for plain in _PLAIN:
        if name == plain:
            return Named(plain)
    before, _, what = name.partition(":")
    for kind in _NAMED:
        if before == kind and what.strip():
            return Named(kind, what.strip() if kind != "hashed" else _dimension(what))
    raise ValueError(
        f"there is no embedder {name!r}; use `wordllama`, `sentence-transformers:NAME_OR_FOLDER`, `openai:NAME`, "
        "or `none`"
    )


def _dimension(what: str) -> str:
    if not what.isdecimal() or not 8 <= int(what) <= DIMENSION_MAX:
        raise ValueError(f"`hashed:{what}` must say how many numbers a vector has, from 8 to {DIMENSION_MAX}")
    return str(int(what))
