"""Every request passes here, before anything of it is read: who sends it, whether there were too many, what it may do.

New routes are safe by themselves: one that is not in the table is for `admin`, and what is about a session or a user
in its path is kept to the user that a key is bound to.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from litestar import Request
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.plugins.base import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Receive, Scope, Send

from api.access.access import OPERATOR, Access
from api.access.addresses import Addresses
from api.access.bodies import within
from api.access.open_requests import OpenRequest, OpenRequests
from api.access.pages import check_origin
from api.access.rules import ADMIN, DEBUGGING, Rule, check, rule_of
from api.caller import Caller
from api.errors import ApiError, described
from api.id_checks import check_place
from api.settings import Settings
from api.slashes import restore_slashes
from store.errors import StoreError

OwnerOf: TypeAlias = Callable[[str, str], Awaitable[str]]
"""The user of a session, by its tenant and id. Raises ApiError SESSION_NOT_FOUND."""

_RULE = "rule"
_ENDING = "ending"
_CLIENTS = "clients"
_NO_PEER = ("", 0)
_NO = frozenset({"false", "0", "off", "no", "f", "n", ""})


class Guard(ReceiveRoutePlugin):
    """Stands before every route."""

    def __init__(self, access: Access, owner_of: OwnerOf, settings: Settings, requests: OpenRequests) -> None:
        self._access = access
        self._origins = frozenset(each.lower() for each in settings.cors_origins)
        self._owner_of = owner_of
        self._addresses = Addresses(settings.trusted_proxies)
        self._receive_s = settings.receive_s
        self._requests = requests

    def receive_route(self, route: BaseRoute) -> None:
        """Notes at a route who may use it, and describes how it may refuse."""
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                rule = rule_of(sorted(handler.http_methods)[0], route.path_format)
                handler.opt[_RULE] = rule
                _describe(handler, rule)

    def before(self, app: ASGIApp) -> ASGIApp:
        """The middleware."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != ScopeType.HTTP:
                await app(scope, receive, send)
                return
            with self._requests.begin(scope.get("client") or _NO_PEER) as request:
                rule: Rule = scope["route_handler"].opt.get(_RULE, ADMIN)
                await self._let_in(scope, rule, request)
                await app(scope, within(receive, self._receive_s) if rule.is_counted else _nothing, send)

        return call

    async def _let_in(self, scope: HTTPScope, rule: Rule, request: OpenRequest) -> None:
        """Raises ApiError."""
        restore_slashes(scope)
        check_origin(scope["method"], scope["headers"], self._origins)
        client = self._addresses.of_request((scope.get("client") or _NO_PEER)[0], scope["headers"])
        if rule.is_counted:
            request.add()
            if not client.is_proxy:
                request.add_client(f"address {client.address}")
        if not self._access.keys.are_loaded:
            await self._load(rule)
        entering = self._access.enter(scope["headers"], client.address, rule)
        caller, state = entering.caller, scope["state"]
        state["caller"] = caller
        if rule.is_counted and caller.name and caller.name != OPERATOR:
            request.add_client(f"key {caller.name}")
        state[_CLIENTS] = request.clients
        if entering.known is not None:
            state[_ENDING] = entering.known.revoked
        if rule.is_open:
            return
        parameters = scope["path_params"]
        check_place(parameters, scope["query_string"])
        check(rule, caller, parameters)
        if scope["query_string"]:
            _check_debug(scope, caller)
        if caller.user_id is not None and "session_id" in parameters:
            session_id = parameters["session_id"]
            if await self._owner_of(caller.tenant, session_id) != caller.user_id:
                raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})

    async def _load(self, rule: Rule) -> None:
        """Reads the keys; a server whose record cannot be read still says that it lives. Raises StoreError."""
        try:
            await self._access.keys.load()
        except StoreError:
            if not rule.is_open:
                raise


def ending_of(scope: Scope) -> asyncio.Event | None:
    """What ends an answer that goes on: the key it was asked for with is revoked."""
    ending: asyncio.Event | None = scope["state"].get(_ENDING)
    return ending


def clients_of(scope: Scope) -> tuple[str, ...]:
    """The key and the address that a request counts for; see OpenRequest."""
    clients: tuple[str, ...] = scope["state"].get(_CLIENTS, ())
    return clients


async def _nothing() -> HTTPReceiveMessage:
    """What a probe receives: its body is not waited for."""
    return {"type": "http.request", "body": b"", "more_body": False}


def _check_debug(scope: Scope, caller: Caller) -> None:
    """Raises ApiError FORBIDDEN."""
    if not caller.roles.isdisjoint(DEBUGGING):
        return
    wanted = Request[Any, Any, Any](scope).query_params.getall("debug", [])
    if any(value.lower() not in _NO for value in wanted):
        raise ApiError("FORBIDDEN", f"`debug` takes the role {' or '.join(sorted(DEBUGGING))}")


def _describe(handler: HTTPRouteHandler, rule: Rule) -> None:
    """Adds to what a route may refuse, and whether it takes a key."""
    codes = [] if rule.is_open else ["UNAUTHENTICATED", "FORBIDDEN"]
    codes += ["RATE_LIMITED", "REQUESTS_FULL"] if rule.is_counted else []
    codes += ["REQUEST_TIMEOUT", "DATABASE_FILE_LOST"] if "GET" not in handler.http_methods else []
    responses = dict(handler.responses or {})
    for status, spec in described(*codes).items():
        told = responses[status].description.split(", ") if status in responses else []
        words = ", ".join(dict.fromkeys([*told, *spec.description.split(", ")]))
        responses[status] = ResponseSpec(spec.data_container, generate_examples=False, description=words)
    handler.responses = responses
    handler.security = [{}] if rule.is_open else [{"key": []}, {"apiKey": []}]
