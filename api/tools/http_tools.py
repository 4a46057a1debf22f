"""Calls tools over HTTP. Values are percent-encoded, secrets go only to the hosts that the settings name, and private
addresses are refused unless the settings list them.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

import httpcore
import httpx
import msgspec
from cachetools import LRUCache

from api.schemas.allowed_targets import read_target
from api.settings import Settings, ToolSecret
from api.webhooks.ssrf import CONNECT_S, AddressPolicy, HostUnknown, SafeConnections, TargetForbidden, user_agent
from runtime.state.circuit import Circuit
from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.expressions import Evaluation
from scripts.expressions.sandbox import MISSING, ExpressionFailed
from scripts.expressions.values import Value
from scripts.model.tools import Given, HttpRequest, ToolDefinition

CONNECTIONS_MAX = 64
ATTEMPTS_MAX = 2  # of a tool that changes nothing
HOSTS_MAX = 1_000  # whose failures are counted
_IS_DOWN = frozenset({"unreachable", "error"})  # failures after which a tool that changes nothing is called again
_REFUSED_FOR_NOW = frozenset({408, 425, 429})  # RFC 9110 and 8470, RFC 6585: the same request may succeed later
_WITHOUT_BODY = frozenset({"GET", "DELETE"})


class _PreparedRequest(msgspec.Struct, frozen=True):
    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes | None


class _Names:
    """The names in the texts of a tool: its arguments and, in headers, `secret`."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def value_of(self, name: str) -> object:
        """Return the value of a name, or MISSING."""
        return self._names.get(name, MISSING)


class HttpTools:
    """Calls services."""

    def __init__(self, settings: Settings) -> None:
        targets = [read_target(each) for each in settings.tool_private_targets]
        hint = "; see the settings `tool_private_targets` and `tools_http`"
        self._policy = AddressPolicy(http=settings.tools_http, targets=targets, hint=hint)
        self._bytes_max = settings.tool_result_bytes_max
        self._secrets = settings.tool_secrets
        self._circuits: LRUCache[str, Circuit] = LRUCache(HOSTS_MAX)
        self._connections = SafeConnections(self._policy, CONNECTIONS_MAX)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def call(self, tool: ToolDefinition, http: HttpRequest, arguments: Mapping[str, Value], key: str) -> object:
        """Return the answer: JSON as a value, anything else as a text. Raises ToolCallFailed."""
        request = self._prepare(http, arguments, key)
        circuit = self._circuits.setdefault(request.url.netloc.decode("ascii"), Circuit(time.monotonic))
        for attempt in range(1, ATTEMPTS_MAX + 1):
            if not circuit.begin():
                message = "the service failed several times and is not called for a moment"
                raise ToolCallFailed("unavailable", message, retryable=True)
            is_down: bool | None = None
            try:
                answer = await self._send(request)
            except ToolCallFailed as failed:
                is_down = failed.kind in _IS_DOWN
                if tool.makes_changes or not is_down or attempt == ATTEMPTS_MAX:
                    raise
            except asyncio.CancelledError:  # the call took too long
                is_down = True
                raise
            else:
                is_down = False
                return answer
            finally:
                circuit.end(is_down=is_down)
        raise AssertionError("the last attempt returns or raises")

    # -- the request --------------------------------------------------------------------------------------------------

    def _prepare(self, http: HttpRequest, arguments: Mapping[str, Value], key: str) -> _PreparedRequest:
        url = self._url(http, arguments)
        headers = {"accept": "application/json", "user-agent": user_agent()}
        names = dict(arguments) | {"secret": secrets_for(url, self._secrets)}
        for name, value in http.headers.items():
            headers[name.lower()] = _header(name, _render(value, names).text)
        body = None if http.method in _WITHOUT_BODY and http.body is None else _body(http, arguments)
        if body is not None:
            headers = {"content-type": "application/json"} | headers | {"content-length": str(len(body))}
        headers |= {"host": url.netloc.decode("ascii"), "idempotency-key": key}
        return _PreparedRequest(http.method, url, headers, body)

    def _url(self, http: HttpRequest, arguments: Mapping[str, Value]) -> httpx.URL:
        rendered = _render(http.url, arguments)
        pieces, end = [], 0
        for begin, stop in rendered.spans:
            pieces += [rendered.text[end:begin], quote(rendered.text[begin:stop], safe="")]
            end = stop
        text = "".join([*pieces, rendered.text[end:]])
        if any(part in {".", ".."} for part in text.partition("?")[0].split("/")):
            raise ToolCallFailed("arguments", "a value in the URL is `.` or `..`, which names another resource")
        if problem := self._policy.problem_of(text):
            raise ToolCallFailed("forbidden", problem)
        return httpx.URL(text)

    # -- the answer ---------------------------------------------------------------------------------------------------

    async def _send(self, request: _PreparedRequest) -> object:
        try:
            async with self._connections.request(
                request.method, request.url, request.headers, request.body, {"connect": CONNECT_S}
            ) as answer:
                return _result(answer, await self._content(answer))
        except TargetForbidden:
            message = "the server does not permit this address; see `tool_private_targets`"
            raise ToolCallFailed("forbidden", message) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, HostUnknown):
            raise ToolCallFailed("unreachable", "the service cannot be reached") from None
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol):
            raise ToolCallFailed("error", "the service does not answer with HTTP") from None

    async def _content(self, answer: httpcore.Response) -> bytes:
        pieces, size = [], 0
        async for piece in answer.aiter_stream():
            size += len(piece)
            if size > self._bytes_max:
                message = f"the answer is larger than {self._bytes_max:,} bytes; see `tool_result_bytes_max`"
                raise ToolCallFailed("result", message)
            pieces.append(piece)
        return b"".join(pieces)


def _render(source: Given, names: Mapping[str, object]) -> Evaluation:
    """Evaluate a text or expression of a declaration. Raises ToolCallFailed."""
    try:
        return source.compiled.evaluate(_Names(names))
    except ExpressionFailed as failed:
        raise ToolCallFailed("arguments", f"line {source.at.line} of the declaration: {failed}") from None


def _header(name: str, value: str) -> str:
    """Return the value of a header. Raises ToolCallFailed, without the value, which may contain a secret."""
    if not (value.isascii() and value.isprintable()):
        raise ToolCallFailed("arguments", f"the header {name} would contain a character that headers cannot contain")
    return value


def _body(http: HttpRequest, arguments: Mapping[str, Value]) -> bytes:
    return json.dumps(dict(arguments) if http.body is None else _render(http.body, arguments).value).encode()


def _result(answer: httpcore.Response, content: bytes) -> object:
    """Return the result in an answer. Raises ToolCallFailed, whose message contains the status only."""
    status = answer.status
    if status >= 500:
        raise ToolCallFailed("error", f"the service failed with status {status}")
    if status >= 400:
        message = f"the service refused the request with status {status}"
        raise ToolCallFailed("refused", message, retryable=status in _REFUSED_FOR_NOW)
    if status >= 300:
        raise ToolCallFailed("refused", f"the service redirects with status {status}, which is not followed")
    if not content:
        return None
    kind = next((value for name, value in answer.headers if name.lower() == b"content-type"), b"")
    try:
        return msgspec.json.decode(content) if b"json" in kind.lower() else content.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ToolCallFailed("result", "the answer is not valid JSON or text") from None


def secrets_for(url: httpx.URL, secrets: Mapping[str, ToolSecret]) -> Callable[[str], str]:
    """Return the function `secret` of headers to a host and port. It raises ToolCallFailed, without any secret."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = url.port or (443 if url.scheme == "https" else 80)
    names = {f"{host}:{port}"} | ({host, url.host} if url.port is None else set())

    def secret(name: str) -> str:
        found = secrets.get(name)
        if found is None:
            raise ToolCallFailed("forbidden", f"the server's settings have no `[tool_secrets.{name}]`")
        if names.isdisjoint(each.lower() for each in found.hosts):
            to = url.netloc.decode("ascii")
            raise ToolCallFailed("forbidden", f"the secret {name} may not be sent to {to}; see its `hosts`")
        text = found.text()
        if not text:
            raise ToolCallFailed("forbidden", f"the secret {name} is empty; set the variable {found.env}")
        return text

    return secret
