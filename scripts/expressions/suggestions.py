"""Suggestions for misspelt words and common mistakes."""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

LISTED_MAX = 20
SURE = 0.8  # similarity of two words that differ in one letter

_WIDE_SIGNS = "＜＞＝“”‘’（），；且或"
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")


@cache
def _synonyms() -> Mapping[str, str]:
    """Return common names of other tools, by the corresponding word of this language."""
    return msgspec.yaml.decode(Path(__file__).with_name("synonyms.yaml").read_text("utf-8"), type=dict[str, str])


def suggest(word: str, allowed: Sequence[str], otherwise: str | None = None) -> str:
    """Return ``Did you mean `x`?`` for a similar word, otherwise `otherwise` or the allowed words."""
    plain = word.strip().casefold().replace(" ", "_").replace("-", "_")
    synonyms = [each for each, words in _synonyms().items() if each in allowed and plain in words.split()]
    close = synonyms[:1] or difflib.get_close_matches(word, allowed, 1, 0.6)
    if close:
        return f"Did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    names = ", ".join(f"`{name}`" for name in sorted(allowed)[:LISTED_MAX])
    return f"Use one of {names}." if names else ""


def likeness(one: str, other: str) -> float:
    """Return the similarity of two words, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def expression_fix(source: str) -> str:
    """Return the fix for a common mistake in an invalid expression, or an empty text."""
    if "{{" in source:
        return "Write the name alone; an expression has no {{ }}."
    if any(char in source for char in _WIDE_SIGNS):
        return "Write plain operators and words: < > == ( ) , and or, and straight quotes."
    if "&&" in source or "||" in source:
        return "Write `and` and `or`."
    if _ASSIGNS.search(source):
        return "Compare with ==."
    if re.fullmatch(r"[\w\s，。！？,.!?'’-]+", source):
        return f"""Put the text in quotes of its own: "'{source.strip()}'"."""
    return ""


def template_fix(source: str) -> str:
    """Return the fix for a part of an invalid template that is not closed, or an empty text."""
    for word in ("if", "for"):
        begun = len(re.findall(rf"{{%[-+]?\s*{word}\b", source))
        if begun > len(re.findall(rf"{{%[-+]?\s*end{word}\b", source)):
            return f"Close `{{% {word} … %}}` with `{{% end{word} %}}`."
    return "Close {{ with }}." if source.count("{{") > source.count("}}") else ""
