"""The embedder of a server: loaded once, asked once, left alone where it fails; and its settings."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from api.local_files.settings_file import load_settings
from api.memory.embedding import QUESTIONS_MAX, REST_S, REST_S_MAX, EmbeddingService, embedding_of
from api.settings import Settings, SettingsInvalid
from store.embedders.embedder import Embedder, EmbedderMisconfigured, EmbedderUnavailable, Vectors
from store.embedders.hashed import HashedEmbedder
from tests.support.openai_server import Endpoint

KEY = "sk-embed-2"


class Watched(HashedEmbedder):
    """An embedder that records its requests, and fails on demand."""

    def __init__(self) -> None:
        super().__init__(16)
        self.questions: list[str] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert self.gate.wait(30)
        if self.failures:
            raise self.failures.pop(0)
        return super().embed(texts)

    def embed_question(self, text: str) -> Vectors | None:
        self.questions.append(text)
        return super().embed_question(text)

    def close(self) -> None:
        self.closed = True


class Opened:
    """An embedding over a watched embedder, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.watched = Watched()
        self.loads = 0
        self.is_loading = threading.Event()
        self.embedding = EmbeddingService(self._load, lambda: self.now)
        self.fail_loading: Exception | None = None

    def _load(self) -> Embedder:
        self.loads += 1
        self.is_loading.set()
        assert self.watched.gate.wait(30)
        if self.fail_loading is not None:
            raise self.fail_loading
        return self.watched


@pytest.fixture
async def opened() -> Any:
    opened = Opened()
    yield opened
    opened.watched.gate.set()
    await opened.embedding.close()


async def test_it_is_loaded_when_it_is_first_needed_and_once(opened) -> None:
    assert (opened.loads, opened.embedding.state) == (0, "not loaded")
    rows, question, embedder = await asyncio.gather(
        opened.embedding.texts(["a cat", ""]), opened.embedding.question("a cat?"), opened.embedding.embedder()
    )
    assert rows.any(axis=1).tolist() == [True, False]
    assert question is not None
    assert (embedder.id, embedder.dimension) == ("hashed:16", 16)
    assert (opened.loads, opened.embedding.state) == (1, "hashed:16: ready")


async def test_the_vector_of_a_question_is_computed_once(opened) -> None:
    first = await opened.embedding.question("Who is hungry?")
    assert np.array_equal(await opened.embedding.question("Who is hungry?"), first)
    assert await opened.embedding.question("?") is None
    assert await opened.embedding.question("?") is None
    assert opened.watched.questions == ["Who is hungry?", "?"]


async def test_cached_questions_are_bounded_and_the_latest(opened) -> None:
    for number in range(QUESTIONS_MAX + 1):
        await opened.embedding.question(f"question {number}")
    await opened.embedding.question(f"question {QUESTIONS_MAX}")
    assert len(opened.watched.questions) == QUESTIONS_MAX + 1
    await opened.embedding.question("question 0")
    assert len(opened.watched.questions) == QUESTIONS_MAX + 2


async def test_question_does_not_wait_for_texts_being_embedded(opened) -> None:
    await opened.embedding.embedder()
    opened.watched.gate.clear()
    texts = asyncio.create_task(opened.embedding.texts(["one"]))
    others = asyncio.create_task(opened.embedding.texts(["two"]))
    opened.watched.embed_question = lambda text: np.ones(16, np.float32)
    assert await opened.embedding.question("hello?") is not None
    assert not texts.done()
    opened.watched.gate.set()
    assert (await texts).any()
    assert (await others).any()


async def test_after_a_failure_it_is_left_alone_for_a_while(opened) -> None:
    opened.watched.failures.append(EmbedderUnavailable("it is down"))
    with pytest.raises(EmbedderUnavailable, match="it is down"):
        await opened.embedding.texts(["hello"])
    with pytest.raises(EmbedderUnavailable) as caught:
        await opened.embedding.question("hello?")
    assert caught.value.retry_after_s == REST_S
    assert opened.watched.questions == []
    assert opened.embedding.state == "it is down"
    opened.now += REST_S
    assert await opened.embedding.question("hello?") is not None
    assert opened.embedding.state == "hashed:16: ready"


async def test_a_failure_never_ends_the_use_of_the_embedder(opened) -> None:
    opened.watched.failures.append(EmbedderUnavailable("it is down", retry_after_s=float("9" * 400)))
    with pytest.raises(EmbedderUnavailable):
        await opened.embedding.texts(["hello"])
    opened.now += REST_S_MAX
    assert await opened.embedding.question("hello?") is not None


async def test_questions_whose_vectors_are_known_need_no_embedder(opened) -> None:
    known = await opened.embedding.question("hello?")
    opened.watched.failures.append(EmbedderUnavailable("it is down", retry_after_s=90))
    with pytest.raises(EmbedderUnavailable):
        await opened.embedding.texts(["hello"])
    assert np.array_equal(await opened.embedding.question("hello?"), known)
    opened.now += 89
    with pytest.raises(EmbedderUnavailable):
        await opened.embedding.question("and you?")


async def test_loading_that_failed_is_tried_again_later(opened) -> None:
    opened.fail_loading = EmbedderMisconfigured("the model `x` cannot be loaded")
    for _ in range(2):
        with pytest.raises(EmbedderMisconfigured, match="the model `x`"):
            await opened.embedding.question("hello?")
    assert opened.loads == 1
    opened.now += 1_000
    opened.fail_loading = None
    assert await opened.embedding.question("hello?") is not None
    assert opened.loads == 2


async def test_who_gives_up_waiting_does_not_end_the_loading(opened) -> None:
    opened.watched.gate.clear()
    waiting = asyncio.create_task(opened.embedding.texts(["hello"]))
    assert await asyncio.to_thread(opened.is_loading.wait, 30)
    waiting.cancel()
    await asyncio.wait({waiting})
    opened.watched.gate.set()
    assert (await opened.embedding.texts(["hello"])).any()
    assert opened.loads == 1


async def test_closing_releases_the_embedder_also_while_it_is_loaded(opened) -> None:
    await opened.embedding.texts(["hello"])
    await opened.embedding.close()
    assert opened.watched.closed
    other = Opened()
    other.watched.gate.clear()
    waiting = asyncio.create_task(other.embedding.texts(["hello"]))
    assert await asyncio.to_thread(other.is_loading.wait, 30)
    await other.embedding.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    other.watched.gate.set()


# -- settings ---------------------------------------------------------------------------------------------------------


def settings_of(**settings: Any) -> Settings:
    return load_settings(None, settings, {})


async def test_the_default_comes_along_and_none_is_lexical() -> None:
    by_default, none = embedding_of(settings_of()), embedding_of(settings_of(embedder="none"))
    assert (by_default.is_lexical, by_default.state) == (False, "not loaded")
    assert (await by_default.embedder()).id.startswith("wordllama:l2_supercat_256@")
    assert (none.is_lexical, none.state) == (True, "none")
    with pytest.raises(EmbedderMisconfigured, match="no embedder"):
        await none.question("hello?")
    await by_default.close()
    await none.close()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"embedder": "word2vec"}, r"settings: there is no embedder 'word2vec'; use `wordllama`"),
        ({"embedder": "openai:small"}, "embedder: 'openai:small' needs an endpoint; set embedder_url or embedder_key"),
        ({"embedder": "sentence-transformers:/no/such"}, "embedder: there is no folder /no/such"),
        ({"embedder": "openai:small", "embedder_url": "ftp://x"}, "embedder_url, embedder_key: the url"),
        ({"embedder": "openai:small", "embedder_url": "http://far.example/v1", "embedder_key": KEY}, "use https"),
        ({"embedder_batch": 0}, "embedder_batch"),
    ],
)
def test_wrong_settings_are_named_with_their_fix(settings, problem) -> None:
    with pytest.raises(SettingsInvalid, match=problem) as caught:
        embedding_of(settings_of(**settings))
    assert KEY not in str(caught.value)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(SettingsInvalid, match="CUEBOOK_EMBEDDER: there is no embedder"):
        load_settings(None, {}, {"CUEBOOK_EMBEDDER": "x"})


async def test_endpoint_is_that_of_models_without_its_own_settings(endpoint: Endpoint) -> None:
    shared = settings_of(model="openai:tiny", model_url=endpoint.url, model_key=KEY, embedder="openai:small")
    own = settings_of(model="openai:tiny", model_key=KEY, embedder="openai:small", embedder_url=endpoint.url)
    for settings in (shared, own):
        embedding = embedding_of(settings)
        assert await embedding.question("hello?") is not None
        await embedding.close()
    assert [asked.key for asked in endpoint.requests] == [KEY, KEY, "none", "none"]


def test_the_key_of_an_embedder_shows_itself_to_nobody() -> None:
    settings = settings_of(embedder="openai:small", embedder_key=KEY)
    shown = [repr(settings), repr(settings.embedder_endpoint), repr(embedding_of(settings))]
    assert [text for text in shown if KEY in text] == []
