"""Scripts with `cuebook: 1` as JSON Schema (draft 2020-12), for editors that complete and check YAML.

The schema is derived from the same types and annotations as `scripts.yaml.grammar`, so that both always agree, and it
accepts the same short spellings. What a schema cannot express (names, targets, expressions) is checked by
``cuebook check``.
"""

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from scripts.model import actions
from scripts.model.actions import ACTION_TYPES, Exit, key_field
from scripts.model.base import Expression, Reference, Template, Variable
from scripts.model.languages import LANGUAGE_KEY, computable, key_in
from scripts.model.moments import Clock, DateValue, Duration
from scripts.model.own_actions import installed_actions
from scripts.model.script import LABELLED, After, IncludeFile, Script, StringTable, Topic, Trigger
from scripts.model.variables import OutputItem, Validation
from scripts.yaml.branches import BRANCH_KEYS, BRANCHES_MAX
from scripts.yaml.grammar import ALIASES, POLICIES, SHORTHANDS, policy_words

Schema: TypeAlias = dict[str, Any]

SCHEMA_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_WORD: Schema = {"type": ["string", "number", "boolean"]}  # `version: 1.0` is read as text
_TEXT: Schema = {"type": ["string", "number", "boolean", "null"]}
_PLAIN: dict[Any, Schema] = {str: _WORD, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"}}
_ACTIONS = frozenset(ACTION_TYPES.values())
_UNWRITTEN = frozenset({"at", "marks", "labels"})  # added by the reader
_TITLES: Mapping[type[Struct], str] = {Script: "script", IncludeFile: "include file", StringTable: "string table"}
_UNWRITTEN_IN: Mapping[type[Struct], frozenset[str]] = {
    Script: frozenset({"globals", "strings", "phrases", "form"}),
    IncludeFile: frozenset({"strings"}),  # a string table is a file of its own
}


def json_schema(kind: type[Struct] = Script) -> Schema:
    """Return the schema of a script, or of another file that people write: an include file, a string table, cases."""
    descriptions = Path(__file__).with_name("key_descriptions.yaml").read_text("utf-8")
    definitions = _Definitions(msgspec.yaml.decode(descriptions, type=dict[str, str]))
    head = {"$schema": SCHEMA_DRAFT, "title": f"Cuebook {_TITLES.get(kind, 'cases')}"}
    return {**head, **definitions.reference(kind), "$defs": definitions.schemas}


class _Definitions:
    """The definitions of the schema, one per type."""

    def __init__(self, descriptions: Mapping[str, str]) -> None:
        self.schemas: dict[str, Schema] = {}
        self._descriptions = descriptions  # of keys

    def reference(self, kind: type[Struct]) -> Schema:
        """Return a reference to the definition of a type; add the definition if it is new."""
        name = kind.__name__
        if name not in self.schemas:
            self.schemas[name] = {}  # a placeholder, for types that contain themselves
            self.schemas[name] = _describe_type(kind) | self._shape(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _shape(self, kind: type[Struct]) -> Schema:
        if kind in _SHAPES:
            return _SHAPES[kind]
        whole = self._object(kind)
        if kind is Trigger:
            return {"anyOf": [_WORD, {"type": "array", "items": _WORD}, whole]}
        if kind in POLICIES:
            return {"anyOf": [*_SHAPES[POLICIES[kind]]["anyOf"], whole]}
        if kind is actions.Acknowledgement:
            return {"anyOf": [{"type": "boolean"}, _TEXT]}
        if kind is actions.IfKnown:
            confirm = {"type": "object", "properties": {"confirm": whole["properties"]["confirm"]}}
            closed = {"required": ["confirm"], "additionalProperties": False}
            return {"anyOf": [{"enum": ["ask", "skip"]}, confirm | closed]}
        if kind is actions.ChoiceItem:
            return {"anyOf": [_WORD, _pair(self.reference(Template)), whole]}
        short = SHORTHANDS.get(kind.__name__)
        return {"anyOf": [_WORD | {"description": f"Stands for `{short}`."}, whole]} if short is not None else whole

    def _object(self, kind: type[Struct]) -> Schema:
        unwritten = _UNWRITTEN | _UNWRITTEN_IN.get(kind, frozenset())
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in unwritten]
        properties = {key_in("1", kind, field): self._property(kind, field) for field in fields}
        if kind in {Script, IncludeFile}:
            properties[LANGUAGE_KEY] = {"description": self._descriptions[LANGUAGE_KEY], "const": 1}
        if kind is Script:
            properties["actions"] = self._object(Topic)["properties"]["actions"]
        if kind is actions.If:
            properties["elif"] = self._elif(properties)
        aliases = {alias: name for alias, name in ALIASES.items() if name in properties and alias not in properties}
        for alias, name in aliases.items():
            properties[alias] = properties[name] | {"deprecated": True, "description": f"The same as `{name}`."}
        shape: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [key_in("1", kind, field) for field in fields if field.required]
        if kind is actions.Choose:
            required.append("choose")
        if kind is IncludeFile:
            required.append(LANGUAGE_KEY)
        if kind is Script:
            required[required.index("phases")] = LANGUAGE_KEY
            shape["oneOf"] = [{"required": ["phases"]}, {"required": ["actions"]}]
        if required:
            shape["required"] = required
        if aliases:
            shape["not"] = {"anyOf": [{"type": "object", "required": list(pair)} for pair in aliases.items()]}
        return shape

    def _elif(self, properties: Mapping[str, Schema]) -> Schema:
        branch: Schema = {"properties": {key: properties[key] for key in BRANCH_KEYS}, "required": ["if", "then"]}
        items = {"type": "object", "additionalProperties": False} | branch
        return {"description": self._descriptions["elif"], "type": "array", "items": items, "maxItems": BRANCHES_MAX}

    def _property(self, kind: type[Struct], field: msgspec.structs.FieldInfo) -> Schema:
        schema = self.of(field.type)
        if field.name == "outputs":
            schema = {"anyOf": [self.of(OutputItem), schema]}  # one result needs no list
        if field.encode_name == "choices" and kind in LABELLED:
            pairs = {"type": "array", "items": {"anyOf": [_WORD, _pair({"type": "string"})]}}
            schema = {"anyOf": [*schema["anyOf"], pairs]}
        key = key_in("1", kind, field)
        is_verb = kind in _ACTIONS and ACTION_TYPES.get(key) is kind
        about = _documentation(kind) if is_verb else self._describe(kind, key)
        if about:
            schema = {"description": about} | schema
        if isinstance(field.default, bool | float | int | str) and field.default != "":
            schema = schema | {"default": field.default}
        return schema

    def _describe(self, kind: type[Struct], key: str) -> str:
        """Return what a key means in this part of a script, or what it means everywhere."""
        return self._descriptions.get(f"{kind.__name__}.{key}") or self._descriptions.get(key, "")

    # -- annotations --------------------------------------------------------------------------------------------

    def of(self, annotation: Any) -> Schema:
        """Return the schema of an annotation; the branches match those of the reader."""
        origin = get_origin(annotation)
        if origin is Annotated:
            return self.of(get_args(annotation)[0]) | _limits(annotation)
        if origin in {Union, types.UnionType}:
            return self._union(get_args(annotation))
        if origin is Literal:
            return {"enum": list(get_args(annotation))}
        if origin is tuple:
            return self._list(get_args(annotation)[0])
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(get_args(annotation)[1])}
        return self.reference(annotation) if issubclass(annotation, Struct) else dict(_PLAIN[annotation])

    def _union(self, members: tuple[Any, ...]) -> Schema:
        if set(members) >= {list[Any], dict[str, Any]} or set(members) >= {Template, Expression}:
            return {}  # any value
        if actions.OwnAction in members:
            own = (each.fields for each in installed_actions().values())
            members = (*(each for each in members if each is not actions.OwnAction), *own)
        if computable(members):  # an expression is marked by `=` in a text
            members = tuple(member for member in members if member is not Expression)
        parts = [self.of(member) for member in members if member is not types.NoneType]
        if types.NoneType in members:
            parts.append({"type": "null"})
        if len(parts) > 1 and members[0] in _ACTIONS:
            return self._actions(parts)
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _actions(self, parts: list[Schema]) -> Schema:
        """Define the union of all actions once, because many types contain lists of actions."""
        self.schemas.setdefault("Action", {"title": "Action", "anyOf": parts})
        return {"$ref": "#/$defs/Action"}

    def _list(self, item: Any) -> Schema:
        several: Schema = {"type": "array", "items": self.of(item)}
        alone = [_WORD] if item in {str, Template, Validation} else []  # a single one needs no dash
        if item is Exit:
            alone = [self.of(item)]
        return {"anyOf": [several, *alone, {"type": "null"}]}


def _pair(text: Schema) -> Schema:
    pair = {"type": "object", "minProperties": 1, "maxProperties": 1, "description": "`KEY: text`."}
    return pair | {"additionalProperties": text}


def _describe_type(kind: type[Struct]) -> Schema:
    is_own = issubclass(kind, actions.OwnAction) and kind is not actions.OwnAction
    verb = key_field(kind).encode_name if is_own or kind in _ACTIONS else kind.__name__
    return {"title": verb, "description": _documentation(kind)}


def _documentation(kind: type[Struct]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _limits(annotation: Any) -> Schema:
    limits: Schema = {}
    for meta in get_args(annotation)[1:]:
        if isinstance(meta, Meta):
            limits |= {"minimum": meta.ge} if meta.ge is not None else {}
            limits |= {"maximum": meta.le} if meta.le is not None else {}
            limits |= {"pattern": meta.pattern} if meta.pattern is not None else {}
    return limits


def _leading(*policies: str) -> Schema:
    """Return the schema of a policy: one of the words, or a jump."""
    return {
        "anyOf": [
            {"enum": list(policies)},
            {"type": "string", "pattern": "^goto ", "description": "`goto phase/topic`, or a topic of this phase"},
            {"type": "object", "properties": {"goto": _WORD}, "required": ["goto"], "additionalProperties": False},
        ]
    }


_SHAPES: dict[type[Struct], Schema] = {
    Template: _TEXT,
    Reference: _WORD,
    Variable: _WORD,
    Expression: {},
    **{kind: _leading(*policy_words(kind)) for kind in (After, *POLICIES.values())},
    actions.Into: {"anyOf": [_WORD, {"type": "object", "additionalProperties": _WORD}]},
    actions.Loop: {"type": "string", "pattern": r"^\s*\S[\s\S]*\s+as\s+\S+\s*$"},
    Duration: {"type": "string", "pattern": r"^\s*(\d{1,9}\s*((second|minute|hour|day|week)s?|s|min|h)\s*)+$"},
    Clock: {"type": "string", "pattern": r"^\s*([01]?\d|2[0-3]):[0-5]\d\s*$"},
    DateValue: _WORD,
}
"""The schemas of types that are not written as mappings of their fields."""
