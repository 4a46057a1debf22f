"""An embedder for tests: words fall into places by their hash. It knows words that are the same, and no meaning."""

import re
import zlib
from collections.abc import Sequence

import numpy as np

from store.embedders.embedder import Vectors, embedded, question_of

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_]+")


class HashedEmbedder:
    """The same text always has the same vector, on every machine; texts with words in common are near each other."""

    def __init__(self, dimension: int) -> None:
        self.id = f"hashed:{dimension}"
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        return embedded(texts, self.dimension, self._computed)

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of a question."""
        return question_of(self.embed([text]))

    def close(self) -> None:
        """Nothing to let go of."""

    def _computed(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                row[zlib.crc32(word.encode("utf-8")) % self.dimension] += 1.0  # never less: words take nothing away
        return rows
