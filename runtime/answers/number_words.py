"""Replacement of number words of a language by digits; the words are parsed by text2num."""

import re
from functools import lru_cache

from msgspec import Struct

from runtime.answers.languages import LANGUAGES
from runtime.answers.languages.language import NumberWords
from runtime.answers.languages.spelling import any_of, fold, spelled, unaccented

_TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+(?:-[^\W\d_]+)*|\S")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENDS = frozenset(".,;:!?()\n")
_NUMBER = r"(?<![\w.,])[0-9]+(?:\.[0-9]+)?(?![\w.,]*[0-9])"
NOTHING = "~"  # replaces a word that is not a number
HALF = "½"  # replaces "and a half"


class WordsUnreadable(ValueError):
    """A number without a single value, such as a dozen or so."""


class _Token(Struct, frozen=True):
    """One word, in the protocol of text2num."""

    word: str

    def text(self) -> str:
        """Return the word."""
        return self.word

    def nt_separated(self, previous: "_Token") -> bool:
        """Return False, because pauses are unknown."""
        return False

    def not_a_number_part(self) -> bool:
        """Return False, because only the word is known."""
        return False


class _Grammar(Struct, frozen=True):
    words: NumberWords
    articles: tuple[str, ...]
    joins: frozenset[str]
    ignored: re.Pattern[str]
    ordinal: re.Pattern[str]
    one_and_half: re.Pattern[str]
    fixed: re.Pattern[str]
    joined_half: re.Pattern[str]
    half: re.Pattern[str]
    and_half: re.Pattern[str]
    scaled: re.Pattern[str]
    rough: re.Pattern[str]
    minus: re.Pattern[str]
    negated: re.Pattern[str]
    either: re.Pattern[str]


@lru_cache(maxsize=len(LANGUAGES))
def _grammar(code: str) -> _Grammar:
    language = LANGUAGES[code]
    words = language.numbers
    if words is None:
        raise KeyError(code)

    def of(*phrases: str) -> str:
        return any_of(phrases, digraphs=language.digraphs)

    half = of(*words.and_half)
    suffixes = "|".join(re.escape(each) for each in sorted(language.ordinal_suffixes, key=len, reverse=True))
    joined = "|".join(map(re.escape, words.joined_half)) or "(?!)"
    no = language.yes_no.no if language.yes_no is not None else ()
    scales = "|".join(spelled(fold(each), language.digraphs) for each in sorted(words.scales, key=len, reverse=True))
    return _Grammar(
        words=words,
        articles=tuple(map(fold, words.articles)),
        joins=frozenset(map(fold, language.joins)) | words.decimals,
        ignored=re.compile(of(*words.no_counts, *words.at_least)),
        ordinal=re.compile(rf"(?<!\w)[0-9]{{1,4}}(?:{suffixes})(?!\w)"),
        one_and_half=re.compile(rf"{of(*words.articles)}(?: \w+)? {half}"),
        fixed=re.compile(of(*words.fixed)),
        joined_half=re.compile(rf"(?<!\w)(\w{{2,30}}?)(?:{joined})(?!\w)"),
        half=re.compile(half),
        and_half=re.compile(rf"({_NUMBER})((?: \w+)?) {HALF}"),
        scaled=re.compile(rf"({_NUMBER}) ?((?:{scales}|k)(?!\w))"),
        rough=re.compile(rf"{of(*words.rough)}|{HALF}"),
        minus=re.compile(rf"{of(*words.minus)} (?=[0-9])"),
        negated=re.compile(rf"{of(*no)} (?=[0-9])"),
        either=re.compile(rf"{of(*words.articles)} (?={of(*words.between, *words.decimals)} (\w+))"),
    )


def with_words_as_digits(text: str, code: str) -> str:
    """Return a text of a language with its number words in digits; ordinals and articles are not replaced.

    Raises WordsUnreadable for approximate numbers (``une dizaine``) and negated ones (``nicht 5``).
    """
    grammar = _grammar(code)
    text = grammar.ignored.sub(NOTHING, "\n".join(map(fold, text.splitlines())))
    text = grammar.ordinal.sub(NOTHING, text)
    text = grammar.one_and_half.sub("1.5", text)
    text = grammar.either.sub(lambda match: match[0] if small_number(match[1], code) is None else "1 ", text)
    text = grammar.fixed.sub(lambda match: grammar.words.fixed[match[0]], text)
    text = grammar.joined_half.sub(lambda match: _joined_half(match, code), grammar.half.sub(HALF, text))
    text = grammar.scaled.sub(lambda match: _scaled(match, grammar), text)
    text = _spelled_in_digits(text, grammar, code)
    text = grammar.and_half.sub(lambda match: f"{float(match[1]) + 0.5:.15g}{match[2]}", text)
    if grammar.rough.search(text) or grammar.negated.search(text):
        raise WordsUnreadable(text)
    return grammar.minus.sub("-", text)


def small_number(word: str, code: str) -> int | None:
    """Return the integer that one word or a string of digits means in a language, or None."""
    from text_to_num import text2num  # type: ignore[import-untyped]  # loaded on first use

    if word.isdecimal():
        return int(word)
    words = LANGUAGES[code].numbers
    try:
        return int(text2num(_respelled(word, words) if words is not None else word, code))
    except ValueError:
        return None


def english_in_digits(text: str) -> str:
    """Return the number that a whole text means in English, in digits, or an empty text."""
    from text_to_num import alpha2digit

    written = str(alpha2digit(text.strip(" .,!"), "en", threshold=0))
    return written if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", written) else ""


def _joined_half(match: re.Match[str], code: str) -> str:
    whole = small_number(match[1], code)
    return match[0] if whole is None else f"{whole}.5"


def _scaled(match: re.Match[str], grammar: _Grammar) -> str:
    scales = {unaccented(fold(word)): value for word, value in grammar.words.scales.items()} | {"k": 1_000}
    return f"{float(match[1]) * scales[unaccented(match[2])]:.15g}"


def _respelled(word: str, words: NumberWords) -> str:
    for written, known in words.respelled.items():
        if known not in word:
            word = word.replace(written, known)
    return word


def _spelled_in_digits(text: str, grammar: _Grammar, code: str) -> str:
    """Return the text with its number words in digits; a number does not extend over a punctuation mark."""
    written: list[str] = []
    end = 0
    run: list[re.Match[str]] = []
    words = len(_WORD.findall(text))
    for token in _TOKEN.finditer(text):
        if token[0] in _ENDS or token[0] == NOTHING or token[0][0].isdecimal():
            end = _add_run(written, run, end, grammar, code, words)
            run = []
        else:
            run.append(token)
    end = _add_run(written, run, end, grammar, code, words)
    return "".join((*written, text[end:]))


def _add_run(written: list[str], run: list[re.Match[str]], end: int, grammar: _Grammar, code: str, words: int) -> int:
    """Add a run of words, and the text before it from `end` on; return the end of its last number."""
    from text_to_num import find_numbers

    if not run:
        return end
    text = run[0].string
    tokens = [_respelled(each[0], grammar.words) for each in run]
    one = grammar.articles[0]
    known = [one if word in grammar.articles else word for word in tokens]
    counted = [word if _counts(known, at, grammar, code, words) else NOTHING for at, word in enumerate(known)]
    for found in find_numbers([_Token(each) for each in counted], code, threshold=0):
        written.append(text[end : run[found.start].start()])
        written.append(NOTHING if found.is_ordinal else f"{found.value:.15g}")
        end = run[found.end - 1].end()
    return end


def _counts(run: list[str], at: int, grammar: _Grammar, code: str, total: int) -> bool:
    """Return whether a word counts: an article does alone, before one more word, at the end, and within a number."""
    if run[at] not in grammar.articles:
        return True
    after = run[at + 1] if at + 1 < len(run) else ""
    if not after or (at == 0 and total <= 2) or after in grammar.words.scales:
        return True
    if at < 2 or run[at - 1] not in grammar.joins:
        return False
    return small_number(run[at - 2], code) is not None
