"""Whom a server lets in: by a key of the record, a token of others, or the key of whoever runs this machine."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from api.access.keys import PREFIX, Keys, Known, digest_of
from api.access.rates import Rates
from api.access.rules import Rule
from api.caller import ANYONE, NOBODY, TENANT, Caller
from api.errors import ApiError
from api.id_checks import check_id
from api.settings import Settings
from runtime.models.hosted.settings import is_loopback
from runtime.ports import Clock

REQUESTS_PER_MINUTE = 6_000
"""Of one key, where the settings say nothing: an application that serves everybody with one key needs many."""
CREDENTIAL_CHARS_MAX = 8_192
TENANT_CHARS_MAX = 200
TENANT_HEADER = "x-cuebook-tenant"
"""By which whoever runs the machine names the tenant, with % for what is not ASCII."""

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
HolderOf: TypeAlias = Callable[[str, datetime], Caller]
"""Who sends a token at a time. Raises ApiError UNAUTHENTICATED."""


class Pass(Struct, frozen=True):
    """Who sends a request, and the key it came with, if that is one of the record."""

    caller: Caller
    known: Known | None = None


_FREE = Pass(ANYONE)


class Access:
    """Knows callers by what they send. `operator_key` is that of whoever runs the machine, for as long as the process
    lives. With `always` nobody comes without a key, whatever the record holds.
    """

    def __init__(self, settings: Settings, keys: Keys, clock: Clock, operator_key: str, *, always: bool) -> None:
        self.keys = keys
        self._holder_of = tokens_of(settings)
        self._clock = clock
        self._operator = digest_of(operator_key) if operator_key else None
        self._always = always or self._holder_of is not None
        self._a_minute = settings.requests_per_minute
        self._rates = Rates(REQUESTS_PER_MINUTE if self._a_minute is None else self._a_minute or 1)

    @property
    def is_required(self) -> bool:
        """Whether a key is needed; it is as long as nobody knows whether there are any."""
        return self._always or self.keys.any_made or not self.keys.are_loaded

    def enter(self, headers: Headers, address: str, rule: Rule) -> Pass:
        """Who sends a request, where that is somebody who may send one now; on an open route that may be nobody.

        Raises ApiError UNAUTHENTICATED, FORBIDDEN, RATE_LIMITED, REQUEST_INVALID.
        """
        try:
            entering = self._find(headers)
        except ApiError:
            self._count(address, rule)
            if not rule.is_open:
                raise
            return Pass(NOBODY)
        self._count(entering.caller.name or address, rule)
        return entering

    def _find(self, headers: Headers) -> Pass:
        """Raises ApiError UNAUTHENTICATED, FORBIDDEN, REQUEST_INVALID."""
        sent = _sent(headers)
        credential = _credential(sent)
        if self._operator is not None and credential and digest_of(credential) == self._operator:
            return Pass(Caller(tenant=_tenant(sent), name=OPERATOR))
        if not self.is_required:
            return _free(sent)
        if not credential:
            raise ApiError("UNAUTHENTICATED", "this server asks for a key")
        if self._holder_of is not None and not credential.startswith(f"{PREFIX}_"):
            return Pass(self._holder_of(credential, self._clock()))
        known = self.keys.holder(credential)
        if known is None:
            raise ApiError("UNAUTHENTICATED", "the key is unknown, revoked or has expired")
        return Pass(known.caller, known)

    def _count(self, name: str, rule: Rule) -> None:
        """Counts a request of a key or an address. Raises ApiError RATE_LIMITED."""
        is_bounded = self.is_required if self._a_minute is None else self._a_minute > 0
        if not is_bounded or not rule.is_counted or name == OPERATOR:
            return
        wait_s = self._rates.wait_s(name, time.monotonic())
        if wait_s:
            raise ApiError("RATE_LIMITED", "there were too many requests", retry_after_s=math.ceil(wait_s))


def tokens_of(settings: Settings) -> HolderOf | None:
    """What knows who sends a token; None where the settings name no algorithm. Raises SettingsInvalid."""
    algorithm = settings.auth_jwt_algorithm
    if algorithm is None:
        return None
    # cryptography takes its time to load, and most servers need none of it
    from api.access.tokens import make_tokens

    return make_tokens(settings, algorithm).holder


OPERATOR = "operator"
"""The name of whoever runs the machine."""
_READ = frozenset({b"authorization", b"x-api-key", b"host", TENANT_HEADER.encode()})


def _sent(headers: Headers) -> Mapping[bytes, str]:
    """What a request says of who sends it, and to whom. Raises ApiError UNAUTHENTICATED where it says that twice."""
    sent: dict[bytes, str] = {}
    for name, value in headers:
        if name in _READ:
            if name in sent:
                raise ApiError("UNAUTHENTICATED", f"`{name.decode()}` was sent twice")
            sent[name] = value.decode("latin-1")
    return sent


def _credential(sent: Mapping[bytes, str]) -> str:
    """The key or token that was sent, in one of two ways; empty where none was. Raises ApiError UNAUTHENTICATED."""
    scheme, _, credential = sent.get(b"authorization", "").partition(" ")
    if scheme and scheme.lower() != "bearer":
        raise ApiError("UNAUTHENTICATED", "the scheme of `Authorization` is Bearer")
    credential = (credential or sent.get(b"x-api-key", "")).strip()
    if len(credential) > CREDENTIAL_CHARS_MAX:
        raise ApiError("UNAUTHENTICATED", "this is no key")
    return credential


def _tenant(sent: Mapping[bytes, str]) -> str:
    """The tenant that whoever runs the machine means. Raises ApiError REQUEST_INVALID."""
    tenant = unquote(sent.get(TENANT_HEADER.encode(), "")) or TENANT
    if len(tenant) > TENANT_CHARS_MAX:
        raise ApiError("REQUEST_INVALID", f"the name of a tenant has at most {TENANT_CHARS_MAX} characters")
    check_id(TENANT_HEADER, tenant)
    return tenant


def _free(sent: Mapping[bytes, str]) -> Pass:
    """Anybody, who reached this server by a name of its own machine. A page from elsewhere may have its own name lead
    here (DNS rebinding), and would be taken for one of this machine. Raises ApiError FORBIDDEN.
    """
    host = sent.get(b"host", "")
    if host and not _is_local(host):
        raise ApiError("FORBIDDEN", "a server without keys answers to localhost alone; make a key, and send it")
    return _FREE


@lru_cache(64)
def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name.endswith(".localhost")
