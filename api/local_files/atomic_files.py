"""Atomic writes: a file exists completely or not at all."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from store.interface.private_files import sync


def write_whole(text: str, output: Path) -> None:
    """Write a text to a temporary file and rename it to `output` once it is on disk. Raises OSError."""
    with writing_whole(output) as file:
        file.write(text.encode())


@contextmanager
def writing_whole(output: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that is renamed to `output` once all of it is on disk. Raises OSError.

    A symbolic link stays, and its target is replaced. What is no file, such as `/dev/stdout` or a pipe, is written to.
    """
    if output.exists() and not output.is_file():
        with output.open("wb") as file:
            yield file
        return
    output = output.resolve()
    descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())  # the temporary file has mode 0600
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def create_private(path: Path, content: bytes) -> bytes:
    """Create a file that only this account can read, and return its content once it is on disk.

    If another process or thread has created it first, return what that one has written. Raises OSError.
    """
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            return path.read_bytes()
    finally:
        fresh.unlink()
    sync(path.parent)
    return content
