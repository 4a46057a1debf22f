"""Replacement of number words of a language by digits; the words are parsed by text2num."""

import re
from functools import lru_cache

from msgspec import Struct

from runtime.answers.languages import LANGUAGES
from runtime.answers.languages.language import NumberWords
from runtime.answers.languages.spelling import any_of, fold, spelling_pattern, strip_accents

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


class Numerals:
    """The patterns of the number words of a language, and the digits for them."""

    def __init__(self, code: str) -> None:
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
        longest_first = sorted(words.scales, key=len, reverse=True)
        scales = "|".join(spelling_pattern(fold(each), language.digraphs) for each in longest_first)
        self._code = code
        self._words = words
        self._articles = tuple(map(fold, words.articles))
        self._joins = frozenset(map(fold, language.joins)) | words.decimals
        self._ignored = re.compile(of(*words.no_counts, *words.at_least))
        self._ordinal = re.compile(rf"(?<!\w)[0-9]{{1,4}}(?:{suffixes})(?!\w)")
        self._one_and_half = re.compile(rf"{of(*words.articles)}(?: \w+)? {half}")
        self._fixed = re.compile(of(*words.fixed))
        self._joined_half = re.compile(rf"(?<!\w)(\w{{2,30}}?)(?:{joined})(?!\w)")
        self._half = re.compile(half)
        self._and_half = re.compile(rf"({_NUMBER})((?: \w+)?) {HALF}")
        self._scaled = re.compile(rf"({_NUMBER}) ?((?:{scales}|k)(?!\w))")
        self._rough = re.compile(rf"{of(*words.rough)}|{HALF}")
        self._minus = re.compile(rf"{of(*words.minus)} (?=[0-9])")
        self._negated = re.compile(rf"{of(*no)} (?=[0-9])")
        self._either = re.compile(rf"{of(*words.articles)} (?={of(*words.between, *words.decimals)} (\w+))")

    def in_digits(self, text: str) -> str:
        """Return a text with its number words in digits; ordinals and articles are not replaced.

        Raises WordsUnreadable for approximate numbers (``une dizaine``) and negated ones (``nicht 5``).
        """
        text = self._ignored.sub(NOTHING, "\n".join(map(fold, text.splitlines())))
        text = self._ordinal.sub(NOTHING, text)
        text = self._one_and_half.sub("1.5", text)
        text = self._either.sub(lambda match: match[0] if small_number(match[1], self._code) is None else "1 ", text)
        text = self._fixed.sub(lambda match: self._words.fixed[match[0]], text)
        text = self._joined_half.sub(self._with_half, self._half.sub(HALF, text))
        text = self._scaled.sub(self._product, text)
        text = self._spelled_in_digits(text)
        text = self._and_half.sub(lambda match: f"{float(match[1]) + 0.5:.15g}{match[2]}", text)
        if self._rough.search(text) or self._negated.search(text):
            raise WordsUnreadable(text)
        return self._minus.sub("-", text)

    def _with_half(self, match: re.Match[str]) -> str:
        whole = small_number(match[1], self._code)
        return match[0] if whole is None else f"{whole}.5"

    def _product(self, match: re.Match[str]) -> str:
        scales = {strip_accents(fold(word)): value for word, value in self._words.scales.items()} | {"k": 1_000}
        return f"{float(match[1]) * scales[strip_accents(match[2])]:.15g}"

    def _spelled_in_digits(self, text: str) -> str:
        """Return the text with its number words in digits; a number does not extend over a punctuation mark."""
        written: list[str] = []
        end = 0
        run: list[re.Match[str]] = []
        words = len(_WORD.findall(text))
        for token in _TOKEN.finditer(text):
            if token[0] in _ENDS or token[0] == NOTHING or token[0][0].isdecimal():
                end = self._add_run(written, run, end, words)
                run = []
            else:
                run.append(token)
        end = self._add_run(written, run, end, words)
        return "".join((*written, text[end:]))

    def _add_run(self, written: list[str], run: list[re.Match[str]], end: int, words: int) -> int:
        """Add a run of words, and the text before it from `end` on; return the end of its last number."""
        from text_to_num import find_numbers  # type: ignore[import-untyped]  # loaded on first use

        if not run:
            return end
        text = run[0].string
        tokens = [_respell(each[0], self._words) for each in run]
        known = [self._articles[0] if word in self._articles else word for word in tokens]
        counted = [word if self._counts(known, at, words) else NOTHING for at, word in enumerate(known)]
        for found in find_numbers([_Token(each) for each in counted], self._code, threshold=0):
            written.append(text[end : run[found.start].start()])
            written.append(NOTHING if found.is_ordinal else f"{found.value:.15g}")
            end = run[found.end - 1].end()
        return end

    def _counts(self, run: list[str], at: int, total: int) -> bool:
        """Return whether a word counts: an article does alone, before a further word, at the end, within a number."""
        if run[at] not in self._articles:
            return True
        after = run[at + 1] if at + 1 < len(run) else ""
        if not after or (at == 0 and total <= 2) or after in self._words.scales:
            return True
        if at < 2 or run[at - 1] not in self._joins:
            return False
        return small_number(run[at - 2], self._code) is not None


numerals = lru_cache(maxsize=len(LANGUAGES))(Numerals)
"""Returns the number words of a language that has a table of them. Raises KeyError for another one."""


def small_number(word: str, code: str) -> int | None:
    """Return the integer that one word or a string of digits means in a language, or None."""
    from text_to_num import text2num

    if word.isdecimal():
        return int(word)
    words = LANGUAGES[code].numbers
    try:
        return int(text2num(_respell(word, words) if words is not None else word, code))
    except ValueError:
        return None


def english_in_digits(text: str) -> str:
    """Return the number that a whole text means in English, in digits, or an empty text."""
    from text_to_num import alpha2digit

    written = str(alpha2digit(text.strip(" .,!"), "en", threshold=0))
    return written if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", written) else ""


def _respell(word: str, words: NumberWords) -> str:
    for written, known in words.respelled.items():
        if known not in word:
            word = word.replace(written, known)
    return word
