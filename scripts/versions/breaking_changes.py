"""Find the changes between two versions of a script, by ids, that affect sessions of the earlier version.

Additions and changed texts affect no session and are not reported.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from scripts.model.actions import Action, AiAsk, Ask, Choose, Form, action_type, arms
from scripts.model.base import NOWHERE, Location, without_places
from scripts.model.diagnostics import Problems
from scripts.model.script import BESIDE, Path, Script, actions_of, as_output, declarations_of, nodes
from scripts.model.variable_names import names_in
from scripts.model.variables import Declaration, Output, Records
from scripts.versions.rename_map import Renames, format_path

Kind: TypeAlias = Literal["removed", "moved", "renumbered", "type", "choice", "variable"]
CODES: Mapping[Kind, str] = {
    "removed": "ID_REMOVED",
    "moved": "ID_MOVED",
    "renumbered": "ID_RENUMBERED",
    "type": "ID_TYPE_CHANGED",
    "choice": "ID_REMOVED",
    "variable": "VARIABLE_CHANGED",
}


class BreakingChange(Struct, frozen=True):
    """A change. `path` is the path of the node in the earlier version; for a variable, of the declaring node."""

    kind: Kind
    path: Path
    message: str
    at: Location  # in the later version: the node, or the nearest remaining parent
    name: str = ""  # variable, or key of the choice
    fix: str = ""


class ActionPlace(Struct, frozen=True):
    """The position of an action: its block and arm (empty for the topic's own list), and the action."""

    action: Action
    block: str
    arm: str


class Outline:
    """The nodes of a script by path."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.scopes: dict[Path, tuple[Location, tuple[Declaration, ...]]] = {(): (script.at, script.session_variables)}
        self.actions: dict[Path, ActionPlace] = {}
        for path, node in nodes(script):
            self.scopes[path] = (node.at, declarations_of(node))
            self._add(path, actions_of(node), "", "")

    def _add(self, home: Path, actions: tuple[Action, ...], block: str, arm: str) -> None:
        for action in actions:
            self.actions[*home, action.id] = ActionPlace(action, block, arm)
            for inner, held in arms(action).items():
                self._add(home, held, action.id, inner)

    def near(self, path: Path | None) -> Location:
        """Return the location of a path, or of the nearest remaining parent."""
        while path:
            if path in self.actions:
                return self.actions[path].action.at
            if path in self.scopes:
                return self.scopes[path][0]
            path = path[:-1]
        return self.script.at


def changes(old: Script, new: Script) -> tuple[BreakingChange, ...]:
    """Return every change that may affect a session of the `old` version, in the order of that version."""
    return tuple(_Comparison(Outline(old), Outline(new)).run())


def report(
    found: tuple[BreakingChange, ...], problems: Problems, running: Mapping[BreakingChange, int] | None = None
) -> None:
    """Add the changes as problems of the later version; `running` counts the sessions that each change affects."""
    for change in found:
        message = change.message
        if running is not None:
            count = running.get(change, 0)
            message += f"; {count or 'no'} running session{'' if count == 1 else 's'} {_verb_for(change, count)}"
        problems.add(CODES[change.kind], message, change.at, path=format_path(change.path), fix=change.fix)


def _verb_for(change: BreakingChange, count: int) -> str:
    if change.kind == "variable":
        return "holds it" if count == 1 else "hold it"
    return "is there" if count == 1 else "are there"


class _Comparison:
    def __init__(self, old: Outline, new: Outline) -> None:
        self.old = old
        self.new = new
        self.renames = Renames(old.script, new.script)
        self.names = names_in(new.script)

    def run(self) -> Iterator[BreakingChange]:
        for scope in self.old.scopes:
            yield from self._scope(scope)
        for path in self.old.actions:
            if self._new_path(path[:-1]) is not None or self._new_path(path) is not None:
                yield from self._action(path)
                yield from self._find_renumbered(path)
        for scope in self.old.scopes:
            yield from self._variables(scope)

    def _new_path(self, path: Path) -> Path | None:
        """Return the new path of a path, if it exists."""
        last = self.renames.path(path)
        return last if last is not None and (last in self.new.scopes or last in self.new.actions) else None

    def _scope(self, path: Path) -> Iterator[BreakingChange]:
        if not path or self._new_path(path) is not None:
            return
        kind = "phase" if len(path) == 1 else BESIDE.get(path[0], "topic")
        if kind == "topic" and self._new_path(path[:1]) is None:
            return  # the removal of its phase is already reported
        topics = [each for each in self.new.scopes if len(each) == 2 and each[0] not in BESIDE]
        others = [each for each in topics if each[1] == path[-1]]
        if kind == "topic" and len(others) == 1:
            message = f"topic {format_path(path)} is now in phase {others[0][0]}"
            fix = f"Add `migrations: {{topics: {{{format_path(path)}: {format_path(others[0])}}}}}`."
            yield BreakingChange("moved", path, message, self.new.near(others[0]), fix=fix)
            return
        at = self.new.near(self.renames.path(path))
        yield BreakingChange("removed", path, f"the {kind} {format_path(path)} was removed", at)

    def _action(self, path: Path) -> Iterator[BreakingChange]:
        was, last = self.old.actions[path], self._new_path(path)
        if last is None:
            yield self._removal(path)
            return
        spot = self.new.actions[last]
        at, before, now = spot.action.at, action_type(was.action), action_type(spot.action)
        if before != now:
            yield BreakingChange("type", path, f"{format_path(path)} was `{before}` and is now `{now}`", at)
            return
        home = self.renames.path(path[:-1])
        block = self.renames.path((*path[:-1], was.block))
        if last[:-1] != home:
            yield BreakingChange("moved", path, f"{format_path(path)} is now {format_path(last)}, in another topic", at)
        elif (block or path)[-1] != spot.block or was.arm != spot.arm:
            place = f"in {spot.block} ({spot.arm})" if spot.block else "in the topic's own list"
            yield BreakingChange("moved", path, f"{format_path(path)} is now {place}", at)
        yield from self._choices(path, was.action, spot.action)
        yield from self._outputs(path, was.action, spot.action)

    def _find_renumbered(self, path: Path) -> Iterator[BreakingChange]:
        """Find an action without an id of its own that has another id now, because its number is another one."""
        was, last = self.old.actions[path].action, self._new_path(path)
        now = self.new.actions[last].action if last in self.new.actions else None
        if last is None or now is None or "id" in was.marks or "id" in now.marks or type(was) is not type(now):
            return
        content = _content(was)
        if _content(now) == content:
            return
        spots = ((each, spot.action) for each, spot in self.new.actions.items() if each[:-1] == last[:-1])
        found = [(each, action) for each, action in spots if "id" not in action.marks and _content(action) == content]
        if len(found) == 1:
            ((place, action),) = found
            message = f"{format_path(path)} has no id of its own, and is {place[-1]} in this version"
            yield BreakingChange("renumbered", path, message, action.at, fix=f"Add `id: {path[-1]}`.")

    def _removal(self, path: Path) -> BreakingChange:
        others = [each for each in self.new.actions if each[-1] == path[-1] and each not in self.old.actions]
        at = self.new.near(self.renames.path(path))
        beside = BESIDE.keys() - {""}  # interrupts and detectors, unlike skills
        if len(others) == 1 and path[0] not in beside and others[0][0] not in beside:
            fix = f"Add `migrations: {{actions: {{{format_path(path)}: {format_path(others[0])}}}}}`."
            message = f"{format_path(path)} is now in {format_path(others[0][:-1])}"
            return BreakingChange("moved", path, message, self.new.near(others[0]), fix=fix)
        fix = f"Keep its id: actions of {BESIDE[path[0]]}s cannot be renamed." if path[0] in beside else ""
        return BreakingChange("removed", path, f"the action {format_path(path)} was removed", at, fix=fix)

    def _choices(self, path: Path, was: Action, now: Action) -> Iterator[BreakingChange]:
        if isinstance(was, Choose) and isinstance(now, Choose):
            left = {choice.key for choice in now.fixed}
            for choice in was.fixed:
                if choice.key not in left:
                    message = f"{format_path(path)} no longer offers {choice.key}"
                    yield BreakingChange("choice", path, message, now.mark("choices"), name=choice.key)

    def _outputs(self, path: Path, was: Action, now: Action) -> Iterator[BreakingChange]:
        """Find changed outputs of a question or form."""
        afterwards = {self._later_name(name, self.new): output for name, output in self._outputs_by_name(now, self.new)}
        for name, output in self._outputs_by_name(was, self.old):
            last = self._later_name(name, self.old)
            later = afterwards.get(last)
            if later is not None:
                yield from self._difference(path, output, later, f"{format_path(path)} writes `{'.'.join(last)}`")
            elif isinstance(was, Form) and isinstance(now, Form):
                message = f"{format_path(path)} no longer asks for `{output.get}`"
                yield BreakingChange("variable", path, message, now.at, name=output.get)

    def _later_name(self, name: Path, outline: Outline) -> Path:
        """Return a variable's name in the later version; fields of records are not renamed."""
        first = name[0] if outline is self.new else self.renames.variable(name[0])
        return (first or "", *name[1:])

    def _outputs_by_name(self, action: Action, outline: Outline) -> Iterator[tuple[Path, Output]]:
        """Yield the outputs of an action by variable; those of records by the names of the list and the field."""
        if isinstance(action, Ask | AiAsk):
            for item in action.outputs:
                if isinstance(item, Output):
                    yield (item.get,), item
                elif isinstance(item, Records):
                    yield from (((item.tolist, each.get), each) for each in item.fields)
        elif isinstance(action, Form):
            for sheet in outline.script.forms:
                for field in sheet.fields if sheet.id == action.sheet else ():
                    if field.computed is None:
                        yield (field.name,), as_output(field)
                    yield from (((field.name, each.name), as_output(each)) for each in field.columns)

    # -- variables ----------------------------------------------------------------------------------------------

    def _variables(self, scope: Path) -> Iterator[BreakingChange]:
        home = self._new_path(scope) if scope else ()
        later = {each.var: each for each in self.new.scopes[home][1]} if home is not None else {}
        where = f" of {format_path(scope)}" if scope else ""
        for was in self.old.scopes[scope][1]:
            name = self.renames.variable(was.var)
            now = later.get(name or "")
            if now is not None:
                yield from self._difference(scope, was, now, f"`{was.var}`{where} is declared")
            elif name is None or name not in self.names:
                message = f"the variable `{was.var}`{where} was removed"
                yield BreakingChange("variable", scope, message, self.new.near(home), name=was.var)
            elif home is not None:
                scopes = self.new.scopes.items()
                elsewhere = [path for path, (_, declared) in scopes if any(each.var == name for each in declared)]
                place = format_path(elsewhere[0]) or "the script" if elsewhere else "no scope"
                message = (
                    f"`{name}` was declared in {format_path(scope) or 'the script'}, and is now declared in {place}"
                )
                at = self.new.near(elsewhere[0] if elsewhere else home)
                yield BreakingChange("variable", scope, message, at, name=was.var)

    def _difference(
        self, path: Path, was: Declaration | Output, now: Declaration | Output, what: str
    ) -> Iterator[BreakingChange]:
        name = was.var if isinstance(was, Declaration) else was.get
        at = now.at if now.at != NOWHERE else self.new.near(path)
        if was.kind != now.kind and now.kind is not None:
            message = f"{what} as {now.kind}, before as {was.kind or 'any type'}"
            yield BreakingChange("variable", path, message, at, name=name)
        elif was.choices and now.choices and (removed := [each for each in was.choices if each not in now.choices]):
            yield BreakingChange("variable", path, f"{what} without the choice {', '.join(removed)}", at, name=name)


def _content(action: Action) -> Action:
    """Return an action without its id and its places, to be compared."""
    return without_places(replace(action, id=""))
