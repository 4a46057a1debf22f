"""Verifies JSON web tokens (RFC 7519), signed with the one key and the one algorithm that the settings name."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import jwt
from cachetools import LRUCache
from msgspec import Struct

from api.auth.principal import Principal
from api.errors import ApiError
from api.schemas.ids import TENANT, has_control
from api.schemas.keys import Role
from api.settings import Settings, SettingsInvalid

KNOWN_MAX = 10_000
"""Cached verified tokens, so that a signature is verified once."""
NAME_CHARS_MAX = 200
_SECRET_BYTES_MIN = 32  # RFC 7518, 3.2


class _VerifiedToken(Struct, frozen=True):
    principal: Principal
    expires_at: float


class TokenVerifier:
    """Verifies tokens. Only one algorithm is accepted, so that no token can choose another, or none."""

    def __init__(self, settings: Settings, algorithm: str, key: Any) -> None:
        self._settings = settings
        self._algorithm = algorithm
        self._key = key
        self._cache: LRUCache[bytes, _VerifiedToken] = LRUCache(KNOWN_MAX)

    def holder(self, token: str, now: datetime) -> Principal:
        """Return the principal of a token. Raises ApiError UNAUTHENTICATED."""
        digest = hashlib.sha256(token.encode()).digest()
        known = self._cache.get(digest)
        if known is None:
            known = self._cache[digest] = self._verify(token, digest)
        elif known.expires_at + self._settings.auth_jwt_leeway_s <= now.timestamp():
            del self._cache[digest]
            raise _error("the token has expired")
        return known.principal

    def _verify(self, token: str, digest: bytes) -> _VerifiedToken:
        settings = self._settings
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[self._algorithm],
                audience=settings.auth_jwt_audience,
                issuer=settings.auth_jwt_issuer,
                leeway=settings.auth_jwt_leeway_s,
                options={"require": ["exp"]},
            )
        except jwt.PyJWTError as error:
            raise _error(_reason(error)) from None  # the error may quote the token
        user_id = _require_claim(claims, settings.auth_jwt_user_claim)
        tenant = _require_claim(claims, settings.auth_jwt_tenant_claim) or TENANT
        name = f"user {tenant}/{user_id}" if user_id is not None else f"token {digest.hex()}"
        subject = str(claims.get("sub", ""))
        label = "" if user_id is not None or has_control(subject) else subject[:NAME_CHARS_MAX]
        principal = Principal(tenant, _roles(claims, settings.auth_jwt_roles_claim), user_id, name, label)
        return _VerifiedToken(principal, float(claims["exp"]))


def create_token_verifier(settings: Settings, algorithm: str) -> TokenVerifier:
    """Return a verifier of tokens signed with an algorithm. Raises SettingsInvalid."""
    text = _key_text(settings).strip()
    if not text:
        raise SettingsInvalid("auth_jwt_algorithm needs auth_jwt_key or auth_jwt_key_file")
    if algorithm == "HS256" and len(text.encode()) < _SECRET_BYTES_MIN:
        raise SettingsInvalid(f"auth_jwt_key: a secret for HS256 has at least {_SECRET_BYTES_MIN} bytes")
    if "PRIVATE KEY" in text:
        raise SettingsInvalid("auth_jwt_key: this is a private key; the server needs only the public key")
    try:
        key = jwt.get_algorithm_by_name(algorithm).prepare_key(text)
    except (jwt.PyJWTError, ValueError, TypeError):  # its message may quote the key
        raise SettingsInvalid(f"auth_jwt_key: this is not a key for {algorithm}; {_FORMS[algorithm]}") from None
    return TokenVerifier(settings, algorithm, key)


_FORMS = {
    "HS256": "set a secret that is not PEM",
    "RS256": "set an RSA public key as PEM",
    "EdDSA": "set an Ed25519 public key as PEM",
}


def _key_text(settings: Settings) -> str:
    if settings.auth_jwt_key and settings.auth_jwt_key_file is not None:
        raise SettingsInvalid("set only one of auth_jwt_key and auth_jwt_key_file")
    if settings.auth_jwt_key_file is None:
        return settings.auth_jwt_key.reveal() if settings.auth_jwt_key is not None else ""
    try:
        return settings.auth_jwt_key_file.read_text("utf-8")
    except OSError as error:
        raise SettingsInvalid(f"auth_jwt_key_file: {settings.auth_jwt_key_file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsInvalid(f"auth_jwt_key_file: {settings.auth_jwt_key_file} is not a text file") from None


_REASONS: Mapping[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for another audience",
    jwt.InvalidIssuerError: "the token has another issuer",
    jwt.InvalidAlgorithmError: "the token is not signed with the algorithm of this server",
}


def _reason(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"the token has no {error.claim!r}"
    return next((why for kind, why in _REASONS.items() if isinstance(error, kind)), "the token cannot be verified")


def _require_claim(claims: Mapping[str, Any], name: str) -> str | None:
    """Return a claim that is a name; None if the settings configure none. A token without it is rejected, because it
    would not be bound to a tenant or user and could reach all data. Raises ApiError UNAUTHENTICATED.
    """
    if not name:
        return None
    value = claims.get(name)
    if value is None:
        raise _error(f"the token has no {name!r}")
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX or has_control(value):
        raise _error(f"the {name!r} of the token is not a name")
    return value


def _roles(claims: Mapping[str, Any], name: str) -> frozenset[Role]:
    """Return the roles of a token; unknown roles are ignored, as they may be for other services."""
    value = claims.get(name)
    named = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(role for role in get_args(Role) if role in named)


def _error(why: str) -> ApiError:
    return ApiError("UNAUTHENTICATED", why)
