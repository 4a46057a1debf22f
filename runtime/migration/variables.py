"""The variables of a migrated session: renamed, converted, dropped, initialised; and the differences of two states."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from runtime.state.events import Body, ScopeEntered, ScopeLeft, VariableChanged
from runtime.state.program import Program, answering_id
from runtime.state.scopes import Scopes, WriteRefused
from runtime.state.state import Cell, Source, State
from scripts.expressions.values import ValueRefused, coerce, infer_type, shorten
from scripts.model.script import INTERRUPTS, Path, Scope
from scripts.model.variable_names import names_in
from scripts.model.variables import Declaration
from scripts.versions.rename_map import Renames

LOCAL: tuple[Scope, ...] = ("topic", "phase", "session")  # innermost first
Declared: TypeAlias = Mapping[str, Declaration]
Layers: TypeAlias = dict[Scope, dict[str, Cell]]


class MigrationBlocked(Exception):
    """The reason why a session cannot migrate; the message is for the operator."""


def new_path(renames: Renames, path: Path) -> Path | None:
    """Return a path in the new version; a topic that answers during a `wait` is renamed as the topic is."""
    if path[0] != INTERRUPTS or not path[1].startswith(":"):
        return renames.path(path)
    topic = renames.path((*path[1].removeprefix(":").split("/"), *path[2:]))
    return (INTERRUPTS, answering_id((topic[0], topic[1])), *topic[2:]) if topic is not None else None


class Cells:
    """Migrates cells, and records the changes."""

    def __init__(self, old: Program, new: Program, renames: Renames, now: datetime) -> None:
        self._old = old
        self._new = new
        self._renames = renames
        self._now = now
        self._mentioned = names_in(new.script)
        self.notes: list[str] = []
        self.renamed = False

    def move(self, before: State, state: State, *, with_topic: bool) -> None:
        """Map every layer of `before` into `state`, whose position is already mapped. Raises MigrationBlocked."""
        was, now = _declarations(self._old, before), _declarations(self._new, state)
        scopes = [scope for scope in LOCAL if scope != "topic" or with_topic]
        moved: Layers = {scope: {} for scope in scopes}
        moved["global"] = dict(state.global_cells)
        strays: list[tuple[Scope, str, Cell]] = []
        for scope in scopes:
            for name, cell in before.layers[scope].items():
                last = self._name(name, cell, name in was[scope])
                if last is None:
                    continue
                target = next((each for each in (*scopes, "global") if last in now[each]), scope)
                if target == scope or last in now[scope] or name in was[target]:  # or that one hid it before
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
        """Return the variables of a running skill or interrupt. Raises MigrationBlocked."""
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
        """Rename and check the start variables of a session that has not begun. Raises MigrationBlocked."""
        variables = {self._renames.variable(name) or name: value for name, value in state.start_variables.items()}
        self.renamed = self.renamed or variables.keys() != state.start_variables.keys()
        trial = Scopes(self._new, State(seed=0, locale=state.locale))
        for name, value in variables.items():
            try:
                trial.write("global" if name in self._new.global_names else "session", name, value, "api", self._now)
            except WriteRefused as error:
                raise MigrationBlocked(str(error)) from error
        state.start_variables = variables

    def _name(self, name: str, cell: Cell, was_declared: bool) -> str | None:
        """Return a variable's new name; None if it is unused now, or the arm of its experiment was removed."""
        last = self._renames.variable(name)
        if last is None or (was_declared and last not in self._mentioned):
            self.notes.append(f"`{name}` is gone, and its value with it")
            return None
        if last != name:
            self.renamed = True
            self.notes.append(f"`{name}` is `{last}` now")
        if self._is_arm_gone(last, cell):
            arm = shorten(cell.value)
            self.notes.append(f"the experiment `{last}` has no arm {arm} any more: it draws another one")
            return None
        return last

    def _is_arm_gone(self, name: str, cell: Cell) -> bool:
        plan = self._new.experiments.get(name)
        return plan is not None and cell.value not in plan.names

    def _writer(self, cell: Cell) -> Cell:
        """Return the cell with the new id of the action that wrote it, if that still exists."""
        if cell.by is None or not self._old.has_action(cell.by):
            return cell
        path = new_path(self._renames, cell.by)
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
            raise MigrationBlocked(f"`{name}`: {why}") from refused
        if value == cell.value and type(value) is type(cell.value):
            return cell if cell.type == declared.kind else msgspec.structs.replace(cell, type=declared.kind)
        change = "" if declared.pii else f" {shorten(value)}"
        was = f"a {cell.type}" if declared.pii else shorten(cell.value)
        self.notes.append(f"`{name}` was {was} and is the {declared.kind}{change}")
        return Cell(value, declared.kind, self._now, "migrated", cell.by)

    def _defaults(self, cells: dict[str, Cell], was: Declared, now: Declared) -> None:
        """Set the variables that have a default in the new version, but had none in the old one."""
        before = {self._renames.variable(name) for name, each in was.items() if each.value is not None}
        for name, each in now.items():
            if each.value is not None and name not in cells and name not in before:
                value = coerce(each.value, each.kind, each.choices) if each.kind is not None else each.value
                cells[name] = Cell(value, each.kind or infer_type(value), self._now, "default")
                self.notes.append(f"`{name}` is new and begins as {shorten(value)}")

    def _globals(self, cells: dict[str, Cell]) -> dict[str, Cell]:
        """Return a user's variables under their new names; the old ones remain, for sessions of older versions."""
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


def _declarations(program: Program, state: State) -> Mapping[Scope, Declared]:
    home = state.phase, state.topic
    return {scope: program.declarations(scope, state.phase, home) for scope in (*LOCAL, "global")}


_Layer: TypeAlias = tuple[Scope, Mapping[str, Cell], str]
"""The cells of one layer, with their scope and topic."""


def _layers(state: State) -> Iterator[tuple[object, _Layer]]:
    """Yield every layer of a state with a key that identifies it in another state."""
    yield "global", ("global", state.global_cells, state.topic)
    yield "session", ("session", state.session_cells, state.topic)
    yield ("phase", state.phase_entry), ("phase", state.phase_cells, state.topic)
    yield ("topic", state.topic_entry), ("topic", state.topic_cells, state.topic)
    for depth, frame in enumerate(state.frames):
        if frame.home is not None:
            yield ("call", state.topic_entry, depth), ("topic", frame.cells, frame.home[1])


def differences(
    before: State, after: State, *, topic_ends: bool = False, source: Source = "migrated"
) -> tuple[VariableChanged, ...]:
    """Return the writes that lead from the variables of one state to those of another.

    The variables of a layer that `after` does not have end with the layer, without a write; so do the topic's if it
    ends.
    """
    were = dict(_layers(before))
    found: list[VariableChanged] = []
    for key, (scope, cells, topic) in _layers(after):
        if topic_ends and scope == "topic":
            continue
        was = were[key][1] if key in were else {}
        gone = [name for name in was if name not in cells] if scope != "global" else []
        for name in (*gone, *cells):
            old, new = was.get(name), cells.get(name)
            if old is None or new is None or _encoded_value(old) != _encoded_value(new):
                found.append(
                    VariableChanged(
                        scope=scope,
                        name=name,
                        old=old.value if old is not None else None,
                        new=new.value if new is not None else None,
                        type=new.type if new is not None else "null",
                        source=source,
                        action_id="",
                        phase_id=after.phase,
                        topic_id=topic,
                    )
                )
    return tuple(found)


def _encoded_value(cell: Cell) -> bytes:
    return msgspec.json.encode((cell.value, cell.type))


def account_of(now: State, before: State, source: Source) -> tuple[Body, ...]:
    """Return the events that lead from the place and variables of one state to those of an earlier one."""
    account: list[Body] = []
    if now.topic and now.topic_entry != before.topic_entry:
        account.append(ScopeLeft("topic", now.topic, now.topic_entry))
    if now.phase and now.phase_entry != before.phase_entry:
        account.append(ScopeLeft("phase", now.phase, now.phase_entry))
    if before.phase and (now.phase_entry != before.phase_entry or not now.phase):
        account.append(ScopeEntered("phase", before.phase, before.phase_entry))
    if before.topic and (now.topic_entry != before.topic_entry or not now.topic):
        account.append(ScopeEntered("topic", before.topic, before.topic_entry))
    changes = [each for each in differences(now, before, source=source) if each.scope != "global"]
    return (*account, *changes)
