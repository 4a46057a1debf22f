"""What the runtime knows of languages: its own sentences, and the words in which it reads answers.

A language is one module here, with its data as one `Language`. Answers in English are understood in every language,
but for the words of English that mean something else there.
"""

from collections.abc import Mapping

from runtime.languages import de, en, es, fr, it, nl, pt, zh
from runtime.languages.language import Language
from scripts.model import Locale
from scripts.strings import language

ENGLISH = en.LANGUAGE
LANGUAGES: Mapping[str, Language] = {each.LANGUAGE.code: each.LANGUAGE for each in (en, zh, de, fr, es, it, pt, nl)}


def known_language(locale: Locale) -> Language | None:
    """The language of a locale, or None where there is no data of it."""
    return LANGUAGES.get(language(locale.replace("_", "-")))


def spoken(locale: Locale) -> Language:
    """The language the runtime speaks in a locale; English where it does not know the locale's own."""
    return known_language(locale) or ENGLISH


def also_english(words: tuple[str, ...], english: tuple[str, ...], own: Language) -> tuple[str, ...]:
    """Words of a language and the same in English, without the English ones that mean something else in it."""
    return words + tuple(word for word in english if word not in own.collides)
