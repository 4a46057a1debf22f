"""An embedder for tests: it counts words by their hash. It recognises equal words, but no meaning."""

import re
import zlib

import numpy as np

from store.embedders.embedder import Embedder, Vectors

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_]+")


class HashedEmbedder(Embedder):
    """A deterministic embedder: a text has the same vector on every machine; texts with common words are similar."""

    def __init__(self, dimension: int) -> None:
        self.id = f"hashed:{dimension}"
        self.dimension = dimension

    def _compute(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                # never subtracted, so that common words always increase the similarity
                row[zlib.crc32(word.encode("utf-8")) % self.dimension] += 1.0
        return rows
