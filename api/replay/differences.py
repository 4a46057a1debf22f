"""Compares a recorded turn with its replay, and lists the differences."""

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from runtime.state.events import Body, Ended, Migrated, Remembered, Warned
from runtime.state.state import State, decode
from store.interface.rows import TurnRow

DIFFERENCES_MAX = 20  # reported per turn
ALIGNED_MAX = 200  # events compared from the first difference on
_SHOWN = frozenset({"message", "variable", "emitted", "wait", "ended"})
"""Events that users and applications observe; the others are internal to the script."""
_COMPARED = _SHOWN | {
    "scope_entered", "scope_left", "scope_skipped", "action_entered", "action_left", "action_skipped",
    "variant", "exit", "jump", "warning", "interrupted", "repaired", "detected", "remembered", "migrated",
}  # fmt: skip
"""Events that make up a turn. Newer kinds of events only explain it, and older sessions do not contain them."""


class TurnDifference(Struct, frozen=True):
    """One difference; null on a side without a counterpart. `action` is the action of the event."""

    what: str
    action: str
    recorded: Any
    now: Any


class _ComparableEvent(Struct, frozen=True):
    """An event of a turn; equivalent events have the same key."""

    what: str
    action: str
    value: Any
    key: bytes


def differences(recorded: TurnRow, now: TurnRow, *, same_script: bool) -> tuple[TurnDifference, ...]:
    """Return the differences between a turn and its replay, in the order of the turn; ids and times are ignored.

    With `same_script` everything is compared; otherwise only messages, variables, emitted events, waits and ends,
    wherever they are in the script.
    """
    found = list(_event_differences(recorded, now, same_script=same_script))
    if same_script and not found:
        found += _state_differences(recorded, now)
    return tuple(found[:DIFFERENCES_MAX])


def _event_differences(recorded: TurnRow, now: TurnRow, *, same_script: bool) -> Iterable[TurnDifference]:
    one, other = _events(recorded, same_script=same_script), _events(now, same_script=same_script)
    alike = zip((each.key for each in one), (each.key for each in other), strict=False)
    first = sum(1 for _ in itertools.takewhile(lambda keys: keys[0] == keys[1], alike))
    one, other = one[first : first + ALIGNED_MAX], other[first : first + ALIGNED_MAX]
    matcher = difflib.SequenceMatcher(None, [each.key for each in one], [each.key for each in other], autojunk=False)
    for tag, start, end, start_now, end_now in matcher.get_opcodes():
        if tag != "equal":
            yield from _pair(one[start:end], other[start_now:end_now])


def _pair(one: Sequence[_ComparableEvent], other: Sequence[_ComparableEvent]) -> Iterable[TurnDifference]:
    """Pair events in the same position that are of the same kind."""
    one, other = list(one), list(other)
    while one or other:
        if one and other and one[0].what == other[0].what:
            before, after = one.pop(0), other.pop(0)
            yield TurnDifference(before.what, after.action or before.action, before.value, after.value)
        elif one:
            missing = one.pop(0)
            yield TurnDifference(missing.what, missing.action, missing.value, None)
        else:
            extra = other.pop(0)
            yield TurnDifference(extra.what, extra.action, None, extra.value)


def _events(row: TurnRow, *, same_script: bool) -> list[_ComparableEvent]:
    messages = {message.seq: message for message in row.messages}
    found = []
    for event in row.events:
        if event.kind == "message" and (message := messages.get(event.data["message"])) is not None:
            content = {"role": message.role, "content": message.content, "metadata": message.metadata}
            found.append(_comparable("message", message.action_id or "", content, same_script))
        elif event.kind == "variable" and event.data["variable"] < len(row.variables):
            write = row.variables[event.data["variable"]]
            value = {"name": write.name, "scope": write.scope, "value": write.new}
            found.append(_comparable("variable", write.action_id or "", value, same_script))
        elif event.kind not in {"message", "variable"} and event.kind in (_COMPARED if same_script else _SHOWN):
            found.append(_event(event.kind, event.data, same_script))
    return found


def _event(kind: str, data: Mapping[str, Any], same_script: bool) -> _ComparableEvent:
    """Return an event without the texts that may differ between versions of Cuebook."""
    try:
        body = msgspec.convert({"kind": kind, **data}, Body)
    except msgspec.ValidationError:  # an event that this version does not know
        return _comparable(kind, "", dict(data), same_script)
    if isinstance(body, Warned):
        body = msgspec.structs.replace(body, message="")
    if isinstance(body, Remembered):
        body = msgspec.structs.replace(body, unit_id="")
    if isinstance(body, Ended):  # older sessions do not record the cause
        body = msgspec.structs.replace(body, by=None, action_id="")
    if isinstance(body, Migrated):
        body = msgspec.structs.replace(body, why=())
    value = {name: part for name, part in msgspec.to_builtins(body).items() if name not in {"kind", "action_id"}}
    return _comparable(kind, getattr(body, "action_id", ""), value, same_script)


def _comparable(what: str, action: str, value: Any, same_script: bool) -> _ComparableEvent:
    key = msgspec.json.encode([what, action if same_script else "", value], order="deterministic")
    return _ComparableEvent(what, action, value, key)


# -- the state after a turn -------------------------------------------------------------------------------------------


def _state_differences(recorded: TurnRow, now: TurnRow) -> Iterable[TurnDifference]:
    """Yield the differences of status, position, wait and variables after the turn, which events may not show."""
    for what, one, other in zip(("status", "place", "wait"), _position(recorded), _position(now), strict=True):
        if one != other:
            yield TurnDifference(what, now.action_id or "", one, other)
    before, after = (_values(decode(bytes(row.state))) for row in (recorded, now))
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield TurnDifference("variable", now.action_id or "", before.get(name), after.get(name))


def _position(row: TurnRow) -> tuple[Any, ...]:
    return row.status, f"{row.phase_id or ''}/{row.topic_id or ''}/{row.action_id or ''}".strip("/"), row.wait_kind


def _values(state: State) -> dict[tuple[str, str], Any]:
    return {
        (layer, name): {"name": name, "scope": layer, "value": cell.value}
        for layer, cells in state.layers.items()
        for name, cell in cells.items()
    }
