"""What the types of a script are made of: places in files, nodes, texts and expressions."""

from collections.abc import Mapping

from msgspec import Struct

ID_CHARS_MAX = 200


class Location(Struct, frozen=True):
    """A place in a script file; line and column count from 1, and 0 means "not in a file"."""

    line: int = 0
    column: int = 0
    file: str = ""  # a side file's name; empty for the script's own file


NOWHERE = Location()


class Node(Struct, frozen=True, kw_only=True):
    """What stands somewhere in a file: `at` is where it begins, `marks` where the value of each key does."""

    at: Location = NOWHERE
    marks: Mapping[str, Location] = {}

    def mark(self, key: str) -> Location:
        """Where the value of a key stands, or the node itself where the key was not written."""
        return self.marks.get(key, self.at)


class Template(Struct, frozen=True):
    """A text with Jinja2 placeholders."""

    source: str
    at: Location = NOWHERE


class Expression(Struct, frozen=True):
    """A Jinja2 expression."""

    source: str
    at: Location = NOWHERE


class Reference(Struct, frozen=True):
    """An id that stands in another place than its own node."""

    id: str
    at: Location = NOWHERE
