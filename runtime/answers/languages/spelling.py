"""Patterns for words of a language, ignoring letter case, width, spaces and missing accents."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

_APOSTROPHES = re.compile(r"['’‘`´]")


def fold(text: str) -> str:
    """Return a text folded for the patterns of a language; apostrophes separate words."""
    return " ".join(_APOSTROPHES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())


def strip_accents(text: str) -> str:
    """Return a text without the accents of its Latin letters; in other alphabets, accents distinguish letters."""
    if text.isascii():
        return text
    letters: list[str] = []
    for char in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(char) or not letters or not _is_latin(letters[-1]):
            letters.append(char)
    return unicodedata.normalize("NFC", "".join(letters))


def _is_latin(char: str) -> bool:
    return "a" <= char.casefold() <= "z"


def any_of(phrases: Iterable[str], *, digraphs: Mapping[str, str] | None = None, accented: Iterable[str] = ()) -> str:
    """Return a pattern for any of some phrases as whole words of a folded text, the longest first; without phrases it
    never matches.

    Accents may be missing except in `accented`; `digraphs` maps letters to their two-letter spellings.
    """
    exact = frozenset(map(fold, accented))
    folded = sorted({fold(each) for each in phrases}, key=lambda each: (-len(each), each))
    if not folded:
        return r"(?!)"
    patterns = (re.escape(each) if each in exact else spelling_pattern(each, digraphs or {}) for each in folded)
    return rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)"


def spelling_pattern(phrase: str, digraphs: Mapping[str, str]) -> str:
    """Return a pattern for a phrase, with or without accents, and with the letters or their `digraphs`."""
    return "".join(_letter(char, digraphs) for char in phrase)


def _letter(char: str, digraphs: Mapping[str, str]) -> str:
    plain = strip_accents(char)
    if char in digraphs:
        return f"(?:{char}|{digraphs[char]}|{plain})"
    return re.escape(char) if plain == char else f"[{char}{plain}]"


def plain_key(phrase: str, digraphs: Mapping[str, str]) -> str:
    """Return the canonical spelling of all texts that `any_of` matches for a phrase."""
    plain = strip_accents(fold(phrase))
    for letter, pair in digraphs.items():
        plain = plain.replace(pair, strip_accents(letter))
    return plain


def word_pattern(phrase: str) -> str:
    """Return a pattern for a phrase in a folded text, with or without accents.

    No letter may precede or follow it, except in scripts that do not separate words by spaces.
    """
    folded = fold(phrase)
    start = r"(?<![^\W\d_])" if _is_separated(folded[0]) else ""
    end = r"(?![^\W\d_])" if _is_separated(folded[-1]) else ""
    return f"{start}{spelling_pattern(folded, {})}{end}"


def _is_separated(letter: str) -> bool:
    return letter.isalpha() and letter < "\u2e80"  # the scripts of East Asia begin there
