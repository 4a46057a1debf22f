"""What changed between two versions of a script, by ids: all that a session of the earlier one could miss.

What was only added, or said otherwise, touches no session and is none of it.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.actions import Action, AiAsk, Ask, Choose, Form, action_type, arms
from scripts.diagnostics import Problems
from scripts.form_sheets import as_output
from scripts.model import Script
from scripts.names import names_in
from scripts.nodes import NOWHERE, Location
from scripts.renames import BESIDE, DETECTORS, INTERRUPTS, Path, Renames, written
from scripts.variables import Declaration, Output, Records

Kind: TypeAlias = Literal["removed", "moved", "type", "choice", "variable"]
CODES: Mapping[Kind, str] = {
    "removed": "ID_REMOVED",
    "moved": "ID_MOVED",
    "type": "ID_TYPE_CHANGED",
    "choice": "ID_REMOVED",
    "variable": "VARIABLE_CHANGED",
}


class Change(Struct, frozen=True):
    """One change. `path` is that of the node in the earlier version; for a variable, of the node that declares it."""

    kind: Kind
    path: Path
    message: str
    at: Location  # in the later version: the node, or what is left around it
    name: str = ""  # the variable, or the key of the choice
    fix: str = ""


class Spot(Struct, frozen=True):
    """Where an action stands: its block and arm (empty for the topic's own list), with the action itself."""

    action: Action
    block: str
    arm: str


class Outline:
    """A script by paths."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.scopes: dict[Path, tuple[Location, tuple[Declaration, ...]]] = {(): (script.at, script.session_variables)}
        self.actions: dict[Path, Spot] = {}
        for phase in script.phases:
            self.scopes[phase.id,] = (phase.at, phase.declare)
            for topic in phase.topics:
                self.scopes[phase.id, topic.id] = (topic.at, topic.declare)
                self._add((phase.id, topic.id), topic.actions, "", "")
        for skill in script.skills:
            self.scopes["", skill.id] = (skill.at, (*skill.params, *skill.declare))
            self._add(("", skill.id), skill.actions, "", "")
        for interrupt in script.interrupts:
            self.scopes[INTERRUPTS, interrupt.id] = (interrupt.at, ())
            self._add((INTERRUPTS, interrupt.id), interrupt.actions, "", "")
        for detector in script.detectors:
            self.scopes[DETECTORS, detector.id] = (detector.at, ())
            self._add((DETECTORS, detector.id), detector.actions, "", "")

    def _add(self, home: Path, actions: tuple[Action, ...], block: str, arm: str) -> None:
        for action in actions:
            self.actions[*home, action.id] = Spot(action, block, arm)
            for inner, held in arms(action).items():
                self._add(home, held, action.id, inner)

    def near(self, path: Path | None) -> Location:
        """Where a path stands, or what is left around it."""
        while path:
            if path in self.actions:
                return self.actions[path].action.at
            if path in self.scopes:
                return self.scopes[path][0]
            path = path[:-1]
        return self.script.at


def changes(old: Script, new: Script) -> tuple[Change, ...]:
    """Every change that may touch a session of the `old` version, in the order of that version."""
    return tuple(_Comparison(Outline(old), Outline(new)).run())


def report(found: tuple[Change, ...], problems: Problems, running: Mapping[Change, int] | None = None) -> None:
    """Adds the changes as problems of the later version; `running` says how many sessions each of them touches."""
    for change in found:
        message = change.message
        if running is not None:
            count = running.get(change, 0)
            message += f"; {count or 'no'} running session{'' if count == 1 else 's'} {_touched(change, count)}"
        problems.add(CODES[change.kind], message, change.at, path=written(change.path), fix=change.fix)


def _touched(change: Change, count: int) -> str:
    if change.kind == "variable":
        return "holds it" if count == 1 else "hold it"
    return "stands there" if count == 1 else "stand there"


class _Comparison:
    def __init__(self, old: Outline, new: Outline) -> None:
        self.old = old
        self.new = new
        self.renames = Renames(old.script, new.script)
        self.names = names_in(new.script)

    def run(self) -> Iterator[Change]:
        for scope in self.old.scopes:
            yield from self._scope(scope)
        for path in self.old.actions:
            if self._found(path[:-1]) is not None or self._found(path) is not None:
                yield from self._action(path)
        for scope in self.old.scopes:
            yield from self._variables(scope)

    def _found(self, path: Path) -> Path | None:
        """What a path became, if it is there."""
        last = self.renames.path(path)
        return last if last is not None and (last in self.new.scopes or last in self.new.actions) else None

    def _scope(self, path: Path) -> Iterator[Change]:
        if not path or self._found(path) is not None:
            return
        kind = "phase" if len(path) == 1 else BESIDE.get(path[0], "topic")
        if kind == "topic" and self._found(path[:1]) is None:
            return  # its phase is gone, and said to be
        topics = [each for each in self.new.scopes if len(each) == 2 and each[0] not in BESIDE]
        others = [each for each in topics if each[1] == path[-1]]
        if kind == "topic" and len(others) == 1:
            message = f"topic {written(path)} stands in phase {others[0][0]} now"
            fix = f"Add `migrations: {{topics: {{{written(path)}: {written(others[0])}}}}}`."
            yield Change("moved", path, message, self.new.near(others[0]), fix=fix)
            return
        at = self.new.near(self.renames.path(path))
        yield Change("removed", path, f"the {kind} {written(path)} is gone", at)

    def _action(self, path: Path) -> Iterator[Change]:
        was, last = self.old.actions[path], self._found(path)
        if last is None:
            yield self._gone(path)
            return
        spot = self.new.actions[last]
        at, before, now = spot.action.at, action_type(was.action), action_type(spot.action)
        if before != now:
            yield Change("type", path, f"{written(path)} was `{before}` and is `{now}`", at)
            return
        home = self.renames.path(path[:-1])
        block = self.renames.path((*path[:-1], was.block))
        if last[:-1] != home:
            yield Change("moved", path, f"{written(path)} is {written(last)} now, in another topic", at)
        elif (block or path)[-1] != spot.block or was.arm != spot.arm:
            place = f"in {spot.block} ({spot.arm})" if spot.block else "in the topic's own list"
            yield Change("moved", path, f"{written(path)} stands {place} now", at)
        yield from self._choices(path, was.action, spot.action)
        yield from self._outputs(path, was.action, spot.action)

    def _gone(self, path: Path) -> Change:
        others = [each for each in self.new.actions if each[-1] == path[-1] and each not in self.old.actions]
        at = self.new.near(self.renames.path(path))
        if len(others) == 1 and not {path[0], others[0][0]} & {INTERRUPTS, DETECTORS}:  # no rename leads there
            fix = f"Add `migrations: {{actions: {{{written(path)}: {written(others[0])}}}}}`."
            message = f"{written(path)} stands in {written(others[0][:-1])} now"
            return Change("moved", path, message, self.new.near(others[0]), fix=fix)
        return Change("removed", path, f"the action {written(path)} is gone", at)

    def _choices(self, path: Path, was: Action, now: Action) -> Iterator[Change]:
        if isinstance(was, Choose) and isinstance(now, Choose):
            left = {choice.key for choice in now.choices}
            for choice in was.choices:
                if choice.key not in left:
                    message = f"{written(path)} no longer offers {choice.key}"
                    yield Change("choice", path, message, now.mark("choices"), name=choice.key)

    def _outputs(self, path: Path, was: Action, now: Action) -> Iterator[Change]:
        """What a question or form takes otherwise than before."""
        taken = {self._taken_as(name, self.new): output for name, output in self._taken(now, self.new)}
        for name, output in self._taken(was, self.old):
            last = self._taken_as(name, self.old)
            later = taken.get(last)
            if later is not None:
                yield from self._difference(path, output, later, f"{written(path)} takes `{'.'.join(last)}`")
            elif isinstance(was, Form) and isinstance(now, Form):
                message = f"{written(path)} no longer asks for `{output.get}`"
                yield Change("variable", path, message, now.at, name=output.get)

    def _taken_as(self, name: Path, outline: Outline) -> Path:
        """What a variable is called in the later version; the fields of records have names of their own."""
        first = name[0] if outline is self.new else self.renames.variable(name[0])
        return (first or "", *name[1:])

    def _taken(self, action: Action, outline: Outline) -> Iterator[tuple[Path, Output]]:
        """Each value an action takes, by its variable; those of records by the list's and their own."""
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

    def _variables(self, scope: Path) -> Iterator[Change]:
        home = self._found(scope) if scope else ()
        later = {each.var: each for each in self.new.scopes[home][1]} if home is not None else {}
        where = f" of {written(scope)}" if scope else ""
        for was in self.old.scopes[scope][1]:
            name = self.renames.variable(was.var)
            now = later.get(name or "")
            if now is not None:
                yield from self._difference(scope, was, now, f"`{was.var}`{where} is declared")
            elif name is None or name not in self.names:
                message = f"the variable `{was.var}`{where} is gone"
                yield Change("variable", scope, message, self.new.near(home), name=was.var)
            elif home is not None:
                elsewhere = [path for path, (_, declared) in self.new.scopes.items() if _declares(declared, name)]
                place = written(elsewhere[0]) or "the script" if elsewhere else "nothing"
                message = f"`{name}` was declared in {written(scope) or 'the script'}, and {place} declares it now"
                yield Change("variable", scope, message, self.new.near(elsewhere[0] if elsewhere else home), was.var)

    def _difference(
        self, path: Path, was: Declaration | Output, now: Declaration | Output, what: str
    ) -> Iterator[Change]:
        name = was.var if isinstance(was, Declaration) else was.get
        at = now.at if now.at != NOWHERE else self.new.near(path)
        if was.kind != now.kind and now.kind is not None:
            message = f"{what} as {now.kind}, it was {was.kind or 'of any type'}"
            yield Change("variable", path, message, at, name=name)
        elif was.choices and now.choices and (gone := [each for each in was.choices if each not in now.choices]):
            yield Change("variable", path, f"{what} without the choice {', '.join(gone)}", at, name=name)


def _declares(declared: tuple[Declaration, ...], name: str) -> bool:
    return any(each.var == name for each in declared)
