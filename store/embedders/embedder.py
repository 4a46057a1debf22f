"""What turns texts into vectors, whichever it is: its shape, how it fails, and what holds for the vectors of all."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

TEXT_CHARS_MAX = 4_000  # a vector is of so much of a text: beyond, it would say little of any of its parts
LENGTH_MIN = 1e-9  # a shorter vector points nowhere

Vectors: TypeAlias = NDArray[np.float32]
"""One vector, or a row for each of several."""


class EmbedderUnavailable(Exception):
    """No vectors now; later there may be some. The message is read by clients: it names no address, path or key."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s  # how long it wants to be left alone, where it says so


class EmbedderMisconfigured(Exception):
    """No vectors until somebody changes a setting; the message says which, and names no address, path or key."""


class Embedder(Protocol):
    """A model that is loaded, or an endpoint that has answered. Its methods block; any thread may call them."""

    id: str
    """Vectors of two embedders can be compared where these ids are the same."""

    dimension: int
    """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text. A row of zeros: there is nothing in that text to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of length 1 to look for texts with; None where there is nothing to embed.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """

    def close(self) -> None:
        """Lets go of what it holds, and ends the calls that wait."""


def embedded(texts: Sequence[str], dimension: int, compute: Callable[[list[str]], Vectors]) -> Vectors:
    """The rows of an embedder, of what it computes for the texts that have something to embed.

    A row that is not finite, or points nowhere, is one of zeros as well.
    """
    rows = np.zeros((len(texts), dimension), np.float32)
    cleaned = [_cleaned(text) for text in texts]
    places = [place for place, text in enumerate(cleaned) if text]
    if places:
        rows[places] = _of_length_1(compute([cleaned[place] for place in places]))
    return rows


def question_of(rows: Vectors) -> Vectors | None:
    """The only row, where it points anywhere."""
    row: Vectors = rows[0]
    return row if row.any() else None


def batches(texts: Sequence[str], texts_max: int, chars_max: int) -> Iterator[list[int]]:
    """The places of the texts, in batches of texts that are about as long as each other.

    A batch has so many texts at most, and so many characters were all of them as long as its longest.
    """
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        if batch and (len(batch) == texts_max or (len(batch) + 1) * len(texts[place]) > chars_max):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _cleaned(text: str) -> str:
    """What is embedded of a text; empty where there is neither a letter nor a digit in it."""
    cut = text[:TEXT_CHARS_MAX].strip()
    if not any(map(str.isalnum, cut)):
        return ""
    return cut.encode("utf-8", "replace").decode("utf-8")  # half a character is none that a tokenizer takes


def _of_length_1(rows: Vectors) -> Vectors:
    precise = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(precise, axis=1, keepdims=True)
        is_good = np.isfinite(lengths) & (lengths > LENGTH_MIN)
        scaled = np.divide(precise, lengths, out=np.zeros_like(precise), where=is_good)
    rows_of_1: Vectors = scaled.astype(np.float32)
    return rows_of_1
