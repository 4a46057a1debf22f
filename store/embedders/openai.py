"""An embedder that calls an endpoint with OpenAI's embeddings API."""

import logging
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

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
    Embedder,
    EmbedderMisconfigured,
    EmbedderUnavailable,
    Vectors,
    batches,
    embed_rows,
    question_of,
)

CONNECT_S = 5.0
ATTEMPTS_MAX = 3
RETRY_AFTER_MAX_S = 20.0  # if an endpoint requests a longer pause, there is no retry
QUESTION_S = 5.0  # short, because a caller waits for the vector of a search query; without it, only words are matched
BATCH_CHARS_MAX = 256_000  # endpoints limit the tokens of a request; OpenAI's limit is 300,000
DIMENSION_MAX = 65_536
NO_KEY = "none"  # the client requires a key
# also if the environment names a proxy, which cannot reach this machine
NO_PROXY: Mapping[str, None] = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}
PROBE = "How many numbers has a vector?"

_PERMANENT: Mapping[int, str] = {
    401: "refused the key; see embedder_key",
    402: "requires payment",
    403: "does not allow this with the key; see embedder_key",
    404: "has no such model or URL; see embedder and embedder_url",
}
_TEMPORARY = frozenset({408, 409, 425, 429})


class _Row(Struct, frozen=True):
    embedding: list[float]
    index: int | None = None


class _Answer(Struct, frozen=True):
    data: list[_Row]


class _Refused(EmbedderMisconfigured):
    """The endpoint refuses these texts."""


class OpenAIEmbedder(Embedder):
    """A model at an endpoint that has responded at least once. A text that the endpoint refuses has a row of zeros."""

    def __init__(self, client: OpenAI, model: str, *, timeout_s: float, batch: int) -> None:
        self.id = f"openai:{model}"
        self.dimension = 0  # set by the first vector
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._batch = batch
        self._closing = threading.Event()

    @classmethod
    def open(cls, model: str, *, url: str, key: str, timeout_s: float, batch: int) -> "OpenAIEmbedder":
        """Embed one text to find the dimension. Raises EmbedderUnavailable, EmbedderMisconfigured."""
        embedder = cls(_client(url, key, timeout_s), model, timeout_s=timeout_s, batch=batch)
        try:
            embedder.dimension = embedder._rows([PROBE], timeout_s).shape[1]
        except (EmbedderUnavailable, EmbedderMisconfigured):
            embedder.close()
            raise
        return embedder

    def embed_question(self, text: str) -> Vectors | None:
        """Return the vector of a search query, with a single call and a short time limit."""
        wait_s = min(QUESTION_S, self._timeout_s)
        return question_of(embed_rows([text], self.dimension, lambda question: self._rows(question, wait_s)))

    def close(self) -> None:
        """Close the connections; waiting retries end."""
        self._closing.set()
        self._client.close()

    def _compute(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for places in batches(texts, self._batch, BATCH_CHARS_MAX):
            try:
                rows[places] = self._rows_with_retries([texts[place] for place in places])
            except _Refused:
                for place in places:  # one refused text makes the endpoint refuse the whole batch
                    rows[place] = self._row_or_zeros(texts[place])
        return rows

    def _row_or_zeros(self, text: str) -> Vectors:
        try:
            row: Vectors = self._rows_with_retries([text])[0]
        except _Refused:
            return np.zeros(self.dimension, np.float32)
        return row

    def _rows_with_retries(self, texts: list[str]) -> Vectors:
        """Return the rows of a batch; retry temporary failures."""
        backoff = wait_random_exponential(multiplier=0.5, max=8.0)

        def wait_s(state: RetryCallState) -> float:
            retry_after_s = _retry_after_s(state.outcome.exception() if state.outcome is not None else None)
            return backoff(state) if retry_after_s is None else retry_after_s + backoff(state) / 10

        def should_retry(error: BaseException) -> bool:
            if not isinstance(error, EmbedderUnavailable) or self._closing.is_set():
                return False
            return (_retry_after_s(error) or 0.0) <= RETRY_AFTER_MAX_S

        retrying = Retrying(
            sleep=sleep_using_event(self._closing),
            stop=stop_after_attempt(ATTEMPTS_MAX),
            wait=wait_s,
            retry=retry_if_exception(should_retry),
            reraise=True,
        )
        rows: Vectors = retrying(self._rows, texts, self._timeout_s)
        return rows

    def _rows(self, texts: list[str], timeout_s: float) -> Vectors:
        """Return the rows of a batch, with a single call."""
        if self._closing.is_set():
            raise EmbedderUnavailable("the embedder is closed")
        create: Any = self._client.embeddings.create
        timeout = Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        try:
            answer = create(input=texts, model=self._model, encoding_format="float", timeout=timeout)
            data = msgspec.convert(answer, _Answer, from_attributes=True).data
        except APIError as error:
            raise _failure(error, self._model) from None
        except ValueError:  # the body is not JSON, or contains no vectors
            raise EmbedderUnavailable(
                f"the response of the endpoint of `{self._model}` is not one of embeddings"
            ) from None
        return self._check(data, len(texts))

    def _check(self, data: list[_Row], count: int) -> Vectors:
        """Return the rows in the order of their texts. Raises EmbedderUnavailable for a wrong number or length."""
        if all(row.index is not None for row in data):
            data = sorted(data, key=lambda row: row.index or 0)
        lengths = {len(row.embedding) for row in data}
        expected = {self.dimension} if self.dimension else lengths
        if len(data) != count or lengths != expected or len(lengths) != 1 or not 0 < max(lengths) <= DIMENSION_MAX:
            raise EmbedderUnavailable(f"the endpoint of `{self._model}` returned a wrong number or length of vectors")
        return np.array([row.embedding for row in data], np.float32)


def _client(url: str, key: str, timeout_s: float) -> OpenAI:
    logging.getLogger("openai").setLevel(logging.WARNING)  # otherwise OPENAI_LOG makes it log users' texts
    timeout = Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    address, _, query = url.partition("?")  # the client would put the path behind the query
    return OpenAI(
        api_key=key or NO_KEY,
        base_url=address,
        default_query=dict(parse_qsl(query, keep_blank_values=True)),
        timeout=timeout,
        max_retries=0,
        # omitted, since the values in the environment belong to another endpoint
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultHttpxClient(
            timeout=timeout, limits=httpx2.Limits(max_connections=4), follow_redirects=False, mounts=NO_PROXY
        ),
    )


def _failure(error: APIError, model: str) -> EmbedderUnavailable | EmbedderMisconfigured:
    """Return the error of the store for an error of the client; its message quotes nothing from the endpoint."""
    who = f"the endpoint of embedder `{model}`"
    match error:
        case APITimeoutError():
            return EmbedderUnavailable(f"{who} did not respond in time")
        case APIConnectionError():
            return EmbedderUnavailable(f"{who} cannot be reached, or closed the connection; see embedder_url")
        case APIResponseValidationError():
            return EmbedderUnavailable(f"{who} returned a response that is not one of embeddings; see embedder_url")
        case APIStatusError():
            return _of_status(error, who)
        case _:
            return EmbedderUnavailable(f"{who} closed the connection")


def _of_status(error: APIStatusError, who: str) -> EmbedderUnavailable | EmbedderMisconfigured:
    status = error.status_code
    if status == 429 and error.code == "insufficient_quota":
        return EmbedderUnavailable(f"{who} has no quota left for this key", retry_after_s=600.0)
    if status >= 500 or status in _TEMPORARY:
        retry_after = error.response.headers.get("retry-after", "")
        return EmbedderUnavailable(
            f"{who} has an error or is overloaded ({status})", retry_after_s=_seconds(retry_after)
        )
    if status in _PERMANENT:
        return EmbedderMisconfigured(f"{who} {_PERMANENT[status]} ({status})")
    return _Refused(f"{who} refused the request ({status}); see embedder and embedder_batch")


def _seconds(retry_after: str) -> float | None:
    """Return the value of the header Retry-After if it is a number of seconds, otherwise None."""
    return float(retry_after) if retry_after.isdecimal() else None


def _retry_after_s(error: BaseException | None) -> float | None:
    return error.retry_after_s if isinstance(error, EmbedderUnavailable) else None
