"""Signatures of deliveries by the Standard Webhooks specification: created by the server, verified by receivers."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from standardwebhooks import Webhook, WebhookVerificationError

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
