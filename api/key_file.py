"""A secret key in a file beside the database, so that a copy of the database alone cannot sign."""

import hashlib
import hmac
import secrets
from pathlib import Path

from api.atomic_files import create_private

KEY_BYTES = 32


class SecretKeyFile:
    """The key in a file, created when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key: bytes | None = None

    def key(self) -> bytes:
        """Return the key. Raises OSError, ValueError if the file has no key."""
        if self._key is None:
            self._key = self._read() or self._make()
        return self._key

    def signature(self, text: str) -> bytes:
        """Return a signature of a text with the key (HMAC, SHA-256). Raises OSError, ValueError as `key`."""
        return hmac.digest(self.key(), text.encode(), hashlib.sha256)

    def _read(self) -> bytes | None:
        try:
            return bytes.fromhex(self.path.read_text("ascii"))
        except FileNotFoundError:
            return None

    def _make(self) -> bytes:
        """Create a key, on disk before anything is signed with it; another server may create it at the same time."""
        return bytes.fromhex(create_private(self.path, secrets.token_hex(KEY_BYTES).encode()).decode("ascii"))
