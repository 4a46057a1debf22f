"""The few sentences the runtime says by itself when a script gives none, in the language of a session."""

from collections.abc import Mapping

from runtime.languages import ENGLISH, also_english, spoken
from scripts.model import Locale
from scripts.strings import Phrase, language


def phrase(locale: Locale, name: Phrase, choices: tuple[str, ...] = (), *, own: Mapping[str, str]) -> str:
    """A sentence in a language, `own` ones first; `choices` fills the list of what may be chosen."""
    separator = "、" if language(locale) in {"zh", "ja"} else ", "
    sentence = own.get(name) or spoken(locale).phrases[name]
    return sentence.replace("{choices}", separator.join(choices))


def farewells(locale: Locale) -> tuple[str, ...]:
    """Words by which people end a free conversation: those of the language, and the English ones."""
    known = spoken(locale)
    return also_english(known.farewells, ENGLISH.farewells, known)
