"""The four scopes of variables: topic, phase, session, global; lookups go from the innermost outwards.

A write goes to the nearest enclosing scope that declares the name, else to the topic (or the script's
`default_scope`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from runtime.state.events import VariableChanged
from runtime.state.program import Program
from runtime.state.state import Cell, Source, State
from scripts.expressions.expressions import is_reserved
from scripts.expressions.values import Value, ValueRefused, coerce, shorten, to_value
from scripts.model.base import ID_CHARS_MAX
from scripts.model.script import Scope
from scripts.model.variables import Declaration, Output, taken_type

CELLS_MAX = 1_000  # in one scope


class WriteRefused(ValueError):
    """A write that a variable's type, the limits or the position do not allow; nothing is changed."""


def require_name(name: str) -> None:
    """Raise WriteRefused for an invalid variable name."""
    if not name or len(name) > ID_CHARS_MAX or is_reserved(name):
        raise WriteRefused(f"{shorten(name)} cannot be the name of a variable")


_Visible: TypeAlias = tuple[Scope, dict[str, Cell], Mapping[str, Declaration]]
"""A visible scope, its cells and its declarations."""


class Scopes:
    """The variables of one session, stored in its state."""

    def __init__(self, program: Program, state: State) -> None:
        self._program = program
        self._state = state

    def cells(self, scope: Scope) -> dict[str, Cell]:
        """Return the cells of a scope; the global scope has only those that a session has written."""
        match scope:
            case "global":
                return self._state.global_cells
            case "session":
                return self._state.session_cells
            case "phase":
                return self._state.phase_cells
            case "topic":
                call = self._state.call()
                return self._state.topic_cells if call is None else call.cells

    def _visible(self) -> tuple[_Visible, ...]:
        """Return the scopes of a lookup, innermost first.

        A skill sees its own scope and the global one, an interrupt and a detector also the phase's and the session's.
        """
        program, state = self._program, self._state
        call = state.call() if program.has_calls else None
        of_session: _Visible = ("session", state.session_cells, program.session_names)
        of_user: _Visible = ("global", state.global_cells, program.global_names)
        of_phase: _Visible = ("phase", state.phase_cells, program.phase_names.get(state.phase, {}))
        if call is None:
            declared = program.topic_names.get((state.phase, state.topic), {})
            return ("topic", state.topic_cells, declared), of_phase, of_session, of_user
        of_call: _Visible = ("topic", call.cells, program.topic_names.get(state.home(), {}))
        return (of_call, of_user) if call.skill else (of_call, of_phase, of_session, of_user)

    def find(self, name: str) -> tuple[Scope, Value] | None:
        """Return the scope and value of a name, or None. A null is a value too."""
        for scope, cells, _ in self._visible():
            if name in cells:
                return scope, cells[name].value
        declared = self._program.global_names.get(name)  # only global variables have their default before any write
        return None if declared is None or declared.value is None else ("global", declared.value)

    def declaration(self, scope: Scope, name: str) -> Declaration | None:
        """Return the declaration of a name in a scope, or None."""
        return self._program.declarations(scope, self._state.phase, self._state.home()).get(name)

    def target(self, name: str) -> Scope:
        """Return the scope that a write of this name goes to."""
        for scope, _, declared in self._visible():
            if name in declared:
                return scope
        call = self._state.call()
        if call is not None:
            return "session" if call.detector else "topic"  # a detector has no scope that outlives it
        return self._program.script.default_scope

    def cell(self, name: str) -> tuple[Scope, Cell] | None:
        """Return the scope and cell of a visible name, or None."""
        return next(((scope, cells[name]) for scope, cells, _ in self._visible() if name in cells), None)

    def address(self, name: str) -> Scope:
        """Return the scope where a name is declared or already set, else the session's: applications know no topics."""
        if name in self.declarations():
            return self.target(name)
        known = self.cell(name)
        return known[0] if known is not None else "session"

    def is_known(self, name: str) -> bool:
        """Return whether a name is declared or set where the session is."""
        return name in self.declarations() or self.cell(name) is not None

    def in_sight(self) -> dict[str, Scope]:
        """Return every visible name that has a cell, with its scope."""
        return {name: scope for scope, cells, _ in reversed(self._visible()) for name in cells}

    def declarations(self) -> dict[str, Declaration]:
        """Return every visible declared name, with its innermost declaration."""
        return {name: each for _, _, declared in reversed(self._visible()) for name, each in declared.items()}

    def write(
        self,
        scope: Scope,
        name: str,
        value: object,
        source: Source,
        now: datetime,
        by: tuple[str, str, str] | None = None,
        output: Output | None = None,
        action_id: str = "",
    ) -> VariableChanged:
        """Write one cell, and return the event of it, in which `action_id` wrote the variable.

        Its type is the declared one, else that of the `output` that gave the value, else inferred. Raises WriteRefused,
        without any change, if the value is invalid.
        """
        require_name(name)
        if (scope == "topic" and not self._state.topic) or (scope == "phase" and not self._state.phase):
            raise WriteRefused(f"there is no {scope} to store `{name}` in")
        phase, home = self._state.phase, self._state.home()
        declared = self._program.declarations(scope, phase, home).get(name)
        new = _fitting(name, value, declared)
        cells = self.cells(scope)
        before = cells.get(name)
        if before is None and len(cells) >= CELLS_MAX:
            raise WriteRefused(f"a scope holds at most {CELLS_MAX} variables")
        default = declared.value if declared is not None and scope == "global" else None
        kind = (declared.kind if declared is not None and new is not None else None) or taken_type(new, output)
        cells[name] = Cell(new, kind, now, source, by)
        old = default if before is None else before.value
        return VariableChanged(scope, name, old, new, kind, source, action_id, phase, home[1])

    def flat(self) -> dict[str, Value]:
        """Return every name with its value, of equal names that of the innermost scope that is visible."""
        merged: dict[str, Value] = {
            name: each.value for name, each in self._program.global_names.items() if each.value is not None
        }
        behind = [self._state.session_cells, self._state.phase_cells]  # what a skill does not see
        for cells in behind + [cells for _, cells, _ in reversed(self._visible())]:
            for name, cell in cells.items():
                merged[name] = cell.value
        return merged


def _fitting(name: str, value: object, declared: Declaration | None) -> Value:
    """Return a value as its declaration requires it. Raises WriteRefused."""
    kind = None if declared is None else declared.kind
    try:
        plain = to_value(value)
        return plain if declared is None or kind is None else coerce(plain, kind, declared.choices)
    except ValueRefused as refused:
        if declared is not None and declared.pii:  # the message of `refused` would quote the value
            raise WriteRefused(f"`{name}`: its value is no {kind or 'value that a variable can hold'}") from None
        raise WriteRefused(f"`{name}`: {refused}") from refused
