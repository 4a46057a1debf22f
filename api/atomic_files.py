"""Atomic writes: a file exists completely or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_whole(text: str, output: Path) -> None:
    """Write a text to a temporary file and rename it to `output` once it is on disk. Raises OSError."""
    with writing_whole(output) as file:
        file.write(text.encode())


@contextmanager
def writing_whole(output: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Yield a temporary file that is renamed to `output` once all of it is on disk. A private one can be read only by
    the account of the process. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not is_private:  # the temporary file has mode 0600
            part.chmod(0o666 & ~_umask())
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
