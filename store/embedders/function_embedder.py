"""An application's own embedder: any function from texts to rows of numbers."""

from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np

from store.embedders.embedder import Embedder, EmbedderMisconfigured, Vectors
from store.embedders.names import DIMENSION_MAX

Embed: TypeAlias = Callable[[list[str]], Any]
"""Returns a row of numbers for each text: an array, or a list of lists. It must be safe for calls from any thread."""


class OwnEmbedder(Embedder):
    """An embedder that calls a function. Its id contains the function's name and the dimension.

    Rename the function when its vectors change, so that they are not compared with the old ones.
    """

    def __init__(self, call: Embed, name: str, dimension: int) -> None:
        self.id = f"own:{name}:{dimension}"
        self.dimension = dimension
        self._call = call

    @classmethod
    def open(cls, call: Embed) -> Self:
        """Return the embedder of a function; embeds one text to find its dimension. Raises EmbedderMisconfigured."""
        rows = _rows(call, ["text"])
        if not 1 <= rows.shape[1] <= DIMENSION_MAX:
            raise EmbedderMisconfigured(
                f"an embedder must return from 1 to {DIMENSION_MAX:,} numbers per text, not {rows.shape[1]:,}"
            )
        name = getattr(call, "__qualname__", None) or type(call).__qualname__
        return cls(call, name, rows.shape[1])

    def _compute(self, texts: list[str]) -> Vectors:
        rows = _rows(self._call, texts)
        if rows.shape[1] != self.dimension:
            raise EmbedderMisconfigured(
                f"the embedder returned {rows.shape[1]} numbers per text, but {self.dimension} before"
            )
        return rows


def _rows(call: Embed, texts: list[str]) -> Vectors:
    try:
        rows = np.asarray(call(texts), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderMisconfigured(f"the embedder must return rows of numbers: {error}") from error
    if rows.ndim != 2 or len(rows) != len(texts):
        raise EmbedderMisconfigured(
            f"the embedder must return one row for each of {len(texts)} texts, not the shape {rows.shape}"
        )
    return rows
