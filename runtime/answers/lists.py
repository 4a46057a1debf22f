"""A list out of a free reply: items set apart by punctuation, lines, bullets, ``and``, ``和``."""

import re

from scripts.values import LIST_ITEMS_MAX, TEXT_CHARS_MAX

# 和 also stands inside words (和平, 温和), where it joins nothing.
_SEPARATOR = re.compile(r"[,，、;；\n]|\s(?:and|&)\s|(?<![温暖柔缓平共谐饱总随祥调])和(?![平谐尚解睦好气服])|以及|还有")
_BULLET = re.compile(r"\s*(?:[-*•·–](?=\s|[^\W\d])|[0-9]{1,3}[.)、](?!\d)\s*)\s*")
_LEADING_AND = re.compile(r"(?:and|&)\s|以及|还有", re.IGNORECASE)
_NOTHING = frozenset(["无", "没有", "没", "没有了", "都没有", "暂无", "none", "nothing", "no", "nil", "n/a"])


def parse_list(text: str) -> list[str] | None:
    """The items of a reply in order, ``[]`` where it says there are none, None where it says nothing.

    At most LIST_ITEMS_MAX items; what follows them is not read.
    """
    text = text[:TEXT_CHARS_MAX].strip()
    if text.casefold().rstrip("。.!！") in _NOTHING:
        return []
    lines = [_BULLET.sub("", line, count=1) if _BULLET.match(line) else line for line in text.splitlines()]
    items = [_item(part) for part in _SEPARATOR.split("\n".join(lines))]
    return [item for item in items if item][:LIST_ITEMS_MAX] or None


def _item(part: str) -> str:
    part = part.strip().rstrip("。.!！").strip()
    return _LEADING_AND.sub("", part, count=1).strip() if _LEADING_AND.match(part) else part
