"""Pages in browsers that may use the API: those of the origins that are set, and none otherwise."""

from litestar.config.cors import CORSConfig

from api.settings import Settings

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
