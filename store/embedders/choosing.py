"""Which embedder there is to be: checked at once, loaded when it is needed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from store.embedders.embedder import Embedder, EmbedderMisconfigured
from store.embedders.names import named

MakeEmbedder: TypeAlias = Callable[[], Embedder]
"""Loads an embedder; takes up to seconds. Raises EmbedderUnavailable, EmbedderMisconfigured."""


def embedder_for(
    name: str, *, url: str = "", key: str = "", device: str | None = None, batch: int = 32, timeout_s: float = 30.0
) -> MakeEmbedder | None:
    """How to load the embedder of a name; None for `none`. Nothing of it is imported before it is loaded.

    `url`, `key` and `timeout_s` are those of the endpoint of `openai:`, `device` is PyTorch's. `batch` texts are
    embedded at a time.

    Raises EmbedderMisconfigured for what can be seen to fail, and ValueError for a name that is none.
    """
    wanted = named(name)
    match wanted.kind:
        case "none":
            return None
        case "wordllama":
            return lambda: _wordllama(batch)
        case "sentence-transformers":
            model = _model_or_folder(wanted.what)
            return lambda: _sentence_transformers(model, device, batch)
        case "openai":
            return lambda: _openai(wanted.what, url, key, timeout_s, batch)
        case "hashed":
            return lambda: _hashed(int(wanted.what))


def _wordllama(batch: int) -> Embedder:
    from store.embedders.wordllama import WordLlamaEmbedder

    return WordLlamaEmbedder.open(batch)


def _sentence_transformers(model: str, device: str | None, batch: int) -> Embedder:
    from store.embedders.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder.open(model, device=device, batch=batch)


def _openai(model: str, url: str, key: str, timeout_s: float, batch: int) -> Embedder:
    from store.embedders.openai import OpenAIEmbedder

    return OpenAIEmbedder.open(model, url=url, key=key, timeout_s=timeout_s, batch=batch)


def _hashed(dimension: int) -> Embedder:
    from store.embedders.hashed import HashedEmbedder

    return HashedEmbedder(dimension)


def _model_or_folder(what: str) -> str:
    """The name of a model, or a folder that is there. Raises EmbedderMisconfigured."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise EmbedderMisconfigured(
            "sentence-transformers is not installed; install cuebook[embeddings], or use `wordllama`"
        )
    folder = Path(what).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists() and not (folder / "modules.json").exists():
            raise EmbedderMisconfigured(f"the folder {what} holds no model: it has no modules.json or config.json")
        return str(folder)
    if what.startswith(("/", ".", "~")) or what.count("/") > 1:
        raise EmbedderMisconfigured(f"there is no folder {what} with a model")
    return what
