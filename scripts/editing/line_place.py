"""Where a position of a text is: by the indents of its lines, so that a text with errors has places too."""

import re
from collections.abc import Sequence

from msgspec import Struct

ITEM = "[]"
_LINE = re.compile(r"""(\s*)((?:-\s+)*)(?:["']?([^\s#:"'{[][^:#"'{[]*?)["']?\s*:(?=\s|$))?""")
_KEY_BEFORE = re.compile(r"(?:^|[\s{,])([\w-]+):\s*$")
_KEYS_IN_BRACES = re.compile(r"(?:^|,)\s*([\w-]+):")


class Place(Struct, frozen=True):
    """The keys that lead to the mapping at a position, the outermost first, with `[]` for an item; the keys in it."""

    path: tuple[str, ...]
    beside: tuple[str, ...]


class _Line(Struct, frozen=True):
    dash: int | None  # the position of the last dash that begins an item
    indent: int
    key: str


def place_at(lines: Sequence[str], index: int, column: int) -> Place:
    """Return the place of a position: the index of its line, and its column, both from 0."""
    place = _place_of_line(lines, index)
    before = lines[index][:column]
    opened = _open_brace(before)
    if opened is None:
        return place
    key = _KEY_BEFORE.search(before[:opened])
    path = (*place.path, key[1]) if key is not None else place.path
    return Place(path, tuple(_KEYS_IN_BRACES.findall(before[opened + 1 :])))


def _open_brace(text: str) -> int | None:
    """Return the position of the innermost brace that is open at the end of a text; None if `{{` is, or none."""
    opened: list[int] = []
    for found in re.finditer(r"\{\{|\}\}|[{}]", text):
        if found[0] == "{":
            opened.append(found.start())
        elif opened and found[0] in {"}", "}}"}:
            opened.pop()
    return opened[-1] if opened else None


def _parse(text: str) -> _Line | None:
    """Return where the content of a line begins; None for a blank line."""
    if not text.strip() or text.lstrip().startswith("#"):
        return None
    found = _LINE.match(text)
    spaces, dashes, key = found.groups("") if found is not None else ("", "", "")
    dash = len(spaces) + len(dashes.rstrip()) - 1 if dashes else None
    return _Line(dash, len(spaces) + len(dashes), key)


def _place_of_line(lines: Sequence[str], index: int) -> Place:
    at = _parse(lines[index]) or _Line(None, len(lines[index]), "")
    path = [ITEM] if at.dash is not None else []  # the innermost first
    beside = _keys_below(lines, index, at.indent)
    is_beside = at.dash is None  # the lines above are still those of the same mapping
    in_list, indent = at.dash is not None, at.indent if at.dash is None else at.dash
    for text in reversed(lines[:index]):
        line = _parse(text)
        if line is None or line.indent > indent or (in_list and line.dash == indent):
            continue
        if not in_list and line.indent == indent:
            beside += [line.key] if is_beside and line.key else []
            if line.dash is not None:
                path.append(ITEM)
                is_beside, in_list, indent = False, True, line.dash
            continue
        if not line.key:
            continue
        path.append(line.key)  # the mapping or list is the value of this key
        path += [ITEM] if line.dash is not None else []
        is_beside, in_list = False, line.dash is not None
        indent = line.indent if line.dash is None else line.dash
    return Place(tuple(reversed(path)), tuple(beside))


def _keys_below(lines: Sequence[str], index: int, indent: int) -> list[str]:
    """Return the keys of the same mapping on the lines below."""
    found: list[str] = []
    for text in lines[index + 1 :]:
        line = _parse(text)
        if line is None or line.indent > indent:
            continue
        if line.indent < indent or line.dash is not None:
            break
        found += [line.key] if line.key else []
    return found
