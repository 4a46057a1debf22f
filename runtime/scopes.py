"""The four layers of variables: topic, phase, session, global; looked up innermost first.

A write goes to the nearest enclosing scope that declares the name, else to the topic (or wherever the script's
`default_scope` says).
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from runtime.program import Program
from runtime.state import Cell, Source, State
from scripts.model import Declaration, Scope
from scripts.values import Value, ValueRefused, ValueType, bounded, coerce, infer_type

CELLS_MAX = 1_000  # in one scope


class WriteRefused(ValueError):
    """A write that a variable's type, the bounds or the position do not allow; the store is unchanged."""


class Write(Struct, frozen=True):
    """A write that took place."""

    scope: Scope
    name: str
    old: Value
    new: Value
    type: ValueType


class Scopes:
    """The variables of one session, over its state and its user's global variables."""

    def __init__(self, program: Program, state: State, global_cells: dict[str, Cell]) -> None:
        self._program = program
        self._state = state
        self._global_cells = global_cells

    def cells(self, scope: Scope) -> dict[str, Cell]:
        """The live cells of a scope; of the global one only those a session has written."""
        match scope:
            case "global":
                return self._global_cells
            case "session":
                return self._state.session_cells
            case "phase":
                return self._state.phase_cells
            case "topic":
                return self._state.topic_cells

    def find(self, name: str) -> tuple[Scope, Value] | None:
        """The scope and value a name has here, or None. A null counts as a value of its scope."""
        for scope in ("topic", "phase", "session", "global"):
            cell = self.cells(scope).get(name)
            if cell is not None:
                return scope, cell.value
        declared = self._program.global_names.get(name)
        if declared is not None and declared.value is not None:
            return "global", declared.value
        return None

    def declaration(self, scope: Scope, name: str) -> Declaration | None:
        """What the script says of a name in a scope."""
        return self._declared(scope).get(name)

    def _declared(self, scope: Scope) -> Mapping[str, Declaration]:
        match scope:
            case "global":
                return self._program.global_names
            case "session":
                return self._program.session_names
            case "phase":
                return self._program.phase_names.get(self._state.phase, {})
            case "topic":
                return self._program.topic_names.get((self._state.phase, self._state.topic), {})

    def target(self, name: str) -> Scope:
        """The scope a write of this name goes to."""
        for scope in ("topic", "phase", "session", "global"):
            if name in self._declared(scope):
                return scope
        return self._program.script.default_scope

    def write(self, scope: Scope, name: str, value: object, source: Source, now: datetime) -> Write:
        """Writes one cell. Raises WriteRefused and changes nothing where the value does not fit."""
        if (scope == "topic" and not self._state.topic) or (scope in {"phase", "topic"} and not self._state.phase):
            raise WriteRefused(f"there is no {scope} to keep `{name}` in")
        new = self._fitting(scope, name, value)
        cells = self.cells(scope)
        if name not in cells and len(cells) >= CELLS_MAX:
            raise WriteRefused(f"a scope holds at most {CELLS_MAX} variables")
        old = cells[name].value if name in cells else None
        declared = self.declaration(scope, name)
        kind: ValueType = declared.type if declared and declared.type and new is not None else infer_type(new)
        cells[name] = Cell(new, kind, now, source)
        return Write(scope, name, old, new, kind)

    def _fitting(self, scope: Scope, name: str, value: object) -> Value:
        declared = self.declaration(scope, name)
        try:
            plain = bounded(value)
            if declared is None or (declared.type is None and not declared.choices):
                return plain
            return coerce(plain, declared.type or "choice", declared.choices)
        except ValueRefused as refused:
            raise WriteRefused(f"`{name}`: {refused}") from refused

    def flat(self) -> dict[str, Value]:
        """Every name with the value it has here."""
        merged: dict[str, Value] = {
            name: each.value for name, each in self._program.global_names.items() if each.value is not None
        }
        for scope in ("global", "session", "phase", "topic"):
            merged |= {name: cell.value for name, cell in self.cells(scope).items()}
        return merged
