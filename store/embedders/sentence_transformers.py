"""An embedder of any model that sentence-transformers loads, by name or from a folder. It comes with an extra of its
own: importing it takes seconds and hundreds of megabytes.
"""

import hashlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from store.embedders.embedder import EmbedderMisconfigured, EmbedderUnavailable, Vectors, embedded, question_of

_E5 = re.compile(r"(^|[-_/])e5-(?!.*instruct)", re.IGNORECASE)
_E5_PROMPTS: Mapping[str, str] = {"query": "query: ", "document": "passage: "}


class SentenceTransformersEmbedder:
    """A model of sentence-transformers, loaded. One batch at a time: its tokenizer is not to be shared by threads."""

    def __init__(self, model: Any, name: str, batch: int) -> None:
        self.id = f"sentence-transformers:{name}@{_digest(model)}"
        self.dimension = int(model.get_embedding_dimension())
        self._model = model
        self._batch = batch
        self._one_at_a_time = threading.Lock()

    @classmethod
    def open(cls, model: str, *, device: str | None, batch: int) -> "SentenceTransformersEmbedder":
        """Loads a model by its name at the hub or from a folder, onto a device of PyTorch's, or the best there is.

        Raises EmbedderUnavailable, EmbedderMisconfigured.
        """
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # before the import; bars have no place in a log
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EmbedderMisconfigured(
                f"sentence-transformers cannot be imported ({error.name}); install cuebook[embeddings]"
            ) from None
        name = Path(model).name
        try:
            loaded = SentenceTransformer(model, device=device, prompts=_prompts(model))
        except (ValueError, AssertionError, RuntimeError) as error:  # what a device or a folder without a model raise
            raise EmbedderMisconfigured(
                f"the model `{name}` cannot be loaded ({type(error).__name__}); see embedder and embedder_device"
            ) from None
        except OSError:
            raise EmbedderUnavailable(
                f"the model `{name}` is not on this machine and could not be fetched; see embedder"
            ) from None
        return cls(loaded, name, batch)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text, with the prompt that the model wants before documents."""
        return embedded(texts, self.dimension, lambda cleaned: self._computed(cleaned, self._model.encode_document))

    def embed_question(self, text: str) -> Vectors | None:
        """The vector of a question, with the prompt that the model wants before queries."""
        rows = embedded([text], self.dimension, lambda cleaned: self._computed(cleaned, self._model.encode_query))
        return question_of(rows)

    def close(self) -> None:
        """Nothing to let go of: the memory goes with the embedder."""

    def _computed(self, texts: list[str], encode: Any) -> Vectors:
        with self._one_at_a_time:
            try:
                rows = encode(texts, batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True)
            except RuntimeError as error:  # such as too little memory on the device
                raise EmbedderUnavailable(f"the embedder failed ({type(error).__name__}); see embedder_batch") from None
        return np.asarray(rows, np.float32)


def _prompts(model: str) -> Mapping[str, str] | None:
    """The prompts of models that want some and do not bring them along; None: those the model brings."""
    return _E5_PROMPTS if _E5.search(model) else None


def _digest(model: Any) -> str:
    """What tells a model from another of the same name: its weights, in whichever order they are."""
    parts = sorted(
        hashlib.sha256(weights.detach().float().cpu().contiguous().numpy()).digest() for weights in model.parameters()
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]
