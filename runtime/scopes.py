"""The four layers of variables: topic, phase, session, global; looked up innermost first.

A write goes to the nearest enclosing scope that declares the name, else to the topic (or wherever the script's
`default_scope` says).
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from runtime.program import Program
from runtime.state import Cell, Source, State
from scripts.expressions import is_reserved
from scripts.model import Scope
from scripts.nodes import ID_CHARS_MAX
from scripts.values import DeclaredType, Value, ValueRefused, ValueType, bounded, coerce, shorten
from scripts.variables import Declaration, Output, taken_type

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


def require_name(name: str) -> None:
    """Raise WriteRefused for what cannot be the name of a variable."""
    if not name or len(name) > ID_CHARS_MAX or is_reserved(name):
        raise WriteRefused(f"{shorten(name)} cannot be the name of a variable")


class Scopes:
    """The variables of one session, over its state."""

    def __init__(self, program: Program, state: State) -> None:
        self._program = program
        self._state = state

    def cells(self, scope: Scope) -> dict[str, Cell]:
        """The live cells of a scope; of the global one only those a session has written."""
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

    @property
    def _in_sight(self) -> tuple[Scope, ...]:
        """The layers a name is looked up in, innermost first.

        A skill sees its own and the global one, an interrupt and a detector those and the session's.
        """
        call = self._state.call()
        if call is None:
            return "topic", "phase", "session", "global"
        return ("topic", "global") if call.skill else ("topic", "session", "global")

    def find(self, name: str) -> tuple[Scope, Value] | None:
        """The scope and value a name has here, or None. A null counts as a value of its scope."""
        for scope in self._in_sight:
            cell = self.cells(scope).get(name)
            if cell is not None:
                return scope, cell.value
        default = self._default("global", name)
        return None if default is None else ("global", default)

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
                return self._program.topic_names.get(self._state.home(), {})

    def target(self, name: str) -> Scope:
        """The scope a write of this name goes to."""
        for scope in self._in_sight:
            if name in self._declared(scope):
                return scope
        call = self._state.call()
        if call is not None:
            return "session" if call.detector else "topic"  # a detector has nothing of its own to keep
        return self._program.script.default_scope

    def cell(self, name: str) -> tuple[Scope, Cell] | None:
        """The scope and live cell of a name in sight, or None."""
        for scope in self._in_sight:
            if name in self.cells(scope):
                return scope, self.cells(scope)[name]
        return None

    def in_sight(self) -> dict[str, Scope]:
        """Every name with a live cell here, with the scope it is found in."""
        return {name: scope for scope in reversed(self._in_sight) for name in self.cells(scope)}

    def declarations(self) -> dict[str, Declaration]:
        """Every name that is declared in sight, with its innermost declaration."""
        return {name: each for scope in reversed(self._in_sight) for name, each in self._declared(scope).items()}

    def write(
        self,
        scope: Scope,
        name: str,
        value: object,
        source: Source,
        now: datetime,
        by: tuple[str, str, str] | None = None,
        output: Output | None = None,
    ) -> Write:
        """Writes one cell. Its type is the declared one, else that of the `output` which took the value, else inferred.

        Raises WriteRefused and changes nothing where the value does not fit.
        """
        require_name(name)
        if (scope == "topic" and not self._state.topic) or (scope in {"phase", "topic"} and not self._state.phase):
            raise WriteRefused(f"there is no {scope} to keep `{name}` in")
        new = self._fitting(scope, name, value)
        cells = self.cells(scope)
        if name not in cells and len(cells) >= CELLS_MAX:
            raise WriteRefused(f"a scope holds at most {CELLS_MAX} variables")
        old = cells[name].value if name in cells else self._default(scope, name)
        kind = (self._type(scope, name) if new is not None else None) or taken_type(new, output)
        cells[name] = Cell(new, kind, now, source, by)
        return Write(scope, name, old, new, kind)

    def _fitting(self, scope: Scope, name: str, value: object) -> Value:
        declared, kind = self.declaration(scope, name), self._type(scope, name)
        try:
            plain = bounded(value)
            return plain if declared is None or kind is None else coerce(plain, kind, declared.choices)
        except ValueRefused as refused:
            if declared is not None and declared.pii:  # the words would quote the value
                raise WriteRefused(f"`{name}`: its value is no {kind or 'value that a variable can hold'}") from None
            raise WriteRefused(f"`{name}`: {refused}") from refused

    def _type(self, scope: Scope, name: str) -> DeclaredType | None:
        """The type a name is declared with in a scope; choices alone make it a choice."""
        declared = self.declaration(scope, name)
        return None if declared is None else declared.kind

    def _default(self, scope: Scope, name: str) -> Value:
        """What a name without a cell holds: only a global one has its default without ever being written."""
        declared = self.declaration(scope, name) if scope == "global" else None
        return None if declared is None else declared.value

    def flat(self) -> dict[str, Value]:
        """Every name with the value it has here."""
        merged: dict[str, Value] = {
            name: each.value for name, each in self._program.global_names.items() if each.value is not None
        }
        for scope in ("global", "session", "phase", "topic"):
            merged |= {name: cell.value for name, cell in self.cells(scope).items()}
        return merged
