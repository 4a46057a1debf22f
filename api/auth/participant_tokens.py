"""Tokens of participants: an id and an expiry time, signed with a key file of the data folder.

They are not JSON web tokens: those are of the issuer that the settings name, and reading them loads a library that most
servers do not need.
"""

import hmac
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from api.errors import ApiError
from api.local_files.key_file import SecretKeyFile

PARTICIPANT_PREFIX: Final = "cbp_"
KEY_FILE = "participant-key"


class ParticipantTokens:
    """Signs and verifies the tokens of one server."""

    def __init__(self, folder: Path) -> None:
        self._file = SecretKeyFile(folder / KEY_FILE)

    def sign(self, participant_id: str, expires_at: datetime) -> str:
        """Return a token that names a participant until a time."""
        content = f"{participant_id}.{int(expires_at.timestamp())}"
        return f"{PARTICIPANT_PREFIX}{content}.{self._signature(content)}"

    def verify(self, token: str, now: datetime) -> str:
        """Return the id of the participant that a token names. Raises ApiError UNAUTHENTICATED."""
        content, _, signature = token.removeprefix(PARTICIPANT_PREFIX).rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(content).encode()):
            raise ApiError("UNAUTHENTICATED", "the token is not a token of this server")
        participant_id, _, expires_at = content.partition(".")
        if datetime.fromtimestamp(int(expires_at), UTC) <= now:
            raise ApiError("UNAUTHENTICATED", "the token has expired")
        return participant_id

    def _signature(self, content: str) -> str:
        return urlsafe_b64encode(self._file.signature(content)).decode().rstrip("=")
