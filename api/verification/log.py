"""The variables of a session, made once more from nothing but its log: the writes, and the scopes that came and went.

It is written apart from the machine, which keeps the same variables in its state: the two must agree after every turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from runtime.program import Program
from runtime.state import Cell, State
from scripts.model import Scope
from store.rows import EventRow, VariableRow

Held: TypeAlias = tuple[bytes, str]
"""A value, encoded so that 1 is not 1.0 and not true, and its type."""
Layer: TypeAlias = dict[str, Held]
Kept: TypeAlias = Mapping[str, Cell]

_encode = msgspec.json.Encoder(order="sorted").encode


class Log:
    """The variables of one session, turn by turn.

    Those of skills and interrupts under way are left out: the log does not tell two calls of one skill apart.
    """

    def __init__(self) -> None:
        self._layers: dict[Scope, Layer] | None = {"session": {}, "phase": {}, "topic": {}}
        self._callable: frozenset[str] = frozenset()

    def lose(self) -> None:
        """Something of the log is missing: what is kept is not known until a state tells it."""
        self._layers = None

    def follow(
        self, events: Sequence[EventRow], writes: Sequence[VariableRow], programs: Sequence[Program]
    ) -> Iterator[str]:
        """Goes on by a turn, which ran on these scripts; tells of writes that do not fit what was there before."""
        self._callable = frozenset(name for program in programs for name in _callable(program))
        for event in events:
            if event.kind == "variable":
                yield from self._write(writes[int(event.data["variable"])])
            elif event.kind in {"scope_entered", "scope_left"} and self._layers is not None:
                self._layers["topic"] = {}
                if event.data.get("scope") == "phase":
                    self._layers["phase"] = {}

    def _write(self, write: VariableRow) -> Iterator[str]:
        if self._layers is None or write.scope == "global" or self._is_of_call(write.scope, write.topic_id):
            return
        layer = self._layers[write.scope]
        old = layer.get(write.name)
        if (None if old is None else old[0]) != (None if write.old is None else _encode(write.old)):
            yield f"the {write.scope} variable `{write.name}` had another value before it was written"
        if write.new is None:
            layer.pop(write.name, None)
        else:
            layer[write.name] = _encode(write.new), write.type

    def _is_of_call(self, scope: Scope, topic_id: str | None) -> bool:
        return scope == "topic" and topic_id in self._callable

    def compare(self, state: State) -> Iterator[str]:
        """What of a state is not as the log has it. From then on it counts as the state has it."""
        kept: dict[Scope, Kept] = {
            "session": state.session_cells,
            "phase": state.phase_cells,
            "topic": state.topic_cells,
        }
        told = {scope: _held(cells) for scope, cells in kept.items()}
        if self._layers is not None:
            for scope, layer in self._layers.items():
                if not self._is_of_call(scope, state.topic):  # a skill and a topic of one name: the log has no more
                    yield from _differences(scope, layer, told[scope])
        self._layers = told


def global_differences(writes: Sequence[VariableRow], state: State) -> Iterator[str]:
    """What the user's own variables, as a turn left them, do not have of what the turn wrote to them."""
    written = {write.name: write for write in writes if write.scope == "global"}
    kept = _held(state.global_cells)
    for name, write in written.items():
        value = None if write.new is None else (_encode(write.new), write.type)
        if kept.get(name) != value:
            yield f"the global variable `{name}` is not as the turn wrote it"


def _callable(program: Program) -> Iterator[str]:
    """Ids that stand where a topic's does in writes, and are none."""
    yield from program.skills
    yield from program.interrupts
    yield from (watcher.id for watcher in program.script.watchers)


def _held(cells: Kept) -> Layer:
    return {name: (_encode(cell.value), cell.type) for name, cell in cells.items() if cell.value is not None}


def _differences(scope: Scope, log: Layer, state: Layer) -> Iterator[str]:
    for name in sorted(log.keys() | state.keys()):
        if log.get(name) == state.get(name):
            continue
        if name not in state:
            yield f"the {scope} variable `{name}` was written and is not in the state"
        elif name not in log:
            yield f"the {scope} variable `{name}` is in the state and was never written"
        else:
            yield f"the {scope} variable `{name}` has another value or type in the state than was written"
