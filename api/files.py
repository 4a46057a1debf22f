"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_whole(text: str, output: Path) -> None:
    """Writes a text beside the file and puts it in its place once it is on disk. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
