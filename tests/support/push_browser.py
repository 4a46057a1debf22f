"""A browser that is reminded: its address and keys, and what it can read of what a push service gets for it."""

import json
import secrets
from base64 import urlsafe_b64encode
from typing import Any

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.webhook_receiver import Delivery


def encoded(content: bytes) -> str:
    """Return base64url without padding."""
    return urlsafe_b64encode(content).decode().rstrip("=")


class BrowserSubscription:
    """The subscription of a browser at a push service."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = secrets.token_bytes(16)

    def json(self) -> dict[str, Any]:
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": encoded(point), "auth": encoded(self._auth)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    def read(self, delivery: Delivery) -> Any:
        assert delivery.headers["content-encoding"] == "aes128gcm"
        return json.loads(http_ece.decrypt(delivery.body, private_key=self._key, auth_secret=self._auth))
