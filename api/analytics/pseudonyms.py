"""The names of users in what is masked, analytics and exports: the same as long as the data folder keeps its secret."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

FILE_NAME = "pseudonyms.key"
_BYTES = 32


def salt_of(folder: Path, tenant: str) -> str:
    """The salt of a tenant's pseudonyms, from the secret in the data folder, which is made if there is none."""
    return hmac.new(_secret(folder / FILE_NAME), tenant.encode(), hashlib.sha256).hexdigest()


def pseudonym_of(salt: str, user_id: str) -> str:
    """What a user is called; in SQL it is the same, see `store/analytics/model/take.sql`."""
    return f"u_{hashlib.sha256(f'{salt}{user_id}'.encode()).hexdigest()[:16]}"


def _secret(path: Path) -> bytes:
    try:
        kept = path.read_bytes()
    except FileNotFoundError:
        kept = b""
    return kept if len(kept) == _BYTES else _make(path)


def _make(path: Path) -> bytes:
    """A new secret, or that of another process which was first."""
    made = secrets.token_bytes(_BYTES)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
