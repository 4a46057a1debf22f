"""Addresses of databases."""

from urllib.parse import parse_qs, urlsplit


def without_password(url: str) -> str:
    """Return the address of a database without user and password, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
    return f"{parts.scheme}://{host}{parts.path}"
