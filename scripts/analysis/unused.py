"""Names that hide others, and variables that are kept for nobody."""

from collections.abc import Iterator

from scripts.actions import Action, AiAsk, AiSay, Chat, Choose, Loop, arms, walk
from scripts.analysis.deeds import Each, Put, Run, deed_of, facts_in, sources_of
from scripts.analysis.known import Level
from scripts.analysis.layout import Layout, Node, names_written
from scripts.analysis.sense import outputs_of
from scripts.diagnostics import Problems
from scripts.model import FormSheet
from scripts.nodes import Expression, Location, Template
from scripts.variables import Assignment, Declaration, Records


def check_names(layout: Layout, problems: Problems) -> None:
    """Adds a problem for each name that hides another, and a note for each that nothing reads."""
    _shadows(layout, problems)
    read, is_open = _all_read(layout)
    if not is_open:
        _unread(layout, read, problems)


# -- names that hide others -------------------------------------------------------------------------------------------


def _shadows(layout: Layout, problems: Problems) -> None:
    script = layout.script
    outer = {each.var: "global" for each in script.global_variables}
    _hiding(script.declare, outer, problems, "")
    session = outer | {each.var: "session" for each in script.session_variables}
    for phase in script.phases:
        _hiding(phase.declare, session, problems, phase.id)
        inside = session | {each.var: "phase" for each in phase.declare}
        for topic in phase.topics:
            path = f"{phase.id}/{topic.id}"
            _hiding(topic.declare, inside, problems, path)
            known = inside | {each.var: "topic" for each in topic.declare}
            known |= dict.fromkeys(set(names_written(topic.actions)) - known.keys(), "topic")
            _loops(topic.actions, known, problems, path)
    for skill in script.skills:
        own = (*skill.params, *skill.declare)
        written = tuple(each for each in own if each.at != skill.at)  # the older forms add what nobody wrote
        _hiding(written, outer, problems, skill.id)
        known = outer | dict.fromkeys([*(each.var for each in own), *names_written(skill.actions)], "skill's")
        _loops(skill.actions, known, problems, skill.id)


def _hiding(declared: tuple[Declaration, ...], outer: dict[str, str], problems: Problems, path: str) -> None:
    for each in declared:
        if each.var in outer:
            message = f"`{each.var}` hides the {outer[each.var]} variable of the same name"
            problems.add("VARIABLE_SHADOWED", message, each.mark("var"), path=path)


def _loops(actions: tuple[Action, ...], known: dict[str, str], problems: Problems, path: str) -> None:
    for action in actions:
        loop = _loop_of(action)
        if loop is not None and loop.name in known:
            kind = known[loop.name]
            message = f"`{loop.name}` hides the {kind} {'name' if kind == 'loop' else 'variable'} of the same name"
            problems.add("VARIABLE_SHADOWED", message, loop.at, path=path)
        inside = known | {loop.name: "loop"} if loop is not None else known
        for inner in arms(action).values():
            _loops(inner, inside, problems, path)


def _loop_of(action: Action) -> Loop | None:
    body = deed_of(action).body
    match body:
        case Each() as each:
            return each.loop
        case Run() as run:
            return run.call.loop
        case _:
            return None


# -- variables nobody reads -------------------------------------------------------------------------------------------


def _all_read(layout: Layout) -> tuple[set[str], bool]:
    """Every name that is read anywhere, and whether some text looks up names that are not written out."""
    script = layout.script
    conditions = [phase.when for phase in script.phases]
    conditions += [topic.when for phase in script.phases for topic in phase.topics]
    lists = [topic.actions for phase in script.phases for topic in phase.topics]
    lists += [skill.actions for skill in script.skills]
    lists += [*(each.actions for each in script.interrupts), *(each.actions for each in script.watchers)]
    conditions += [*(each.when for each in script.interrupts), *(each.when for each in script.detectors)]
    facts = [facts_in(each) for each in conditions if each is not None]
    facts += [facts_in(source) for actions in lists for action in walk(actions) for source in sources_of(action)]
    names = {name for skill in script.skills for name in skill.returns}
    names |= {name for actions in lists for action in walk(actions) for name in _named(action)}
    texts = [each.say for each in script.repairs] + [each.replace for each in script.detectors]
    sources = [each for each in (*texts, *(source for sheet in script.forms for source in _texts(sheet))) if each]
    facts += [facts_in(each) for each in sources]
    names |= {name for each in facts for name in (*each.names, *each.quoted)}
    return names, any(each.reads_any for each in facts)


def _texts(sheet: FormSheet) -> Iterator[Template | Expression | None]:
    """Every text and expression of a form; its fields' own names are written by it, and drawn in it."""
    yield from (sheet.title, sheet.text)
    for each in sheet.fields:
        for field in (each, *each.columns):
            yield from (field.label, field.placeholder, field.validate, field.invalid, field.computed)


def _named(action: Action) -> Iterator[str]:
    """The names that an action reads by name, not in an expression."""
    criteria = action.exit_criteria if isinstance(action, AiAsk | AiSay | Chat) else None
    if criteria is not None:
        yield from (each.variable for each in criteria.custom_conditions)


def _unread(layout: Layout, read: set[str], problems: Problems) -> None:
    script = layout.script
    for phase in script.phases:
        answered = {name for topic in phase.topics for name in _answered(topic.actions)}
        for each in phase.declare:
            _note(each.var, each.mark("var"), read | answered, problems, phase.id)
    for node, declared, actions in _owners(layout):
        path = "/".join(layout.spot(node)).strip("/")
        known = read | set(_answered(actions))
        for each in declared:
            _note(each.var, each.mark("var"), known, problems, path)
        told = {each.var for each in declared}
        for action in walk(actions):
            for name, at in _written(action):
                if (
                    name not in told
                    and layout.sight(node).declaration(name) is None
                    and layout.sight(node).key(name)[0] is Level.TOPIC
                ):
                    told.add(name)
                    _note(name, at, known, problems, path)


def _owners(layout: Layout) -> Iterator[tuple[Node, tuple[Declaration, ...], tuple[Action, ...]]]:
    for phase in layout.script.phases:
        for topic in phase.topics:
            yield layout.body((phase.id, topic.id)), topic.declare, topic.actions
    for node in layout.skills:
        skill = layout.skill(node)
        if skill is not None:
            yield node, skill.declare, skill.actions


def _answered(actions: tuple[Action, ...]) -> Iterator[str]:
    """What the user answered, and what is worked out of it there, is for the record, read or not."""
    for action in walk(actions):
        for item in outputs_of(action):
            yield item.set if isinstance(item, Assignment) else item.tolist if isinstance(item, Records) else item.get
        if isinstance(action, Choose):
            yield action.variable


def _written(action: Action) -> Iterator[tuple[str, Location]]:
    deed = deed_of(action)
    yield from ((step.name, step.at) for step in deed.steps if isinstance(step, Put))
    if isinstance(deed.body, Run):
        yield from ((name, action.mark("output")) for name in deed.body.call.assigned)


def _note(name: str, at: Location, read: set[str], problems: Problems, path: str) -> None:
    if name not in read:
        problems.add("VARIABLE_NEVER_READ", f"nothing reads `{name}`, and it ends here", at, path=path)
