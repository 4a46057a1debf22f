"""Secrets of webhooks, derived from a key file beside the database, so that a copy of the database has no secrets."""

import hashlib
import hmac
import os
import secrets
from base64 import b64encode
from datetime import datetime
from pathlib import Path

import structlog

from api.atomic_files import writing_whole
from store.interface.webhook_rows import WebhookRow

KEY_FILE = "webhook-key"
KEY_BYTES = 32

log = structlog.get_logger()


class Keyring:
    """The key of a data folder, created when the first secret is needed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / KEY_FILE
        self._key: bytes | None = None

    def secret(self, secret_id: str) -> str:
        """Return the secret with this id, which a webhook stores."""
        if self._key is None:
            self._key = self._read() or self._make()
        return "whsec_" + b64encode(hmac.digest(self._key, secret_id.encode(), hashlib.sha256)).decode()

    def secrets_of(self, webhook: WebhookRow, now: datetime) -> list[str]:
        """Return all secrets that sign now: for a while after a rotation also the previous one."""
        ids = [webhook.secret_id]
        if (
            webhook.old_secret_id is not None
            and webhook.old_secret_until is not None
            and now < webhook.old_secret_until
        ):
            ids.append(webhook.old_secret_id)
        return [self.secret(each) for each in ids]

    def warn_if_lost(self) -> None:
        """Log a warning if there are webhooks but not the key of their secrets."""
        if not self._path.exists():
            log.warning("the key file of the webhooks is missing: rotate their secrets", file=KEY_FILE)

    def _read(self) -> bytes | None:
        try:
            return bytes.fromhex(self._path.read_text("ascii"))
        except FileNotFoundError:
            return None

    def _make(self) -> bytes:
        """Create a key and write it to disk before anything is signed with it."""
        key = secrets.token_bytes(KEY_BYTES)
        with writing_whole(self._path, is_private=True) as file:
            file.write(key.hex().encode())
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return key
