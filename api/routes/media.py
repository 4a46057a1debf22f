"""The kinds of bodies that routes take: JSON, but where a handler names others in its `opt`."""

from typing import Final

JSON: Final = "application/json"
TAKES: Final = "takes"
"""The key of `opt` under which a handler names the media types of its bodies."""
