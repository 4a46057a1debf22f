"""Link the parts of a stage script after its include files are read.

Calls get implicit parameters, jumps and speakers are resolved, and variables get the scope that their reads need.
Parts of native files are not changed.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from scripts.expressions.suggestions import suggest
from scripts.formats.placeholders import variable_reference
from scripts.formats.stage.names import Names, names_of, node_id, of_owner
from scripts.formats.stage.stage_reader import parts_of
from scripts.model.actions import Action, AiAsk, AiThink, Ask, Call, Foreach, Form, Goto, Loop, Scene, with_arms
from scripts.model.base import Expression, Location, unused_name, without_places
from scripts.model.diagnostics import Problems
from scripts.model.script import After, Interrupt, Phase, Script, Skill, Topic, all_actions, resolve_target, topic_ids
from scripts.model.variable_names import read_names
from scripts.model.variables import Declaration, Output, OutputItem, Records
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Scalar
from scripts.yaml.unknown_keys import is_note

Actions = tuple[Action, ...]
_Owner = TypeVar("_Owner", Phase, Topic)


def link(script: Script, files: Collection[str], problems: Problems, *, lenient: bool) -> Script:
    """Link all parts of a script that are in these files, which have the stage format.

    An unknown name is an error.
    """
    script = _each_once(script, files, problems)
    if script.form == "stage":
        script = with_lifetimes(script, problems)
    linking = _Linker(script, files, problems, lenient=lenient)
    skills = tuple(linking.skill(each) if each.at.file in files else each for each in script.skills)
    interrupts = tuple(linking.interrupt(each) if each.at.file in files else each for each in script.interrupts)
    phases = tuple(map(linking.phase, script.phases)) if script.form == "stage" else script.phases
    return replace(script, skills=skills, interrupts=interrupts, phases=phases)


def _each_once(script: Script, files: Collection[str], problems: Problems) -> Script:
    """Keep the first of several parts with the same name. A second one is an error unless it is equal.

    Rules are numbered instead, because nothing refers to their names.
    """
    for key in ("skills", "roles", "forms", "interrupts"):
        seen: dict[str, Any] = {}
        once = []
        for each in getattr(script, key):
            if not each.id or each.id not in seen or each.at.file not in files:
                once.append(each)
            elif key == "interrupts":
                once.append(replace(each, id=unused_name(each.id, seen)))
            elif without_places(each) != without_places(seen[each.id]):
                first = seen[each.id].at
                message = f"{each.id} is already defined in {first.file or 'this file'}, line {first.line}"
                problems.add("DUPLICATE_ID", message, each.at, severity="error")
            if once:
                seen.setdefault(once[-1].id, once[-1])
        script = replace(script, **{key: tuple(once)})
    return script


class _Linker:
    """Links the actions of one script."""

    def __init__(self, script: Script, files: Collection[str], problems: Problems, *, lenient: bool) -> None:
        self.script = script
        self.names: Names = names_of(script)
        self._topics = topic_ids(script)
        self._own = _own_names(script)
        self._returned = _returns(script, files)
        self._reader = Reader(problems, lenient=lenient)
        self.slip, self.refuse = self._reader.slip, self._reader.refuse
        self._phase: Phase | None = None
        self._skill: Skill | None = None
        self._declared: dict[str, Declaration] = {}
        self._in_sight: set[str] = set()  # what a call passes implicitly
        self._loops: list[Loop] = []
        self._ids: set[str] = set()

    # -- owners -----------------------------------------------------------------------------------------------------

    def phase(self, phase: Phase) -> Phase:
        self._phase = phase
        linked = replace(phase, topics=tuple(map(self.topic, phase.topics)))
        self._phase = None
        return linked

    def topic(self, topic: Topic) -> Topic:
        phase = self._phase
        outer = (*self.script.globals, *self.script.declare, *(phase.declare if phase is not None else ()))
        return replace(topic, actions=self.link_owned(topic.actions, (*outer, *topic.declare), self._own))

    def skill(self, skill: Skill) -> Skill:
        self._skill = skill
        declared = (*self.script.globals, *skill.params, *skill.declare)
        known = {each.var for each in (*skill.params, *skill.declare)} | set(of_owner(skill))
        linked = replace(skill, actions=self.link_owned(skill.actions, declared, known))
        self._skill = None
        return linked

    def interrupt(self, interrupt: Interrupt) -> Interrupt:
        declared = (*self.script.globals, *self.script.declare)
        known = self._own | set(of_owner(interrupt))
        then = interrupt.then
        if then.policy == "goto":
            target = self.target(then.target, then.at)
            then = replace(then, target=target) if target else After(at=then.at)
        return replace(interrupt, actions=self.link_owned(interrupt.actions, declared, known), then=then)

    def link_owned(self, actions: Actions, declared: Collection[Declaration], known: set[str]) -> Actions:
        self._declared = {each.var: each for each in declared}
        self._in_sight = known
        self._ids = set()
        return self.block(actions)

    # -- actions ----------------------------------------------------------------------------------------------------

    def block(self, actions: Actions) -> Actions:
        return tuple(linked for action in actions if (linked := self.action(action)) is not None)

    def action(self, action: Action) -> Action | None:
        linked = self.link_action(action)
        if linked is None:
            return None
        if linked.id in self._ids:
            if not isinstance(linked, Scene):
                self.slip("DUPLICATE_ID", f"duplicate id {linked.id}", linked.mark("id"))
            linked = replace(linked, id="")
        self._ids |= {linked.id} if linked.id else set()
        role = self.role(linked.role, linked.mark("role"))
        linked = linked if role == linked.role else replace(linked, role=role)
        return self.within(linked)

    def within(self, action: Action) -> Action:
        """Return the action with its inner actions linked."""
        outer = self._loops
        self._loops = [*outer, action.loop] if isinstance(action, Foreach) else outer
        linked = with_arms(action, self.block)
        self._loops = outer
        return linked

    def link_action(self, action: Action) -> Action | None:
        match action:
            case Call():
                return self.call(action)
            case Form():
                form = _by_name(action.sheet, self.script.forms, lambda each: each.title.source if each.title else "")
                if form is None:
                    fix = suggest(action.sheet, [each.id for each in self.script.forms], otherwise="")
                    self.refuse("FORM_UNKNOWN", f"unknown form {action.sheet}", action.mark("form"), fix)
                    return None
                return replace(action, sheet=form.id)
            case Goto():
                target = self.target(action.target, action.mark("goto"))
                return replace(action, target=target) if target else None
            case Scene():
                sides = action.speakers
                ai, human = self.role(sides.ai, sides.at), self.role(sides.human, sides.at)
                return replace(action, speakers=replace(sides, ai=ai, human=human))
            case Ask() | AiAsk() | AiThink():
                return replace(action, outputs=tuple(map(self.define, action.outputs)))
            case _:
                return action

    def define(self, item: OutputItem) -> OutputItem:
        """Complete an output without a meaning from the declaration of its variable."""
        match item:
            case Output():
                declared = self._declared.get(item.get)
                needs = declared is not None and not item.define and bool(declared.define)
                return replace(item, define=declared.define.strip()) if needs and declared else item
            case Records():
                fields = (each for each in map(self.define, item.fields) if isinstance(each, Output))
                return replace(item, fields=tuple(fields))
            case _:
                return item

    # -- names ------------------------------------------------------------------------------------------------------

    def role(self, name: str, at: Location) -> str:
        roles = self.script.roles
        if not name or not roles:
            return name
        found = _by_name(name, roles, lambda each: each.name)
        if found is None:
            self.refuse("ROLE_UNKNOWN", f"unknown role {name}", at, suggest(name, [each.id for each in roles]))
        return found.id if found is not None else ""

    def target(self, target: str, at: Location) -> str:
        """Return the target of a jump as ``stage/goal``; empty if it does not exist."""
        if self._skill is not None:
            self.refuse("GOTO_IN_SKILL", "a skill returns to its caller; it cannot jump", at)
            return ""
        home = self._phase.id if self._phase is not None else ""
        names = [target, node_id(target), "/".join(node_id(part) for part in target.split("/"))]
        for name in names:
            if resolve_target(self._topics, name, home) is not None:
                return name
        for name in names[:2]:
            for phase in self.script.phases:
                if name == phase.title and phase.topics:
                    return phase.id
                for topic in phase.topics:
                    if name in {topic.id, topic.title}:
                        return f"{phase.id}/{topic.id}"
        known = [topic.id for phase in self.script.phases for topic in phase.topics]
        self.refuse("GOTO_UNKNOWN", f"unknown goal or stage {target}", at, suggest(target, known, otherwise=""))
        return ""

    # -- calls ------------------------------------------------------------------------------------------------------

    def call(self, action: Call) -> Call | None:
        skill = self.skill_named(action.skill)
        if skill is None:
            several = parts_of(Scalar(action.skill, False, action.at))
            if len(several) > 1 and all(self.skill_named(each.text) for each in several):
                fix = f"Write `call: [{', '.join(each.text for each in several)}]`."
            else:
                fix = suggest(action.skill, [each.id for each in self.script.skills], otherwise="")
            self.refuse("SKILL_UNKNOWN", f"unknown skill {action.skill}", action.mark("call"), fix)
            return None
        parameters = dict(self.parameters(action, skill))
        return replace(action, skill=skill.id, input=parameters, output=dict(self.results_of(action, skill)))

    def skill_named(self, name: str) -> Skill | None:
        found: Skill | None = _by_name(name, self.script.skills, lambda each: each.title)
        return found

    def parameters(self, action: Call, skill: Skill) -> Iterator[tuple[str, Expression]]:
        """Yield the parameters of a call: as written, otherwise the caller's variable or field of the same name."""
        known = {each.var for each in skill.params}
        for name, value in action.input.items():
            if name in known:
                yield name, value
            else:
                fix = suggest(name, sorted(known), otherwise="")
                tell = self.slip if is_note(name) else self.refuse
                tell("PARAMETER_UNKNOWN", f"the skill {skill.id} has no parameter `{name}`", value.at, fix)
        for each in skill.params:
            if each.var in action.input:
                continue
            source = self.same_name(action, each.var, skill)
            if source:
                yield each.var, Expression(source, action.at)
            elif each.define and each.value is None and each.var not in skill.returns:
                message = f"the skill {skill.id} requires `{each.var}`"
                fix = f"Add `{each.var}:` to `input`."
                self._reader.add("PARAMETER_MISSING", message, action.mark("call"), fix, severity="warning")

    def same_name(self, action: Call, name: str, skill: Skill) -> str:
        """Return the expression of the caller's variable, or field of the current record, with this name."""
        loops = [*self._loops, *([action.loop] if action.loop is not None else [])]
        for loop in reversed(loops):
            if name == loop.name:
                return variable_reference(name)
            if name in self.names.fields.get(_list_of(loop), ()):
                return f"{loop.name}.{name}" if name.isidentifier() else f'{loop.name}["{name}"]'
        is_returned = self._skill is None and bool(self._returned.get(name, set()) - {skill.id})
        return variable_reference(name) if name in self._in_sight or is_returned else ""

    def results_of(self, action: Call, skill: Skill) -> Iterator[tuple[str, str]]:
        """Yield the variables of the skill's results: as written, otherwise variables of the same name."""
        everywhere = {each.var for each in self.script.globals} if action.loop is None else set()
        stored = {*action.output, *action.output.values()}
        yield from ((name, name) for name in skill.returns if not stored or (name in everywhere and name not in stored))
        for name, source in action.output.items():
            if source in skill.returns:
                yield name, source
            elif name in skill.returns:  # reversed
                yield source, name
            else:
                fix = suggest(source, list(skill.returns), otherwise="")
                message = f"the skill {skill.id} does not return `{source}`"
                self.refuse("RETURN_UNKNOWN", message, action.mark("output"), fix)


def _own_names(script: Script) -> set[str]:
    """Return the variables of the topics, without globals and results of calls."""
    everywhere = {each.var for each in script.globals}
    without_calls = replace(script, skills=())
    outside = names_of(without_calls, with_calls=False)
    return {name for name in outside.known if name not in everywhere or name in outside.valued}


def _returns(script: Script, files: Collection[str]) -> dict[str, set[str]]:
    """Return the variables that calls set, each with the skills that return it."""
    found: dict[str, set[str]] = {}
    for action in all_actions(replace(script, skills=())):
        if not isinstance(action, Call) or action.loop is not None:
            continue
        skill = _by_name(action.skill, script.skills, lambda each: each.title)
        is_open = not action.output and action.at.file in files
        for name in (*action.output, *(skill.returns if skill is not None and is_open else ())):
            found.setdefault(name, set()).add(skill.id if skill is not None else action.skill)
    return found


def _list_of(loop: Loop) -> str:
    """Return the name of the list, if the loop is over a variable."""
    source = loop.items.source
    return source.removeprefix('vars["').removesuffix('"]') if source.startswith('vars["') else source


def _by_name(name: str, nodes: Collection[Any], shown: Callable[[Any], str]) -> Any:
    """Return the node with this id; otherwise with this title, or with an id that differs only in spaces and case."""
    exact = next((node for node in nodes if node.id == name), None)
    if exact is not None:
        return exact
    close = "".join(name.split()).casefold()
    return next((node for node in nodes if close in _spellings(node.id, shown(node))), None)


def _spellings(*names: str) -> set[str]:
    return {"".join(name.split()).casefold() for name in names if name}


# -- lifetimes of variables ------------------------------------------------------------------------------------------


def with_lifetimes(script: Script, problems: Problems) -> Script:
    """Return the script with such declarations moved to the session; a note reports each."""
    everywhere = {each.var for each in (*script.globals, *script.declare)}
    moved: dict[str, Declaration] = {}
    for each, path in _find_outlived(script):
        if each.var not in everywhere and each.var not in moved:
            moved[each.var] = each
            message = f"`{each.var}` is read outside of its scope, so it is declared for the session"
            problems.add("CROSS_TOPIC_READ", message, each.mark("var"), path=path)
    if not moved:
        return script

    def without(owner: _Owner) -> _Owner:
        return replace(owner, declare=tuple(each for each in owner.declare if each.var not in moved))

    phases = (replace(without(phase), topics=tuple(map(without, phase.topics))) for phase in script.phases)
    return replace(script, declare=(*script.declare, *moved.values()), phases=tuple(phases))


def _find_outlived(script: Script) -> Iterator[tuple[Declaration, str]]:
    """Yield the declarations of stages and goals whose variable is read elsewhere without a declaration."""
    free = {
        (phase.id, topic.id): _reads(topic) - {each.var for each in (*phase.declare, *topic.declare)}
        for phase in script.phases
        for topic in phase.topics
    }
    for phase in script.phases:
        topics: list[tuple[tuple[str, ...], Phase | Topic]] = [((phase.id, topic.id), topic) for topic in phase.topics]
        for path, owner in (((phase.id,), phase), *topics):
            elsewhere = {name for place, names in free.items() if place[: len(path)] != path for name in names}
            yield from ((each, "/".join(path)) for each in owner.declare if each.var in elsewhere)


def _reads(topic: Topic) -> set[str]:
    return {*read_names(topic.actions), *(read_names(topic.when) if topic.when is not None else ())}
