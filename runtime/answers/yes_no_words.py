"""Yes or no out of one clause, by the words that a language has for it."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.languages import LANGUAGES
from runtime.languages.language import Language, YesNo
from runtime.languages.spelling import any_of, fold

WORDS_MAX = 8  # in a longer clause a negation need not be the answer: "I have not slept well since ..."
FILLERS_MAX = 6

Says: TypeAlias = Literal["yes", "no", "open"]

_NOT_WORDS = re.compile(r"[^\w\s]+")


class _Grammar(Struct, frozen=True):
    yes: re.Pattern[str]
    plain_yes: re.Pattern[str]  # the one word for yes, also without its accents
    agrees: re.Pattern[str]
    no: re.Pattern[str]
    plain_no: re.Pattern[str]  # the one word for no, and polite words
    no_then_yes: re.Pattern[str]
    no_alone: re.Pattern[str]
    unsure: re.Pattern[str]
    fillers: re.Pattern[str]
    both: re.Pattern[str]


@lru_cache(maxsize=len(LANGUAGES))
def _grammar(code: str) -> _Grammar:
    language = LANGUAGES[code]
    words = language.yes_no
    if words is None:
        raise KeyError(code)
    return _compiled(language, words)


def _compiled(language: Language, words: YesNo) -> _Grammar:
    def of(*phrases: str) -> str:
        return any_of(phrases, digraphs=language.digraphs, accented=words.accented)

    agrees = of(*words.yes, *words.agrees)
    polite = of(*words.yes, *words.agrees, *words.polite)
    plain_yes, plain_no = of(words.yes[0]), of(words.no[0])
    between = r"[\s,/]+(?:\w+ )?"
    return _Grammar(
        yes=re.compile(of(*words.yes)),
        plain_yes=re.compile(any_of(words.yes[:1])),
        agrees=re.compile(rf"{agrees}(?: {polite})*"),
        no=re.compile(of(*words.no)),
        plain_no=re.compile(rf"{plain_no}(?: {of(*words.polite)})*"),
        no_then_yes=re.compile(rf"{of(*words.no)}(?: \w+)? {plain_yes}"),
        no_alone=re.compile(rf"{of(*words.no_alone)}(?: {of(*words.polite)})*"),
        unsure=re.compile(of(*words.unsure)),
        fillers=re.compile(rf"(?:{of(*words.fillers)} ){{0,{FILLERS_MAX}}}"),
        both=re.compile(rf"(?:{plain_yes}{between}{plain_no}|{plain_no}{between}{plain_yes})\s*(?:$|[,.!])"),
    )


def says_both(reply: str, code: str) -> bool:
    """Whether a reply begins with a yes and a no: ``ja, nein``."""
    return _grammar(code).both.match(fold(reply[:80])) is not None


def is_plain_no(clause: str, code: str) -> bool:
    """Whether a clause is the word for no and nothing else, polite words aside."""
    return _grammar(code).plain_no.fullmatch(" ".join(_NOT_WORDS.sub(" ", fold(clause)).split())) is not None


def clause_says(clause: str, code: str) -> Says | None:
    """What a clause says in a language that has such words; None where it says neither, and leaves nothing open.

    A clause with a negation is never a yes, but for set phrases of agreement (``kein Problem``).
    """
    grammar = _grammar(code)
    said = " ".join(_NOT_WORDS.sub(" ", fold(clause)).split())
    if not said:
        return None
    if grammar.unsure.search(said):
        return "open"
    rest = said[grammar.fillers.match(said).end() :]  # type: ignore[union-attr]  # matches nothing as well
    if any(grammar.agrees.fullmatch(each) for each in (said, rest)):
        return "yes"
    if any(grammar.no_alone.fullmatch(each) for each in (said, rest)):
        return "no"
    if grammar.no.search(said):
        return _negated(grammar, rest)
    return "yes" if grammar.yes.match(rest) else None


def _negated(grammar: _Grammar, rest: str) -> Says:
    if grammar.plain_yes.match(rest) or grammar.no_then_yes.match(rest):
        return "open"  # "ja nicht"; while "zeker niet" and "claro que no" are a no
    return "no" if grammar.no.match(rest) or len(rest.split()) <= WORDS_MAX else "open"
