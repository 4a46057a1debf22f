"""The weights that come with Cuebook are whole, and damaged ones are refused with the reason."""

import msgspec
import pytest

from runtime.memory.recall.ranking import OTHER, VERSION, Ranker, Weights, read_weights, set_of, shipped_weights
from runtime.memory.recall.signals import MEANING


def encoded(**changes: object) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(shipped_weights(), **changes))


def test_there_are_weights_for_words_alone_and_for_each_known_embedder() -> None:
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


def _with(weight: dict[str, float]) -> Ranker:
    return msgspec.convert({"signals": {"words": weight}, "slope": 1, "intercept": 0}, Ranker)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "these are not weights"),
        (b"\xff", "these are not weights"),
        (b'{"version": 1}', "missing required field"),
        (encoded(version=VERSION + 1), f"have version {VERSION}, not {VERSION + 1}"),
        (encoded(hybrid={}), "hybrid weights of recall need a set 'other'"),
        (encoded(lexical=shipped_weights().hybrid[OTHER]), "lexical: there is no signal 'meaning'"),
        (encoded(lexical=_with({"weight": 1, "mean": 0, "scale": 0})), "a scale or deviation is not above 0"),
        (encoded(lexical=Ranker({}, slope=-1, intercept=0)), "the slope is not above 0"),
    ],
)
def test_damaged_weights_are_refused(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_weights(text)


def test_what_is_written_is_read() -> None:
    assert read_weights(encoded()) == Weights(
        VERSION, shipped_weights().lexical, shipped_weights().hybrid, shipped_weights().dense
    )
