"""The fixes for keys and values that are not where, or not as, their type has them."""

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.suggestions import colon_fix, resembles, suggest
from scripts.expressions.values import shorten
from scripts.model import actions, languages
from scripts.model.json_schemas import JSON_TYPES
from scripts.model.languages import Language
from scripts.model.moments import Moment, parse_duration
from scripts.model.script import Trigger
from scripts.model.variables import Declaration, Output
from scripts.yaml import parser
from scripts.yaml.grammar import Field, fields_of
from scripts.yaml.parser import Scalar, Tree, is_empty, pairs_of
from scripts.yaml.syntax_hints import hidden_character, space_missing
from scripts.yaml.unknown_keys import SWITCH_FIX, is_switched_off

COMMA = "A comma inside { } ends a value; put quotes around a text with a comma."
QUOTES = "'\""

_HOLDERS = (("emit", actions.Signal, "event"), ("end", actions.Ending, "reason"), ("on", Trigger, "keywords"))
"""Keys whose values may be mappings, with their structures and first keys."""
_BRANCHES = {
    **dict.fromkeys(("elif", "elseif", "else if"), "Write `elif: [{if: …, then: […]}]` directly below the `then`."),
    "else": "Write `else` directly below the `then` of its `if`, without a dash.",
    "then": "Write `then` directly below its `if`, without a dash.",
}
_INSIDE = {
    "actions": "Write actions in a topic, topics in a phase: phases: [{phase: a, topics: [{topic: b, actions: […]}]}].",
    "topics": "Write topics in a phase: phases: [{phase: a, topics: […]}].",
}
_SCOPE = (
    "A variable lasts as long as what declares it: write it in the `declare` of the script (session), a phase or a "
    "topic, or under `globals` in an include file."
)
_FULL_WIDTH = "Replace the full-width ： with a plain colon and a space."
_CONTINUED = "If this line continues the text above, put the whole text in quotes; else correct or remove the key."
_SHOWN_CHARS_MAX = 60  # of an example in a fix
EXAMPLE_CHARS_MAX = 500  # of a text from which an example is made
_ASSIGNMENT = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*=\s*(?P<value>[^=\s].*)")
_LITERAL = re.compile(r"-?\d+(\.\d+)?|true|false|\"[^\"]*\"|'[^']*'")


class FileFormat(Struct, frozen=True):
    """The format of a file, as far as fixes differ."""

    language: Language
    is_respelled: bool
    """Whether it is one of the other older formats, whose keys have other spellings."""

    def with_ids(self, fix: str) -> str:
        """Return a fix with the keys of ids in this format."""
        return fix.replace("{phase:", "{phase_id:").replace("{topic:", "{topic_id:") if self.is_respelled else fix


def character_fix(word: str) -> str:
    """Return the fix for a word with a full-width colon or an invisible character, or an empty text."""
    return _FULL_WIDTH if "：" in word else hidden_character(word)


def is_without_colon(key: Scalar, value: Tree) -> bool:
    """Return whether a key in { } has no colon after it, as in `{say: Well, then}`."""
    return is_empty(value) and value.at == replace(key.at, column=key.at.column + len(key.text))


def unknown_key_fix(
    key: Scalar, value: Tree, fields: Mapping[str, Field], present: Collection[str], path: str, written: FileFormat
) -> str:
    """Return the fix for a key that is none of these fields; `path` is that of the node that has the key, and `present`
    are its keys, of which this one is no misspelling.
    """
    if is_switched_off(key.text, value):
        return SWITCH_FIX
    fix = character_fix(key.text) or _elsewhere_fix(key.text, fields, path, written)
    fix = fix or colon_fix(key.text, fields, is_list=is_empty(value))
    if fix:
        return fix
    allowed = [field.key for field in fields.values() if not field.instead]
    if is_without_colon(key, value) and not resembles(key.text, allowed):
        return f"Write a point in a number, such as 1.5. {COMMA}" if key.text.isdecimal() else COMMA
    return _CONTINUED if " " in key.text.strip() else suggest(key.text, allowed, used=present)


def _elsewhere_fix(key: str, fields: Mapping[str, Field], path: str, written: FileFormat) -> str:
    """Return the fix for a key that belongs elsewhere, or an empty text."""
    if key in _BRANCHES and "then" in fields:
        return _BRANCHES[key]
    if key in _INSIDE and "phases" in fields:
        return written.with_ids(_INSIDE[key])
    if path.endswith(".wait") and key in fields_of(actions.Sleep, written.language):
        return f"Write `{key}` beside `wait`, not in it."
    for holder, kind, first in _HOLDERS:
        if holder in fields and key in fields_of(kind, written.language):
            return f"Write `{holder}: {{{first}: …, {key}: …}}`."
    if key == "actions" and "topics" in fields:
        return written.with_ids("Write actions in a topic: topics: [{topic: b, actions: […]}].")
    if key != "get" and key in fields_of(Output) and "outputs" in {field.name for field in fields.values()}:
        value = f"into: {{var: NAME, {key}: …}}" if written.language == "1" else f"output: [{{get: NAME, {key}: …}}]"
        return f"It is a key of the value: `{value}`."
    older = next((field.key for field in fields.values() if key == field.newer != field.key), "")
    if older and not written.is_respelled:
        return f"Write `{older}`, or begin the file with `cuebook: 1`: `cuebook convert` rewrites it."
    if key == "scope" and fields is fields_of(Declaration, written.language):
        return _SCOPE
    return "Declare the variable in its scope: `declare: [{var: NAME, pii: true}]`." if key == "pii" else ""


def action_fix(written: str, tree: parser.Mapping, allowed: Sequence[str]) -> str:
    """Return the fix for an item without one of these actions: `written` is its unknown key, or empty."""
    if not written and tree.pairs:
        return f"Write the action beside `{tree.pairs[0][0].text}`, or no dash if that belongs to the action above."
    fix = colon_fix(written, allowed) or character_fix(written) or _BRANCHES.get(written, "")
    fix = fix or suggest(written, list(allowed), "")
    if not fix and written in languages.action_keys():
        return f"`{written}` is a key of an action: write it without a dash, below the key of its action."
    return fix or suggest(written, list(allowed))


def pair_fix(text: str, keys: Collection[str]) -> str:
    """Return the fix for a text that must be one of these keys and a value, or an empty text."""
    if text in keys:
        return f"Write a colon after it: `{text}:`."
    if fix := colon_fix(text, keys):
        return fix
    return _FULL_WIDTH if text.partition("：")[0] in keys else space_missing(text)


def keys_fix(kind: type[Struct], fields: Mapping[str, Field], text: str) -> str:
    """Return the fix for a text that must be a mapping of these fields, or an empty text."""
    if text.partition("：")[0].strip() in fields:
        return _FULL_WIDTH
    return hidden_character(text) or _example_fix(kind, [each.key for each in fields.values() if each.required], text)


def _example_fix(kind: type[Struct], required: Sequence[str], text: str) -> str:
    """Return as a fix the mapping that a text probably means, or an empty text."""
    if issubclass(kind, Moment) and not required:
        return f"Write e.g. `{{after: {text if parse_duration(text) else '3 days'}}}`."
    if len(required) > 1:
        parts = re.split(r"\s*[-–,]\s*", text) if len(text) <= EXAMPLE_CHARS_MAX else []
        parts = parts if len(parts) == len(required) else ["…"] * len(required)
        shown = ", ".join(f"{key}: {part}" for key, part in zip(required, parts, strict=True))
        return f"Write `{{{shown}}}`."
    return f"Write `{{{required[0]}: {shorten(text)}}}`." if required else ""


def mapping_fix(text: str, language: Language) -> str:
    """Return the fix for a text that must be a mapping of names to values, or an empty text."""
    if text in JSON_TYPES:
        return f"Write `{{type: {text}}}`."
    found = _ASSIGNMENT.fullmatch(text)
    if found is None:
        return f"Write `{{{text}: …}}` with its value." if text.isidentifier() else ""
    mark = "" if language == "older" or _LITERAL.fullmatch(found["value"]) else "="
    return f"Write `{{{found['name']}: {mark}{found['value']}}}`."


def dash_fix(tree: Tree, name_key: str) -> str:
    """Return the fix for a value that must be a list; `name_key` is an item's key for its name, if it has names."""
    if isinstance(tree, parser.Mapping) and tree.pairs:
        key, value = tree.pairs[0]
        if key.text.startswith("-"):
            return f"Write a space after the dash: `- {key.text[1:]}:`."
        if name_key:
            return _named_item_fix(name_key, key.text, value)
        shown = f" {shorten(value.text, 40).strip(QUOTES)}" if isinstance(value, Scalar) and value.text else ""
        return f"Start each item with a dash: `- {key.text}:{shown}`."
    if isinstance(tree, Scalar) and tree.text[:1] in "【［":
        return "Write plain brackets [ and ]."
    return "Start each item with a dash."


def _named_item_fix(name_key: str, name: str, value: Tree) -> str:
    """Return the fix for a mapping of names instead of a list of items with the name as a key."""
    pairs = pairs_of(value)
    keys = [f"{key.text}: {each.text}" for key, each in pairs if isinstance(each, Scalar) and each.plain]
    shown = ", ".join([f"{name_key}: {name}", *keys])
    if keys and len(keys) == len(pairs) and len(shown) <= _SHOWN_CHARS_MAX:
        return f"Write a list: `- {{{shown}}}`."
    return f"Write a list: `- {name_key}: {name}`, and its other keys below `{name_key}`."
