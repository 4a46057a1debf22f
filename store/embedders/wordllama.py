"""The default embedder: the static vectors of WordLlama, which are in its package, so that no network is needed.

The vector of a text is the mean of the vectors of its tokens (Miller 2024, https://github.com/dleemiller/WordLlama).
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from store.embedders.embedder import Embedder, EmbedderMisconfigured, Vectors, batches

CONFIG = "l2_supercat"
DIMENSION = 256
BATCH_CHARS_MAX = 64_000  # a batch is padded to its longest text, and takes up to 3 KB of memory for a character


class _Model(Protocol):
    def embed(self, texts: list[str], *, batch_size: int) -> Vectors:
        """Return a row for each text, not normalised."""


class WordLlamaEmbedder(Embedder):
    """A loaded WordLlama model."""

    def __init__(self, model: _Model, digest: str, batch: int) -> None:
        self.id = f"wordllama:{CONFIG}_{DIMENSION}@{digest}"
        self.dimension = DIMENSION
        self._model = model
        self._batch = batch

    @classmethod
    def open(cls, batch: int) -> "WordLlamaEmbedder":
        """Load the model; takes half a second. Raises EmbedderMisconfigured if the package is damaged."""
        with _logging_unchanged():
            import wordllama
        folder = Path(wordllama.__file__).parent
        try:
            model: _Model = wordllama.WordLlama.load(CONFIG, cache_dir=folder, dim=DIMENSION, disable_download=True)
            digest = _digest(folder)
        except OSError:
            raise EmbedderMisconfigured(
                "the model of the package wordllama is missing; install the package again"
            ) from None
        return cls(model, digest, batch)

    def _compute(self, texts: list[str]) -> Vectors:
        rows = np.empty((len(texts), DIMENSION), np.float32)
        for places in batches(texts, self._batch, BATCH_CHARS_MAX):
            rows[places] = self._model.embed([texts[place] for place in places], batch_size=len(places))
        return rows


def _digest(folder: Path) -> str:
    """Return a digest of the model's files, to distinguish models of the same name."""
    digest = hashlib.sha256()
    for name in (f"weights/{CONFIG}_{DIMENSION}.safetensors", f"tokenizers/{CONFIG}_tokenizer_config.json"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _logging_unchanged() -> Iterator[None]:
    """Prevent the package from configuring the root logger on import, which it does if that has no handler."""
    handler = logging.NullHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
