"""The language data of the runtime: its default texts, and the words by which it parses answers.

Each language is a YAML file, decoded as one `Language`. Answers in English are accepted in every language, except
English words with another meaning there.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from runtime.answers.languages.language import Language
from scripts.model.script import Locale
from scripts.translations.localisation import Phrase, language

CODES = ("en", "zh", "de", "fr", "es", "it", "pt", "nl")


@cache
def _read(code: str) -> Language:
    return msgspec.yaml.decode(Path(__file__).with_name(f"{code}.yaml").read_text("utf-8"), type=Language)


class _Languages(Mapping[str, Language]):
    """The languages by code. The file of a language is read when it is first used."""

    def __getitem__(self, code: str) -> Language:
        if code not in CODES:
            raise KeyError(code)
        return _read(code)

    def __iter__(self) -> Iterator[str]:
        return iter(CODES)

    def __len__(self) -> int:
        return len(CODES)


LANGUAGES = _Languages()
ENGLISH = LANGUAGES["en"]


def language_of(locale: Locale) -> Language:
    """Return the language of the runtime's texts in a locale; English if there is no data for the locale's own."""
    return LANGUAGES.get(language(locale), ENGLISH)


def also_english(words: tuple[str, ...], english: tuple[str, ...], own: Language) -> tuple[str, ...]:
    """Return words of a language and the English ones, except those with another meaning in the language."""
    return words + tuple(word for word in english if word not in own.collides)


def between_words(code: str) -> tuple[str, ...]:
    """Return the words between two alternatives, or the ends of a range, in a language, in English and in Chinese."""
    own = LANGUAGES.get(code)
    numbers = own.numbers if own is not None else None
    common = ("or", "to", "till", "until", "或", "或者", "还是", "到", "至")
    return (*common, *(numbers.between[:2] if numbers is not None else ()))


def phrase(locale: Locale, name: Phrase, choices: tuple[str, ...] = (), *, own: Mapping[str, str]) -> str:
    """Return a default text in a language, `own` ones first; `choices` fills the list of choices.

    A script's own text for invalid answers is also that for values outside their range.
    """
    separator = "、" if language(locale) in {"zh", "ja"} else ", "
    written = own.get(name) or (own.get("invalid") if name == "range" else None)
    sentence = written or language_of(locale).phrases[name]
    return sentence.replace("{choices}", separator.join(choices))


def farewells(locale: Locale) -> tuple[str, ...]:
    """Return words that end a free conversation, in the language and in English."""
    known = language_of(locale)
    return also_english(known.farewells, ENGLISH.farewells, known)
