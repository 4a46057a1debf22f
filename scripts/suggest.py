"""What an author probably meant."""

import difflib
import re
from collections.abc import Sequence

LISTED_MAX = 20

_WIDE_SIGNS = "＜＞＝“”‘’（），；且或"
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")


def suggest(word: str, allowed: Sequence[str], otherwise: str | None = None) -> str:
    """``Did you mean `x`?`` where a word is close, else the words allowed, or what the caller gives."""
    close = difflib.get_close_matches(word, allowed, 1, 0.6)
    if close:
        return f"Did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    names = ", ".join(f"`{name}`" for name in sorted(allowed)[:LISTED_MAX])
    return f"Use one of {names}." if names else ""


def expression_fix(source: str) -> str:
    """How to mend an expression that does not compile, where its text shows a usual slip; else nothing."""
    if "{{" in source:
        return "Write the name alone; an expression takes no {{ }}."
    if any(char in source for char in _WIDE_SIGNS):
        return "Write plain signs and words: < > == ( ) , and or, and straight quotes."
    if "&&" in source or "||" in source:
        return "Write `and` and `or`."
    if _ASSIGNS.search(source):
        return "Compare with ==."
    if re.fullmatch(r"[\w\s，。！？,.!?'’-]+", source):
        return f"""A text needs quotes of its own: "'{source.strip()}'"."""
    return ""
