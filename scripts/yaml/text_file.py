"""The texts of files that people write: scripts, test cases, replies."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

FILE_BYTES_MAX = 4_000_000
ReadText: TypeAlias = Callable[[Path], str]
"""Returns the text of a file, or raises FileUnreadable; an editor has newer texts than the files."""


class FileUnreadable(Exception):
    """A file cannot be read; the message says why."""


def file_text(path: Path) -> str:
    """Return the text of a file. Raises FileUnreadable."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise FileUnreadable(f"{path}: larger than {FILE_BYTES_MAX:,} bytes")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror or 'cannot be read'}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileUnreadable(f"{path}: line {line} is not UTF-8 text (byte {error.start})") from error
