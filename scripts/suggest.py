"""The word an author probably meant."""

import difflib
from collections.abc import Sequence

LISTED_MAX = 20


def suggest(word: str, allowed: Sequence[str], otherwise: str | None = None) -> str:
    """``Did you mean `x`?`` where a word is close, else the words allowed, or what the caller gives."""
    close = difflib.get_close_matches(word, allowed, 1, 0.6)
    if close:
        return f"Did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    names = ", ".join(f"`{name}`" for name in sorted(allowed)[:LISTED_MAX])
    return f"Use one of {names}." if names else ""
