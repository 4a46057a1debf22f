"""The embedder of a server: loaded in a thread when it is first needed, left alone for a while where it fails, and
asked for the vector of a question once.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import structlog

from api.settings import Settings, SettingsInvalid
from store.embedders.choosing import MakeEmbedder, embedder_for
from store.embedders.embedder import Embedder, EmbedderMisconfigured, EmbedderUnavailable, Vectors

QUESTIONS_MAX = 2_000  # whose vectors are kept: 2 MB of 256 numbers each
QUESTION_CHARS_MAX = 1_000  # a longer one is not kept
QUESTION_S = 6.0  # who asks goes on without a vector then
TEXTS_S = 600.0  # for one call of background work, by a model on a slow machine
LOAD_S = 600.0  # the first time a model may have to be fetched
REST_S = 15.0  # after a failure nothing is tried
MISCONFIGURED_REST_S = 300.0
THREADS = 2  # one embeds texts, one is free for questions

T = TypeVar("T")
Failed: TypeAlias = EmbedderUnavailable | EmbedderMisconfigured

log = structlog.get_logger()


def embedding_of(settings: Settings) -> "Embedding":
    """The embedder that the settings name, checked but not loaded. Raises SettingsInvalid."""
    endpoint = settings.embedder_endpoint
    if endpoint is None and settings.embedder.startswith("openai:"):
        raise SettingsInvalid(f"embedder: {settings.embedder!r} is at an endpoint; set embedder_url or embedder_key")
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
    return Embedding(make)


class Embedding:
    """Vectors of texts and questions. All of it belongs to one event loop."""

    def __init__(self, make: MakeEmbedder | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "embedder")
        self._loading: asyncio.Task[Embedder] | None = None
        self._loaded: Embedder | None = None
        self._questions: OrderedDict[str, Vectors | None] = OrderedDict()
        self._one_batch_at_a_time = asyncio.Lock()
        self._failure: Failed | None = None
        self._rests_until = 0.0
        self.embedded = 0  # texts, questions aside
        self.embedding_s = 0.0  # how long they took together

    @property
    def is_lexical(self) -> bool:
        """Whether there is no embedder at all: what is remembered is found by its words alone."""
        return self._make is None

    @property
    def current(self) -> Embedder | None:
        """The embedder, if it is loaded."""
        return self._loaded

    @property
    def state(self) -> str:
        """How it is, for whoever looks: where it failed, why."""
        if self._make is None:
            return "none"
        if self._failure is not None:
            return str(self._failure)
        return "not loaded" if self._loaded is None else f"{self._loaded.id}: ready"

    async def embedder(self) -> Embedder:
        """The embedder, for its id and dimension; it is loaded first where it is not.

        Raises EmbedderUnavailable, EmbedderMisconfigured; for a while after it failed, at once.
        """
        if self._loaded is not None:
            return self._loaded
        if self._loading is None or self._loading.done():
            self._check_rest()
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(_heard)
        try:
            async with asyncio.timeout(LOAD_S):
                return await asyncio.shield(self._loading)  # who gives up waiting does not end it for others
        except TimeoutError:
            raise EmbedderUnavailable("the embedder is still being loaded") from None

    async def question(self, text: str) -> Vectors | None:
        """The vector of a question; None where there is nothing in it to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured: its words are still there to go by.
        """
        if text in self._questions:
            self._questions.move_to_end(text)
            return self._questions[text]
        try:
            async with asyncio.timeout(QUESTION_S):
                embedder = await self.embedder()
                self._check_rest()
                vector = await self._watched(self._in_thread(lambda: embedder.embed_question(text)))
        except TimeoutError:
            raise EmbedderUnavailable("the embedder did not answer in time") from None
        if len(text) <= QUESTION_CHARS_MAX:
            self._questions[text] = vector
            if len(self._questions) > QUESTIONS_MAX:
                self._questions.popitem(last=False)
        return vector

    async def texts(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text; one of zeros where there is nothing in it to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured: none of them is embedded then.
        """
        embedder = await self.embedder()
        async with self._one_batch_at_a_time:
            self._check_rest()
            begun = self._clock()
            try:
                async with asyncio.timeout(TEXTS_S):
                    rows = await self._watched(self._in_thread(lambda: embedder.embed(texts)))
            except TimeoutError:
                raise EmbedderUnavailable("the embedder did not answer in time") from None
            self.embedded += len(texts)
            self.embedding_s += self._clock() - begun
            return rows

    async def close(self) -> None:
        """Ends what waits, and lets go of the model; what a thread computes comes to its end unheard."""
        if self._loading is not None:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, EmbedderUnavailable, EmbedderMisconfigured):
                await self._loading
        if self._loaded is not None:
            await asyncio.to_thread(self._loaded.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _load(self) -> Embedder:
        make, begun = self._make, self._clock()
        if make is None:
            raise EmbedderMisconfigured("this server has no embedder; see embedder")
        self._loaded = embedder = await self._watched(self._in_thread(make))
        seconds = round(self._clock() - begun, 1)
        log.info("embedder loaded", embedder=embedder.id, dimension=embedder.dimension, seconds=seconds)
        return embedder

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work comes to; where it fails, the embedder is left alone for a while."""
        try:
            done = await work
        except EmbedderUnavailable as error:
            self._rest(error, error.retry_after_s or REST_S)
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
        """Raises the last failure while it rests."""
        left_s = self._rests_until - self._clock()
        if self._failure is None or left_s <= 0:
            return
        if isinstance(self._failure, EmbedderMisconfigured):
            raise EmbedderMisconfigured(str(self._failure))
        raise EmbedderUnavailable(str(self._failure), retry_after_s=left_s)


def _heard(loading: asyncio.Task[Embedder]) -> None:
    """Loading that failed is known of, also where nobody waits for it any more."""
    if not loading.cancelled():
        loading.exception()
