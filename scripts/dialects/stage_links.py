"""What the parts of a stage-form script mean to each other, once its side files are known.

Calls get what goes without saying, jumps and speakers find what they name, and variables live as long as they are
read. It leaves what stands in native files alone.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

import msgspec

from scripts.actions import Action, AiAsk, AiThink, Ask, Call, Choose, Foreach, Form, Goto, If, Loop, Repeat, Scene
from scripts.diagnostics import Problems
from scripts.dialects.placeholders import reference
from scripts.dialects.stage_lifetimes import with_lifetimes
from scripts.dialects.stage_names import Names, names_of, node_id, of_owner
from scripts.model import Interrupt, Phase, Script, Skill, Topic, all_actions
from scripts.native_yaml import without_places
from scripts.nodes import Expression, Location
from scripts.suggest import suggest
from scripts.targets import resolve_target
from scripts.unknown_keys import is_note
from scripts.variables import Declaration, Output, OutputItem, Records

Actions = tuple[Action, ...]


def linked(script: Script, files: Collection[str], problems: Problems, *, lenient: bool) -> Script:
    """The script with everything linked that stands in these files, which are in the stage form.

    What names nothing is an error.
    """
    script = _each_once(script, files, problems)
    if script.form == "stage":
        script = with_lifetimes(script, problems)
    linking = _Linking(script, files, problems, lenient=lenient)
    skills = tuple(linking.skill(each) if each.at.file in files else each for each in script.skills)
    interrupts = tuple(linking.interrupt(each) if each.at.file in files else each for each in script.interrupts)
    phases = tuple(map(linking.phase, script.phases)) if script.form == "stage" else script.phases
    return msgspec.structs.replace(script, skills=skills, interrupts=interrupts, phases=phases)


def _each_once(script: Script, files: Collection[str], problems: Problems) -> Script:
    """The script with the first of what goes by the same name. A second one is an error unless it is the same.

    Rules are numbered instead, for nothing calls them by their names.
    """
    for key in ("skills", "roles", "forms", "interrupts"):
        seen: dict[str, Any] = {}
        once = []
        for each in getattr(script, key):
            if not each.id or each.id not in seen or each.at.file not in files:
                once.append(each)
            elif key == "interrupts":
                name = next(name for n in count(2) if (name := f"{each.id}_{n}") not in seen)
                once.append(msgspec.structs.replace(each, id=name))
            elif without_places(each) != without_places(seen[each.id]):
                first = seen[each.id].at
                message = f"{each.id} is defined already, in {first.file or 'this file'}, line {first.line}"
                problems.add("DUPLICATE_ID", message, each.at, severity="error")
            if once:
                seen.setdefault(once[-1].id, once[-1])
        script = msgspec.structs.replace(script, **{key: tuple(once)})
    return script


class _Linking:
    """Goes through the actions of one script."""

    def __init__(self, script: Script, files: Collection[str], problems: Problems, *, lenient: bool) -> None:
        self.script = script
        self.names: Names = names_of(script)
        self._own = _own_names(script)
        self._returned = _returns(script, files)
        self._problems = problems
        self._lenient = lenient
        self._phase: Phase | None = None
        self._skill: Skill | None = None
        self._declared: dict[str, Declaration] = {}
        self._in_sight: set[str] = set()  # what a call hands over by itself
        self._loops: list[Loop] = []
        self._ids: set[str] = set()

    def slip(self, code: str, message: str, at: Location, fix: str = "") -> None:
        self._problems.add(code, message, at, fix=fix, severity="warning" if self._lenient else None)

    def refuse(self, code: str, message: str, at: Location, fix: str = "") -> None:
        self._problems.add(code, message, at, fix=fix, severity="error")

    # -- owners -----------------------------------------------------------------------------------------------------

    def phase(self, phase: Phase) -> Phase:
        self._phase = phase
        linked = msgspec.structs.replace(phase, topics=tuple(map(self.topic, phase.topics)))
        self._phase = None
        return linked

    def topic(self, topic: Topic) -> Topic:
        phase = self._phase
        outer = (*self.script.globals, *self.script.declare, *(phase.declare if phase is not None else ()))
        return msgspec.structs.replace(topic, actions=self.owned(topic.actions, (*outer, *topic.declare), self._own))

    def skill(self, skill: Skill) -> Skill:
        self._skill = skill
        declared = (*self.script.globals, *skill.params, *skill.declare)
        known = {each.var for each in (*skill.params, *skill.declare)} | set(of_owner(skill))
        linked = msgspec.structs.replace(skill, actions=self.owned(skill.actions, declared, known))
        self._skill = None
        return linked

    def interrupt(self, interrupt: Interrupt) -> Interrupt:
        declared = (*self.script.globals, *self.script.declare)
        known = self._own | set(of_owner(interrupt))
        then = interrupt.then
        if then.policy == "goto":
            target = self.target(then.target, then.at)
            then = msgspec.structs.replace(
                then, **({"target": target} if target else {"policy": "resume", "target": ""})
            )
        actions = self.owned(interrupt.actions, declared, known)
        return msgspec.structs.replace(interrupt, actions=actions, then=then)

    def owned(self, actions: Actions, declared: Collection[Declaration], known: set[str]) -> Actions:
        self._declared = {each.var: each for each in declared}
        self._in_sight = known
        self._ids = set()
        return self.block(actions)

    # -- actions ----------------------------------------------------------------------------------------------------

    def block(self, actions: Actions) -> Actions:
        return tuple(linked for action in actions if (linked := self.action(action)) is not None)

    def action(self, action: Action) -> Action | None:
        linked = self.linked(action)
        if linked is None:
            return None
        if linked.id in self._ids:
            if not isinstance(linked, Scene):
                self.slip("DUPLICATE_ID", f"the id {linked.id} stands here already", linked.mark("id"))
            linked = msgspec.structs.replace(linked, id="")
        self._ids |= {linked.id} if linked.id else set()
        role = self.role(linked.role, linked.mark("role"))
        linked = linked if role == linked.role else msgspec.structs.replace(linked, role=role)
        return self.within(linked)

    def within(self, action: Action) -> Action:
        """The action with what is inside of it linked."""
        match action:
            case If():
                then, otherwise = self.block(action.then), self.block(action.otherwise)
                return msgspec.structs.replace(action, then=then, otherwise=otherwise)
            case Repeat():
                return msgspec.structs.replace(action, do=self.block(action.do))
            case Foreach():
                self._loops.append(action.loop)
                do = self.block(action.do)
                self._loops.pop()
                return msgspec.structs.replace(action, do=do)
            case Choose():
                choices = (msgspec.structs.replace(each, actions=self.block(each.actions)) for each in action.choices)
                return msgspec.structs.replace(action, choices=tuple(choices))
            case _:
                return action

    def linked(self, action: Action) -> Action | None:
        match action:
            case Call():
                return self.call(action)
            case Form():
                form = _by_name(action.sheet, self.script.forms, lambda each: each.title.source if each.title else "")
                if form is None:
                    fix = suggest(action.sheet, [each.id for each in self.script.forms], otherwise="")
                    self.refuse("FORM_UNKNOWN", f"there is no form {action.sheet}", action.mark("form"), fix)
                    return None
                return msgspec.structs.replace(action, sheet=form.id)
            case Goto():
                target = self.target(action.target, action.mark("goto"))
                return msgspec.structs.replace(action, target=target) if target else None
            case Scene():
                sides = action.speakers
                ai, human = self.role(sides.ai, sides.at), self.role(sides.human, sides.at)
                return msgspec.structs.replace(action, speakers=msgspec.structs.replace(sides, ai=ai, human=human))
            case Ask() | AiAsk() | AiThink():
                return msgspec.structs.replace(action, outputs=tuple(map(self.defined, action.outputs)))
            case _:
                return action

    def defined(self, item: OutputItem) -> OutputItem:
        """An output that does not say what it means, by what the variable's declaration says."""
        match item:
            case Output():
                declared = self._declared.get(item.get)
                needs = declared is not None and not item.define and bool(declared.define)
                return msgspec.structs.replace(item, define=declared.define.strip()) if needs and declared else item
            case Records():
                return msgspec.structs.replace(item, fields=tuple(_outputs(map(self.defined, item.fields))))
            case _:
                return item

    # -- names ------------------------------------------------------------------------------------------------------

    def role(self, name: str, at: Location) -> str:
        roles = self.script.roles
        if not name or not roles:
            return name
        found = _by_name(name, roles, lambda each: each.name)
        if found is None:
            self.refuse("ROLE_UNKNOWN", f"there is no role {name}", at, suggest(name, [each.id for each in roles]))
        return found.id if found is not None else ""

    def target(self, target: str, at: Location) -> str:
        """Where a jump leads, as ``stage/goal``; empty where it leads nowhere."""
        if self._skill is not None:
            self.refuse("GOTO_IN_SKILL", "a skill ends where it was called; it cannot jump away", at)
            return ""
        home = self._phase.id if self._phase is not None else ""
        names = [target, node_id(target), "/".join(node_id(part) for part in target.split("/"))]
        for name in names:
            if resolve_target(self.script, name, home) is not None:
                return name
        for name in names[:2]:
            for phase in self.script.phases:
                if name == phase.title and phase.topics:
                    return phase.id
                for topic in phase.topics:
                    if name in {topic.id, topic.title}:
                        return f"{phase.id}/{topic.id}"
        known = [topic.id for phase in self.script.phases for topic in phase.topics]
        self.refuse("GOTO_UNKNOWN", f"there is no goal or stage {target}", at, suggest(target, known, otherwise=""))
        return ""

    # -- calls ------------------------------------------------------------------------------------------------------

    def call(self, action: Call) -> Call | None:
        skill = _by_name(action.skill, self.script.skills, lambda each: each.title)
        if skill is None:
            fix = suggest(action.skill, [each.id for each in self.script.skills], otherwise="")
            self.refuse("SKILL_UNKNOWN", f"there is no skill {action.skill}", action.mark("call"), fix)
            return None
        given = dict(self.given(action, skill))
        return msgspec.structs.replace(action, skill=skill.id, input=given, output=dict(self.returned(action, skill)))

    def given(self, action: Call, skill: Skill) -> Iterator[tuple[str, Expression]]:
        """What the skill is given: as written, else the caller's variable or field of the same name."""
        known = {each.var for each in skill.params}
        for name, value in action.input.items():
            if name in known:
                yield name, value
            else:
                fix = suggest(name, sorted(known), otherwise="")
                tell = self.slip if is_note(name) else self.refuse
                tell("PARAMETER_UNKNOWN", f"the skill {skill.id} takes no `{name}`", value.at, fix)
        for each in skill.params:
            if each.var in action.input:
                continue
            source = self.same_name(action, each.var, skill)
            if source:
                yield each.var, Expression(source, action.at)
            elif each.define and each.value is None and each.var not in skill.returns:
                message = f"the skill {skill.id} is not given `{each.var}`"
                fix = f"Add `{each.var}:` to `input`."
                self._problems.add("PARAMETER_MISSING", message, action.mark("call"), fix=fix, severity="warning")

    def same_name(self, action: Call, name: str, skill: Skill) -> str:
        """The expression of the caller's own variable, or field of the record at hand, of this name."""
        loops = [*self._loops, *([action.loop] if action.loop is not None else [])]
        for loop in reversed(loops):
            if name == loop.name:
                return reference(name)
            if name in self.names.fields.get(_list_of(loop), ()):
                return f"{loop.name}.{name}" if name.isidentifier() else f'{loop.name}["{name}"]'
        is_returned = self._skill is None and bool(self._returned.get(name, set()) - {skill.id})
        return reference(name) if name in self._in_sight or is_returned else ""

    def returned(self, action: Call, skill: Skill) -> Iterator[tuple[str, str]]:
        """Where what the skill returns goes; to variables of the same name, unless something else is written."""
        everywhere = {each.var for each in self.script.globals} if action.loop is None else set()
        taken = {*action.output, *action.output.values()}
        yield from ((name, name) for name in skill.returns if not taken or (name in everywhere and name not in taken))
        for name, source in action.output.items():
            if source in skill.returns:
                yield name, source
            elif name in skill.returns:  # the other way round
                yield source, name
            else:
                fix = suggest(source, list(skill.returns), otherwise="")
                message = f"the skill {skill.id} does not return `{source}`"
                self.refuse("RETURN_UNKNOWN", message, action.mark("output"), fix)


def _own_names(script: Script) -> set[str]:
    """What the topics of the script know by themselves, beside what is global and what calls return."""
    everywhere = {each.var for each in script.globals}
    without_calls = msgspec.structs.replace(script, skills=())
    outside = names_of(without_calls, with_calls=False)
    return {name for name in outside.known if name not in everywhere or name in outside.valued}


def _returns(script: Script, files: Collection[str]) -> dict[str, set[str]]:
    """The variables that calls fill, each with the skills that return it."""
    found: dict[str, set[str]] = {}
    for action in all_actions(msgspec.structs.replace(script, skills=())):
        if not isinstance(action, Call) or action.loop is not None:
            continue
        skill = _by_name(action.skill, script.skills, lambda each: each.title)
        is_open = not action.output and action.at.file in files
        for name in (*action.output, *(skill.returns if skill is not None and is_open else ())):
            found.setdefault(name, set()).add(skill.id if skill is not None else action.skill)
    return found


def _list_of(loop: Loop) -> str:
    """The list's name, where the loop goes through a variable."""
    source = loop.items.source
    return source.removeprefix('vars["').removesuffix('"]') if source.startswith('vars["') else source


def _outputs(items: Iterator[OutputItem]) -> Iterator[Output]:
    return (item for item in items if isinstance(item, Output))


def _by_name(name: str, nodes: Collection[Any], shown: Callable[[Any], str]) -> Any:
    """The node of this id; else of this title, or of an id that differs in spaces and case only."""
    exact = next((node for node in nodes if node.id == name), None)
    if exact is not None:
        return exact
    close = "".join(name.split()).casefold()
    return next((node for node in nodes if close in _spellings(node.id, shown(node))), None)


def _spellings(*names: str) -> set[str]:
    return {"".join(name.split()).casefold() for name in names if name}
