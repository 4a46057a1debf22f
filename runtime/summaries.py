"""Sums up without a language model: an extract of the sentences that stand for the others best.

Each sentence is a bag of weighted words; two are neighbours as far as their words agree; a sentence ranks high that is
near to many that rank high themselves: LexRank (Erkan & Radev 2004), in its continuous form, which is TextRank
(Mihalcea & Tarau 2004) over cosines of tf-idf. What repeats a sentence already taken is left out (Carbonell &
Goldstein 1998). The same texts always give the same extract.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

SENTENCES_MAX = 300  # of the newest, that are compared with one another
SENTENCE_CHARS_MAX = 300
DAMPING = 0.85  # how far a rank is the neighbours', as in both papers
ROUNDS_MAX = 50
PRECISE_ENOUGH = 1e-5
SAME = 0.7  # the cosine from which a sentence repeats another

_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_END = re.compile(r"""([。！？；…]+[”’」』）]*|[.!?]+["'”’)\]]*(?=\s))""")
_NOT_THE_END = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|approx|[A-Z])\.$", re.IGNORECASE)
_WORD = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+(?:['’][^\\W_]+)?")
_COMMON_WORDS = (
    "a an and are as at be but by do for from had has have he her his i i'm if in is it it's its me my no not of on or "
    "our she so that the their them then there they this to us was we were what when which who will with would you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_COMMON_CJK = frozenset("的了是我你他她它们在和也都就不有这那吗呢吧啊")


class Sentence(Struct, frozen=True):
    """A sentence of a text, with what it counts for and who said it."""

    text: str
    source: str = ""
    weight: float = 1.0


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, English or Chinese, in order; one that is very long is cut."""
    found: list[str] = []
    for part in _END.sub(r"\1\n", text).splitlines():
        stripped = part.strip()
        if found and _NOT_THE_END.search(found[-1]):
            found[-1] = f"{found[-1]} {stripped}"
        elif re.search(r"\w", stripped):
            found.append(stripped)
    return [each if len(each) <= SENTENCE_CHARS_MAX else each[: SENTENCE_CHARS_MAX - 1] + "…" for each in found]


def ranked(sentences: Sequence[Sentence]) -> list[float]:
    """How well each sentence stands for the others; their sum is about 1."""
    if not sentences:
        return []
    vectors = _vectors(sentences)
    index = _places(vectors)
    neighbours = [_neighbours(place, vectors, index) for place in range(len(sentences))]
    totals = [sum(each.values()) or 1.0 for each in neighbours]
    weights = [sentence.weight for sentence in sentences]
    start = [weight / sum(weights) for weight in weights]
    ranks = start
    for _ in range(ROUNDS_MAX):
        passed = [0.0] * len(sentences)
        for place, near in enumerate(neighbours):
            for other, cosine in near.items():
                passed[other] += ranks[place] * cosine / totals[place]
        after = [(1 - DAMPING) * start[place] + DAMPING * passed[place] for place in range(len(sentences))]
        moved = sum(abs(one - other) for one, other in zip(ranks, after, strict=True))
        ranks = after
        if moved < PRECISE_ENOUGH:
            break
    return [rank * weight for rank, weight in zip(ranks, weights, strict=True)]


def extracted(sentences: Sequence[Sentence], *, chars_max: int, count_max: int = SENTENCES_MAX) -> list[Sentence]:
    """The sentences that stand for all best, none repeating another, in the order they were said."""
    sentences = sentences[-SENTENCES_MAX:]
    vectors = _vectors(sentences)
    ranks = ranked(sentences)
    left = chars_max
    taken: list[int] = []
    for place in sorted(range(len(sentences)), key=lambda place: (-ranks[place], -place)):
        size = len(sentences[place].text) + 1
        if len(taken) == count_max or size > left:
            continue
        if any(_cosine(vectors[place], vectors[other]) >= SAME for other in taken):
            continue
        taken.append(place)
        left -= size
    return [sentences[place] for place in sorted(taken)]


# -- sentences as weighted words --------------------------------------------------------------------------------------


def _terms(text: str) -> list[str]:
    """The words of a text without the commonest; of Chinese, Japanese and Korean its pairs of characters."""
    terms: list[str] = []
    for run in _WORD.findall(text.casefold()):
        if re.match(f"[{_CJK}]", run):
            pairs = [run[place : place + 2] for place in range(len(run) - 1)] or [run]
            terms += [pair for pair in pairs if not set(pair) <= _COMMON_CJK]
        elif run not in _COMMON:
            terms.append(run)
    return terms


def _vectors(sentences: Sequence[Sentence]) -> list[Mapping[str, float]]:
    """For each sentence its words by weight, as a vector of length 1."""
    counts = [Counter(_terms(sentence.text)) for sentence in sentences]
    spread = Counter(term for count in counts for term in count)
    vectors: list[Mapping[str, float]] = []
    for count in counts:
        weighted = {term: n * (1 + math.log(len(counts) / spread[term])) for term, n in count.items()}
        length = math.sqrt(sum(weight * weight for weight in weighted.values())) or 1.0
        vectors.append({term: weight / length for term, weight in weighted.items()})
    return vectors


def _places(vectors: Sequence[Mapping[str, float]]) -> Mapping[str, list[int]]:
    """In which sentences each word stands."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, vector in enumerate(vectors):
        for term in vector:
            places[term].append(place)
    return places


def _neighbours(
    place: int, vectors: Sequence[Mapping[str, float]], places: Mapping[str, list[int]]
) -> Mapping[int, float]:
    """The other sentences with words of this one, and how far they agree."""
    near: dict[int, float] = defaultdict(float)
    for term, weight in vectors[place].items():
        for other in places[term]:
            if other != place:
                near[other] += weight * vectors[other][term]
    return near


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(weight * other.get(term, 0.0) for term, weight in one.items())
