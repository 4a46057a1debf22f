"""Ids as parts of paths: whatever an id holds, it leads to no other route."""

from urllib.parse import quote


def in_path(id_: str) -> str:
    """An id as a part of a path; one of dots alone would be taken for a way up."""
    return quote(id_, "") if id_.strip(".") else id_.replace(".", "%2E")
