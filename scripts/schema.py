"""The native form as JSON Schema (draft 2020-12), for editors that complete and check YAML as it is written.

Derived from the same types and annotations that `scripts.reader` reads by, so that the two cannot come apart. Where the
reader takes a shorter spelling, the schema does too. What needs more than the shape (names, targets, expressions) is
left to ``cuebook check``.
"""

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from scripts.actions import ACTION_TYPES, ChoiceItem, Loop, OnFail, Onward, Policy
from scripts.model import After, Script, Trigger
from scripts.nodes import Expression, Reference, Template
from scripts.reader import ALIASES, SHORTHANDS

Schema: TypeAlias = dict[str, Any]

SCHEMA_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_WORD: Schema = {"type": ["string", "number", "boolean"]}  # `version: 1.0` is read as the text it is
_TEXT: Schema = {"type": ["string", "number", "boolean", "null"]}
_PLAIN: dict[Any, Schema] = {
    str: _WORD,
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}
_ACTIONS = frozenset(ACTION_TYPES.values())
_UNWRITTEN = frozenset({"at", "marks", "labels", "globals", "strings", "phrases", "form"})  # what the reader adds

_KEYS = {
    "script": "The script's id.",
    "skill": "The skill's id, by which `call` runs it.",
    "skills": "Actions to be called by name; side files in `use` may bring more.",
    "params": "What the skill is given: variables, with a `value` where they may be left out.",
    "returns": "The skill's variables that a call may take over.",
    "input": "For each parameter, the expression that gives its value.",
    "foreach": "LIST as NAME: once for each item.",
    "event": "The event's name.",
    "data": "For each field, the expression that gives its value.",
    "phase": "The phase's id, once in the script.",
    "topic": "The topic's id, once in its phase.",
    "id": "The action's id, once in its topic. Running sessions and statistics know the action by it.",
    "migrations": "What was renamed since earlier versions, old id to new; keep every entry.",
    "variables": "Old name: new name.",
    "title": "What people call it.",
    "goal": "What is to be reached here; the model is told.",
    "strategy": "How to go about it; the model is told. Of a `context`: what it sees; of a `memory`: its search.",
    "version": "A label of the author's own.",
    "description": "What the script is for.",
    "author": "Who wrote it.",
    "tags": "Words to find it by.",
    "locale": "The language the texts are in, as a tag: en, de, zh-Hant, pt-BR.",
    "default_scope": "Where a name goes that nobody declares.",
    "template_scheme": "A folder of prompts that replace the default ones.",
    "model": "The language model it wants, by the name the server knows it.",
    "on_interrupted": "Whether a call of the model that a crash interrupted is made again, or fails visibly first.",
    "context": "What of the conversation the model sees, by a strategy; of a `memory`: how many neighbours come along.",
    "memory": "What of its sessions becomes memory of the user, and how it is called up; `off`: none of it.",
    "decay": "How what is older counts for less.",
    "half_life_days": "After how many days it counts half.",
    "floor": "The least it counts for, from 0 to 1.",
    "remember": "What is kept of the sessions: `messages`, `notes` alone, or `nothing`.",
    "recall": "Whether memory is called up for models `always`, or only where it is `asked`.",
    "short_term": "How many units a session's short-term memory holds.",
    "restore": "What short-term memory begins with: that of the user's `latest` session, or `none`.",
    "chars_max": "How many characters of memory enter a text or prompt at most.",
    "about": "What the note is about; it takes the place of an earlier note about the same.",
    "source": "Who or what it is from.",
    "pinned": "Whether it is never forgotten, and never counts for less.",
    "metadata": "What else is kept with it, to be filtered by.",
    "into": "The variable that is filled.",
    "filters": "What the units must be, such as `{source: user}`.",
    "min_score": "What scores lower is left out.",
    "k": "Of a `context`, how many exchanges stay in sight; of memory, how much is called up at most.",
    "max_tokens": "How many tokens the messages in sight may have, about.",
    "keep": "How many messages stay as they are beside the summary.",
    "limit": "How long what is in sight may grow before it is made shorter.",
    "chars": "In characters.",
    "resize": "The same by the names of old, and how often it is made shorter in any case.",
    "every_n_turns": "After how many answers it is made shorter in any case; 0: never.",
    "max_messages_text_length": "The same as `chars` of a `limit`, which comes first.",
    "max_keep_messages_count": "The same as `messages` of a `limit`, which comes first.",
    "memo": "What is kept in mind of all that was said.",
    "enabled": "Whether a memo is kept, whatever the strategy.",
    "instruct": "What matters in the summary or memo; the model is told.",
    "options": "What a strategy takes that an installed package brings.",
    "use": "Side files in the script's folder, such as globals.yaml.",
    "declare": "The variables that live here, and end when it is left.",
    "phases": "The stretches of the conversation, in order.",
    "topics": "The topics of the phase, in order.",
    "actions": "What happens here, in order.",
    "when": "An expression; skipped unless it holds.",
    "tone": "How it is to be said; the model is told.",
    "role": "Who says it.",
    "var": "The variable's name.",
    "define": "What the value means; the model is told.",
    "type": "What kind of value it is; enforced on every write.",
    "choices": "The values allowed, or the choices offered.",
    "pii": "Personal: masked in logs and exports.",
    "value": "The value.",
    "get": "The variable to fill from the conversation.",
    "set": "The variable to compute.",
    "pattern": "A regular expression that the value matches in full, or that picks it out of a longer answer.",
    "min": "The least number or date, or the least length of a text or list.",
    "max": "The greatest number or date or length; for `repeat`, how many passes at most.",
    "required": "Whether the question is put again until there is a value.",
    "default": "The value when no valid answer came.",
    "validate": "An expression over the value that must hold.",
    "invalid": "What to say to an answer that does not do.",
    "fallback": "`raw` keeps the answer as it was given where nothing else can be taken from it.",
    "output": "What to take from the answers.",
    "max_rounds": "How many answers, or utterances, at most.",
    "on_fail": "What follows when no valid answer came within the rounds.",
    "on_blocked": "What follows when the user cannot or will not answer, as the model judges.",
    "on_off_topic": "What follows when the user talks of something else, as the model judges.",
    "after": "How many such replies in a row it takes.",
    "on_budget": "What is done when a budget for language models is used up; the session then waits where it was.",
    "require_acknowledgment": "Whether to wait for the user after a single utterance.",
    "exit": "When to stop, in words; the model judges.",
    "exit_when": "When to stop, as an expression.",
    "exit_criteria": "When to stop, by what the model measures.",
    "opens": "Who says something first: `ai` (the default), or `user`.",
    "understanding_threshold": "How well the user has to have understood, in percent.",
    "has_questions": "Whether the user may still have questions.",
    "min_rounds": "How many rounds at least.",
    "custom_conditions": "Comparisons of variables.",
    "variable": "The variable that is compared.",
    "operator": "How it is compared.",
    "key": "What names the choice.",
    "text": "What the user reads.",
    "question": "What to ask.",
    "image": "The address of a picture.",
    "url": "The address of a page.",
    "caption": "What stands below.",
    "then": "What happens when the condition holds, or where it goes on afterwards.",
    "else": "What happens when it does not.",
    "do": "What happens in each pass, or when an interrupt comes up.",
    "auto": "Kept up to date from what the user says, whatever is being asked.",
    "tolist": "The list that gets one record more.",
    "fields": "What a record or form consists of.",
    "roles": "Who speaks; named by `role` and `scene`.",
    "forms": "Forms to be shown with `form`.",
    "interrupts": "What the user may bring up at any time.",
    "repairs": "Ready-made ways to mend a conversation: repeat, skip, cancel, correct, hand_over.",
    "name": "The name it goes by.",
    "desc": "What others are told of it.",
    "pic": "The address of a picture.",
    "attributes": "What the application wants to know besides.",
    "form": "The form's id.",
    "say": "What is said instead of the runtime's own words.",
    "experiments": "What is tried out, in arms that users are in by chance; `experiment` is where they meet it.",
    "experiment": "The experiment's id, and the name of the variable that keeps the arm.",
    "arms": "The ways that are tried; in an action, what happens in each of them.",
    "arm": "The arm's name.",
    "weight": "Its share of the users, beside those of the other arms.",
    "by": "What stays in an arm once it is in it: the `user`, in all sessions, or the `session`.",
    "field": "The variable it fills.",
    "placeholder": "What stands in the empty field.",
    "computed": "The expression it is worked out by.",
    "columns": "The fields of each row of a table.",
    "keywords": "Words in the user's message.",
    "intent": "What the user means, in words; the model judges.",
    "detector": "The detector that sees it.",
    "detectors": "What watches over what is said, and acts on it.",
    "words": "Words to look for.",
    "label": "What it is that was seen; of a form's field, what stands beside it.",
    "score": "How sure it is, from 0 to 1; in an example, at least so.",
    "severity": "How grave it is, from 0 to 1; in an example, at least so.",
    "always": "Acts within the cooldown too; so it is for a severity of 1.",
    "cooldown": "In how many turns it stays silent after it acted.",
    "look_back": "How many messages, of both sides, it considers.",
    "min_messages": "How many there must be before measures and models count; words count at once.",
    "threshold": "A score below does nothing.",
    "rules": "Words that set it off without any model.",
    "measures": "What each message has more or less of, such as how pleasant it sounds.",
    "measure": "The measure's name.",
    "lexicon": "Takes the runtime's own words for feelings, in Chinese and English, as signs.",
    "significant": "A difference below this means nothing.",
    "signs": "Words by which a message has some value of a measure.",
    "values": "The value of each measure.",
    "patterns": "Courses that measures may take; one without `all` only a model can see.",
    "note": "What it may mean, for whoever reads the record.",
    "all": "What must hold of the measures.",
    "of": "The measure.",
    "span": "How many of the last messages count.",
    "change": "At least so far from one value to another.",
    "trend": "Steadily, over three values or more.",
    "swings": "At least so many moves up and down in turn.",
    "amplitude": "How large each of them is at least.",
    "average_min": "The average is at least this.",
    "average_max": "The average is at most this.",
    "range_min": "Lowest and highest value are at least so far apart.",
    "range_max": "Lowest and highest value are at most so far apart.",
    "last_min": "The last value is at least this.",
    "last_max": "The last value is at most this.",
    "on_failure": "What counts where the model fails: nothing, or what it said last.",
    "replace": "Said instead of what would have been said; the question stays open.",
    "examples": "Conversations and what comes of them; `cuebook test` runs them.",
    "messages": "The conversation; its last message is judged. Of a `limit`: in messages.",
    "content": "What is said.",
    "detected": "Whether the detector sees something.",
    "measured": "For a measure, its values in the last messages; null is not compared.",
    "needs_model": "Whether only a model can tell; else that is seen from the detector.",
    "interrupt": "The interrupt's id.",
    "on": "When it happens; for a detector, whose messages it watches.",
    "priority": "The highest that applies is taken.",
    "repair": "Which of the ready-made ones.",
    "ai": "The role that speaks for the script.",
    "human": "The role of the user.",
    "until": "An expression; the loop ends when it holds.",
}


def json_schema() -> Schema:
    """The schema of a whole script."""
    definitions = _Definitions()
    definitions.reference(Script)
    found = definitions.found
    return {"$schema": SCHEMA_DRAFT, "title": "Cuebook script", **found.pop("Script"), "$defs": found}


class _Definitions:
    """The types met so far, each described once."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def reference(self, kind: type[Struct]) -> Schema:
        """A pointer to the description of a type, which is added where it is new."""
        name = kind.__name__
        if name not in self.found:
            self.found[name] = {}  # holds the place, for types that contain themselves
            self.found[name] = self._described(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _described(self, kind: type[Struct]) -> Schema:
        special = {
            Template: _TEXT,
            Reference: _WORD,
            Expression: {},
            OnFail: _ON_FAIL,
            After: _AFTER,
            Onward: _ONWARD,
            Loop: _LOOP,
        }.get(kind)
        if special is not None:
            return _documented(kind) | special
        whole = self._object(kind)
        if kind is Trigger:
            return _documented(kind) | {"anyOf": [_WORD, {"type": "array", "items": _WORD}, whole]}
        if kind is Policy:
            return _documented(kind) | {"anyOf": [*_ONWARD["anyOf"], whole]}
        if kind is ChoiceItem:
            return _documented(kind) | {"anyOf": [_WORD, self._short_choice(whole), whole]}
        short = SHORTHANDS.get(kind.__name__)
        if short is not None:
            return _documented(kind) | {"anyOf": [_WORD | {"description": f"Stands for `{short}`."}, whole]}
        return _documented(kind) | whole

    def _object(self, kind: type[Struct]) -> Schema:
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in _UNWRITTEN]
        properties = {field.encode_name: self._property(kind, field) for field in fields}
        aliases = {alias: name for alias, name in ALIASES.items() if name in properties and alias not in properties}
        for alias, name in aliases.items():
            properties[alias] = properties[name] | {"deprecated": True, "description": f"The same as `{name}`."}
        shape: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [field.encode_name for field in fields if field.required]
        if required:
            shape["required"] = required
        if aliases:
            shape["not"] = _any_with(list(pair) for pair in aliases.items())
        return shape

    def _property(self, kind: type[Struct], field: msgspec.structs.FieldInfo) -> Schema:
        written = self.of(field.type)
        is_verb = kind in _ACTIONS and field.required and ACTION_TYPES.get(field.encode_name) is kind
        about = _documentation(kind) if is_verb else _KEYS.get(field.encode_name, "")
        if about:
            written = {"description": about} | written
        if isinstance(field.default, bool | int | str) and field.default != "":
            written = written | {"default": field.default}
        return written

    def _short_choice(self, whole: Schema) -> Schema:
        """``{A: text}``, beside which only what tells nothing of key and text may stand."""
        beside = {name: part for name, part in whole["properties"].items() if name not in {"key", "text"}}
        present = ([], *([name] for name in beside), list(beside))
        counts = [
            {
                "required": names,
                "properties": {name: _TEXT for name in beside if name not in names},  # then it is the label
                "minProperties": len(names) + 1,
                "maxProperties": len(names) + 1,
            }
            for names in present
        ]
        return {
            "description": "`KEY: text`, with `value` and `actions` beside it.",
            "type": "object",
            "properties": beside,
            "additionalProperties": self.reference(Template),
            "anyOf": counts,
            "not": _any_with((["key"], ["text"])),
        }

    # -- annotations --------------------------------------------------------------------------------------------

    def of(self, annotation: Any) -> Schema:
        """What may stand where the reader reads by an annotation; the branches are those of the reader."""
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
        if set(members) >= {list[Any], dict[str, Any]}:
            return {}  # any value
        parts = [self.of(member) for member in members if member is not types.NoneType]
        if types.NoneType in members:
            parts.append({"type": "null"})
        if len(parts) > 1 and members[0] in _ACTIONS:
            return self._actions(parts)
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _actions(self, parts: list[Schema]) -> Schema:
        """The union of all actions, described once, since lists of actions stand in many places."""
        self.found.setdefault("Action", {"title": "Action", "anyOf": parts})
        return {"$ref": "#/$defs/Action"}

    def _list(self, item: Any) -> Schema:
        several: Schema = {"type": "array", "items": self.of(item)}
        alone = [_WORD] if item in {str, Template} else []  # one text needs no dash
        return {"anyOf": [several, *alone, {"type": "null"}]}


def _documented(kind: type[Struct]) -> Schema:
    verb = next((verb for verb, action in ACTION_TYPES.items() if action is kind), kind.__name__)
    return {"title": verb, "description": _documentation(kind)}


def _documentation(kind: type[Struct]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _any_with(keys: Iterable[list[str]]) -> Schema:
    """Any mapping that holds all keys of one of the lists."""
    return {"anyOf": [{"type": "object", "required": each} for each in keys]}


def _limits(annotation: Any) -> Schema:
    found: Schema = {}
    for meta in get_args(annotation)[1:]:
        if isinstance(meta, Meta):
            found |= {"minimum": meta.ge} if meta.ge is not None else {}
            found |= {"maximum": meta.le} if meta.le is not None else {}
            found |= {"pattern": meta.pattern} if meta.pattern is not None else {}
    return found


def _leading(*policies: str) -> Schema:
    """A word of a policy, or a jump."""
    return {
        "anyOf": [
            {"enum": list(policies)},
            {"type": "string", "pattern": "^goto ", "description": "`goto phase/topic`, or a topic of this phase"},
            {"type": "object", "properties": {"goto": _WORD}, "required": ["goto"], "additionalProperties": False},
        ]
    }


_ON_FAIL = _leading("default", "skip", "end")
_AFTER = _leading("resume", "restart_topic", "leave_topic", "skip", "end")
_ONWARD = _leading("continue", "skip", "end")
_LOOP: Schema = {"type": "string", "pattern": r"^\s*\S[\s\S]*\s+as\s+\S+\s*$"}
