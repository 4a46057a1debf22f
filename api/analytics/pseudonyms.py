"""Pseudonyms of users in masked data, and ids of masked names; both are stable while the data folder has its secret."""

import hashlib
import hmac
import secrets
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from api.local_files.key_file import create_key

FILE_NAME = "pseudonyms.key"
_BYTES = 32


def salt_of(folder: Path, tenant: str) -> str:
    """Return the salt of a tenant's pseudonyms, derived from the secret of the data folder, created if missing."""
    return hmac.new(_secret(folder / FILE_NAME), tenant.encode(), hashlib.sha256).hexdigest()


def pseudonym_of(salt: str, user_id: str) -> str:
    """Return the pseudonym of a user, as `store/analytics/model/take.sql` computes it in SQL."""
    return f"u_{hashlib.sha256(f'{salt}{user_id}'.encode()).hexdigest()[:16]}"


def id_of(salt: str, text: str) -> str:
    """Return a stable UUID for a text; without the secret nobody can use it to confirm a guess of the text."""
    return str(uuid5(NAMESPACE_OID, f"{salt}\n{text}"))


def _secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        secret = b""
    return secret if len(secret) == _BYTES else create_key(path, secrets.token_bytes(_BYTES))
