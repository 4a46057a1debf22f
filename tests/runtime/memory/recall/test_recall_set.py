"""No embedder does worse than its own cosines, nor than plain BM25, on our own questions in English and Chinese."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from store.embedders.choose_embedder import embedder_for
from tests.benchmarks.recall_set import (
    DEPTH,
    LANGUAGES,
    Embed,
    Vectors,
    by_bm25,
    by_cosine,
    recall_set,
    recalled,
    with_narrow_cosines,
)
from tests.support.minilm import MINILM, needs_minilm

KINDS = {"paraphrase", "direct", "update", "date", "typo", "name", "number", "negation"}
NAMES = {"wordllama": "wordllama", "minilm": MINILM}
OTHER = "openai:text-embedding-3-small"  # no weights were fitted for it
DENSE_LESS_MAX = 2
"""Of some hundred questions, how many fewer meaning alone may answer than the cosines of its own vectors: these alone
know no more than wordllama does of Chinese, which is next to nothing."""

read = functools.cache(recall_set)


@functools.cache
def loaded(kind: str) -> Embed:
    """Return an embedder that embeds each list of texts once."""
    load = embedder_for(NAMES[kind.removesuffix(" narrow")])
    assert load is not None
    embedder = load()
    known: dict[tuple[str, ...], Vectors] = {}

    def embed(texts: Sequence[str]) -> Vectors:
        key = tuple(texts)
        if key not in known:
            known[key] = embedder.embed(texts)
        return known[key]

    return with_narrow_cosines(loaded(kind.removesuffix(" narrow"))) if kind.endswith("narrow") else embed


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Any:
    """Return each language of the set."""
    return request.param


EMBEDDERS = [
    ("wordllama", NAMES["wordllama"]),
    ("wordllama", OTHER),
    ("wordllama narrow", OTHER),
    pytest.param("minilm", NAMES["minilm"], marks=needs_minilm),
    pytest.param("minilm", OTHER, marks=needs_minilm),
    pytest.param("minilm narrow", OTHER, marks=needs_minilm),
]


def test_the_set_is_large_and_whole() -> None:
    sets = [read(language) for language in LANGUAGES]
    assert sum(len(each.questions) for each in sets) >= 200
    for each in sets:
        ids = [unit.id for unit in each.units]
        assert len({*ids}) == len(ids) >= 200
        assert {asked.kind for asked in each.questions} == KINDS
        assert all(asked.answers and {*asked.answers} <= {*ids} for asked in each.questions)
        assert len({asked.question for asked in each.questions}) == len(each.questions)


@pytest.mark.gate
@pytest.mark.parametrize(("kind", "name"), EMBEDDERS)
def test_hybrid_beats_plain_cosine_and_bm25(language: str, kind: str, name: str) -> None:
    asked, embed = read(language), loaded(kind)
    answers = recalled(asked, name, embed)
    assert {len(found) for found in answers} == {DEPTH}
    plain = [by_bm25(asked), by_cosine(asked, embed, indexed=False), by_cosine(asked, embed, indexed=True)]
    assert asked.hits(answers) >= max(asked.hits(each) for each in plain)


@pytest.mark.gate
@pytest.mark.parametrize(("kind", "name"), EMBEDDERS)
def test_dense_is_as_good_as_plain_cosine(language: str, kind: str, name: str) -> None:
    asked, embed = read(language), loaded(kind)
    answers = recalled(asked, name, embed, "dense")
    assert {len(found) for found in answers} == {DEPTH}
    plain = [by_cosine(asked, embed, indexed=False), by_cosine(asked, embed, indexed=True)]
    assert asked.hits(answers) >= max(asked.hits(each) for each in plain) - DENSE_LESS_MAX


def test_words_alone_beat_plain_bm25(language: str) -> None:
    asked = read(language)
    assert asked.hits(recalled(asked, "", None)) >= asked.hits(by_bm25(asked))


def test_english_paraphrases_by_the_default_embedder() -> None:
    asked, embed = read("english"), loaded("wordllama")
    ours = asked.hits_by_kind(recalled(asked, NAMES["wordllama"], embed))["paraphrase"]
    plain = [by_cosine(asked, embed, indexed=indexed) for indexed in (False, True)]
    assert ours >= max(asked.hits_by_kind(each)["paraphrase"] for each in plain)


@pytest.mark.gate
@pytest.mark.parametrize("kind", ["wordllama", pytest.param("minilm", marks=needs_minilm)])
def test_narrow_cosines_lose_nothing(language: str, kind: str) -> None:
    asked = read(language)
    cosines = loaded(f"{kind} narrow")([each.question for each in asked.questions])
    assert np.allclose(np.linalg.norm(cosines, axis=1), 1, atol=1e-4)
    wide, narrow = (recalled(asked, OTHER, loaded(each)) for each in (kind, f"{kind} narrow"))
    assert abs(asked.hits(wide) - asked.hits(narrow)) <= 1
    assert sum(one[:3] == other[:3] for one, other in zip(wide, narrow, strict=True)) >= 0.95 * len(wide)
