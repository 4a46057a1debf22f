"""Words of a language as patterns: letter case, width, spaces and missing accents make no difference."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

_APOSTROPHES = re.compile(r"['’‘`´]")


def fold(text: str) -> str:
    """A text as words of a language are looked for in it; apostrophes part words."""
    return " ".join(_APOSTROPHES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())


def unaccented(text: str) -> str:
    """A text without the accents of its Latin letters; other alphabets keep their marks, which make other letters."""
    if text.isascii():
        return text
    kept: list[str] = []
    for char in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(char) or not kept or not _is_latin(kept[-1]):
            kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept))


def _is_latin(char: str) -> bool:
    return "a" <= char.casefold() <= "z"


def any_of(phrases: Iterable[str], *, digraphs: Mapping[str, str] | None = None, accented: Iterable[str] = ()) -> str:
    """A pattern for any of some phrases as whole words of a folded text, the longest first; nothing matches none.

    Accents may be missing from all but `accented`; `digraphs` gives letters that may be written as two.
    """
    exact = frozenset(map(fold, accented))
    folded = sorted({fold(each) for each in phrases}, key=lambda each: (-len(each), each))
    if not folded:
        return r"(?!)"
    patterns = (re.escape(each) if each in exact else spelled(each, digraphs or {}) for each in folded)
    return rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)"


def spelled(phrase: str, digraphs: Mapping[str, str]) -> str:
    """A pattern for a phrase, accents or not, and with `digraphs` for the letters they stand for."""
    return "".join(_letter(char, digraphs) for char in phrase)


def _letter(char: str, digraphs: Mapping[str, str]) -> str:
    plain = unaccented(char)
    if char in digraphs:
        return f"(?:{char}|{digraphs[char]}|{plain})"
    return re.escape(char) if plain == char else f"[{char}{plain}]"


def plain_key(phrase: str, digraphs: Mapping[str, str]) -> str:
    """A phrase in the one spelling that stands for all that `any_of` takes for it."""
    plain = unaccented(fold(phrase))
    for letter, pair in digraphs.items():
        plain = plain.replace(pair, unaccented(letter))
    return plain
