"""From turns to units: what was said, what a script remembered, what it recalled, and what was taken back.

Everything follows from the turns themselves, so nothing is lost however a process ends: what is not admitted yet is
admitted before the next query of that user, or in the background.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from api.memory.draft import Draft
from api.memory.loaded import Loaded
from runtime.memory.local import ABOUT
from runtime.memory.units import MemoryUnit, Trust
from scripts.memories import MemoryPlan
from scripts.values import Value
from store.memory.rows import AdmissionRow, BehindRow
from store.rows import MessageRow

_TRUST: Mapping[str, Trust] = {"user": "told", "assistant": "told", "system": "own", "tool": "foreign"}


class _Remembered(Struct, frozen=True):
    """The event of a note."""

    unit_id: str
    text: str
    source: str = ""
    trust: Trust = "own"
    about: str = ""
    pinned: bool = False
    metadata: Mapping[str, Value] = {}


class _Found(Struct, frozen=True):
    unit_id: str


class _Recalled(Struct, frozen=True):
    """The event of something recalled."""

    units: tuple[_Found, ...] = ()


class _Intervened(Struct, frozen=True):
    """The event of an intervention; a rewind names the turn that it goes back to."""

    what: str
    turn: int | None = None


class _Event(Struct, frozen=True):
    kind: str
    data: msgspec.Raw


def begin(draft: Draft, loaded: Loaded, behind: BehindRow, plan: MemoryPlan) -> None:
    """Make the group of a session that comes to memory for the first time."""
    if behind.session_id in loaded.groups:
        return
    draft.group(behind.session_id, behind.session_id, behind.created_at)
    forked_at = _forked_at(behind.metadata)
    draft.admitted(behind.session_id, forked_at)
    draft.make_room(behind.session_id, plan.short_term or None)
    earlier = latest_session(loaded, behind.session_id) if plan.restore == "latest" else ""
    if earlier:
        draft.restore(behind.session_id, loaded.order.get(earlier, []))


def latest_session(loaded: Loaded, besides: str) -> str:
    """The group that was made last, other than one; empty where there is none."""
    groups = [group for group in loaded.groups.values() if group.group_id != besides]
    return max(groups, key=lambda group: (group.created_at, group.group_id)).group_id if groups else ""


def _forked_at(metadata: Mapping[str, object]) -> int:
    """The last turn that a session has from the one it was forked from; -1 where it has none."""
    forked = metadata.get("forkedFrom")
    turn = forked.get("turn") if isinstance(forked, dict) else None
    return turn if isinstance(turn, int) else -1


def admit(draft: Draft, loaded: Loaded, session_id: str, turns: Sequence[AdmissionRow], plan: MemoryPlan) -> None:
    """Take turns of a session into a draft, in their order."""
    for turn in turns:
        if plan.remember == "messages" and not plan.is_off:
            for message in msgspec.json.decode(turn.messages, type=list[MessageRow]):
                if message.content.strip():
                    draft.add(_said(session_id, message), turn.turn, message.seq)
        for event in msgspec.json.decode(turn.events, type=list[_Event]):
            _happened(draft, loaded, session_id, turn, event, plan)
        draft.admitted(session_id, turn.turn)


def _happened(
    draft: Draft, loaded: Loaded, session_id: str, turn: AdmissionRow, event: _Event, plan: MemoryPlan
) -> None:
    if event.kind == "remembered" and plan.remember != "nothing" and not plan.is_off:
        noted = msgspec.json.decode(event.data, type=_Remembered)
        unit = draft.add(_noted(session_id, noted, turn.finished_at), turn.turn, is_said=False)
        if noted.about:
            _supersede(draft, loaded, unit, noted.about)
    elif event.kind == "recalled":
        found = msgspec.json.decode(event.data, type=_Recalled)
        sequences = [loaded.sequence_of[each.unit_id] for each in found.units if each.unit_id in loaded.sequence_of]
        draft.visit(sequences)
        draft.recall(session_id, sequences)
    elif event.kind == "intervention":
        done = msgspec.json.decode(event.data, type=_Intervened)
        if done.what == "rewind" and done.turn is not None:
            _rewind(draft, loaded, session_id, done.turn)


def _supersede(draft: Draft, loaded: Loaded, unit: MemoryUnit, about: str) -> None:
    """An earlier note about the same holds no more."""
    for earlier in (*loaded.units.values(), *draft.added()):
        is_same = earlier.metadata.get(ABOUT) == about and earlier.sequence != unit.sequence
        if is_same and draft.holds(earlier.sequence):  # of two notes in one batch the first is superseded only once
            draft.supersede(earlier.sequence, unit.unit_id, unit.creation_time)


def _rewind(draft: Draft, loaded: Loaded, session_id: str, turn: int) -> None:
    """What was said and noted after a turn is no memory."""
    rows = [row for row in (*loaded.rows.values(), *draft.rows()) if row.session_id == session_id]
    draft.take_back([row.sequence for row in rows if row.turn is not None and row.turn > turn])


def unit_id_of(session_id: str, message: int) -> str:
    """The id of the unit that is a message."""
    return f"{session_id}:{message}"


def _said(session_id: str, message: MessageRow) -> MemoryUnit:
    said_at = message.created_at
    return MemoryUnit(
        unit_id=unit_id_of(session_id, message.seq),
        content=message.content,
        source=_speaker(message),
        creation_time=said_at,
        end_time=said_at,
        group_id=session_id,
        trust=_TRUST[message.role],
    )


def _speaker(message: MessageRow) -> str:
    """Who said it: the name of its speaker where it has one, else the role."""
    speaker = message.metadata.get("speaker")
    name = speaker.get("name") if isinstance(speaker, dict) else None
    return str(name) if name else message.role


def _noted(session_id: str, noted: _Remembered, at: datetime) -> MemoryUnit:
    return MemoryUnit(
        unit_id=noted.unit_id,
        content=noted.text,
        source=noted.source or "script",
        creation_time=at,
        end_time=at,
        metadata={**noted.metadata, **({ABOUT: noted.about} if noted.about else {})},
        group_id=session_id,
        never_delete=noted.pinned,
        trust=noted.trust,
    )
