"""Embedders: what every one of them keeps to, and what is each one's own."""

import functools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.embedders.choose_embedder import embedder_for
from store.embedders.embedder import (
    TEXT_CHARS_MAX,
    Embedder,
    EmbedderMisconfigured,
    EmbedderUnavailable,
    batches,
    embed_rows,
)
from tests.support.minilm import MINILM, MODEL_DIR, needs_minilm
from tests.support.openai_server import Endpoint
from tests.support.paths import ROOT

KINDS = ("wordllama", pytest.param("minilm", marks=needs_minilm), "openai", "hashed")
TEXTS = ["The cat is hungry.", "", "我的猫饿了。", "Quarterly tax report for 2024", "…?! 😀", "a hungry cat"]
KEY = "sk-embed-1"


@functools.cache
def loaded(name: str) -> Embedder:
    """Load models once for all tests."""
    make = embedder_for(name, batch=3)
    assert make is not None
    return make()


@pytest.fixture
def hosted(endpoint: Endpoint) -> Iterator[Callable[..., Embedder]]:
    """Open the embedder behind the endpoint."""
    opened: list[Embedder] = []

    def open_embedder(name: str = "openai:small", **settings: Any) -> Embedder:
        make = embedder_for(name, **{"url": endpoint.url, "key": KEY, "batch": 3, "timeout_s": 10.0} | settings)
        assert make is not None
        opened.append(make())
        return opened[-1]

    yield open_embedder
    for embedder in opened:
        embedder.close()


@pytest.fixture(params=KINDS)
def embedder(request: pytest.FixtureRequest, hosted: Callable[..., Embedder]) -> Embedder:
    match request.param:
        case "openai":
            return hosted()
        case "minilm":
            return loaded(MINILM)
        case "hashed":
            return loaded("hashed:64")
        case other:
            return loaded(other)


def test_row_of_a_text_has_length_1_or_zeros_without_content(embedder) -> None:
    rows = embedder.embed(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), embedder.dimension), np.float32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1, 1, 0, 1], abs=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimension)
    assert embedder.embed(["", " \n"]).any() is np.False_


def test_a_vector_is_that_of_its_text_whatever_stands_beside_it(embedder) -> None:
    rows = embedder.embed(TEXTS)
    for text, row in zip(TEXTS, rows, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(row, abs=1e-4)
    assert embedder.embed(TEXTS[::-1]) == pytest.approx(rows[::-1], abs=1e-4)


def test_a_question_has_one_vector_or_none(embedder) -> None:
    question = embedder.embed_question("Which cat is hungry?")
    assert question is not None
    assert (question.shape, question.dtype) == ((embedder.dimension,), np.float32)
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-5)
    assert embedder.embed_question(" ?") is None


def test_texts_that_say_alike_are_near_each_other(embedder) -> None:
    cat, tax, other_cat = embedder.embed(["The cat is hungry", "Quarterly tax report for 2024", "a hungry cat is here"])
    assert cat @ other_cat > cat @ tax


def test_no_text_is_too_strange(embedder) -> None:
    rows = embedder.embed(["half a character \ud83d", "\x00 zero", "long " * 50_000, "字" * 10_000, "e\u0301" * 50])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1] * 5, abs=1e-5)
    assert embedder.embed_question("\ud800 what?") is not None


def test_a_vector_is_of_the_beginning_of_a_long_text(embedder) -> None:
    beginning = ("word " * TEXT_CHARS_MAX)[:TEXT_CHARS_MAX]
    whole, cut = embedder.embed([beginning + "and a tail", beginning])
    assert whole == pytest.approx(cut, abs=1e-5)


def test_in_tests_no_word_hides_another() -> None:
    few = embedder_for("hashed:8")
    assert few is not None
    words = [f"{first} {second}" for first in "abcdefghij" for second in "klmnopqrst"]
    assert few().embed(words).any(axis=1).all()


def test_several_threads_may_use_it_at_once(embedder) -> None:
    rows = embedder.embed(TEXTS)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(embedder.embed, [TEXTS] * 8):
            assert found == pytest.approx(rows, abs=1e-4)


def test_ids_hold_no_folder(embedder) -> None:
    assert str(MODEL_DIR.parent) not in embedder.id
    assert embedder.id.split(":")[0] in {"wordllama", "sentence-transformers", "openai", "hashed"}


@pytest.mark.parametrize("other", ["hashed:32", "wordllama", pytest.param(MINILM, marks=needs_minilm)])
def test_ids_tell_models_apart(other) -> None:
    assert loaded("hashed:64").id != loaded(other).id


# -- loading ----------------------------------------------------------------------------------------------------------


def test_without_an_embedder_there_is_none() -> None:
    assert embedder_for("none") is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("word2vec", "there is no embedder 'word2vec'"),
        ("openai:", "there is no embedder"),
        ("hashed:many", "from 8 to"),
        ("hashed:100000", "from 8 to"),
        ("", "there is no embedder ''"),
    ],
)
def test_an_unknown_name_is_reported_with_the_known_ones(name, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        embedder_for(name)


@needs_minilm[0]
@needs_minilm[1]
def test_a_folder_without_a_model_is_reported_before_loading(tmp_path: Path) -> None:
    with pytest.raises(EmbedderMisconfigured, match="contains no model"):
        embedder_for(f"sentence-transformers:{tmp_path}")
    with pytest.raises(EmbedderMisconfigured, match="there is no folder"):
        embedder_for(f"sentence-transformers:{tmp_path}/nothing")


@needs_minilm[0]
@needs_minilm[1]
def test_a_model_that_cannot_be_loaded_says_which_setting_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    make = embedder_for(f"sentence-transformers:{tmp_path}")
    assert make is not None
    with pytest.raises(EmbedderMisconfigured, match="see embedder and embedder_device") as caught:
        make()
    assert str(tmp_path.parent) not in str(caught.value)
    elsewhere = embedder_for(MINILM, device="moon")
    assert elsewhere is not None
    with pytest.raises(EmbedderMisconfigured, match="embedder_device"):
        elsewhere()


@needs_minilm[0]
@needs_minilm[1]
def test_a_model_that_is_not_at_hand_may_be_later() -> None:
    program = """
from store.embedders.choose_embedder import embedder_for
from store.embedders.embedder import EmbedderUnavailable
try:
    embedder_for("sentence-transformers:nobody/has-this-model")()
except EmbedderUnavailable as error:
    print(error)
"""
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    printed = run(program, offline)
    assert printed == "the model `has-this-model` is not on this machine and could not be downloaded; see embedder\n"


def test_logging_is_left_as_it_is_by_loading_the_default_model() -> None:
    program = """
import logging
from store.embedders.choose_embedder import embedder_for
embedder = embedder_for("wordllama")()
print(embedder.dimension, logging.getLogger().handlers, logging.getLogger().level == logging.WARNING)
"""
    assert run(program) == "256 [] True\n"


@needs_minilm[0]
@needs_minilm[1]
def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    program = """
import sys
import api.app
from store.embedders.choose_embedder import embedder_for
for name in ("wordllama", "openai:small", "sentence-transformers:any/model", "hashed:8"):
    embedder_for(name)
heavy = ("torch", "transformers", "sentence_transformers", "wordllama", "tokenizers", "openai")
print([name for name in heavy if name in sys.modules])
"""
    assert run(program) == "[]\n"


def run(program: str, environment: dict[str, str] | None = None) -> str:
    """Return what a program prints, in a process of its own."""
    home = {"PYTHONPATH": str(ROOT), "HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=home | (environment or {}),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- prompts, batches, vectors that are none --------------------------------------------------------------------------


@needs_minilm[0]
@needs_minilm[1]
def test_a_model_that_wants_prompts_gets_them(tmp_path: Path) -> None:
    folder = tmp_path / "multilingual-e5-small"  # e5 brings no prompts along, and needs them
    folder.symlink_to(MODEL_DIR)
    make = embedder_for(f"sentence-transformers:{folder}")
    assert make is not None
    prompted, plain = make(), loaded(MINILM)
    question = prompted.embed_question("Who is hungry?")
    assert question is not None
    assert question == pytest.approx(plain.embed(["query: Who is hungry?"])[0], abs=1e-4)
    assert prompted.embed(["The cat is."])[0] == pytest.approx(plain.embed(["passage: The cat is."])[0], abs=1e-4)


def test_batches_are_bounded_by_texts_and_by_their_longest() -> None:
    texts = ["a" * length for length in (1, 50, 2, 49, 3, 100, 1)]
    found = list(batches(texts, 3, 100))
    assert sorted(place for batch in found for place in batch) == list(range(len(texts)))
    assert all(len(batch) <= 3 for batch in found)
    assert all(len(batch) * max(len(texts[place]) for place in batch) <= 100 for batch in found)


def test_an_invalid_vector_is_reported_as_invalid() -> None:
    rows = np.array([[np.nan, 1], [np.inf, 1], [0, 0], [3e38, 3e38], [0, 2]], np.float32)
    found = embed_rows(list("abcde"), 2, lambda texts: rows)
    assert found == pytest.approx(np.array([[0, 0], [0, 0], [0, 0], [0.5**0.5, 0.5**0.5], [0, 1]]))


# -- endpoints --------------------------------------------------------------------------------------------------------


def test_endpoint_is_called_in_batches_with_rows_in_any_order(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    texts = [letter * 5 for letter in "hello"] + ["q" * 9]
    rows = embedder.embed(texts)
    assert [len(asked.texts) for asked in endpoint.requests] == [1, 3, 3]
    assert {(asked.model, asked.key) for asked in endpoint.requests} == {("small", KEY)}
    assert rows.argmax(axis=1).tolist() == [ord(text[0]) - ord("a") for text in texts]


def test_an_endpoint_without_a_key_gets_none_of_another(
    endpoint: Endpoint, hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    assert hosted(key="").dimension == 26
    assert endpoint.requests[0].key == "none"


def test_an_endpoint_on_this_machine_is_called_without_a_proxy(
    endpoint: Endpoint, hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert hosted(url=f"{endpoint.url}?api-version=1").dimension == 26
    assert endpoint.paths == ["/v1/embeddings?api-version=1"]


@pytest.mark.parametrize(
    "trouble", [{"status": 503}, {"status": 429, "headers": {"Retry-After": "0"}}, {"cut": -1}, {"body": "no JSON"}]
)
def test_trouble_that_passes_is_waited_out(endpoint: Endpoint, hosted, trouble) -> None:
    embedder = hosted()
    endpoint.will(**trouble)
    assert embedder.embed(["hello"]).any()
    assert len(endpoint.requests) == 3


def test_permanent_trouble_is_reported(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    endpoint.always(status=500, error="secret of the endpoint")
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed(["hello"])
    assert str(caught.value) == "the endpoint of embedder `small` has an error or is overloaded (500)"
    assert len(endpoint.requests) == 4


def test_an_endpoint_that_wants_to_be_left_alone_for_long_is(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    endpoint.will(status=429, headers={"Retry-After": "90"})
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed(["hello"])
    assert caught.value.retry_after_s == 90
    assert len(endpoint.requests) == 2


def test_the_vector_of_a_question_is_asked_for_once(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    endpoint.will(status=503)
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_question("hello?")
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("status", [401, 402, 403, 404, 400])
def test_a_misconfiguration_is_reported_at_once_without_the_key(endpoint: Endpoint, hosted, status) -> None:
    endpoint.always(status=status, error=f"{KEY} is no good at {endpoint.url}")
    with pytest.raises(EmbedderMisconfigured) as caught:
        hosted()
    assert f"({status})" in str(caught.value)
    assert KEY not in str(caught.value)
    assert endpoint.url not in str(caught.value)
    assert len(endpoint.requests) == 1


def test_a_text_that_is_refused_leaves_the_others_their_vectors(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    endpoint.will(times=2, status=400)  # the batch, then the first of its texts
    rows = embedder.embed(["aaa", "bbb", "ccc"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([0, 1, 1], abs=1e-5)


def test_nobody_listens_at_an_address(hosted) -> None:
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        hosted(url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("vectors", [[[1.0, 2.0]], [[1.0] * 26, [1.0] * 26], [[]]])
def test_vectors_of_another_length_or_number_are_refused(endpoint: Endpoint, hosted, vectors) -> None:
    embedder = hosted()
    endpoint.always(vectors=vectors)
    with pytest.raises(EmbedderUnavailable, match="wrong number or length"):
        embedder.embed_question("hello?")


def test_closing_ends_what_waits(endpoint: Endpoint, hosted) -> None:
    embedder = hosted()
    endpoint.always(status=429, headers={"Retry-After": "19"})
    failures: list[Exception] = []

    def wait() -> None:
        try:
            embedder.embed(["hello"])
        except EmbedderUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    endpoint.wait(2)
    embedder.close()
    thread.join(15)
    assert not thread.is_alive()
    assert len(failures) == 1
