"""Secrets of webhooks, derived from a key file beside the database, so that a copy of the database has no secrets."""

import hashlib
import hmac
from base64 import b64encode
from datetime import datetime
from pathlib import Path

import structlog

from api.key_file import SecretKeyFile
from store.interface.webhook_rows import WebhookRow

KEY_FILE = "webhook-key"

log = structlog.get_logger()


class Keyring:
    """The key of a data folder, created when the first secret is needed."""

    def __init__(self, folder: Path) -> None:
        self._file = SecretKeyFile(folder / KEY_FILE)

    def secret(self, secret_id: str) -> str:
        """Return the secret with this id, which a webhook stores."""
        return "whsec_" + b64encode(hmac.digest(self._file.key(), secret_id.encode(), hashlib.sha256)).decode()

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
        if not self._file.path.exists():
            log.warning("the key file of the webhooks is missing: rotate their secrets", file=KEY_FILE)
