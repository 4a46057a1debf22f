"""The words around a choice, as patterns: those of a locale's language, of English and of Chinese."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from runtime.languages import ENGLISH, LANGUAGES, known_language
from runtime.languages.language import ChoiceWords, Language
from runtime.languages.spelling import plain_key, spelled
from scripts.model import Locale

_LEAD_WORDS_MAX = 6
_ENGLISH_NO = (
    "no", "not", "never", "none", "neither", "nor", "except", "without", "cannot", "cant", "dont", "isnt",
    "rather than", "anything but",
)  # fmt: skip
_HAN_NO = r"不(?!过|仅|错)|没|无|除了|(?<![特分级性区差])别(?!的|人)"


class Words(Struct, frozen=True):
    """The words around a choice: before and after it, for its place, for the end of a clause, and for no."""

    lead: re.Pattern[str]
    tail: re.Pattern[str]
    ordinal: re.Pattern[str]
    places: Mapping[str, int]
    digraphs: Mapping[str, str]
    clause_end: re.Pattern[str]
    negation: re.Pattern[str]

    def place(self, ordinal: str) -> int:
        """The place an ordinal stands for, from 1 on; -1 is the last."""
        return self.places[plain_key(ordinal, self.digraphs)]


def words_for(locale: Locale) -> Words:
    """The words in which choices are picked in a locale."""
    own = known_language(locale)
    return _words(ENGLISH.code if own is None or own.choices is None else own.code)


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> Words:
    own, english = LANGUAGES[code], ENGLISH.choices
    found = own.choices
    if found is None or english is None:
        raise KeyError(code)

    def either(words: Iterable[str], others: Iterable[str]) -> str:
        both = {*words, *(each for each in others if each not in own.collides)}
        return "|".join(spelled(each, own.digraphs) for each in sorted(both, key=lambda each: (-len(each), each)))

    ordinals = {**english.ordinals, **found.ordinals}
    tails = either(found.tails, english.tails)
    suffixes = either(own.ordinal_suffixes, ENGLISH.ordinal_suffixes)
    leads = either(found.leads, english.leads)
    but = either(found.but, english.but)
    return Words(
        lead=re.compile(
            rf"(?:(?:(?:{leads})(?![a-zà-ɏ])|no\.|我|就|选择|选项|选|要|答案|是|第)[\s:：#'.]*){{0,{_LEAD_WORDS_MAX}}}"
        ),
        tail=re.compile(rf"[\s)）\].。!！,，、:：]*(?:{tails}|谢谢|吧|个|项|号)?[\s.。!！]*"),
        ordinal=re.compile(
            rf"\b(?:(?P<word>{either(ordinals, ())})|(?P<nth>[0-9]{{1,3}})(?:{suffixes}))"
            rf"(?=\s(?:{either(found.nouns, english.nouns)})\b|\s*[.,!]?\s*(?:(?:{tails})[\s.!]*)?$)"
            r"|(?<!倒数)第\s?(?P<han>[0-9]{1,3}|[一二两三四五六七八九十]{1,3}|最后)\s?(?=[个项种条款号]|选项|\s*[。！吧]?\s*$)"
            r"|(?P<final>最后一[个项种条])"
        ),
        places={plain_key(word, own.digraphs): place for word, place in ordinals.items()},
        digraphs=own.digraphs,
        clause_end=re.compile(rf"[,，。;；!！?？\n]|(?<!anything )\b(?:{but})\b|而是|而(?!且)|但"),
        negation=re.compile(rf"\b(?:{either(_no(own, found), _ENGLISH_NO)}|[a-z]{{2,8}}n't)\b|{_HAN_NO}"),
    )


def _no(own: Language, found: ChoiceWords) -> tuple[str, ...]:
    return (*(own.yes_no.no if own.yes_no is not None else ()), *found.without)
