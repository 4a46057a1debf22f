"""Authenticates requests by an API key of the database, a JWT, the token of a participant, or the operator's key of
this machine.
"""

import hmac
import math
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from api.auth.api_keys import PREFIX, ApiKeys, KnownKey, digest_of
from api.auth.policy import RoutePolicy
from api.auth.principal import ANONYMOUS, ANONYMOUS_ADMIN, Principal
from api.auth.request_checks import check_id
from api.errors import ApiError, invalid_field
from api.ids import TENANT, TENANT_HEADER
from api.key_file import SecretKeyFile
from api.settings import Settings
from runtime.models.hosted.settings import is_loopback
from runtime.state.ports import Clock

PARTICIPANT_PREFIX: Final = "cbp_"
KEY_FILE = "participant-key"


class ParticipantTokens:
    """Signs and verifies tokens of participants: an id and an expiry time, signed with a key file of the data folder.

    They are not JSON web tokens: those are of the issuer that the settings name, and reading them loads a library that
    most servers do not need.
    """

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


BUCKETS_MAX = 10_000
"""Retained buckets, the most recently used; a dropped bucket starts full again."""
REQUESTS_PER_MINUTE = 6_000
"""Per key, unless the settings say otherwise: an application that serves all users with one key needs many."""
CREDENTIAL_CHARS_MAX = 8_192
TENANT_CHARS_MAX = 200
"""The length of a tenant's name, which the operator sends in a header, percent-encoded if not ASCII."""

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
HolderOf: TypeAlias = Callable[[str, datetime], Principal]
"""Returns the principal of a token at a time. Raises ApiError UNAUTHENTICATED."""


class Authenticated(Struct, frozen=True):
    """The principal of a request, and its API key if it has one of the database."""

    principal: Principal
    known: KnownKey | None = None
    participant_id: str | None = None
    """The participant whom a token names; the principal follows from the database."""
    is_by_cookie: bool = False
    """Whether a browser sent the credential by itself."""


_FREE = Authenticated(ANONYMOUS_ADMIN)


class RateLimiter:
    """Token buckets: each has the capacity of one minute and refills evenly."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self.share(1)
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(BUCKETS_MAX)  # tokens left, and at what time

    def share(self, servers: int) -> None:
        """Divide the limit by the number of servers."""
        self._capacity = max(1.0, self._a_minute / servers)
        self._a_second = self._capacity / 60

    def wait_s(self, name: str, now: float) -> float:
        """Take a token; return 0, or the seconds until one is available."""
        left, at = self._buckets.get(name, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._a_second)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._a_second
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        return wait_s

    def take(self, name: str, otherwise: str = "too many requests") -> None:
        """Take a token. Raises ApiError RATE_LIMITED, with the message `otherwise`."""
        wait_s = self.wait_s(name, time.monotonic())
        if wait_s:
            raise ApiError("RATE_LIMITED", otherwise, retry_after_s=math.ceil(wait_s))


class Authenticator:
    """Authenticates requests. `operator_key` is the operator's key, valid for the lifetime of the process. With
    `always` a key is required even if the database has none.
    """

    def __init__(self, settings: Settings, keys: ApiKeys, clock: Clock, operator_key: str, *, always: bool) -> None:
        self.keys = keys
        self.participant_tokens = ParticipantTokens(settings.keys_in)
        self._holder_of = tokens_of(settings)
        self._clock = clock
        self._operator = digest_of(operator_key) if operator_key else None
        self._always = always or self._holder_of is not None
        self._a_minute = settings.requests_per_minute
        self._rates = RateLimiter(REQUESTS_PER_MINUTE if self._a_minute is None else self._a_minute or 1)
        self._participant_rates = RateLimiter(settings.participant_requests_per_minute)

    def share_limits(self, servers: int) -> None:
        """Divide the limits by the number of servers on the same database."""
        for rates in (self._rates, self._participant_rates):
            rates.share(servers)

    @property
    def is_required(self) -> bool:
        """Whether a key is required; it is until the keys are loaded."""
        return self._always or self.keys.any_made or not self.keys.are_loaded

    def authenticate(self, headers: Headers, address: str, rule: RoutePolicy) -> Authenticated:
        """Return the sender of a request; on an open route it may be anonymous.

        Raises ApiError UNAUTHENTICATED, FORBIDDEN, RATE_LIMITED, REQUEST_INVALID.
        """
        try:
            sender = self._find(headers)
        except ApiError:
            self._count(address, rule)
            if not rule.is_open:
                raise
            return Authenticated(ANONYMOUS)
        if sender.participant_id is not None:
            self._participant_rates.take(sender.participant_id)
        else:
            self._count(sender.principal.name or address, rule)
        return sender

    def _find(self, headers: Headers) -> Authenticated:
        """Return the sender by its credential. Raises ApiError UNAUTHENTICATED, FORBIDDEN, REQUEST_INVALID."""
        values = _auth_headers(headers)
        credential = _credential(values)
        if credential:
            return self._holder(credential, values)
        credential = _cookie(values[b"cookie"]) if b"cookie" in values else ""
        sender = self._holder(credential, values)
        return replace(sender, is_by_cookie=True) if credential else sender

    def identify(self, credential: str) -> Principal:
        """Return the principal of a key or token, not of a participant's. Raises ApiError UNAUTHENTICATED."""
        sender = self._holder(credential, {})
        if sender.participant_id is not None:
            raise ApiError("UNAUTHENTICATED", "the token of a participant is for the page of a link")
        return sender.principal

    def _holder(self, credential: str, values: Mapping[bytes, str]) -> Authenticated:
        """Return the sender with this credential; it may be empty. Raises ApiError as `_find`."""
        if self._operator is not None and credential and digest_of(credential) == self._operator:
            return Authenticated(Principal(tenant=_tenant(values), name=OPERATOR))
        if credential.startswith(PARTICIPANT_PREFIX):
            participant_id = self.participant_tokens.verify(credential, self._clock())
            return Authenticated(ANONYMOUS, participant_id=participant_id)
        if not self.is_required:
            return _anonymous_admin(values)
        if not credential:
            raise ApiError("UNAUTHENTICATED", "this server requires a key")
        if self._holder_of is not None and not credential.startswith(f"{PREFIX}_"):
            return Authenticated(self._holder_of(credential, self._clock()))
        known = self.keys.holder(credential)
        if known is None:
            raise ApiError("UNAUTHENTICATED", "the key is unknown, revoked or has expired")
        return Authenticated(known.principal, known)

    def _count(self, name: str, rule: RoutePolicy) -> None:
        """Count a request of a key or an address. Raises ApiError RATE_LIMITED."""
        is_bounded = self.is_required if self._a_minute is None else self._a_minute > 0
        if not is_bounded or not rule.is_counted or name == OPERATOR:
            return
        self._rates.take(name)


def tokens_of(settings: Settings) -> HolderOf | None:
    """Return the function that verifies tokens; None if no algorithm is configured. Raises SettingsInvalid."""
    algorithm = settings.auth_jwt_algorithm
    if algorithm is None:
        return None
    # imported here because cryptography is slow to import and most servers do not use it
    from api.auth.jwt import create_token_verifier

    return create_token_verifier(settings, algorithm).holder


OPERATOR = "operator"
"""The name of the operator's principal."""
COOKIE: Final = "cuebook_key"
"""The cookie in which a browser that signed in keeps its key."""
_READ = frozenset({b"authorization", b"x-api-key", b"cookie", b"host", TENANT_HEADER.encode()})


def _auth_headers(headers: Headers) -> Mapping[bytes, str]:
    """Return the headers that authenticate a request. Raises ApiError UNAUTHENTICATED if one is repeated."""
    values: dict[bytes, str] = {}
    for name, value in headers:
        if name in _READ:
            if name in values:
                raise ApiError("UNAUTHENTICATED", f"`{name.decode()}` was sent twice")
            values[name] = value.decode("latin-1")
    return values


def _credential(values: Mapping[bytes, str]) -> str:
    """Return the key or token of either header; empty without one. Raises ApiError UNAUTHENTICATED."""
    scheme, _, credential = values.get(b"authorization", "").partition(" ")
    if scheme and scheme.lower() != "bearer":
        raise ApiError("UNAUTHENTICATED", "the scheme of `Authorization` must be Bearer")
    credential = (credential or values.get(b"x-api-key", "")).strip()
    if len(credential) > CREDENTIAL_CHARS_MAX:
        raise ApiError("UNAUTHENTICATED", "invalid API key")
    return credential


def _cookie(header: str) -> str:
    """Return the key in a `Cookie` header; empty without one."""
    for pair in header.split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == COOKIE and len(value) <= CREDENTIAL_CHARS_MAX:
            return value.strip().strip('"')
    return ""


def _tenant(values: Mapping[bytes, str]) -> str:
    """Return the tenant that the operator names. Raises ApiError REQUEST_INVALID."""
    try:
        tenant = unquote(values.get(TENANT_HEADER.encode(), ""), errors="strict") or TENANT
    except UnicodeDecodeError as error:
        raise invalid_field(TENANT_HEADER, "this is not UTF-8") from error
    if len(tenant) > TENANT_CHARS_MAX:
        raise ApiError("REQUEST_INVALID", f"a tenant name has at most {TENANT_CHARS_MAX} characters")
    check_id(TENANT_HEADER, tenant)
    return tenant


def _anonymous_admin(values: Mapping[bytes, str]) -> Authenticated:
    """Return the anonymous admin if the request names this server by a local host name. Otherwise a page of another
    origin could reach it as local through its own host name (DNS rebinding). Raises ApiError FORBIDDEN.
    """
    host = values.get(b"host", "")
    if host and not _is_local(host):
        raise ApiError("FORBIDDEN", "a server without keys answers only to localhost; create a key and send it")
    return _FREE


@lru_cache(64)
def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name.endswith(".localhost")
