"""Decide whether a key that a format does not know may be ignored: comments may, behaviour may not."""

import difflib
import re
from collections.abc import Collection
from pathlib import Path

import msgspec

from scripts.yaml.parser import Scalar, Tree, inner_trees, pairs_within

_TABLES = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"), type=dict[str, frozenset[str]])
_ACTIONS, _SETTINGS, _NOTES = _TABLES["actions"], _TABLES["settings"], _TABLES["notes"]
_PARTS = frozenset({"steps", "goals", "topics", "stages", "phases", "rules", "skills", "forms", "interrupts"})
_NO, _YES = frozenset({"false", "no", "off", "0"}), frozenset({"true", "yes", "on", "1"})
_OFF = {"enabled": _NO, "enable": _NO, "active": _NO, "is_enabled": _NO, "is_active": _NO} | dict.fromkeys(
    ("disabled", "disable", "inactive", "skip", "skipped", "is_disabled"), _YES
)
SWITCH_FIX = "Remove this part of the script, or begin its lines with `#`."
_FOR_ANCHORS = re.compile(r"^[x._]-|^[._]|default|common|shared|template|anchor|alias|reus|definition")
_CLOSE = 0.75  # minimum similarity of a misspelt key to the correct one


def is_switched_off(key: str, value: Tree) -> bool:
    """Return whether a key says that its part of the script should not run: ``enabled: false``, ``disabled: true``."""
    return isinstance(value, Scalar) and value.text.strip().lower() in _OFF.get(key.lower(), ())


def is_note(key: str) -> bool:
    """Return whether a key of this name only describes something and changes no behaviour."""
    return key in _NOTES


def is_ignorable(key: str, value: Tree, known: Collection[str]) -> bool:
    """Return whether a session behaves the same without this key. `known` are the keys allowed in its place.

    False if the key names an action or a setting, is a misspelling of one, contains actions, or switches a part off.
    Parts under `defaults` or the like that are marked with `&name` may be ignored: they are repeated elsewhere.
    """
    if is_switched_off(key, value):
        return False
    if _FOR_ANCHORS.search(key.lower()) and _holds_anchor(value):
        return True
    is_meant = intended_key(key, known)
    if isinstance(value, Scalar) and is_meant in _PARTS - set(known):  # `step: 1` is no `steps`
        return True
    holds_actions = any(inner.text in _ACTIONS for inner, _ in pairs_within(value))
    return not holds_actions and (key in _NOTES or not is_meant)


def intended_key(key: str, known: Collection[str]) -> str:
    """Return the action or setting that a key names or misspells, or an empty text."""
    near = difflib.get_close_matches(key, sorted({*known, *_ACTIONS, *_SETTINGS}), 1, _CLOSE)
    return near[0] if near and near[0] not in _NOTES else ""


def _holds_anchor(tree: Tree) -> bool:
    return not isinstance(tree, Scalar) and (tree.is_anchored or any(map(_holds_anchor, inner_trees(tree))))
