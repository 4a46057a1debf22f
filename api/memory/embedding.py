"""The embedder of a server: loads it in a thread on first use, pauses after failures, and caches query vectors."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias, TypeVar

import structlog
from cachetools import LRUCache

from api.background import retrieve_exception, within
from api.settings import Settings, SettingsInvalid
from store.embedders.choose_embedder import MakeEmbedder, embedder_for
from store.embedders.embedder import Embedder, EmbedderMisconfigured, EmbedderUnavailable, Vectors

QUESTIONS_MAX = 2_000  # cached query vectors: 2 MB at 256 numbers each
QUESTION_CHARS_MAX = 1_000  # a longer text is not cached
QUESTION_S = 6.0  # after this time the search continues without a vector
TEXTS_S = 600.0  # for one call of background work, by a model on a slow machine
LOAD_S = 600.0  # a first load may download the model
READ_S = 2.0  # after this time a memory is read without its vectors, which follow when the embedder is loaded
REST_S = 15.0  # pause after a failure
REST_S_MAX = 3_600.0  # however long the endpoint asks for
MISCONFIGURED_REST_S = 300.0
THREADS = 2  # one embeds texts, one stays free for queries
_LATE = "the embedder did not answer in time"

T = TypeVar("T")
Failed: TypeAlias = EmbedderUnavailable | EmbedderMisconfigured

log = structlog.get_logger()


def embedding_of(settings: Settings) -> "EmbeddingService":
    """Create the embedding service for the embedder of the settings, without loading it. Raises SettingsInvalid."""
    endpoint = settings.embedder_endpoint
    if endpoint is None and settings.embedder.startswith("openai:"):
        raise SettingsInvalid(f"embedder: {settings.embedder!r} needs an endpoint; set embedder_url or embedder_key")
    try:
        make = embedder_for(
            settings.embedder,
            url=endpoint.url if endpoint is not None else "",
            key=endpoint.key.reveal() if endpoint is not None else "",
            device=settings.embedder_device,
            batch=settings.embedder_batch,
            timeout_s=settings.embedder_timeout_s,
        )
    except EmbedderMisconfigured as error:
        raise SettingsInvalid(f"embedder: {error}") from error
    return EmbeddingService(make)


class EmbeddingService:
    """Computes vectors of texts and queries. Use it in one event loop only."""

    def __init__(self, make: MakeEmbedder | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "embedder")
        self._loading: asyncio.Task[Embedder] | None = None
        self.current: Embedder | None = None
        """The embedder if it is loaded."""
        self._questions: LRUCache[str, Vectors | None] = LRUCache(QUESTIONS_MAX)
        self._one_batch_at_a_time = asyncio.Lock()
        self._failure: Failed | None = None
        self._rests_until = 0.0
        self.embedded = 0  # number of texts, not counting queries
        self.embedding_s = 0.0  # total time for them

    @property
    def is_lexical(self) -> bool:
        """Return whether no embedder is configured, so that units are found by their words alone."""
        return self._make is None

    @property
    def state(self) -> str:
        """Describe the state of the embedder: the reason of a failure, whether it is loaded, and its id."""
        if self._make is None:
            return "none"
        if self._failure is not None:
            return str(self._failure)
        return "not loaded" if self.current is None else f"{self.current.id}: ready"

    async def embedder(self, within_s: float = LOAD_S) -> Embedder:
        """Return the embedder, loading it first if needed.

        Raises EmbedderUnavailable, EmbedderMisconfigured; during the pause after a failure, immediately.
        """
        if self.current is not None:
            return self.current
        if self._loading is None or self._loading.done():
            self._check_rest()
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(retrieve_exception)
        async with within(within_s, EmbedderUnavailable("the embedder is still being loaded")):
            return await asyncio.shield(self._loading)  # a waiter that gives up must not cancel it for others

    async def available(self, within_s: float = LOAD_S) -> Embedder | None:
        """Return the embedder, or None if there is none or it cannot be used now; units are then found by words."""
        if self.is_lexical:
            return None
        try:
            return await self.embedder(within_s)
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return None

    async def question(self, text: str) -> Vectors | None:
        """Return the vector of a query text, or None if the embedder finds nothing to embed in it.

        Raises EmbedderUnavailable, EmbedderMisconfigured; the caller may still search by words.
        """
        if text in self._questions:
            return self._questions[text]
        async with within(QUESTION_S, EmbedderUnavailable(_LATE)):
            embedder = await self.embedder()
            self._check_rest()
            vector = await self._call(lambda: embedder.embed_question(text))
        if len(text) <= QUESTION_CHARS_MAX:
            self._questions[text] = vector
        return vector

    async def texts(self, texts: Sequence[str]) -> Vectors:
        """Return a row of length 1 for each text, or a row of zeros if there is nothing in it to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured; then no text is embedded.
        """
        embedder = await self.embedder()
        async with self._one_batch_at_a_time:
            self._check_rest()
            started = self._clock()
            async with within(TEXTS_S, EmbedderUnavailable(_LATE)):
                rows = await self._call(lambda: embedder.embed(texts))
            self.embedded += len(texts)
            self.embedding_s += self._clock() - started
            return rows

    async def close(self) -> None:
        """Cancel waiting work and release the model; the result of a computation in a thread is discarded."""
        if self._loading is not None:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, EmbedderUnavailable, EmbedderMisconfigured):
                await self._loading
        if self.current is not None:
            await asyncio.to_thread(self.current.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _load(self) -> Embedder:
        make, started = self._make, self._clock()
        if make is None:
            raise EmbedderMisconfigured("this server has no embedder; see the setting `embedder`")
        self.current = embedder = await self._call(make)
        seconds = round(self._clock() - started, 1)
        log.info("embedder loaded", embedder=embedder.id, dimension=embedder.dimension, seconds=seconds)
        return embedder

    async def _call(self, work: Callable[[], T]) -> T:
        """Do work with the embedder in a thread and return its result; start a pause if it fails."""
        try:
            done = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except EmbedderUnavailable as error:
            self._rest(error, min(error.retry_after_s or REST_S, REST_S_MAX))
            raise
        except EmbedderMisconfigured as error:
            self._rest(error, MISCONFIGURED_REST_S)
            raise
        self._failure = None
        return done

    def _rest(self, failure: Failed, seconds: float) -> None:
        log.warning("embedder failed", problem=str(failure), rests_s=seconds)
        self._failure, self._rests_until = failure, self._clock() + seconds

    def _check_rest(self) -> None:
        """Raise the last failure during the pause that follows it."""
        left_s = self._rests_until - self._clock()
        if self._failure is None or left_s <= 0:
            return
        if isinstance(self._failure, EmbedderMisconfigured):
            raise EmbedderMisconfigured(str(self._failure))
        raise EmbedderUnavailable(str(self._failure), retry_after_s=left_s)
