"""Signatures of deliveries by the Standard Webhooks specification, created by the server and verified by receivers, and
the secrets that sign.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

import structlog
from standardwebhooks import Webhook, WebhookVerificationError

from api.local_files.key_file import SecretKeyFile
from store.interface.webhook_rows import WebhookRow

KEY_FILE = "webhook-key"

log = structlog.get_logger()


ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"


class InvalidSignature(ValueError):
    """The request was not sent by the server, was changed, or is older than five minutes."""


def sign(secrets: Iterable[str], delivery_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery, with one signature per secret (`whsec_…`)."""
    text = body.decode()
    signatures = [Webhook(secret).sign(delivery_id, at, text) for secret in secrets]
    return {ID: delivery_id, TIMESTAMP: str(int(at.timestamp())), SIGNATURE: " ".join(signatures)}


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Verify that a request is a delivery of the webhook with this secret; for receivers.

    `body` is the request body as received. Raises InvalidSignature.
    """
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError) as error:  # malformed headers raise other kinds of ValueError
        raise InvalidSignature("the request is not a valid delivery of this webhook, or is too old") from error


class Keyring:
    """Secrets of webhooks, derived from a key file beside the database, so that a copy of the database has no secrets.

    The key is created when the first secret is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._file = SecretKeyFile(folder / KEY_FILE)

    def secret(self, secret_id: str) -> str:
        """Return the secret with this id, which a webhook stores."""
        return "whsec_" + b64encode(self._file.signature(secret_id)).decode()

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
