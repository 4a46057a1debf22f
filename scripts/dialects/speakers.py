"""``{%who%}`` of the older forms by the name of the role that speaks, once the roles are known."""

import json
from collections.abc import Collection
from typing import Any, cast

import msgspec
from msgspec import Struct

from scripts.dialects.placeholders import SYSTEM
from scripts.model import Script
from scripts.nodes import Expression, Template

_WHO = SYSTEM["who"]


def with_speakers(script: Script, files: Collection[str]) -> Script:
    """The script in which ``{%who%}`` of these files is the name of a role rather than its id."""
    names = {role.id: role.name for role in script.roles if role.type == "AI" and role.name not in {"", role.id}}
    if not names:
        return script
    listed = ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_quoted(name)}" for key, name in names.items())
    meaning = f'({{{listed}}}[role]|default(role)|default("AI", true))'
    return cast(Script, _replaced(script, files, meaning))


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _replaced(node: Any, files: Collection[str], meaning: str) -> Any:
    match node:
        case Template() | Expression():
            is_older = node.at.file in files and _WHO in node.source
            return msgspec.structs.replace(node, source=node.source.replace(_WHO, meaning)) if is_older else node
        case Struct():
            changed: dict[str, Any] = {}
            for name in node.__struct_fields__:
                if name not in {"at", "marks", "globals", "strings"}:
                    before = getattr(node, name)
                    after = _replaced(before, files, meaning)
                    changed |= {name: after} if after is not before else {}
            return msgspec.structs.replace(node, **changed) if changed else node
        case tuple():
            items = tuple(_replaced(each, files, meaning) for each in node)
            return items if any(a is not b for a, b in zip(items, node, strict=True)) else node
        case dict():
            pairs = {key: _replaced(each, files, meaning) for key, each in node.items()}
            return pairs if any(pairs[key] is not node[key] for key in node) else node
        case _:
            return node
