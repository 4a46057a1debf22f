"""The `foreach` of the stage form: the list it goes through, and what its item is called."""

import re

from scripts.actions import Loop
from scripts.dialects.stage_keys import Item, Notation, braced, content_at
from scripts.dialects.stage_names import AtHand, bare, is_name, variable_name
from scripts.dialects.stage_words import FOREACH
from scripts.nodes import Expression, Location
from scripts.reader import literal
from scripts.source import Mapping, Scalar, Sequence, Tree

ITEM = "item"
_AS = re.compile(r"(?P<list>.+?)\s+as\s+(?P<name>\S+)\s*", re.DOTALL)
_IN = re.compile(r"(?P<name>\S+)\s+(?:in|of)\s+(?P<list>.+)", re.DOTALL)


def foreach_of(notation: Notation, item: Item) -> tuple[Loop, AtHand]:
    """The loop of an item, from its `foreach` and what may stand beside it."""
    tree = item.take(*FOREACH)
    written = item.word("as", "item", "var", "each")
    if isinstance(tree, Mapping) and braced(tree) is None:
        inner = Item(notation, tree)
        written = written or inner.word("as", "item", "var", "each", "name")
        tree = inner.take("list", "in", "of", "items", "from", *FOREACH)
        inner.finish()
    return loop_of(notation, tree, written, item.at)


def loop_of(notation: Notation, tree: Tree | None, written: str, at: Location) -> tuple[Loop, AtHand]:
    """A loop through what a text names: ``LIST as NAME``, ``NAME in LIST``, ``{LIST}``, or a list written out."""
    if isinstance(tree, Sequence):
        source, listed, place = literal(notation.value(tree)), "", tree.at
    else:
        text = (braced(tree) or "" if isinstance(tree, Mapping) else notation.word(tree)) if tree is not None else ""
        found = None if is_name(text) and "{" in text else _AS.fullmatch(text.strip()) or _IN.fullmatch(text.strip())
        if found is not None:
            text, written = found["list"], written or found["name"]
        place = content_at(tree) if isinstance(tree, Scalar) else at
        source, listed = _list(notation, text.strip(), place)
    name = variable_name(written) if written else _unused(notation)
    return Loop(items=Expression(source, place), name=name, at=place), AtHand(written or ITEM, name, listed)


def _list(notation: Notation, text: str, at: Location) -> tuple[str, str]:
    """The expression of a list, and its name where it is one."""
    if not text:
        notation.refuse("REQUIRED_FIELD_MISSING", "`foreach` names no list", at, "Write `foreach: LIST as item`.")
        return "[]", ""
    return (notation.refer(text), bare(text)) if is_name(text) else (notation.computed(text, at).source, "")


def _unused(notation: Notation) -> str:
    """What an item is called that nobody named, other than those of the loops around."""
    taken = {loop.name for loop in notation.loops}
    return next(name for name in (ITEM, *(f"{ITEM}_{n}" for n in range(2, 100))) if name not in taken)
