"""The embedder that comes along: the static vectors of WordLlama, out of its own package, without any network.

A text's vector is the mean of those of its pieces of words (Miller 2024, https://github.com/dleemiller/WordLlama).
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from store.embedders.embedder import EmbedderMisconfigured, Vectors, batches, embedded, question_of

CONFIG = "l2_supercat"
DIMENSION = 256
BATCH_CHARS_MAX = 64_000  # a batch is padded to its longest text, and takes up to 3 KB of memory for a character


class _Model(Protocol):
    def embed(self, texts: list[str], *, batch_size: int) -> Vectors:
        """A row for each text, of any length."""


class WordLlamaEmbedder:
    """WordLlama, loaded."""

    def __init__(self, model: _Model, digest: str, batch: int) -> None:
        self.id = f"wordllama:{CONFIG}_{DIMENSION}@{digest}"
        self.dimension = DIMENSION
        self._model = model
        self._batch = batch

    @classmethod
    def open(cls, batch: int) -> "WordLlamaEmbedder":
        """Loads it; takes half a second. Raises EmbedderMisconfigured where its package is damaged."""
        with _logging_left_alone():
            import wordllama
        folder = Path(wordllama.__file__).parent
        try:
            model: _Model = wordllama.WordLlama.load(CONFIG, cache_dir=folder, dim=DIMENSION, disable_download=True)
            digest = _digest(folder)
        except OSError:
            raise EmbedderMisconfigured("the package wordllama has lost its model; install it anew") from None
        return cls(model, digest, batch)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        return embedded(texts, DIMENSION, self._computed)

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of a question."""
        return question_of(self.embed([text]))

    def close(self) -> None:
        """Nothing to let go of."""

    def _computed(self, texts: list[str]) -> Vectors:
        rows = np.empty((len(texts), DIMENSION), np.float32)
        for places in batches(texts, self._batch, BATCH_CHARS_MAX):
            rows[places] = self._model.embed([texts[place] for place in places], batch_size=len(places))
        return rows


def _digest(folder: Path) -> str:
    """What tells this model from another of the same name."""
    digest = hashlib.sha256()
    for name in (f"weights/{CONFIG}_{DIMENSION}.safetensors", f"tokenizers/{CONFIG}_tokenizer_config.json"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """The package sets up all logging of the process when it is imported, which it does where nobody else has."""
    nobody = logging.NullHandler()
    root = logging.getLogger()
    root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)
