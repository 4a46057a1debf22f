"""Pages in browsers that may use the API: those of the server's own origin and of the origins that are set."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from litestar.config.cors import CORSConfig

from api.errors import ApiError
from api.settings import Settings

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1)."""
_READ = frozenset({b"origin", b"host", b"sec-fetch-site"})
_PORTS = {"http": 80, "https": 443}
_HEADERS_TAKEN = ["Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID", "Prefer"]
_HEADERS_SHOWN = ["ETag", "Link", "Location", "Preference-Applied", "Retry-After", "WWW-Authenticate", "X-Request-Id"]


def cors_of(settings: Settings) -> CORSConfig | None:
    """For pages of these origins in browsers; none unless it is set."""
    if not settings.cors_origins:
        return None
    return CORSConfig(
        allow_origins=settings.cors_origins,
        allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=[*_HEADERS_TAKEN, "X-API-Key"],
        expose_headers=_HEADERS_SHOWN,
    )


def check_origin(method: str, headers: Iterable[tuple[bytes, bytes]], origins: frozenset[str]) -> None:
    """Refuse what a page of another origin has a browser send, where it may change something.

    A browser sends simple requests of any page without asking first; what the page cannot hide is where it comes from.
    Programs that are no browsers say nothing of that, and pass. `Sec-Fetch-Site` is the browser's own verdict, also
    behind a proxy that sends another `Host`; a browser without it is judged by `Origin` and `Host`.

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
        "FORBIDDEN", "a page of another origin may change nothing here; `cors_origins` lists the pages that may"
    )


def _is_same(origin: str, host: str) -> bool:
    """Whether an origin names the host that a request is for; TLS may end at a proxy, so the scheme says nothing."""
    try:
        page = urlsplit(origin)
        own = urlsplit(f"{page.scheme}://{host}")
        ports = page.port, own.port
    except ValueError:
        return False
    default = _PORTS.get(page.scheme)
    return default is not None and page.hostname == own.hostname and (ports[0] or default) == (ports[1] or default)
