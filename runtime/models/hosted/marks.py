"""The marks of a prompt's values in what a model says: weak models say the mark where they should say the value."""

import re
from collections.abc import Mapping

MARK_CHARS_MAX = 20  # after the word that begins it
MARKS_MAX = 50  # in one reply; each may stand for a long text

_MARK = re.compile(r"""<value\s{1,5}id\s?=\s?["']?(\d{1,4})["']?\s?/?>""")


def unmarked(text: str, values: Mapping[str, str]) -> str:
    """A text with the values in the place of their marks; a mark of no value stays as it is."""
    if not values:
        return text
    return _MARK.sub(lambda mark: values.get(mark[1], mark[0]), text, count=MARKS_MAX)
