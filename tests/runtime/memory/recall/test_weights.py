"""The weights that come with Cuebook."""

import msgspec
import pytest

from runtime.memory.recall.ranking import OTHER, VERSION, Weights, set_of, shipped_weights
from runtime.memory.recall.signals import ASKED, LIKE, MEANING, SIGNALS


def test_weights_exist_for_words_and_for_each_known_embedder() -> None:
    weights = shipped_weights()
    assert not set(weights.lexical.signals) & set(MEANING)
    for rankers in (weights.hybrid, weights.dense):
        assert rankers.keys() == {"wordllama", "all-MiniLM-L6-v2", OTHER}
        assert rankers[OTHER].usual is None
        assert rankers["wordllama"].usual is not None


@pytest.mark.parametrize(
    ("embedder", "its_set"),
    [
        ("wordllama", "wordllama"),
        ("wordllama:l2_supercat:256@1f", "wordllama"),
        ("sentence-transformers:sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
        ("sentence-transformers:/models/all_minilm_l6_v2/model", "all-MiniLM-L6-v2"),
        ("openai:text-embedding-3-small", OTHER),
        ("", OTHER),
    ],
)
def test_an_embedder_has_its_set_by_whichever_name(embedder: str, its_set: str) -> None:
    assert set_of(embedder, shipped_weights().hybrid) == its_set


def test_every_weight_is_of_a_known_signal() -> None:
    weights = shipped_weights()
    assert weights.lexical.signals.keys() <= {*SIGNALS} - {*MEANING}
    for ranker in weights.hybrid.values():
        assert ranker.signals.keys() <= {*SIGNALS}
    for ranker in weights.dense.values():
        assert ranker.signals.keys() <= {*MEANING, *LIKE, *ASKED}


def test_weights_of_another_version_are_refused() -> None:
    other = msgspec.to_builtins(shipped_weights()) | {"version": VERSION + 1}
    with pytest.raises(msgspec.ValidationError, match="version"):
        msgspec.convert(other, Weights)
