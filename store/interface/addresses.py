"""Addresses of databases."""

from urllib.parse import parse_qs


def without_password(url: str) -> str:
    """Return the address of a database without user and password, for messages."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    host, slash, name = place.rpartition("@")[2].partition("/")
    return f"{scheme}://{host or parse_qs(query).get('host', [''])[0]}{slash}{name}"
