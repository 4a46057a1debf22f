"""What the headers and the path of a request say about its sender: address, origin, and ids that are allowed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from litestar.config.cors import CORSConfig
from msgspec import Struct

from api.errors import ApiError, invalid_field
from api.schemas.ids import has_control

HOPS_MAX = 32
"""Addresses of `X-Forwarded-For` that are read, from the right."""
_FORWARDED = b"x-forwarded-for"
_IPV6_PREFIX = 64  # one client can use many IPv6 addresses, all with the same 64 bits


class ClientAddress(Struct, frozen=True):
    """The address of a client."""

    address: str
    """An IPv4 address, a /64 network of IPv6, or another name that a proxy sent."""
    is_proxy: bool
    """Whether it is a trusted proxy that named no client: many clients may share the address."""


class Addresses:
    """Determines the address of clients. `proxies` are the addresses and networks of trusted proxies."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._proxies = tuple(ip_network(each) for each in proxies)
        self.of_peer = lru_cache(4_096)(self._client)
        """Returns the client at the remote end of a connection, by its host."""

    def of_request(self, host: str, headers: Iterable[tuple[bytes, bytes]]) -> ClientAddress:
        """Return the client that sent a request.

        `X-Forwarded-For` is read only from a trusted proxy: the rightmost address that is not a trusted proxy counts,
        because the addresses left of it come from the client.
        """
        client = self.of_peer(host)
        if not client.is_proxy:
            return client
        forwarded = b",".join(value for name, value in headers if name == _FORWARDED)
        for _ in range(HOPS_MAX):
            forwarded, _, last = forwarded.rpartition(b",")
            hop = last.decode("latin-1").strip()
            if hop:
                client = self.of_peer(hop)
            if not client.is_proxy or not forwarded:
                break
        return client

    def _client(self, text: str) -> ClientAddress:
        try:
            address = _address(text)
        except ValueError:
            return ClientAddress("unknown", is_proxy=False)
        if any(address in network for network in self._proxies):
            return ClientAddress(str(address), is_proxy=True)
        if isinstance(address, IPv6Address):
            return ClientAddress(str(ip_network((address, _IPV6_PREFIX), strict=False)), is_proxy=False)
        return ClientAddress(str(address), is_proxy=False)


def _address(text: str) -> IPv4Address | IPv6Address:
    """Parse an address with or without a port. Raises ValueError."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1)."""
_READ = frozenset({b"origin", b"host", b"sec-fetch-site"})
_PORTS = {"http": 80, "https": 443}
_HEADERS_TAKEN = ["Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID", "Prefer"]
_HEADERS_SHOWN = ["ETag", "Link", "Location", "Preference-Applied", "Retry-After", "WWW-Authenticate", "X-Request-Id"]
_HEADERS_SHOWN += ["Content-Disposition"]  # the names of files
_HEADERS_SHOWN += [f"X-Cuebook-{name}" for name in ("As-Of", "Masked", "Truncated", "Truncated-By")]  # of query results


def cors_of(origins: Sequence[str]) -> CORSConfig | None:
    """Return the CORS configuration for these origins; None without any."""
    if not origins:
        return None
    return CORSConfig(
        allow_origins=list(origins),
        allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=[*_HEADERS_TAKEN, "X-API-Key"],
        expose_headers=_HEADERS_SHOWN,
    )


def header_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the first value of a header, whose name is in small letters; None if there is none."""
    return next((value for each, value in headers if each == name), None)


def check_origin(method: str, headers: Iterable[tuple[bytes, bytes]], origins: frozenset[str]) -> None:
    """Reject requests of browser pages of other origins that may change data.

    A browser sends simple requests of any page without a preflight request, but the page cannot hide its origin.
    Programs other than browsers send no origin and pass. `Sec-Fetch-Site` is the browser's own verdict and holds behind
    a proxy that changes `Host`; a browser without it is checked by `Origin` and `Host`.

    Raises ApiError FORBIDDEN.
    """
    if method in SAFE:
        return
    sent = {name: value.decode("latin-1") for name, value in headers if name in _READ}
    origin, site = sent.get(b"origin"), sent.get(b"sec-fetch-site")
    if origin is not None and ("*" in origins or origin.lower() in origins):
        return
    if site in {"same-origin", "none"} or (site is None and origin is None):
        return
    if site is None and origin is not None and _is_same(origin, sent.get(b"host", "")):
        return
    raise ApiError(
        "FORBIDDEN", "a page of another origin cannot change data here; `cors_origins` lists the permitted origins"
    )


def check_cookie_origin(method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Reject requests that may change data with the credential of a cookie, unless a page of this server sent them:
    browsers add cookies by themselves. `cors_origins` permits nothing here, and a request without an origin does not
    pass. Raises ApiError FORBIDDEN.
    """
    if method in SAFE:
        return
    sent = {name: value.decode("latin-1") for name, value in headers if name in _READ}
    origin, site = sent.get(b"origin", ""), sent.get(b"sec-fetch-site")
    if site == "same-origin" or (site is None and origin and _is_same(origin, sent.get(b"host", ""))):
        return
    raise ApiError("FORBIDDEN", "only a page of this server can change data with its cookie; send a key instead")


def _is_same(origin: str, host: str) -> bool:
    """Return whether an origin names the requested host; the scheme is ignored, because TLS may end at a proxy."""
    try:
        page = urlsplit(origin)
        own = urlsplit(f"{page.scheme}://{host}")
        ports = page.port, own.port
    except ValueError:
        return False
    default = _PORTS.get(page.scheme)
    return default is not None and page.hostname == own.hostname and (ports[0] or default) == (ports[1] or default)


TEXTS = frozenset({"q", "search", "words"})
"""Query parameters that are texts and may have several lines."""
_REFUSED_HEADER = re.compile(r"[\u0000-\u001f\u007f]")  # others may be parts of letters: UTF-8 is read as Latin-1
_ESCAPED = re.compile(rb"%(?:[01]|7f|c2%[89]|e2%80%a[89])|[\x00-\x1f\x7f-\x9f]", re.IGNORECASE)
_NOT_ASCII = re.compile(rb"%[89a-f]|[\x80-\xff]", re.IGNORECASE)
_REPLACED = "\ufffd"  # what servers decode bytes to that are not UTF-8


def check_id(name: str, value: str) -> None:
    """Raise ApiError REQUEST_INVALID for an id with a control character or a line break."""
    if has_control(value):
        raise _invalid(name)


def check_header(name: str, value: str) -> None:
    """Raise ApiError REQUEST_INVALID for an id in a header with a control character."""
    if _REFUSED_HEADER.search(value):
        raise _invalid(name)


def check_place(parameters: Mapping[str, object], path: bytes, query: bytes) -> None:
    """Check the ids in a path and in a query string, as they were sent. Raises ApiError REQUEST_INVALID."""
    for name, value in parameters.items():
        if isinstance(value, str):
            check_id(name, value)
    if not _is_utf8(path):
        raise _not_utf8(next((name for name, value in parameters.items() if _REPLACED in str(value)), "the path"))
    if not query:
        return
    if _ESCAPED.search(query):
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in TEXTS:
                check_id("the name of a query parameter" if has_control(name) else name, f"{name}{value}")
    if not _is_utf8(query):
        part = next(each for each in query.split(b"&") if not _is_utf8(each))
        raise _not_utf8(unquote_to_bytes(part.partition(b"=")[0]).decode(errors="replace"))


def _is_utf8(sent: bytes) -> bool:
    """Return whether a path or a query string is UTF-8; if it is not, different ids would be decoded to one."""
    if _NOT_ASCII.search(sent):
        try:
            unquote_to_bytes(sent).decode()
        except UnicodeDecodeError:
            return False
    return True


def _not_utf8(name: str) -> ApiError:
    return invalid_field(name, "this is not UTF-8")


def _invalid(name: str) -> ApiError:
    return invalid_field(name, "an id cannot contain control characters or line breaks")
