"""An embedder for any model of sentence-transformers, by name or from a folder.

The library is an optional extra, because importing it takes seconds and hundreds of megabytes.
"""

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from store.embedders.embedder import (
    Embedder,
    EmbedderMisconfigured,
    EmbedderUnavailable,
    Vectors,
    embed_rows,
    question_of,
)

_E5 = re.compile(r"(^|[-_/])e5-(?!.*instruct)", re.IGNORECASE)
_E5_PROMPTS: Mapping[str, str] = {"query": "query: ", "document": "passage: "}


class SentenceTransformersEmbedder(Embedder):
    """A loaded model of sentence-transformers. It embeds one batch at a time: its tokenizer is not thread-safe."""

    def __init__(self, model: Any, name: str, batch: int) -> None:
        self.id = f"sentence-transformers:{name}@{_digest(model)}"
        self.dimension = int(model.get_embedding_dimension())
        self._model = model
        self._batch = batch
        self._one_at_a_time = threading.Lock()

    @classmethod
    def open(cls, model: str, *, device: str | None, batch: int) -> "SentenceTransformersEmbedder":
        """Load a model by its name at the hub or from a folder, onto a PyTorch device; without one, the best available.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """
        # before the import, to keep progress bars out of logs
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EmbedderMisconfigured(
                f"sentence-transformers cannot be imported ({error.name}); install cuebook[embeddings]"
            ) from None
        name = Path(model).name
        try:
            loaded = SentenceTransformer(model, device=device, prompts=_prompts(model))
        except (ValueError, AssertionError, RuntimeError) as error:  # an unknown device, or a folder without a model
            raise EmbedderMisconfigured(
                f"the model `{name}` cannot be loaded ({type(error).__name__}); see embedder and embedder_device"
            ) from None
        except OSError:
            raise EmbedderUnavailable(
                f"the model `{name}` is not on this machine and could not be downloaded; see embedder"
            ) from None
        return cls(loaded, name, batch)

    def embed_question(self, text: str) -> Vectors | None:
        """Return the vector of a search query, with the model's prompt for queries."""
        rows = embed_rows([text], self.dimension, lambda cleaned: self._encode(cleaned, self._model.encode_query))
        return question_of(rows)

    def _compute(self, texts: list[str]) -> Vectors:
        """Return a row for each text, with the model's prompt for documents."""
        return self._encode(texts, self._model.encode_document)

    def _encode(self, texts: list[str], encode: Any) -> Vectors:
        with self._one_at_a_time:
            try:
                rows = encode(texts, batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True)
            except RuntimeError as error:  # for example, too little memory on the device
                raise EmbedderUnavailable(f"the embedder failed ({type(error).__name__}); see embedder_batch") from None
        return np.asarray(rows, np.float32)


def _prompts(model: str) -> Mapping[str, str] | None:
    """Return the prompts of a model whose files lack the required ones; None to use those of its files."""
    return _E5_PROMPTS if _E5.search(model) else None


def _digest(model: Any) -> str:
    """Return a digest of the weights, in any order, to distinguish models of the same name."""
    parts = sorted(
        hashlib.sha256(weights.detach().float().cpu().contiguous().numpy()).digest() for weights in model.parameters()
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]
