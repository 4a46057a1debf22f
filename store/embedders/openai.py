"""An embedder behind an endpoint that speaks OpenAI's embeddings."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import msgspec
import numpy as np
from msgspec import Struct
from openai import (
    APIConnectionError,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    APITimeoutError,
    DefaultHttpxClient,
    Omit,
    OpenAI,
    Timeout,
)
from tenacity import RetryCallState, Retrying, retry_if_exception, sleep_using_event, stop_after_attempt
from tenacity.wait import wait_random_exponential

from store.embedders.embedder import (
    EmbedderMisconfigured,
    EmbedderUnavailable,
    Vectors,
    batches,
    embedded,
    question_of,
)

CONNECT_S = 5.0
ATTEMPTS_MAX = 3
RETRY_AFTER_MAX_S = 20.0  # an endpoint that wants to be left alone for longer is not waited for
QUESTION_S = 5.0  # somebody waits for the vector of a question, and finds without it what has the same words
BATCH_CHARS_MAX = 256_000  # endpoints bound the tokens of a request; OpenAI's at 300,000
DIMENSION_MAX = 65_536
NO_KEY = "none"  # the client insists on one
PROBE = "How many numbers has a vector?"

_LASTING: Mapping[int, str] = {
    401: "refused the key; see embedder_key",
    402: "wants to be paid first",
    403: "does not allow this with the key; see embedder_key",
    404: "knows no such model or address; see embedder and embedder_url",
}
_PASSING = frozenset({408, 409, 425, 429})


class _Row(Struct, frozen=True):
    embedding: list[float]
    index: int | None = None


class _Answer(Struct, frozen=True):
    data: list[_Row]


class _Refused(EmbedderMisconfigured):
    """The endpoint does not take these texts."""


class OpenAIEmbedder:
    """A model at an endpoint that has answered."""

    def __init__(self, client: OpenAI, model: str, *, timeout_s: float, batch: int) -> None:
        self.id = f"openai:{model}"
        self.dimension = 0  # until there is a first vector
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._batch = batch
        self._closing = threading.Event()

    @classmethod
    def open(cls, model: str, *, url: str, key: str, timeout_s: float, batch: int) -> "OpenAIEmbedder":
        """Learns how long the vectors are from a first one. Raises EmbedderUnavailable, EmbedderMisconfigured."""
        embedder = cls(_client(url, key, timeout_s), model, timeout_s=timeout_s, batch=batch)
        try:
            embedder.dimension = embedder._rows([PROBE], timeout_s).shape[1]
        except (EmbedderUnavailable, EmbedderMisconfigured):
            embedder.close()
            raise
        return embedder

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text; one of zeros for a text that the endpoint does not take."""
        return embedded(texts, self.dimension, self._computed)

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of a question, asked for once and not for long."""
        wait_s = min(QUESTION_S, self._timeout_s)
        return question_of(embedded([text], self.dimension, lambda question: self._rows(question, wait_s)))

    def close(self) -> None:
        """Closes its connections; what waits to ask again does not."""
        self._closing.set()
        self._client.close()

    def _computed(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for places in batches(texts, self._batch, BATCH_CHARS_MAX):
            try:
                rows[places] = self._rows_at_last([texts[place] for place in places])
            except _Refused:
                for place in places:  # all for one of them
                    rows[place] = self._row_if_taken(texts[place])
        return rows

    def _row_if_taken(self, text: str) -> Vectors:
        try:
            row: Vectors = self._rows_at_last([text])[0]
        except _Refused:
            return np.zeros(self.dimension, np.float32)
        return row

    def _rows_at_last(self, texts: list[str]) -> Vectors:
        """The rows of a batch, asked for again where that may help."""
        backing_off = wait_random_exponential(multiplier=0.5, max=8.0)

        def wait_s(state: RetryCallState) -> float:
            wanted = _wanted_s(state.outcome.exception() if state.outcome is not None else None)
            return backing_off(state) if wanted is None else wanted + backing_off(state) / 10

        def is_worth_it(error: BaseException) -> bool:
            if not isinstance(error, EmbedderUnavailable) or self._closing.is_set():
                return False
            return (_wanted_s(error) or 0.0) <= RETRY_AFTER_MAX_S

        retrying = Retrying(
            sleep=sleep_using_event(self._closing),
            stop=stop_after_attempt(ATTEMPTS_MAX),
            wait=wait_s,
            retry=retry_if_exception(is_worth_it),
            reraise=True,
        )
        rows: Vectors = retrying(self._rows, texts, self._timeout_s)
        return rows

    def _rows(self, texts: list[str], timeout_s: float) -> Vectors:
        """The rows of a batch, by a single call."""
        if self._closing.is_set():
            raise EmbedderUnavailable("the embedder is closed")
        create: Any = self._client.embeddings.create
        timeout = Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        try:
            answer = create(input=texts, model=self._model, encoding_format="float", timeout=timeout)
            data = msgspec.convert(answer, _Answer, from_attributes=True).data
        except APIError as error:
            raise _failure(error, self._model) from None
        except ValueError:  # a body that is no JSON, or holds no vectors
            raise EmbedderUnavailable(f"the endpoint of `{self._model}` does not answer as embeddings do") from None
        return self._checked(data, len(texts))

    def _checked(self, data: list[_Row], count: int) -> Vectors:
        """The rows in the order of their texts."""
        if all(row.index is not None for row in data):
            data = sorted(data, key=lambda row: row.index or 0)
        lengths = {len(row.embedding) for row in data}
        wanted = {self.dimension} if self.dimension else lengths
        if len(data) != count or lengths != wanted or len(lengths) != 1 or not 0 < max(lengths) <= DIMENSION_MAX:
            raise EmbedderUnavailable(f"the endpoint of `{self._model}` gave other vectors than it was asked for")
        return np.array([row.embedding for row in data], np.float32)


def _client(url: str, key: str, timeout_s: float) -> OpenAI:
    logging.getLogger("openai").setLevel(logging.WARNING)  # else OPENAI_LOG has it tell of what people say
    timeout = Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    return OpenAI(
        api_key=key or NO_KEY,
        base_url=url,
        timeout=timeout,
        max_retries=0,
        # what the environment says is meant for another endpoint
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultHttpxClient(
            timeout=timeout, limits=httpx2.Limits(max_connections=4), follow_redirects=False
        ),
    )


def _failure(error: APIError, model: str) -> EmbedderUnavailable | EmbedderMisconfigured:
    """What an error of the client means, in words that hold nothing of the endpoint's own."""
    who = f"the endpoint of embedder `{model}`"
    match error:
        case APITimeoutError():
            return EmbedderUnavailable(f"{who} did not answer in time")
        case APIConnectionError():
            return EmbedderUnavailable(f"{who} cannot be reached, or broke off; see embedder_url")
        case APIResponseValidationError():
            return EmbedderUnavailable(f"{who} does not answer as embeddings do; see embedder_url")
        case APIStatusError():
            return _of_status(error, who)
        case _:
            return EmbedderUnavailable(f"{who} broke off")


def _of_status(error: APIStatusError, who: str) -> EmbedderUnavailable | EmbedderMisconfigured:
    status = error.status_code
    if status == 429 and error.code == "insufficient_quota":
        return EmbedderUnavailable(f"{who} has no quota left for this key", retry_after_s=600.0)
    if status >= 500 or status in _PASSING:
        wanted = error.response.headers.get("retry-after", "")
        return EmbedderUnavailable(f"{who} has trouble, or too much to do ({status})", retry_after_s=_seconds(wanted))
    if status in _LASTING:
        return EmbedderMisconfigured(f"{who} {_LASTING[status]} ({status})")
    return _Refused(f"{who} refused the request ({status}); see embedder and embedder_batch")


def _seconds(wanted: str) -> float | None:
    """How long an endpoint wants to be left alone, where it says so in seconds."""
    return float(wanted) if wanted.isdecimal() else None


def _wanted_s(error: BaseException | None) -> float | None:
    return error.retry_after_s if isinstance(error, EmbedderUnavailable) else None
