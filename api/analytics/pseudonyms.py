"""Pseudonyms of users in what is masked, and ids made from names that are masked: the same as long as the data folder
keeps its secret.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

FILE_NAME = "pseudonyms.key"
_BYTES = 32


def salt_of(folder: Path, tenant: str) -> str:
    """The salt of a tenant's pseudonyms, from the secret in the data folder, which is made if there is none."""
    return hmac.new(_secret(folder / FILE_NAME), tenant.encode(), hashlib.sha256).hexdigest()


def pseudonym_of(salt: str, user_id: str) -> str:
    """What a user is called; in SQL it is the same, see `store/analytics/model/take.sql`."""
    return f"u_{hashlib.sha256(f'{salt}{user_id}'.encode()).hexdigest()[:16]}"


def id_of(salt: str, text: str) -> str:
    """A UUID that is the same for the same text, by which nobody without the secret can confirm a guess at it."""
    return str(uuid5(NAMESPACE_OID, f"{salt}\n{text}"))


def _secret(path: Path) -> bytes:
    try:
        kept = path.read_bytes()
    except FileNotFoundError:
        kept = b""
    return kept if len(kept) == _BYTES else _make(path)


def _make(path: Path) -> bytes:
    """A new secret, or that of another process or thread which was first."""
    made = secrets.token_bytes(_BYTES)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        return path.read_bytes()
    finally:
        fresh.unlink()
    return made
