"""Report the keys of the session format that have no effect: in metadata, and beside other keys of an action."""

from typing import Any

from scripts.expressions.values import texts_in
from scripts.formats.session.config import ActionType, Config
from scripts.formats.words import CONFIG_KEYS, LOCALES
from scripts.model.base import Location, Node
from scripts.model.script import LOCALE
from scripts.model.variables import Output, OutputItem
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Scalar, Tree, is_null, items_of, pairs_of

_METADATA = {"name": "title", "version": "version", "description": "description", "author": "author", "tags": "tags"}
_METADATA |= dict.fromkeys(("locale", "language"), "locale")


def from_metadata(reader: Reader, metadata: Tree | None, own: dict[str, Any]) -> dict[str, Any]:
    """Return fields of the script from the metadata of a file, unless it has `own` values for them; keys that are not
    stored are recorded.
    """
    found: dict[str, Any] = {}
    for key, value in pairs_of(metadata):
        field = _METADATA.get(key.text, "")
        stored = _value(field, value)
        if stored and not own.get(field):
            found[field] = stored
        elif (not field or stored != own.get(field)) and not is_null(value):
            report_unused(reader, key.text, value.at)
    return {**own, **found}


def _value(field: str, value: Tree) -> Any:
    """Return the value of a field of the script; None if it cannot be one."""
    listed = items_of(value) or (value,)
    texts = tuple(each.text for each in listed if isinstance(each, Scalar) and each.value is not None)
    if not field or len(texts) < len(listed) or (field != "tags" and not isinstance(value, Scalar)):
        return None
    if field == "locale":
        return LOCALES.get(texts[0].casefold()) or (texts[0] if LOCALE.match(texts[0]) else None)
    return texts if field == "tags" else texts[0]


def report_unused(reader: Reader, key: str, at: Location, fix: str = "") -> None:
    reader.add("KEY_IGNORED", f"`{key}` has no effect here", at, fix, severity="note")


def report_unused_keys(
    reader: Reader, kind: ActionType, action: Node, config: Config, items: tuple[OutputItem, ...], text: str
) -> None:
    """Record the keys of an action with a text that have no effect beside its other keys."""
    asked = [each for each in items if isinstance(each, Output)]
    is_defined = len(asked) != 1 or asked[0].define != config.extraction_prompt
    unnamed = next((name for name in texts_in(config.input_variables) if name not in text), "")
    unused = {
        "action_name": "action_name" in action.marks,
        "description": "description" in action.marks,
        "say_goal": bool(config.say_goal),
        "input_variables": bool(unnamed),
        "required": config.required is not None and not asked,
        "extraction_prompt": bool(config.extraction_prompt) and is_defined,
    }
    fixes = {
        "say_goal": "Write it in `content`, which tells a model what to say.",
        "input_variables": f"A model gets the variables that the text names: write `{{{unnamed}}}` in it.",
    }
    for key, node in (*((key, action) for key in action.marks), *((key, config) for key in config.marks)):
        if unused.get(key) and (node is action or key in CONFIG_KEYS[kind]):  # the reader reports the others
            report_unused(reader, key, node.mark(key), fixes.get(key, ""))
