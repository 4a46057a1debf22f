"""Decide whether a key that a format does not know may be ignored: comments may, behaviour may not."""

import difflib
import re
from collections.abc import Collection

from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree

_ACTIONS = frozenset(
    {
        "say", "ai_say", "user_say", "ask", "ai_ask", "think", "ai_think", "chat", "call", "use_skill", "fill",
        "show_form", "show_pic", "set", "goto", "user_option", "choose", "foreach", "fromlist", "loop_until", "while",
        "repeat", "if", "elif", "else", "do", "then", "actions", "action_type", "steps", "goals", "topics", "stages",
        "phases", "emit", "remember", "recall", "rules", "skills", "forms", "interrupts",
    }
)  # fmt: skip
_SETTINGS = frozenset(
    {
        "when", "condition", "entry_condition", "exit", "exit_when", "exit_criteria", "output", "outputs", "tolist",
        "get", "input", "returns", "target_variable", "output_variables", "value", "default", "choices", "options",
        "pattern", "min", "max", "required", "validate", "invalid", "on_fail", "max_rounds", "require_acknowledgment",
        "computed", "content", "content_template", "question_template", "prompt_template", "fields", "columns",
        "unless", "skip_if", "skip_when", "run_if", "show_if", "only_when", "depends_on",
        "keywords", "priority", "tone", "role", "ai_role", "declare", "type", "use",
    }
)  # fmt: skip
_NOTES = frozenset(
    {
        "name", "title", "label", "note", "notes", "comment", "remark", "desc", "description", "define", "author",
        "version", "tags", "goal", "say_goal", "think_goal", "action_name", "placeholder",
    }
)  # fmt: skip
_NO, _YES = frozenset({"false", "no", "off", "0"}), frozenset({"true", "yes", "on", "1"})
_OFF = {"enabled": _NO, "enable": _NO, "active": _NO, "is_enabled": _NO, "is_active": _NO} | dict.fromkeys(
    ("disabled", "disable", "inactive", "skip", "skipped", "is_disabled"), _YES
)
SWITCH_FIX = "Remove this part of the script, or begin its lines with `#`."
_FOR_ANCHORS = re.compile(r"^[x._]-|^[._]|default|common|shared|template|anchor|alias|reus|definition")
_CLOSE = 0.75  # minimum similarity of a misspelt key to the correct one


def is_switched_off(key: str, value: Tree) -> bool:
    """Whether a key says that its part of the script should not run: ``enabled: false``, ``disabled: true``."""
    return isinstance(value, Scalar) and value.text.strip().lower() in _OFF.get(key.lower(), ())


def is_note(key: str) -> bool:
    """Whether a key of this name only describes something and changes no behaviour."""
    return key in _NOTES


def is_ignorable(key: str, value: Tree, known: Collection[str]) -> bool:
    """Whether a session behaves the same without this key. `known` are the keys allowed in its place.

    False if the key names an action or a setting, is a misspelling of one, contains actions, or switches a part off.
    Parts under `defaults` or the like that are marked with `&name` may be ignored: they are repeated elsewhere.
    """
    if is_switched_off(key, value):
        return False
    if _FOR_ANCHORS.search(key.lower()) and _holds_anchor(value):
        return True
    return not _holds_actions(value) and (key in _NOTES or not intended_key(key, known))


def intended_key(key: str, known: Collection[str]) -> str:
    """Return the action or setting that a key names or misspells, or an empty text."""
    near = difflib.get_close_matches(key, sorted({*known, *_ACTIONS, *_SETTINGS}), 1, _CLOSE)
    return near[0] if near and near[0] not in _NOTES else ""


def _holds_anchor(tree: Tree) -> bool:
    match tree:
        case Mapping():
            return tree.is_anchored or any(_holds_anchor(value) for _, value in tree.pairs)
        case Sequence():
            return tree.is_anchored or any(map(_holds_anchor, tree.items))
        case Scalar():
            return False


def _holds_actions(tree: Tree) -> bool:
    match tree:
        case Mapping():
            return any(key.text in _ACTIONS or _holds_actions(value) for key, value in tree.pairs)
        case Sequence():
            return any(map(_holds_actions, tree.items))
        case Scalar():
            return False
