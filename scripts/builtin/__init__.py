"""Scripts that are part of every server."""

from collections.abc import Mapping
from pathlib import Path

from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading

CHAT = "chat"
"""Free conversation: the script of sessions that name no script."""

_FILES: Mapping[str, str] = {CHAT: "chat.yaml"}


def read_builtin(script_id: str) -> Reading | None:
    """Return the script with this id, or None."""
    file = _FILES.get(script_id)
    return read_path(Path(__file__).parent / file, "strict") if file is not None else None
