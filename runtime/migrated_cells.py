"""The variables of a session that moves to another version of its script: renamed, fitted, dropped, given defaults."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.events import VariableChanged
from runtime.program import Program
from runtime.scopes import Scopes, WriteRefused
from runtime.state import Cell, Source, State
from scripts.model import Scope
from scripts.names import names_in
from scripts.renames import Path, Renames
from scripts.values import ValueRefused, coerce, infer_type, shorten
from scripts.variables import Declaration

LOCAL: tuple[Scope, ...] = ("topic", "phase", "session")  # innermost first
Declared: TypeAlias = Mapping[str, Declaration]
Layers: TypeAlias = dict[Scope, dict[str, Cell]]


class Blocked(Exception):
    """What keeps a session from moving; the message is for the operator."""


class Cells:
    """Moves cells, and keeps account of what became of them."""

    def __init__(self, old: Program, new: Program, renames: Renames, now: datetime) -> None:
        self._old = old
        self._new = new
        self._renames = renames
        self._now = now
        self._mentioned = names_in(new.script)
        self.notes: list[str] = []
        self.renamed = False

    def move(self, before: State, state: State, *, with_topic: bool) -> None:
        """Moves every layer of `before` into `state`, whose place is that of the new version. Raises Blocked."""
        was, now = _declared(self._old, before), _declared(self._new, state)
        scopes = [scope for scope in LOCAL if scope != "topic" or with_topic]
        moved: Layers = {scope: {} for scope in scopes}
        moved["global"] = dict(state.global_cells)
        strays: list[tuple[Scope, str, Cell]] = []
        for scope in scopes:
            for name, cell in _layers(before)[scope].items():
                last = self._name(name, cell, name in was[scope])
                if last is None:
                    continue
                target = next((each for each in (*scopes, "global") if last in now[each]), scope)
                if target == scope or last in now[scope] or name in was[target]:  # or was hidden by that one before
                    moved[scope][last] = self._fitting(last, cell, now[scope].get(last))
                else:
                    strays.append((target, last, cell))
        for target, name, cell in strays:
            if name not in moved[target]:
                moved[target][name] = self._fitting(name, cell, now[target].get(name))
                self.notes.append(f"`{name}` is a variable of the {target} now")
        for scope in scopes:
            self._defaults(moved[scope], was[scope], now[scope])
        state.session_cells, state.phase_cells = moved["session"], moved["phase"]
        state.global_cells = self._globals(moved["global"])
        if with_topic:
            state.topic_cells = moved["topic"]

    def of_call(self, cells: Mapping[str, Cell], old_home: Path, home: Path) -> dict[str, Cell]:
        """The variables of a skill or interrupt under way. Raises Blocked."""
        was = self._old.topic_names.get((old_home[0], old_home[1]), {})
        now = self._new.topic_names.get((home[0], home[1]), {})
        moved = {}
        for name, cell in cells.items():
            last = self._name(name, cell, name in was)
            if last is not None:
                moved[last] = self._fitting(last, cell, now.get(last))
        self._defaults(moved, was, now)
        return moved

    def start(self, state: State) -> None:
        """The variables that a session which has not begun was created with. Raises Blocked."""
        given = {self._renames.variable(name) or name: value for name, value in state.start_variables.items()}
        self.renamed = self.renamed or given.keys() != state.start_variables.keys()
        trial = Scopes(self._new, State(seed=0, locale=state.locale))
        for name, value in given.items():
            try:
                trial.write("global" if name in self._new.global_names else "session", name, value, "api", self._now)
            except WriteRefused as error:
                raise Blocked(str(error)) from error
        state.start_variables = given

    def _name(self, name: str, cell: Cell, was_declared: bool) -> str | None:
        """What a variable is called now; None where nothing knows it any more, or the arm of an experiment is gone."""
        last = self._renames.variable(name)
        if last is None or (was_declared and last not in self._mentioned):
            self.notes.append(f"`{name}` is gone, and its value with it")
            return None
        if last != name:
            self.renamed = True
            self.notes.append(f"`{name}` is `{last}` now")
        if self._is_arm_gone(last, cell):
            self.notes.append(
                f"the experiment `{last}` has no arm {shorten(cell.value)} any more: it draws another one"
            )
            return None
        return last

    def _is_arm_gone(self, name: str, cell: Cell) -> bool:
        plan = self._new.experiments.get(name)
        return plan is not None and cell.value not in plan.names

    def _writer(self, cell: Cell) -> Cell:
        """The cell with the action that wrote it as it is called now, if it is there."""
        if cell.by is None or not self._old.has_action(cell.by):
            return cell
        path = self._renames.path(cell.by)
        there = path is not None and len(path) == 3 and self._new.has_action((path[0], path[1], path[2]))
        by = (path[0], path[1], path[2]) if path is not None and there else None
        return cell if by == cell.by else msgspec.structs.replace(cell, by=by)

    def _fitting(self, name: str, cell: Cell, declared: Declaration | None) -> Cell:
        cell = self._writer(cell)
        if declared is None or declared.kind is None or cell.value is None:
            return cell
        try:
            value = coerce(cell.value, declared.kind, declared.choices)
        except ValueRefused as refused:
            why = f"its value is no {declared.kind}" if declared.pii else str(refused)
            raise Blocked(f"`{name}`: {why}") from refused
        if value == cell.value and type(value) is type(cell.value):
            return cell if cell.type == declared.kind else msgspec.structs.replace(cell, type=declared.kind)
        change = "" if declared.pii else f" {shorten(value)}"
        was = f"a {cell.type}" if declared.pii else shorten(cell.value)
        self.notes.append(f"`{name}` was {was} and is the {declared.kind}{change}")
        return Cell(value, declared.kind, self._now, "migrated", cell.by)

    def _defaults(self, cells: dict[str, Cell], was: Declared, now: Declared) -> None:
        """Sets what the new version declares with a value and the old one did not."""
        before = {self._renames.variable(name) for name, each in was.items() if each.value is not None}
        for name, each in now.items():
            if each.value is not None and name not in cells and name not in before:
                value = coerce(each.value, each.kind, each.choices) if each.kind is not None else each.value
                cells[name] = Cell(value, each.kind or infer_type(value), self._now, "default")
                self.notes.append(f"`{name}` is new and begins as {shorten(value)}")

    def _globals(self, cells: dict[str, Cell]) -> dict[str, Cell]:
        """A user's variables under their new names; the old ones stay, for sessions of older versions."""
        moved = dict(cells)
        for name, cell in cells.items():
            last = self._renames.variable(name)
            if last is None or last in cells or name not in self._old.global_names or self._is_arm_gone(last, cell):
                continue
            if last in self._new.global_names:
                moved[last] = self._fitting(last, cell, self._new.global_names[last])
                self.renamed = True
                self.notes.append(f"the user's `{name}` is `{last}` now")
        return moved


def _declared(program: Program, state: State) -> Mapping[Scope, Declared]:
    return {
        "global": program.global_names,
        "session": program.session_names,
        "phase": program.phase_names.get(state.phase, {}),
        "topic": program.topic_names.get((state.phase, state.topic), {}),
    }


def _layers(state: State) -> Layers:
    return {
        "global": state.global_cells,
        "session": state.session_cells,
        "phase": state.phase_cells,
        "topic": state.topic_cells,
    }


class _Held(Struct, frozen=True):
    """The cells of one layer, and whose they are."""

    scope: Scope
    cells: Mapping[str, Cell]
    phase: str
    topic: str


def _held(state: State) -> Iterator[tuple[object, _Held]]:
    """Every layer of a state by what makes it the same layer in another."""
    yield "global", _Held("global", state.global_cells, state.phase, state.topic)
    yield "session", _Held("session", state.session_cells, state.phase, state.topic)
    yield ("phase", state.phase_entry), _Held("phase", state.phase_cells, state.phase, state.topic)
    yield ("topic", state.topic_entry), _Held("topic", state.topic_cells, state.phase, state.topic)
    for depth, frame in enumerate(state.frames):
        if frame.home is not None:
            yield ("call", state.topic_entry, depth), _Held("topic", frame.cells, state.phase, frame.home[1])


def differences(
    before: State, after: State, *, topic_ends: bool = False, source: Source = "migrated"
) -> tuple[VariableChanged, ...]:
    """The writes that lead from the variables of one state to those of another.

    What a layer held that `after` does not have ends with it, and is no write; so does the topic's where it ends.
    """
    were = dict(_held(before))
    found: list[VariableChanged] = []
    for key, layer in _held(after):
        if topic_ends and layer.scope == "topic":
            continue
        was = were[key].cells if key in were else {}
        gone = [name for name in was if name not in layer.cells] if layer.scope != "global" else []
        for name in (*gone, *layer.cells):
            old, new = was.get(name), layer.cells.get(name)
            if old is None or new is None or _said(old) != _said(new):
                found.append(_change(layer, name, old, new, source))
    return tuple(found)


def _said(cell: Cell) -> bytes:
    return msgspec.json.encode((cell.value, cell.type))


def _change(layer: _Held, name: str, old: Cell | None, new: Cell | None, source: Source) -> VariableChanged:
    return VariableChanged(
        scope=layer.scope,
        name=name,
        old=old.value if old is not None else None,
        new=new.value if new is not None else None,
        type=new.type if new is not None else "null",
        source=source,
        action_id="",
        phase_id=layer.phase,
        topic_id=layer.topic,
    )
