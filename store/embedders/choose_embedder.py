"""Choose an embedder by its name: the name is checked at once, the embedder is loaded when it is needed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from store.embedders.embedder import Embedder, EmbedderMisconfigured
from store.embedders.names import parse_name

MakeEmbedder: TypeAlias = Callable[[], Embedder]
"""Loads an embedder; takes up to seconds. Raises EmbedderUnavailable, EmbedderMisconfigured."""


def embedder_for(
    name: str, *, url: str = "", key: str = "", device: str | None = None, batch: int = 32, timeout_s: float = 30.0
) -> MakeEmbedder | None:
    """Return a function that loads the embedder of a name, or None for `none`. Its package is imported on loading.

    `url`, `key` and `timeout_s` concern the endpoint of `openai:`; `device` is a device of PyTorch. `batch` is the
    number of texts that are embedded at a time.

    Raises EmbedderMisconfigured if loading would certainly fail, and ValueError for an unknown name.
    """
    parsed = parse_name(name)
    if parsed.kind == "none":
        return None
    model = _model_or_folder(parsed.what) if parsed.kind == "sentence-transformers" else parsed.what

    def load() -> Embedder:
        match parsed.kind:
            case "sentence-transformers":
                from store.embedders.sentence_transformers import SentenceTransformersEmbedder

                return SentenceTransformersEmbedder.open(model, device=device, batch=batch)
            case "openai":
                from store.embedders.openai import OpenAIEmbedder

                return OpenAIEmbedder.open(model, url=url, key=key, timeout_s=timeout_s, batch=batch)
            case "hashed":
                from store.embedders.hashed import HashedEmbedder

                return HashedEmbedder(int(model))
            case _:
                from store.embedders.wordllama import WordLlamaEmbedder

                return WordLlamaEmbedder.open(batch)

    return load


def _model_or_folder(what: str) -> str:
    """Return the name of a model or the path of an existing folder. Raises EmbedderMisconfigured."""
    folder = Path(what).expanduser()
    is_folder = folder.is_dir()
    if is_folder and not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise EmbedderMisconfigured(f"the folder {what} contains no model: it has no modules.json or config.json")
    if not is_folder and (what.startswith(("/", ".", "~")) or what.count("/") > 1):
        raise EmbedderMisconfigured(f"there is no folder {what} with a model")
    if importlib.util.find_spec("sentence_transformers") is None:
        raise EmbedderMisconfigured(
            "sentence-transformers is not installed; install cuebook[embeddings], or use `wordllama`"
        )
    return str(folder) if is_folder else what
