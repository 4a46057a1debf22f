"""Matching of a free reply to a script's choices: by key, position or text; none if it is ambiguous.

The words around a choice are those of the locale's language, of English and of Chinese.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from runtime.answers.languages import ENGLISH, LANGUAGES, language_of
from runtime.answers.languages.language import ChoiceWords, Language
from runtime.answers.languages.spelling import plain_key, spelling_pattern, strip_accents
from runtime.answers.numbers import parse_number
from runtime.state.state import Choice
from scripts.detectors.words import fold, is_spaced, whole_word
from scripts.model.script import Locale

# -- words of a language ----------------------------------------------------------------------------------------------


_LEAD_WORDS_MAX = 6
_ENGLISH_NO = (
    "no", "not", "never", "none", "neither", "nor", "except", "without", "cannot", "cant", "dont", "isnt",
    "rather than", "anything but",
)  # fmt: skip
_HAN_NO = r"不(?!过|仅|错)|没|无|除了|(?<![特分级性区差])别(?!的|人)"


class _Words:
    """The patterns around a choice: before and after it, for its position, for the end of a clause, and for no."""

    def __init__(self, own: Language, found: ChoiceWords, english: ChoiceWords) -> None:
        def either(words: Iterable[str], others: Iterable[str]) -> str:
            both = {*words, *(each for each in others if each not in own.collides)}
            return "|".join(
                spelling_pattern(each, own.digraphs) for each in sorted(both, key=lambda each: (-len(each), each))
            )

        ordinals = {**english.ordinals, **found.ordinals}
        tails = either(found.tails, english.tails)
        suffixes = either(own.ordinal_suffixes, ENGLISH.ordinal_suffixes)
        leads = either(found.leads, english.leads)
        but = either(found.but, english.but)
        no = (*(own.yes_no.no if own.yes_no is not None else ()), *found.without)
        self.lead = re.compile(
            rf"(?:(?:(?:{leads})(?![a-zà-ɏ])|no\.|我|就|选择|选项|选|要|答案|是|第)[\s:：#'.]*){{0,{_LEAD_WORDS_MAX}}}"
        )
        self.tail = re.compile(rf"[\s)）\].。!！,，、:：]*(?:(?:{tails}|谢谢|吧|个|项|号)[\s.。!！]*){{0,2}}")
        self.ordinal = re.compile(
            rf"\b(?:(?P<word>{either(ordinals, ())})|(?P<nth>[0-9]{{1,3}})(?:{suffixes}))"
            rf"(?=\s(?:{either(found.nouns, english.nouns)})\b|\s*[.,!]?\s*(?:(?:{tails})[\s.!]*)?$)"
            r"|(?<!倒数)第\s?(?P<han>[0-9]{1,3}|[一二两三四五六七八九十]{1,3}|最后)\s?(?=[个项种条款号]|选项|\s*[。！吧]?\s*$)"
            r"|(?P<final>最后一[个项种条])"
        )
        self._places = {plain_key(word, own.digraphs): place for word, place in ordinals.items()}
        self._digraphs = own.digraphs
        self.clause_end = re.compile(rf"[,，。;；!！?？\n]|(?<!anything )\b(?:{but})\b|而是|而(?!且)|但")
        self.negation = re.compile(rf"\b(?:{either(no, _ENGLISH_NO)}|[a-z]{{2,8}}n't)\b|{_HAN_NO}")

    def place(self, ordinal: str) -> int:
        """Return the position of an ordinal, from 1 on; -1 is the last."""
        return self._places[plain_key(ordinal, self._digraphs)]


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> _Words:
    """Return the patterns for choices in a language; the English ones for a language without its own."""
    own, english = LANGUAGES[code], ENGLISH.choices
    if english is None:
        raise KeyError(ENGLISH.code)
    return _Words(ENGLISH, english, english) if own.choices is None else _Words(own, own.choices, english)


# -- choices ----------------------------------------------------------------------------------------------------------


CHARS_MAX = 2_000
PART_CHARS_MIN = 2  # "a" is part of too many texts to identify one
CORE_CHARS_MAX = 12

_OPENING = "([（【\"'“¿¡„« "
_LETTERED = re.compile(r"[(（]?([A-Za-z])\s*[.．、:：)）]\s*(\S.*)", re.DOTALL)
_CORE = re.compile(r"[a-z0-9]+|[一二两三四五六七八九十]+")
_POSITION = re.compile(r"\d+|[一二两三四五六七八九十]+|[^\W\d_\u3400-\u9fff]+")  # not 三个小时


def match_choice(text: str, choices: Sequence[Choice | str], locale: Locale = "en") -> str | None:
    """Return the key of the one choice that a reply picks, or None; a plain text is a choice with itself as its key.

    Words for positions (``the second one``) are those of the locale's language, of English and of Chinese. A reply
    without accents picks a choice with accents, unless there is an equal choice without accents. Texts that each begin
    with a letter of their own (``A. Lyon``) are also picked by the letter, and by the rest.
    """
    offered = [choice if isinstance(choice, Choice) else Choice(choice, choice) for choice in choices]
    if lettered := _choices_by_letter(offered):
        found = match_choice(text, list(lettered), locale)
        return None if found is None else next(key for choice, key in lettered.items() if choice.key == found)
    reply = fold(text[:CHARS_MAX].strip())
    if not reply:
        return None
    words = _words(language_of(locale).code)
    key, is_clear = _pick(_ChoiceReply(reply, offered, words, locale))
    if key is None and is_clear:
        plain = [Choice(choice.key, strip_accents(choice.text)) for choice in offered]
        if plain != offered or strip_accents(reply) != reply:
            key, _ = _pick(_ChoiceReply(strip_accents(reply), plain, words, locale))
    return key


def _choices_by_letter(choices: Sequence[Choice]) -> dict[Choice, str]:
    """Return choices whose texts begin with a letter, ``A. Lyon``, as choices with that key; none if one does not."""
    parts = [_LETTERED.fullmatch(each.text) if each.key == each.text else None for each in choices]
    found = {Choice(part[1], part[2]): each.key for part, each in zip(parts, choices, strict=True) if part is not None}
    letters = {each.key.casefold() for each in found}
    return found if len(letters) == len(choices) > 1 else {}


class _ChoiceReply(Struct, frozen=True):
    """A reply to some choices, and the patterns of its language."""

    reply: str
    choices: Sequence[Choice]
    words: _Words
    locale: Locale


def _pick(answer: _ChoiceReply) -> tuple[str | None, bool]:
    """Return the key of the one choice that is picked, or None; and whether at most one was meant."""
    ways: tuple[Callable[[_ChoiceReply], set[str]], ...] = (_exact, _by_position, _find_mentioned, _part_of)
    for way in ways:
        keys = way(answer)
        if keys:
            return (keys.pop(), True) if len(keys) == 1 else (None, False)
    return None, True


def _tight(text: str) -> str:
    return "".join(char for char in fold(text) if char.isalnum())


def _exact(answer: _ChoiceReply) -> set[str]:
    choices, core = answer.choices, _core(answer)
    for wanted in dict.fromkeys((_tight(answer.reply), _tight(core))):
        for labels in zip(*((c.key, c.text, c.key + c.text) for c in choices), strict=True):
            keys = {c.key for c, label in zip(choices, labels, strict=True) if wanted and _tight(label) == wanted}
            if keys:
                return keys
    return {choice.key for choice in choices if choice.text.strip() and fold(choice.text) == answer.reply}


def _core(answer: _ChoiceReply) -> str:
    """Return ``b`` for ``我选(b)吧`` and ``2`` for ``option 2, please``: the core of the reply."""
    lead = answer.words.lead.match(answer.reply)
    core = answer.reply[lead.end() if lead else 0 :].lstrip(_OPENING)
    end = _CORE.match(core)
    if end and answer.words.tail.fullmatch(core, end.end()):
        return end[0]
    word, _, after = core.partition(" ")
    return word if word.isalpha() and answer.words.tail.fullmatch(f" {after}") else core


def _by_position(answer: _ChoiceReply) -> set[str]:
    choices, reply = answer.choices, answer.reply
    ordinals = [
        match for match in answer.words.ordinal.finditer(reply) if not _is_negated(answer, reply, match.start())
    ]
    by_order = {_at(_ordinal(match, answer.words), choices) for match in ordinals} - {""}
    core = _core(answer)
    is_short = len(core) <= CORE_CHARS_MAX and not re.search(r"[^\w.]", core)
    number = parse_number(core, answer.locale) if is_short else None
    named = {c.key: {parse_number(each, answer.locale) for each in (c.key, c.text)} - {None} for c in choices}
    if any(named.values()):  # the choices are numbers themselves: 2 then means the choice named 2
        by_value = {key for key, values in named.items() if number is not None and number in values}
        return by_order | by_value
    if not by_order and isinstance(number, int) and _POSITION.fullmatch(core):
        return {_at(number, choices)} - {""}
    return by_order


def _ordinal(match: re.Match[str], words: _Words) -> int:
    if match["final"]:
        return -1
    number = parse_number(match["nth"] or match["han"]) if match["nth"] or match["han"] else words.place(match["word"])
    return number if isinstance(number, int) else 0


def _at(position: int, choices: Sequence[Choice]) -> str:
    if position == -1 and choices:
        return choices[-1].key
    return choices[position - 1].key if 1 <= position <= len(choices) else ""


def _find_mentioned(answer: _ChoiceReply) -> set[str]:
    """Return the choices named anywhere in the reply, longest first so that 非常好 does not also name 好."""
    names = ((label, each.key) for each in answer.choices for label in (each.text, each.key))
    labels = {(fold(label), key) for label, key in names if len(label) > 1 or not is_spaced(label)}
    reply = answer.reply
    keys: set[str] = set()
    for label, key in sorted(labels, key=lambda pair: (-len(pair[0]), pair)):
        found = [match for match in whole_word(label).finditer(reply) if label]
        if any(not _is_negated(answer, reply, match.start()) for match in found):
            keys.add(key)
        for match in found:
            reply = reply[: match.start()] + "\0" * len(match[0]) + reply[match.end() :]
    return keys


def _part_of(answer: _ChoiceReply) -> set[str]:
    """Return the choices that contain the reply, except a choice with the opposite meaning."""
    wanted = answer.reply.strip(" .。!！,，¡")
    if len(wanted) < PART_CHARS_MIN and is_spaced(wanted):
        return set()
    keys = set()
    for choice in answer.choices:
        text = fold(choice.text)
        found = whole_word(wanted).search(text)
        if found and (answer.words.negation.search(wanted) or not _is_negated(answer, text, found.start())):
            keys.add(choice.key)
    return keys


def _is_negated(answer: _ChoiceReply, text: str, at: int) -> bool:
    ends = [match.end() for match in answer.words.clause_end.finditer(text, 0, at)]
    return answer.words.negation.search(text, ends[-1] if ends else 0, at) is not None
