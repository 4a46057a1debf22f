"""The labelled parts of one reply that answers several questions: ``年龄：25，职业：教师``, ``age is 25``."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from runtime.languages import ENGLISH, LANGUAGES, spoken
from runtime.languages.spelling import unaccented
from scripts.model import Locale

CHARS_MAX = 20_000

_BORDER = r"(?:^|(?<=[\s,，;；。、.!！?？(（【|/]))(?:(?:%s)[ ']|而且|我的|我|和){0,3}"
_SAYS = r"\s{0,3}(?:[:：=]|(?<=\s)(?:%s)\b|是|为)"
# A label nobody asked for ends the value before it: "age: 25, height: 180" gives the age 25.
_UNKNOWN = re.compile(r"[,，;；]\s{0,3}[^\W\d]\w{0,29}(?: [^\W\d]\w{0,19}){0,2}\s{0,3}[:：=](?!//)")
_TRAILING = " \t,，;；。、.|/"


def labelled_parts(text: str, labels: Sequence[str], locale: Locale = "en") -> dict[str, str]:
    """The values of the known labels in a reply, by label as given; a label said twice keeps its later value.

    A value runs to the next label, known or not, or to its line's end. The words around a label are those of the
    locale's language (``mein Alter ist``), of English and of Chinese.
    """
    named = {_folded(label): label for label in reversed(labels) if label.strip("_ \t")}
    known = {unaccented(folded): label for folded, label in named.items()} | named
    parts: dict[str, str] = {}
    if not known:
        return parts
    label_at = _label_at(tuple(known), spoken(locale).code)
    for line in text[:CHARS_MAX].splitlines():
        found = list(label_at.finditer(line))
        ends = [after.start() for _, after in pairwise(found)] + [len(line)] * bool(found)
        for match, end in zip(found, ends, strict=True):
            value = _value(line[match.end() : end])
            label = known.get(_folded(match["label"])) or known.get(unaccented(_folded(match["label"])))
            if value and label is not None:
                parts[label] = value
    return parts


@lru_cache(maxsize=1_000)
def _label_at(labels: tuple[str, ...], code: str) -> re.Pattern[str]:
    spelled = "|".join(_pattern(label) for label in sorted(labels, key=len, reverse=True))
    own = LANGUAGES[code]
    before = "|".join(sorted({*own.before_labels, *ENGLISH.before_labels}, key=len, reverse=True))
    says = "|".join(sorted({*own.is_words, *ENGLISH.is_words}, key=len, reverse=True))
    return re.compile(rf"{_BORDER % before}(?P<label>{spelled}){_SAYS % says}", re.IGNORECASE)


def _folded(label: str) -> str:
    return " ".join(label.casefold().replace("_", " ").split())


def _pattern(folded: str) -> str:
    return r"[ _]{1,3}".join(re.escape(word) for word in folded.split())


def _value(text: str) -> str:
    unknown = _UNKNOWN.search(text)
    return text[: unknown.start() if unknown else len(text)].strip().rstrip(_TRAILING).strip()
