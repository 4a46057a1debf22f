"""Secrets of webhooks: made from a key that lies beside the record, so that nobody who reads the record has them."""

import hashlib
import hmac
import os
import secrets
from base64 import b64encode
from datetime import datetime
from pathlib import Path

import structlog

from store.webhook_rows import WebhookRow

KEY_FILE = "webhook-key"
KEY_BYTES = 32

log = structlog.get_logger()


class Keyring:
    """The key of a data folder; made when the first secret is needed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / KEY_FILE
        self._key: bytes | None = None

    def secret(self, secret_id: str) -> str:
        """The secret with this id, which is one of a webhook's."""
        if self._key is None:
            self._key = self._read() or self._make()
        return "whsec_" + b64encode(hmac.digest(self._key, secret_id.encode(), hashlib.sha256)).decode()

    def secrets_of(self, webhook: WebhookRow, now: datetime) -> list[str]:
        """All that sign now: after a rotation the one before as well, for a while."""
        ids = [webhook.secret_id]
        if (
            webhook.old_secret_id is not None
            and webhook.old_secret_until is not None
            and now < webhook.old_secret_until
        ):
            ids.append(webhook.old_secret_id)
        return [self.secret(each) for each in ids]

    def warn_if_lost(self) -> None:
        """Says so where there are webhooks, but not the key that their secrets were made from."""
        if not self._path.exists():
            log.warning("the key of the webhooks is gone: rotate their secrets", file=KEY_FILE)

    def _read(self) -> bytes | None:
        try:
            return bytes.fromhex(self._path.read_text("ascii"))
        except FileNotFoundError:
            return None

    def _make(self) -> bytes:
        """A new key, on disk before anything is signed with it."""
        key = secrets.token_bytes(KEY_BYTES)
        fresh = self._path.with_name(f"{KEY_FILE}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.hex())
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return key
