"""Scripts that every server has without importing them."""

from collections.abc import Mapping
from pathlib import Path

from scripts.folder import read_path
from scripts.parse import Reading

CHAT = "chat"
"""Free conversation: what a session runs on that names no script."""

_FILES: Mapping[str, str] = {CHAT: "chat.yaml"}


def read_builtin(script_id: str) -> Reading | None:
    """The script of this id, read; None where there is none."""
    file = _FILES.get(script_id)
    return read_path(Path(__file__).parent / file, "strict") if file is not None else None
