"""Ids as parts of paths: no id can lead to another route."""

from urllib.parse import quote


def in_path(id_: str) -> str:
    """Return an id as a part of a path; an id of dots only would otherwise name a parent path."""
    return quote(id_, "") if id_.strip(".") else id_.replace(".", "%2E")
