"""An application's own embedder: any function from texts to rows of numbers."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from store.embedders.embedder import Embedder, EmbedderMisconfigured, Vectors, embedded, question_of
from store.embedders.names import DIMENSION_MAX

Embed: TypeAlias = Callable[[list[str]], Any]
"""Takes texts and returns a row of numbers for each: an array, or a list of lists. It may be called from any thread."""


class OwnEmbedder:
    """Vectors of a function. Its id has the function's name and the dimension: rename a function that embeds otherwise,
    so that its vectors are compared with none of the old ones.
    """

    def __init__(self, call: Embed, name: str, dimension: int) -> None:
        self.id = f"own:{name}:{dimension}"
        self.dimension = dimension
        self._call = call

    @classmethod
    def open(cls, call: Embed) -> Self:
        """Return the embedder of a function, whose dimension one text shows. Raises EmbedderMisconfigured."""
        rows = _rows(call, ["text"])
        if not 1 <= rows.shape[1] <= DIMENSION_MAX:
            raise EmbedderMisconfigured(f"an embedder gives from 1 to {DIMENSION_MAX:,} numbers, not {rows.shape[1]:,}")
        name = getattr(call, "__qualname__", None) or type(call).__qualname__
        return cls(call, name, rows.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text. Raises EmbedderMisconfigured."""
        return embedded(texts, self.dimension, self._computed)

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of a question. Raises EmbedderMisconfigured."""
        return question_of(self.embed([text]))

    def close(self) -> None:
        """Nothing to let go of."""

    def _computed(self, texts: list[str]) -> Vectors:
        rows = _rows(self._call, texts)
        if rows.shape[1] != self.dimension:
            raise EmbedderMisconfigured(
                f"the embedder gave {rows.shape[1]} numbers a text, and {self.dimension} before"
            )
        return rows


def _rows(call: Embed, texts: list[str]) -> Vectors:
    try:
        rows = np.asarray(call(texts), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderMisconfigured(f"the embedder gives no rows of numbers: {error}") from error
    if rows.ndim != 2 or len(rows) != len(texts):
        raise EmbedderMisconfigured(f"the embedder gives a row for each of {len(texts)} texts, not {rows.shape}")
    return rows


def own_embedder(call: Embed) -> Callable[[], Embedder]:
    """Return how to load the embedder of a function."""
    return lambda: OwnEmbedder.open(call)
