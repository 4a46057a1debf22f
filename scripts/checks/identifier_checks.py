"""Check ids, and the names of variables, events, milestones and outcomes."""

from collections.abc import Iterable, Iterator

import regex

from scripts.checks.choice_checks import several_names
from scripts.expressions.expressions import is_reserved
from scripts.model.actions import Action, Ending, Signal
from scripts.model.base import ID_CHARS_MAX, Location
from scripts.model.diagnostics import Fault
from scripts.model.experiments import Arm, ExperimentPlan
from scripts.model.script import Detector, FormDefinition, Interrupt, Phase, Role, Script, Skill, Topic
from scripts.model.tools import ToolDefinition
from scripts.yaml.syntax_hints import hidden_character

_ID = regex.compile(r"[^\s/:\p{C}](?:[^/\p{C}]*[^\s/\p{C}])?")  # a name: sessions also store names of the older formats
_GLUED = regex.compile(r"(?P<name>[^\W\d]\w*)\s*[:;=：]")  # a name with its value, without the colon and the space
_LABEL = regex.compile(r"\w[\w.\-]*")
_LABEL_NOUNS = {"event": "an event", "milestone": "a milestone", "outcome": "an outcome"}
VARIABLE_NAME = regex.compile(r"[^\W\d]\w*")
"""The variable names of the native format."""
_OLDER_VARIABLE_NAME = regex.compile(r"[^\W\d][\w.\-（）()· ]*")

_Named = (
    Script | Phase | Topic | Skill | Action | Role | FormDefinition | ExperimentPlan | Arm | Interrupt | Detector
    | ToolDefinition
)  # fmt: skip


def is_id(name: str) -> bool:
    """Return whether a name can be an id."""
    return _ID.fullmatch(name) is not None and len(name) <= ID_CHARS_MAX


def id_faults(nodes: Iterable[_Named], kind: str, key: str = "") -> Iterator[Fault]:
    """Check the ids of nodes, which stand under a key with the name of their kind, or under another `key`."""
    seen: dict[str, Location] = {}
    for node in nodes:
        at = node.mark(key or kind)
        if not is_id(node.id):
            yield Fault("ID_INVALID", f"{node.id!r} is not a valid id", at, hidden_character(node.id))
        if node.id in seen:
            yield Fault("DUPLICATE_ID", f"duplicate {kind} {node.id}, first in line {seen[node.id].line}", at)
        seen.setdefault(node.id, at)


def variable_faults(name: str, at: Location, *, is_native: bool) -> Iterator[Fault]:
    """Check the name of a variable."""
    allowed = VARIABLE_NAME if is_native else _OLDER_VARIABLE_NAME
    if not allowed.fullmatch(name) or len(name) > ID_CHARS_MAX:
        names = several_names(name)
        glued = _GLUED.match(name)
        fix = f"Write a list: `[{', '.join(names)}]`." if names else ""
        fix = f"Write a colon and a space after `{glued['name']}`." if glued else fix
        fix = "Write a point in a number, such as 1.5." if name.isdecimal() else fix
        yield Fault("VARIABLE_NAME_INVALID", f"{name!r} is not a valid variable name", at, fix)
    elif is_reserved(name):
        yield Fault("RESERVED_NAME", f"the runtime reserves the name `{name}`", at)


def label_faults(label: str, node: Topic | Action | Signal | Ending, key: str) -> Iterator[Fault]:
    """Check a name for analysts or the application, which a file name or a URL may contain."""
    is_left_out = not label and key not in node.marks and key != "event"
    if not is_left_out and (not _LABEL.fullmatch(label) or len(label) > ID_CHARS_MAX):
        fix = "Use letters, digits, `_`, `-` and `.`, without blanks, such as `hand_over`."
        yield Fault("ID_INVALID", f"{label!r} is not a valid name of {_LABEL_NOUNS[key]}", node.mark(key), fix)
