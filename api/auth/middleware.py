"""Authentication middleware: checks the sender, the limits and the role of every request before its body is read.

New routes are safe by default: a route without a policy is for `admin` only, and a session or user in a path is
checked against the user that a key is bound to.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self, TypeAlias

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Receive, ReceiveMessage, Scope, Send

from api.auth.authenticator import OPERATOR, Authenticator
from api.auth.policy import ADMIN, DEBUGGING, RoutePolicy
from api.auth.principal import CALLER, REVOCATION, Principal
from api.auth.request_checks import Addresses, check_cookie_origin, check_origin, check_place
from api.errors import ApiError
from api.schemas.ids import TENANT
from api.settings import Settings
from store.interface.errors import StoreError


class OpenRequests:
    """The open requests, including streams."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.by_client: Counter[str] = Counter()
        self.count = 0
        """The number of requests that count against `requests_max`."""


class OpenRequest:
    """One open request; its counts are released when its context is left."""

    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests
        self._is_counted = False
        self.clients: tuple[str, ...] = ()
        """The key and the address for which it is counted: `key NAME`, `address ADDRESS`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        counts = self._requests.by_client
        for client in self.clients:
            counts[client] -= 1
            if not counts[client]:
                del counts[client]
        if self._is_counted:
            self._requests.count -= 1

    def add(self) -> None:
        """Count it against the limit of the server. Raises ApiError SERVER_BUSY."""
        requests_max = self._requests.settings.requests_max
        if self._requests.count >= requests_max:
            raise ApiError("SERVER_BUSY", f"the server has {requests_max} open requests already (`requests_max`)")
        self._requests.count += 1
        self._is_counted = True

    def add_client(self, client: str) -> None:
        """Count it against the limit of a key or an address. Raises ApiError REQUESTS_FULL."""
        number = self._requests.by_client[client]
        if number >= self._requests.settings.client_requests_max:
            message = f"this {client.partition(' ')[0]} has {number} requests open already (`client_requests_max`)"
            raise ApiError("REQUESTS_FULL", message)
        self._requests.by_client[client] += 1
        self.clients = (*self.clients, client)


BYTES_A_SECOND = 16_384
"""The minimum rate of a client once the time for any body has passed."""


def within(receive: Receive, seconds: float) -> Receive:
    """Return a `receive` that raises ApiError REQUEST_TIMEOUT if a body takes longer than `seconds`.

    Each BYTES_A_SECOND received extend the time by a second, so that a large body can arrive over a slow connection.
    """
    deadline = 0.0
    is_whole = False

    async def call() -> ReceiveMessage:
        nonlocal deadline, is_whole
        if is_whole:  # the body is complete; this waits for the disconnect
            return await receive()
        deadline = deadline or asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise ApiError("REQUEST_TIMEOUT", f"the body was not sent within {seconds:g} s (`receive_s`)") from None
        if message["type"] == "http.request":
            deadline += len(message.get("body", b"")) / BYTES_A_SECOND
            is_whole = not message.get("more_body", False)
        return message

    return call


OwnerOf: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Returns the user of a session by its tenant and id. Raises ApiError SESSION_NOT_FOUND."""

ParticipantOf: TypeAlias = Callable[[str], Awaitable[tuple[Principal, asyncio.Event]]]
"""Returns the principal of a participant, and the event that ends its streams. Raises ApiError UNAUTHENTICATED."""

RULE: Final = "rule"
"""The key of `opt` under which a route has its policy."""
_CLIENTS = "clients"
_NO_PEER = ("", 0)
_NO = frozenset({"false", "0", "off", "no", "f", "n", ""})


class AuthMiddleware:
    """Checks each request of one application before its route handles it."""

    def __init__(
        self,
        access: Authenticator,
        participant: ParticipantOf,
        owner_of: OwnerOf,
        settings: Settings,
        requests: OpenRequests,
    ) -> None:
        self._access = access
        self._participant = participant
        self._origins = frozenset(each.lower() for each in settings.cors_origins)
        self._owner_of = owner_of
        self._addresses = Addresses(settings.trusted_proxies)
        self._receive_s = settings.receive_s
        self._requests = requests

    async def handle(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its route if its sender may use it. Raises ApiError."""
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        with OpenRequest(self._requests) as request:
            rule: RoutePolicy = scope["route_handler"].opt.get(RULE, ADMIN)
            await self._authorise(scope, rule, request)
            await app(scope, within(receive, self._receive_s) if rule.is_counted else _nothing, send)

    async def _authorise(self, scope: HTTPScope, rule: RoutePolicy, request: OpenRequest) -> None:
        """Check the origin, limits, credentials and role of a request. Raises ApiError."""
        check_origin(scope["method"], scope["headers"], self._origins)
        client = self._addresses.of_request((scope.get("client") or _NO_PEER)[0], scope["headers"])
        if rule.is_counted:
            request.add()
            if not client.is_proxy:
                request.add_client(f"address {client.address}")
        if not self._access.keys.are_loaded:
            await self._load(rule)
        sender = self._access.authenticate(scope["headers"], client.address, rule)
        principal, state = sender.principal, scope["state"]
        if sender.participant_id is not None and not rule.is_open:
            principal, state[REVOCATION] = await self._participant(sender.participant_id)
        state[CALLER] = principal
        if rule.is_counted and principal.name and principal.name != OPERATOR:
            request.add_client(f"key {principal.name}")
        state[_CLIENTS] = request.clients
        if sender.known is not None:
            state[REVOCATION] = sender.known.revoked
        parameters = scope["path_params"]
        if rule.has_ids:
            check_place(parameters, scope.get("raw_path") or b"", scope["query_string"])
        if rule.is_open:
            return
        if sender.is_by_cookie:
            check_cookie_origin(scope["method"], scope["headers"])
        check_role(rule, principal, parameters)
        if scope["query_string"]:
            _check_debug(scope, principal)
        if principal.user_id is not None and "sessionId" in parameters:
            session_id = parameters["sessionId"]
            if await self._owner_of(principal.tenant, session_id) != principal.user_id:
                raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})

    async def _load(self, rule: RoutePolicy) -> None:
        """Load the keys; open routes answer even if the database cannot be read. Raises StoreError."""
        try:
            await self._access.keys.load()
        except StoreError:
            if not rule.is_open:
                raise


def clients_of(scope: Scope) -> tuple[str, ...]:
    """Return the key and the address for which a request is counted; see OpenRequest."""
    clients: tuple[str, ...] = scope["state"].get(_CLIENTS, ())
    return clients


async def _nothing() -> HTTPReceiveMessage:
    """Receive an empty body, so that a health check does not wait for one."""
    return {"type": "http.request", "body": b"", "more_body": False}


def _check_debug(scope: Scope, principal: Principal) -> None:
    """Check the role for `debug`. Raises ApiError FORBIDDEN."""
    if not principal.roles.isdisjoint(DEBUGGING):
        return
    values = Request[Any, Any, Any](scope).query_params.getall("debug", [])
    if any(value.lower() not in _NO for value in values):
        raise ApiError("FORBIDDEN", f"`debug` requires the role {' or '.join(sorted(DEBUGGING))}")


def check_role(rule: RoutePolicy, principal: Principal, path_parameters: Mapping[str, object]) -> None:
    """Check the role, tenant and path of a request. Raises ApiError FORBIDDEN."""
    if rule.roles.isdisjoint(principal.roles):
        needed = " or ".join(sorted(rule.roles))
        raise ApiError("FORBIDDEN", f"this requires the role {needed}")
    if rule.is_of_server and principal.tenant != TENANT:
        raise ApiError("FORBIDDEN", f"this is only for the tenant {TENANT}")
    if principal.user_id is None:
        return
    if not rule.takes_bound(path_parameters):
        raise ApiError("FORBIDDEN", "this cannot be used with a key or token that is bound to a user")
    if path_parameters.get("userId", principal.user_id) != principal.user_id:
        raise ApiError("FORBIDDEN", "this key is bound to another user")
