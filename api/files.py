"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_whole(text: str, output: Path) -> None:
    """Writes a text beside the file and puts it in its place once it is on disk. Raises OSError."""
    with writing_whole(output) as file:
        file.write(text.encode())


@contextmanager
def writing_whole(output: Path) -> Iterator[BinaryIO]:
    """A file beside the one that is wanted, which takes its place once all is on disk. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
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
