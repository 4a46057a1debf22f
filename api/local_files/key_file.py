"""A secret key in a file beside the database, so that a copy of the database alone cannot sign."""

import hashlib
import hmac
import secrets
from pathlib import Path

from api.local_files.atomic_files import create_private
from store.interface.errors import KeyUnwritable

KEY_BYTES = 32


def create_key(path: Path, content: bytes) -> bytes:
    """Create the file of a key, unless another process creates it first, and return its content.

    Raises KeyUnwritable.
    """
    try:
        return create_private(path, content)
    except OSError as error:
        raise KeyUnwritable(f"the key file {path.name} cannot be written: {error.strerror}") from error


class SecretKeyFile:
    """The key in a file, created when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key: bytes | None = None

    def key(self) -> bytes:
        """Return the key. Raises OSError, KeyUnwritable, ValueError if the file has no key."""
        if self._key is None:
            self._key = self._read() or self._make()
        return self._key

    def signature(self, text: str) -> bytes:
        """Return a signature of a text with the key (HMAC, SHA-256). Raises the errors of `key`."""
        return hmac.digest(self.key(), text.encode(), hashlib.sha256)

    def _read(self) -> bytes | None:
        try:
            return bytes.fromhex(self.path.read_text("ascii"))
        except FileNotFoundError:
            return None

    def _make(self) -> bytes:
        """Create a key, on disk before anything is signed with it; another server may create it at the same time."""
        return bytes.fromhex(create_key(self.path, secrets.token_hex(KEY_BYTES).encode()).decode("ascii"))
