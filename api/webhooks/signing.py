"""Signatures of deliveries, as Standard Webhooks has them: made by the server, verified by whoever receives them."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from standardwebhooks import Webhook, WebhookVerificationError

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"


class NotGenuine(ValueError):
    """A request that did not come from the server, was changed on its way, or is older than five minutes."""


def sign(secrets: Iterable[str], delivery_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers of a delivery; it has a signature of each of the secrets (`whsec_…`)."""
    text = body.decode()
    signatures = [Webhook(secret).sign(delivery_id, at, text) for secret in secrets]
    return {ID: delivery_id, TIMESTAMP: str(int(at.timestamp())), SIGNATURE: " ".join(signatures)}


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Makes sure that a request is a delivery of the webhook with this secret; for receivers.

    `body` is as it was received. Raises NotGenuine.
    """
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError) as error:  # malformed headers end in other kinds of ValueError
        raise NotGenuine("the request is no genuine delivery of this webhook, or an old one") from error
