"""Authenticates requests by an API key of the database, a JWT, the token of a participant, or the operator's key of
this machine.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from api.auth.api_keys import PREFIX, ApiKeys, KnownKey, digest_of
from api.auth.participant_tokens import PARTICIPANT_PREFIX, ParticipantTokens
from api.auth.policy import RoutePolicy
from api.auth.principal import ANONYMOUS, ANONYMOUS_ADMIN, Principal
from api.auth.rate_limit import RateLimiter
from api.auth.request_checks import check_id
from api.errors import ApiError, invalid_field
from api.schemas.ids import TENANT, TENANT_HEADER
from api.settings import Settings
from runtime.models.hosted.settings import is_loopback
from runtime.state.ports import Clock

OPERATOR = "operator"
"""The name of the operator's principal."""
COOKIE: Final = "cuebook_key"
"""The cookie in which a browser that signed in keeps its key."""
REQUESTS_PER_MINUTE = 6_000
"""Per key, unless the settings say otherwise: an application that serves all users with one key needs many."""
CREDENTIAL_CHARS_MAX = 8_192
TENANT_CHARS_MAX = 200
"""The length of a tenant's name, which the operator sends in a header, percent-encoded if not ASCII."""
_READ = frozenset({b"authorization", b"x-api-key", b"cookie", b"host", TENANT_HEADER.encode()})

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
        a_minute = REQUESTS_PER_MINUTE if self._a_minute is None else self._a_minute or 1
        self._rates = RateLimiter(a_minute, "requests_per_minute")
        a_minute = settings.participant_requests_per_minute
        self._participant_rates = RateLimiter(a_minute, "participant_requests_per_minute")

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
            self._count("", address, rule)
            if not rule.is_open:
                raise
            return Authenticated(ANONYMOUS)
        if sender.participant_id is not None:
            self._participant_rates.take(sender.participant_id, "requests of this participant")
        else:
            self._count(sender.principal.name, address, rule)
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

    def _count(self, name: str, address: str, rule: RoutePolicy) -> None:
        """Count a request of a key, by its name, or without one of an address. Raises ApiError RATE_LIMITED."""
        is_bounded = self.is_required if self._a_minute is None else self._a_minute > 0
        if not is_bounded or not rule.is_counted or name == OPERATOR:
            return
        self._rates.take(name or address, f"requests of this {'key' if name else 'address'}")


def tokens_of(settings: Settings) -> HolderOf | None:
    """Return the function that verifies tokens; None if no algorithm is configured. Raises SettingsInvalid."""
    algorithm = settings.auth_jwt_algorithm
    if algorithm is None:
        return None
    # imported here because cryptography is slow to import and most servers do not use it
    from api.auth.jwt import create_token_verifier

    return create_token_verifier(settings, algorithm).holder


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
        raise invalid_field(TENANT_HEADER, f"the name of a tenant has at most {TENANT_CHARS_MAX} characters")
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
