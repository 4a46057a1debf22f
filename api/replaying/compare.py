"""Two accounts of one turn side by side: what happened first in one and not in the other."""

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from runtime.events import Body, Ended, Migrated, Remembered, Warned
from runtime.state import State, decode
from store.rows import TurnRow

DIFFERENCES_MAX = 20  # told of one turn
ALIGNED_MAX = 200  # events from the first difference on that are put side by side
_SHOWN = frozenset({"message", "variable", "emitted", "wait", "ended"})
"""What users and applications notice; the rest is the script's own affair."""
_COMPARED = _SHOWN | {
    "scope_entered",
    "scope_left",
    "scope_skipped",
    "action_entered",
    "action_left",
    "action_skipped",
    "variant",
    "exit",
    "jump",
    "warning",
    "interrupted",
    "repaired",
    "detected",
    "remembered",
    "migrated",
}
"""The course of a turn. Kinds of events that came later only explain it, and older records have none of them."""


class Difference(Struct, frozen=True):
    """Something that differs; null where one of the two has nothing there. `action` is the one it happened at."""

    what: str
    action: str
    recorded: Any
    now: Any


class _Happening(Struct, frozen=True):
    """Something that happened in a turn; two that mean the same have the same key."""

    what: str
    action: str
    value: Any
    key: bytes


def differences(recorded: TurnRow, now: TurnRow, *, same_script: bool) -> tuple[Difference, ...]:
    """What differs between a turn and its replay, in the order of the turn; ids and times do not count.

    Of `same_script` everything is compared; else what is said, written, told and waited for, wherever it stands in the
    script.
    """
    found = list(_happened(recorded, now, same_script=same_script))
    if same_script and not found:
        found += _left(recorded, now)
    return tuple(found[:DIFFERENCES_MAX])


def _happened(recorded: TurnRow, now: TurnRow, *, same_script: bool) -> Iterable[Difference]:
    one, other = _account(recorded, same_script=same_script), _account(now, same_script=same_script)
    alike = zip((each.key for each in one), (each.key for each in other), strict=False)
    first = sum(1 for _ in itertools.takewhile(lambda keys: keys[0] == keys[1], alike))
    one, other = one[first : first + ALIGNED_MAX], other[first : first + ALIGNED_MAX]
    matcher = difflib.SequenceMatcher(None, [each.key for each in one], [each.key for each in other], autojunk=False)
    for tag, start, end, start_now, end_now in matcher.get_opcodes():
        if tag != "equal":
            yield from _paired(one[start:end], other[start_now:end_now])


def _paired(one: Sequence[_Happening], other: Sequence[_Happening]) -> Iterable[Difference]:
    """Those in the same place belong together where they are of one kind."""
    one, other = list(one), list(other)
    while one or other:
        if one and other and one[0].what == other[0].what:
            before, after = one.pop(0), other.pop(0)
            yield Difference(before.what, after.action or before.action, before.value, after.value)
        elif one:
            gone = one.pop(0)
            yield Difference(gone.what, gone.action, gone.value, None)
        else:
            more = other.pop(0)
            yield Difference(more.what, more.action, None, more.value)


def _account(row: TurnRow, *, same_script: bool) -> list[_Happening]:
    messages = {message.seq: message for message in row.messages}
    found = []
    for event in row.events:
        if event.kind == "message" and (message := messages.get(event.data["message"])) is not None:
            said = {"role": message.role, "content": message.content, "metadata": message.metadata}
            found.append(_happening("message", message.action_id or "", said, same_script))
        elif event.kind == "variable" and event.data["variable"] < len(row.variables):
            write = row.variables[event.data["variable"]]
            written = {"name": write.name, "scope": write.scope, "value": write.new}
            found.append(_happening("variable", write.action_id or "", written, same_script))
        elif event.kind not in {"message", "variable"} and event.kind in (_COMPARED if same_script else _SHOWN):
            found.append(_event(event.kind, event.data, same_script))
    return found


def _event(kind: str, data: Mapping[str, Any], same_script: bool) -> _Happening:
    """An event without what may be worded otherwise in another version of Cuebook."""
    try:
        body = msgspec.convert({"kind": kind, **data}, Body)
    except msgspec.ValidationError:  # one that this version does not know
        return _happening(kind, "", dict(data), same_script)
    if isinstance(body, Warned):
        body = msgspec.structs.replace(body, message="")
    if isinstance(body, Remembered):
        body = msgspec.structs.replace(body, unit_id="")
    if isinstance(body, Ended):  # older records do not say what ended it
        body = msgspec.structs.replace(body, by=None, action_id="")
    if isinstance(body, Migrated):
        body = msgspec.structs.replace(body, why=())
    value = {name: part for name, part in msgspec.to_builtins(body).items() if name not in {"kind", "action_id"}}
    return _happening(kind, getattr(body, "action_id", ""), value, same_script)


def _happening(what: str, action: str, value: Any, same_script: bool) -> _Happening:
    key = msgspec.json.encode([what, action if same_script else "", value], order="deterministic")
    return _Happening(what, action, value, key)


# -- what a turn left -------------------------------------------------------------------------------------------------


def _left(recorded: TurnRow, now: TurnRow) -> Iterable[Difference]:
    """Where the turn left the session, and with what: the same events may have been recorded with something else."""
    for what, one, other in zip(("status", "place", "wait"), _stand(recorded), _stand(now), strict=True):
        if one != other:
            yield Difference(what, now.action_id or "", one, other)
    before, after = (_values(decode(bytes(row.state))) for row in (recorded, now))
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield Difference("variable", now.action_id or "", before.get(name), after.get(name))


def _stand(row: TurnRow) -> tuple[Any, ...]:
    return row.status, f"{row.phase_id or ''}/{row.topic_id or ''}/{row.action_id or ''}".strip("/"), row.wait_kind


def _values(state: State) -> dict[tuple[str, str], Any]:
    layers = {"session": state.session_cells, "phase": state.phase_cells, "topic": state.topic_cells}
    layers["global"] = state.global_cells
    return {
        (layer, name): {"name": name, "scope": layer, "value": cell.value}
        for layer, cells in layers.items()
        for name, cell in cells.items()
    }
