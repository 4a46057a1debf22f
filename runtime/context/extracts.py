"""Extracts: the sentences of a text that represent the others best, as summary or memo, without a language model.

Each sentence is a bag of weighted words; the similarity of two sentences is the cosine of their words. A sentence
ranks high if it is similar to many that rank high: LexRank (Erkan & Radev 2004), in its continuous form, which is
TextRank (Mihalcea & Tarau 2004) over cosines of tf-idf. A sentence that repeats a selected one is left out (Carbonell
& Goldstein 1998). The same texts always give the same extract.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from runtime.context.ports import Condense
from runtime.state.events import Message
from scripts.expressions.values import Value

SENTENCES_MAX = 300  # the newest ones, which are compared with one another
SENTENCE_CHARS_MAX = 300
ABBREVIATION_CHARS = 12  # at the end of a part: more than the longest that ends no sentence, and what is before it
DAMPING = 0.85  # the share of a rank that comes from neighbours, as in both papers
ROUNDS_MAX = 50
PRECISE_ENOUGH = 1e-5
SAME = 0.7  # the cosine from which a sentence counts as a repetition

_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
# no second try within a run of full stops, so that a text of nothing else takes linear time
_END = re.compile(r"""([。！？；…]+[”’」』）]*|(?<![.!?])[.!?]++["'”’)\]]*+(?=\s))""")
_NOT_THE_END = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|approx|[A-Z])\.$", re.IGNORECASE)
_WORD = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+(?:['’][^\\W_]+)?")
_COMMON_WORDS = (
    "a an and are as at be but by do for from had has have he her his i i'm if in is it it's its me my no not of on or "
    "our she so that the their them then there they this to us was we were what when which who will with would you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_COMMON_CJK = frozenset("的了是我你他她它们在和也都就不有这那吗呢吧啊")


class Sentence(Struct, frozen=True):
    """A sentence of a text, with its weight and its speaker."""

    text: str
    source: str = ""
    weight: float = 1.0


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, English or Chinese, in order; a very long one is cut."""
    found: list[str] = []
    for part in _END.sub(r"\1\n", text).splitlines():
        stripped = part.strip()
        if found and _NOT_THE_END.search(found[-1][-ABBREVIATION_CHARS:]):
            if len(found[-1]) < SENTENCE_CHARS_MAX:
                found[-1] = f"{found[-1]} {stripped}"
        elif re.search(r"\w", stripped):
            found.append(stripped)
    return [each if len(each) <= SENTENCE_CHARS_MAX else each[: SENTENCE_CHARS_MAX - 1] + "…" for each in found]


def rank(sentences: Sequence[Sentence]) -> list[float]:
    """Return how well each sentence represents the others; the ranks sum to about 1."""
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


def extract_sentences(
    sentences: Sequence[Sentence], *, chars_max: int, count_max: int = SENTENCES_MAX
) -> list[Sentence]:
    """Return the most representative sentences, without repetitions, in their original order."""
    sentences = sentences[-SENTENCES_MAX:]
    vectors = _vectors(sentences)
    ranks = rank(sentences)
    left = chars_max
    selected: list[int] = []
    for place in sorted(range(len(sentences)), key=lambda place: (-ranks[place], -place)):
        size = len(sentences[place].text) + 1
        if len(selected) == count_max or size > left:
            continue
        if any(_cosine(vectors[place], vectors[other]) >= SAME for other in selected):
            continue
        selected.append(place)
        left -= size
    return [sentences[place] for place in sorted(selected)]


# -- sentences as weighted words --------------------------------------------------------------------------------------


def _terms(text: str) -> list[str]:
    """Return the words of a text without stop words; for Chinese, Japanese and Korean the pairs of characters."""
    terms: list[str] = []
    for run in _WORD.findall(text.casefold()):
        if re.match(f"[{_CJK}]", run):
            pairs = [run[place : place + 2] for place in range(len(run) - 1)] or [run]
            terms += [pair for pair in pairs if not set(pair) <= _COMMON_CJK]
        elif run not in _COMMON:
            terms.append(run)
    return terms


def _vectors(sentences: Sequence[Sentence]) -> list[Mapping[str, float]]:
    """Return the weighted words of each sentence, as a vector of length 1."""
    counts = [Counter(_terms(sentence.text)) for sentence in sentences]
    spread = Counter(term for count in counts for term in count)
    vectors: list[Mapping[str, float]] = []
    for count in counts:
        weighted = {term: n * (1 + math.log(len(counts) / spread[term])) for term, n in count.items()}
        length = math.sqrt(sum(weight * weight for weight in weighted.values())) or 1.0
        vectors.append({term: weight / length for term, weight in weighted.items()})
    return vectors


def _places(vectors: Sequence[Mapping[str, float]]) -> Mapping[str, list[int]]:
    """Return the sentences that contain each word, by index."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, vector in enumerate(vectors):
        for term in vector:
            places[term].append(place)
    return places


def _neighbours(
    place: int, vectors: Sequence[Mapping[str, float]], places: Mapping[str, list[int]]
) -> Mapping[int, float]:
    """Return the other sentences that share words with this one, with their similarity."""
    near: dict[int, float] = defaultdict(float)
    for term, weight in vectors[place].items():
        for other in places[term]:
            if other != place:
                near[other] += weight * vectors[other][term]
    return near


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(weight * other.get(term, 0.0) for term, weight in one.items())


# -- extracts of a conversation ---------------------------------------------------------------------------------------


MARK = "[Extract]"
SUMMARY_CHARS_MAX = 1_500
FACTS_MAX = 20
FACTS_CHARS_MAX = 2_000

_NAMES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
_USER_WEIGHT = 1.5  # users' statements about themselves matter more than replies to them
EARLIER_WEIGHT = 1.5  # an earlier extract represents more sentences than itself
_QUESTION = re.compile(r"[?？]\W*$|[吗呢][。!！]?$")
_FACT_CHARS_MIN = 4


class ExtractiveCondenser(Struct, frozen=True):
    """A condenser that extracts sentences of the messages."""

    async def __call__(self, wish: Condense) -> Value:
        """Return the most representative sentences: as one text, or as a record of facts.

        `wish.instruct` is ignored: following it needs a model.
        """
        extract = summary_of if wish.purpose == "summarise" else memo_of
        return extract(wish.messages, wish.previous)


def summary_of(messages: Sequence[Message], previous: Value) -> str:
    """Return an extract of the messages and of the previous summary; each line names its speaker."""
    before = previous if isinstance(previous, str) else ""
    lines = [line for line in before.removeprefix(MARK).strip().splitlines() if line.strip()]
    facts_before = [each for line in lines for each in _facts_before(line)]
    sentences = [each for message in messages for each in _sentences_of_message(message)]
    chosen = extract_sentences([*facts_before, *sentences], chars_max=SUMMARY_CHARS_MAX)
    return "\n".join([MARK, *(f"{each.source}{each.text}" for each in chosen)])


def memo_of(messages: Sequence[Message], previous: Value) -> dict[str, Value]:
    """Return the user's statements about themselves as `facts`; the memo's other entries do not change."""
    before = previous if isinstance(previous, dict) else {}
    known = before.get("facts")
    facts = known if isinstance(known, list) else []
    facts_before = [Sentence(each, weight=EARLIER_WEIGHT) for each in facts if isinstance(each, str)]
    said = (text for message in messages if message.role == "user" for text in sentences_of(message.content))
    sentences = [Sentence(text) for text in said if len(text) >= _FACT_CHARS_MIN and not _QUESTION.search(text)]
    chosen = extract_sentences([*facts_before, *sentences], chars_max=FACTS_CHARS_MAX, count_max=FACTS_MAX)
    return {**before, "facts": [each.text for each in chosen], "extract": True}


def _sentences_of_message(message: Message) -> list[Sentence]:
    source = f"{_NAMES[message.role]}: "
    weight = _USER_WEIGHT if message.role == "user" else 1.0
    return [Sentence(text, source, weight) for text in sentences_of(message.content)]


def _facts_before(line: str) -> list[Sentence]:
    source = next((f"{name}: " for name in _NAMES.values() if line.startswith(f"{name}: ")), "")
    return [Sentence(text, source, EARLIER_WEIGHT) for text in sentences_of(line.removeprefix(source))]
