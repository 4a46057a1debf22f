"""Ids that clients choose: of users, sessions, scripts, memories, requests. None holds a control character.

A NUL ends a text in some systems behind this one, and a line break in an id writes lines of its own into logs and
files.
"""

import re
from typing import Final

ID_PATTERN: Final = r"^(?![\s\S]*[\u0000-\u001f\u007f-\u009f\u2028\u2029])"
"""Of a text without control characters and line breaks, for msgspec and the description of the API."""
_REFUSED = re.compile(r"[\u0000-\u001f\u007f-\u009f\u2028\u2029]")


def has_control(text: str) -> bool:
    """Return whether a text holds a control character or a line break."""
    return _REFUSED.search(text) is not None
