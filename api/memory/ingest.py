"""Turns committed turns into changes of a memory: messages, notes of scripts, visits by recalls, rewinds and clears.

The committed turns are the only source, so a crash loses nothing: turns that are not ingested yet are ingested before
the next query of that user, or in the background.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.memory.loaded_memory import LoadedMemory
from api.memory.row_mapping import Origin
from api.memory.transaction import MemoryTransaction
from runtime.memory.local_memory import note_unit, speaker_of
from runtime.memory.units import ABOUT, MemoryUnit, new_unit
from runtime.state.events import Remembered
from runtime.state.recall_types import Trust
from scripts.model.memory_plan import MemoryPlan
from store.interface.memory_rows import AdmissionRow, BehindRow, GroupRow
from store.interface.rows import MessageRow

_TRUST: Mapping[str, Trust] = {"user": "conversation", "assistant": "conversation", "system": "own", "tool": "foreign"}


class _RecalledUnit(Struct, frozen=True):
    unit_id: str


class _RecalledEvent(Struct, frozen=True):
    """The event of a recall."""

    units: tuple[_RecalledUnit, ...] = ()


class _InterventionEvent(Struct, frozen=True):
    """The event of an intervention; for a rewind `turn` is the turn that it returns to."""

    what: str
    turn: int | None = None


class _Event(Struct, frozen=True):
    kind: str
    data: msgspec.Raw


def begin(draft: MemoryTransaction, loaded: LoadedMemory, behind: BehindRow, plan: MemoryPlan) -> None:
    """Create the group of a session when its first turn is ingested; the collection that an imported memory has of it
    becomes this group.
    """
    if loaded.session_of(behind.session_id) is not None:
        return
    draft.group(behind.session_id, behind.session_id, behind.created_at)
    draft.mark_ingested(behind.session_id, _fork_turn(loaded, behind.metadata))
    draft.set_capacity(behind.session_id, plan.short_term or None)
    earlier = latest_session(loaded, behind.session_id) if plan.restore == "latest" else ""
    if earlier:
        draft.restore(behind.session_id, loaded.order.get(earlier, []))


def latest_session(loaded: LoadedMemory, besides: str) -> str:
    """Return the newest group with messages or notes other than `besides`, or an empty text if there is none."""
    groups = [
        group for group in loaded.groups.values() if group.group_id != besides and loaded.order.get(group.group_id)
    ]
    return newest_of(groups)


def newest_of(groups: Collection[GroupRow]) -> str:
    """Return the group created last, or an empty text if there is none."""
    return max(groups, key=lambda group: (group.created_at, group.group_id)).group_id if groups else ""


def _fork_turn(loaded: LoadedMemory, metadata: Mapping[str, object]) -> int:
    """Return the last turn that a session shares with the one it was forked from; -1 if it is no fork, or if this
    memory has not the other session, as after an import.
    """
    match metadata.get("forkedFrom"):
        case {"sessionId": str() as session_id, "turn": int() as turn} if session_id in loaded.groups:
            return turn
        case _:
            return -1


def ingest_turns(
    draft: MemoryTransaction, loaded: LoadedMemory, session_id: str, turns: Sequence[AdmissionRow], plan: MemoryPlan
) -> None:
    """Add turns of a session to a transaction, in their order."""
    for turn in turns:
        if plan.remember == "messages" and not plan.is_off:
            for message in msgspec.json.decode(turn.messages, type=list[MessageRow]):
                if message.content.strip():
                    unit = new_unit(
                        session_id,
                        unit_id_of(session_id, message.seq),
                        message.content,
                        message.created_at,
                        source=speaker_of(message.role, message.metadata),
                        trust=_TRUST[message.role],
                    )
                    draft.add(_in_place(draft, loaded, unit), turn.turn, message.seq)
        for event in msgspec.json.decode(turn.events, type=list[_Event]):
            _ingest_event(draft, loaded, session_id, turn, event, plan)
        draft.mark_ingested(session_id, turn.turn)


def _ingest_event(
    draft: MemoryTransaction, loaded: LoadedMemory, session_id: str, turn: AdmissionRow, event: _Event, plan: MemoryPlan
) -> None:
    if event.kind == "remembered" and plan.remember != "nothing" and not plan.is_off:
        note = msgspec.json.decode(event.data, type=Remembered)
        unit = _in_place(draft, loaded, note_unit(session_id, note, turn.finished_at))
        unit = draft.add(unit, turn.turn, is_said=False)
        if note.about:
            _supersede(draft, loaded, unit, note.about)
    elif event.kind == "recalled":
        found = msgspec.json.decode(event.data, type=_RecalledEvent)
        sequences = [loaded.sequence_of[each.unit_id] for each in found.units if each.unit_id in loaded.sequence_of]
        draft.visit(sequences)
        draft.recall(session_id, sequences)
    elif event.kind == "intervention":
        intervention = msgspec.json.decode(event.data, type=_InterventionEvent)
        if intervention.what == "rewind" and intervention.turn is not None:
            _rewind(draft, loaded, session_id, intervention.turn)
        elif intervention.what == "clear":
            _clear(draft, loaded, session_id)


def _in_place(draft: MemoryTransaction, loaded: LoadedMemory, unit: MemoryUnit) -> MemoryUnit:
    """Return a unit of a session, and remove the one that an imported memory has of it.

    A unit with its id in another session is that of which an imported copy was made; this one gets an id of its own.
    """
    known = loaded.get(unit.unit_id)
    if known is None:
        return unit
    if known.group_id != unit.group_id:
        return replace(unit, unit_id=str(uuid5(UUID(unit.group_id), unit.unit_id)))
    draft.retract([known.sequence])
    return replace(unit, visit_count=known.visit_count, never_delete=known.never_delete or unit.never_delete)


def _supersede(draft: MemoryTransaction, loaded: LoadedMemory, unit: MemoryUnit, about: str) -> None:
    """Put a new note among those about the same subject, each of which is superseded by the next: the note of an
    imported session may be older than others.
    """
    known = (*loaded.units.values(), *draft.units.values())
    same = [each.sequence for each in known if each.metadata.get(ABOUT) == about and each.sequence != unit.sequence]
    others = [draft.unit(sequence) for sequence in same if draft.is_there(sequence)]
    later = {each.unit_id: each for each in others if each.creation_time > unit.creation_time}
    for each in others:
        if each.unit_id not in later and (each.superseded_by is None or each.superseded_by in later):
            draft.supersede(each.sequence, unit.unit_id, unit.creation_time)
    if later:
        following = min(later.values(), key=lambda each: each.creation_time)
        draft.supersede(unit.sequence, following.unit_id, following.creation_time)


def _rewind(draft: MemoryTransaction, loaded: LoadedMemory, session_id: str, turn: int) -> None:
    """Remove the messages and notes of the session after a turn."""
    of_session = _origins(draft, loaded, session_id)
    draft.retract(sequence for sequence, origin in of_session if origin.turn is not None and origin.turn > turn)


def _clear(draft: MemoryTransaction, loaded: LoadedMemory, session_id: str) -> None:
    """Remove the messages of the session, which models must not see again; notes stay, as variables do."""
    of_session = _origins(draft, loaded, session_id)
    draft.retract(sequence for sequence, origin in of_session if origin.message is not None)


def _origins(draft: MemoryTransaction, loaded: LoadedMemory, session_id: str) -> list[tuple[int, Origin]]:
    """Return the units of a session, with where they come from."""
    origins = loaded.origins | draft.origins
    return [(sequence, origin) for sequence, origin in origins.items() if origin.session_id == session_id]


def unit_id_of(session_id: str, message: int) -> str:
    """Return the id of the unit of a message."""
    return f"{session_id}:{message}"
