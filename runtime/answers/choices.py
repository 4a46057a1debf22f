"""Which of a script's choices a free reply picks: by key, position or text, and none where it is not clear."""

import re
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

from runtime.answers.choice_words import Words, words_for
from runtime.answers.numbers import parse_number
from runtime.languages.spelling import unaccented
from scripts.model import Locale
from scripts.words import SPACED, is_spaced

CHARS_MAX = 2_000
PART_CHARS_MIN = 2  # "a" is part of too many texts to name one
CORE_CHARS_MAX = 12

_OPENING = "([（【\"'“¿¡„« "
_CORE = re.compile(r"[a-z0-9]+|[一二两三四五六七八九十]+")


class Choice(msgspec.Struct, frozen=True):
    """One choice of a script: the key its variable takes, and the text a person sees."""

    key: str
    text: str


def match_choice(text: str, choices: Sequence[Choice | str], locale: Locale = "en") -> str | None:
    """The key of the one choice a reply picks, or None; a bare text is a choice that is its own key.

    Words for places (``the second one``) are those of the locale's language, of English and of Chinese. A reply without
    accents picks a choice that is written with them, where no other is written without.
    """
    offered = [choice if isinstance(choice, Choice) else Choice(choice, choice) for choice in choices]
    reply = _spaced(text[:CHARS_MAX].strip())
    if not reply:
        return None
    words = words_for(locale)
    key, is_clear = _pick(_Asked(reply, offered, words, locale))
    if key is None and is_clear:
        plain = [Choice(choice.key, unaccented(choice.text)) for choice in offered]
        if plain != offered or unaccented(reply) != reply:
            key, _ = _pick(_Asked(unaccented(reply), plain, words, locale))
    return key


class _Asked(msgspec.Struct, frozen=True):
    """A reply to some choices, and the words of its language."""

    reply: str
    choices: Sequence[Choice]
    words: Words
    locale: Locale


def _pick(asked: _Asked) -> tuple[str | None, bool]:
    """The key of the one choice that is picked, or None; and whether no more than one was meant."""
    ways: tuple[Callable[[_Asked], set[str]], ...] = (_exact, _by_position, _mentioned, _part_of)
    for way in ways:
        keys = way(asked)
        if keys:
            return (keys.pop(), True) if len(keys) == 1 else (None, False)
    return None, True


def _spaced(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())


def _tight(text: str) -> str:
    return "".join(char for char in _spaced(text) if char.isalnum())


def _exact(asked: _Asked) -> set[str]:
    choices, core = asked.choices, _core(asked)
    for wanted in dict.fromkeys((_tight(asked.reply), _tight(core))):
        for spelled in zip(*((c.key, c.text, c.key + c.text) for c in choices), strict=True):
            keys = {c.key for c, label in zip(choices, spelled, strict=True) if wanted and _tight(label) == wanted}
            if keys:
                return keys
    return {choice.key for choice in choices if choice.text.strip() and _spaced(choice.text) == asked.reply}


def _core(asked: _Asked) -> str:
    """What is left of ``我选(b)吧`` or ``option 2, please`` once the words around the answer are gone."""
    lead = asked.words.lead.match(asked.reply)
    core = asked.reply[lead.end() if lead else 0 :].lstrip(_OPENING)
    end = _CORE.match(core)
    if end and asked.words.tail.fullmatch(core, end.end()):
        return end[0]
    word, _, after = core.partition(" ")
    return word if word.isalpha() and asked.words.tail.fullmatch(f" {after}") else core


def _by_position(asked: _Asked) -> set[str]:
    choices, reply = asked.choices, asked.reply
    ordinals = [match for match in asked.words.ordinal.finditer(reply) if not _negated(asked, reply, match.start())]
    by_order = {_at(_ordinal(match, asked.words), choices) for match in ordinals} - {""}
    core = _core(asked)
    is_short = len(core) <= CORE_CHARS_MAX and not re.search(r"[^\w.]", core)
    number = parse_number(core, asked.locale) if is_short else None
    named = {c.key: {parse_number(each, asked.locale) for each in (c.key, c.text)} - {None} for c in choices}
    if any(named.values()):  # the choices are numbers themselves: 2 then means the choice called 2
        by_value = {key for key, values in named.items() if number is not None and number in values}
        return by_order | by_value
    if not by_order and isinstance(number, int) and (core.isdecimal() or core.isalpha()):
        return {_at(number, choices)} - {""}
    return by_order


def _ordinal(match: re.Match[str], words: Words) -> int:
    if match["final"]:
        return -1
    number = parse_number(match["nth"] or match["han"]) if match["nth"] or match["han"] else words.place(match["word"])
    return number if isinstance(number, int) else 0


def _at(position: int, choices: Sequence[Choice]) -> str:
    if position == -1 and choices:
        return choices[-1].key
    return choices[position - 1].key if 1 <= position <= len(choices) else ""


def _mentioned(asked: _Asked) -> set[str]:
    """The choices named somewhere in the reply, longest first so that 非常好 does not also name 好."""
    labels = {
        (_spaced(label), c.key)
        for c in asked.choices
        for label in (c.text, c.key)
        if len(label) > 1 or not is_spaced(label)
    }
    reply = asked.reply
    keys: set[str] = set()
    for label, key in sorted(labels, key=lambda pair: (-len(pair[0]), pair)):
        found = [match for match in _whole(label).finditer(reply) if label]
        if any(not _negated(asked, reply, match.start()) for match in found):
            keys.add(key)
        for match in found:
            reply = reply[: match.start()] + "\0" * len(match[0]) + reply[match.end() :]
    return keys


def _part_of(asked: _Asked) -> set[str]:
    """The choices of which the reply is a part, but never a choice that says the opposite of it."""
    wanted = asked.reply.strip(" .。!！,，¡")
    if len(wanted) < PART_CHARS_MIN and is_spaced(wanted):
        return set()
    keys = set()
    for choice in asked.choices:
        text = _spaced(choice.text)
        found = _whole(wanted).search(text)
        if found and (asked.words.negation.search(wanted) or not _negated(asked, text, found.start())):
            keys.add(choice.key)
    return keys


def _whole(label: str) -> re.Pattern[str]:
    """The label as whole words where its script parts them: ``red`` is not in ``bored``; Chinese has no borders."""
    before = rf"(?<!{SPACED})" if is_spaced(label[:1]) else ""
    after = rf"(?!{SPACED})" if is_spaced(label[-1:]) else ""
    return re.compile(f"{before}(?:{re.escape(label)}){after}")


def _negated(asked: _Asked, text: str, at: int) -> bool:
    ends = [match.end() for match in asked.words.clause_end.finditer(text, 0, at)]
    return asked.words.negation.search(text, ends[-1] if ends else 0, at) is not None
