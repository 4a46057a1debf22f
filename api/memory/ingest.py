"""Turns committed turns into changes of a memory: messages, notes of scripts, visits by recalls, rewinds and clears.

The committed turns are the only source, so a crash loses nothing: turns that are not ingested yet are ingested before
the next query of that user, or in the background.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

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
    """Create the group of a session when its first turn is ingested."""
    if behind.session_id in loaded.groups:
        return
    draft.group(behind.session_id, behind.session_id, behind.created_at)
    draft.mark_ingested(behind.session_id, _fork_turn(behind.metadata))
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


def _fork_turn(metadata: Mapping[str, object]) -> int:
    """Return the last turn that a session shares with the one it was forked from, or -1 if it is no fork."""
    forked = metadata.get("forkedFrom")
    turn = forked.get("turn") if isinstance(forked, dict) else None
    return turn if isinstance(turn, int) else -1


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
                    draft.add(unit, turn.turn, message.seq)
        for event in msgspec.json.decode(turn.events, type=list[_Event]):
            _ingest_event(draft, loaded, session_id, turn, event, plan)
        draft.mark_ingested(session_id, turn.turn)


def _ingest_event(
    draft: MemoryTransaction, loaded: LoadedMemory, session_id: str, turn: AdmissionRow, event: _Event, plan: MemoryPlan
) -> None:
    if event.kind == "remembered" and plan.remember != "nothing" and not plan.is_off:
        note = msgspec.json.decode(event.data, type=Remembered)
        unit = draft.add(note_unit(session_id, note, turn.finished_at), turn.turn, is_said=False)
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


def _supersede(draft: MemoryTransaction, loaded: LoadedMemory, unit: MemoryUnit, about: str) -> None:
    """Supersede earlier notes about the same subject."""
    for earlier in (*loaded.units.values(), *draft.units.values()):
        is_same = earlier.metadata.get(ABOUT) == about and earlier.sequence != unit.sequence
        if is_same and draft.is_valid(earlier.sequence):  # of two notes in one batch the first is superseded only once
            draft.supersede(earlier.sequence, unit.unit_id, unit.creation_time)


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
