"""Tokens of others (JWT, RFC 7519): signed with the one key and the one algorithm that the settings name."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import jwt
from msgspec import Struct

from api.caller import TENANT, Caller, Role
from api.errors import ApiError
from api.ids import has_control
from api.settings import Settings, SettingsInvalid

KNOWN_MAX = 10_000
"""Tokens that were verified a while ago, and need not be again."""
NAME_CHARS_MAX = 200
_SECRET_BYTES_MIN = 32  # RFC 7518, 3.2


class _Verified(Struct, frozen=True):
    caller: Caller
    expires_at: float


class Tokens:
    """Verifies tokens. There is one algorithm, so that no token can choose another, or none."""

    def __init__(self, settings: Settings, algorithm: str, key: Any) -> None:
        self._settings = settings
        self._algorithm = algorithm
        self._key = key
        self._known: OrderedDict[bytes, _Verified] = OrderedDict()

    def holder(self, token: str, now: datetime) -> Caller:
        """Who sends a token. Raises ApiError UNAUTHENTICATED."""
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = self._verified(token, digest)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        elif known.expires_at + self._settings.auth_jwt_leeway_s <= now.timestamp():
            del self._known[digest]
            raise _refused("the token has expired")
        return known.caller

    def _verified(self, token: str, digest: bytes) -> _Verified:
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
            raise _refused(_why(error)) from None  # the error may quote the token
        user_id = _required(claims, settings.auth_jwt_user_claim)
        tenant = _required(claims, settings.auth_jwt_tenant_claim)
        name = f"user {tenant}/{user_id}" if user_id is not None else f"token {digest.hex()}"
        caller = Caller(tenant or TENANT, _roles(claims, settings.auth_jwt_roles_claim), user_id, name)
        return _Verified(caller, float(claims["exp"]))


def make_tokens(settings: Settings, algorithm: str) -> Tokens:
    """What verifies tokens that are signed by an algorithm. Raises SettingsInvalid."""
    text = _key_text(settings).strip()
    if not text:
        raise SettingsInvalid("auth_jwt_algorithm needs auth_jwt_key or auth_jwt_key_file")
    if algorithm == "HS256" and len(text.encode()) < _SECRET_BYTES_MIN:
        raise SettingsInvalid(f"auth_jwt_key: a secret for HS256 has at least {_SECRET_BYTES_MIN} bytes")
    if "PRIVATE KEY" in text:
        raise SettingsInvalid("auth_jwt_key: this is a private key; the server needs the public one alone")
    try:
        key = jwt.get_algorithm_by_name(algorithm).prepare_key(text)
    except (jwt.PyJWTError, ValueError, TypeError):  # its words may quote the key
        raise SettingsInvalid(f"auth_jwt_key: this is no key for {algorithm}; {_FORMS[algorithm]}") from None
    return Tokens(settings, algorithm, key)


_FORMS = {
    "HS256": "give a secret that is no PEM",
    "RS256": "give an RSA public key as PEM",
    "EdDSA": "give an Ed25519 public key as PEM",
}


def _key_text(settings: Settings) -> str:
    if settings.auth_jwt_key and settings.auth_jwt_key_file is not None:
        raise SettingsInvalid("give one of auth_jwt_key and auth_jwt_key_file")
    if settings.auth_jwt_key_file is None:
        return settings.auth_jwt_key.reveal() if settings.auth_jwt_key is not None else ""
    try:
        return settings.auth_jwt_key_file.read_text("utf-8")
    except OSError as error:
        raise SettingsInvalid(f"auth_jwt_key_file: {settings.auth_jwt_key_file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsInvalid(f"auth_jwt_key_file: {settings.auth_jwt_key_file} is no text") from None


def _why(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet"
        case jwt.InvalidAudienceError():
            return "the token is for another audience"
        case jwt.InvalidIssuerError():
            return "the token has another issuer"
        case jwt.MissingRequiredClaimError():
            return f"the token has no {error.claim!r}"
        case jwt.InvalidAlgorithmError():
            return "the token is not signed with the algorithm of this server"
        case _:
            return "the token cannot be verified"


def _required(claims: Mapping[str, Any], name: str) -> str | None:
    """Return a claim that is a name; None where the settings configure none. A token without it is refused: it would
    be bound to nobody, and reach everybody. Raises ApiError UNAUTHENTICATED.
    """
    if not name:
        return None
    value = claims.get(name)
    if value is None:
        raise _refused(f"the token has no {name!r}")
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX or has_control(value):
        raise _refused(f"the {name!r} of the token is no name")
    return value


def _roles(claims: Mapping[str, Any], name: str) -> frozenset[Role]:
    """The roles of a token that are any here; what else it lists is for others."""
    value = claims.get(name)
    named = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(role for role in get_args(Role) if role in named)


def _refused(why: str) -> ApiError:
    return ApiError("UNAUTHENTICATED", why)
