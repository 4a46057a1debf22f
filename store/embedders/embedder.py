"""What all embedders share: their methods, their errors and the normalisation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TEXT_CHARS_MAX = 4_000  # longer texts are truncated: a vector of a longer text would represent none of its parts well
LENGTH_MIN = 1e-9  # a shorter vector counts as zero

Vectors: TypeAlias = NDArray[np.float32]
"""One vector, or a matrix with one row per vector."""


class EmbedderUnavailable(Exception):
    """The embedder fails now, but may work later. Clients read the message: it names no address, path or key."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s  # as requested by the endpoint; None if it requests nothing


class EmbedderMisconfigured(Exception):
    """The embedder fails until a setting is changed. The message names the setting, but no address, path or key."""


class Embedder(ABC):
    """A loaded model, or an endpoint that has responded. The methods block; they are safe for any thread."""

    id: str
    """Vectors of two embedders are comparable if and only if the ids are equal."""

    dimension: int
    """The number of components of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row of length 1 for each text; a row of zeros if the text has nothing to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """
        return embed_rows(texts, self.dimension, self._compute)

    def embed_question(self, text: str) -> Vectors | None:
        """Return the vector of length 1 of a search query; None if it has nothing to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """
        return question_of(self.embed([text]))

    def close(self) -> None:  # noqa: B027  (most embedders hold nothing)
        """Release all resources and end waiting calls."""

    @abstractmethod
    def _compute(self, texts: list[str]) -> Vectors:
        """Return a row for each text, not normalised; every text has something to embed."""


def embed_rows(texts: Sequence[str], dimension: int, compute: Callable[[list[str]], Vectors]) -> Vectors:
    """Return the rows of `texts`, normalised to length 1; `compute` is called with the texts that are not empty.

    The row of a text without letters and digits is zero, and so is a row that is not finite or too short.
    """
    rows = np.zeros((len(texts), dimension), np.float32)
    cleaned = [_clean(text) for text in texts]
    places = [place for place, text in enumerate(cleaned) if text]
    if places:
        rows[places] = _normalise(compute([cleaned[place] for place in places]))
    return rows


def question_of(rows: Vectors) -> Vectors | None:
    """Return the only row, or None if it is zero."""
    row: Vectors = rows[0]
    return row if row.any() else None


def batches(texts: Sequence[str], texts_max: int, chars_max: int) -> Iterator[list[int]]:
    """Yield the indexes of the texts in batches of texts of similar length.

    A batch has at most `texts_max` texts. Padded to its longest text, it has at most `chars_max` characters.
    """
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        if batch and (len(batch) == texts_max or (len(batch) + 1) * len(texts[place]) > chars_max):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _clean(text: str) -> str:
    """Return the part of a text to embed; empty if it contains neither letters nor digits."""
    cut = text[:TEXT_CHARS_MAX].strip()
    if not any(map(str.isalnum, cut)):
        return ""
    return cut.encode("utf-8", "replace").decode("utf-8")  # tokenizers reject lone surrogates


def _normalise(rows: Vectors) -> Vectors:
    precise = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(precise, axis=1, keepdims=True)
        is_good = np.isfinite(lengths) & (lengths > LENGTH_MIN)
        scaled = np.divide(precise, lengths, out=np.zeros_like(precise), where=is_good)
    unit_rows: Vectors = scaled.astype(np.float32)
    return unit_rows
