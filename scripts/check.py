"""What is wrong with a script that reads well: names, targets, texts, expressions, and the flow of its variables."""

from collections.abc import Iterable, Sequence
from typing import assert_never

import regex

from scripts import form_sheets
from scripts.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Call,
    Chat,
    Choose,
    Emit,
    End,
    ExitCriteria,
    Experiment,
    Foreach,
    Form,
    Goto,
    If,
    OnFail,
    Recall,
    Remember,
    Repeat,
    Say,
    Scene,
    Set,
    Show,
    UserSay,
    action_type,
    policies,
    rounds_of,
    walk,
)
from scripts.analysis.run import analyse
from scripts.analysis.within import where
from scripts.backtracking import ambiguous_part
from scripts.detectors.check import check_detector, unable
from scripts.detectors.judge import DETECTORS_MAX
from scripts.diagnostics import Problems, Severity
from scripts.experiments import OF_A_WHOLE, Arm, ExperimentPlan, Fault, block_faults, plan_faults, unused
from scripts.expressions import Compiled, compile_expression, compile_template, is_reserved
from scripts.member_faults import Fault as MemberFault
from scripts.members import DETECTED
from scripts.memories import sources_in
from scripts.model import Detector, FormField, FormSheet, Interrupt, Phase, Role, Script, Skill, Topic
from scripts.nodes import ID_CHARS_MAX, Expression, Location, Template
from scripts.renames import check_migrations
from scripts.sandbox import ExpressionInvalid
from scripts.slips import hidden_character
from scripts.suggest import expression_fix, suggest
from scripts.targets import resolve_target
from scripts.values import Value, ValueRefused, coerce, number_in
from scripts.variable_flow import Place, VariableFlow
from scripts.variables import Assignment, Declaration, Output, OutputItem, Records
from scripts.written_context import Context, faults_of

_SINGLE_BRACES = regex.compile(r"(?<![{$])\{\s*([^\W\d]\w*)\s*\}(?!\})|｛+\s*([^\W\d]\w*)\s*｝+")
_ID = regex.compile(r"[^\s/:\p{C}](?:[^/\p{C}]*[^\s/\p{C}])?")  # a name: sessions keep those of the older forms
_EVENT = regex.compile(r"\w[\w.\-]*")
_NAME = regex.compile(r"[^\W\d]\w*")
_OLDER_NAME = regex.compile(r"[^\W\d][\w.\-（）()· ]*")


_Named = Script | Phase | Topic | Skill | Action | Role | FormSheet | ExperimentPlan | Arm | Interrupt | Detector


def check_script(script: Script, problems: Problems) -> None:
    """Adds every problem of a script; the ids must be complete."""
    _Checker(script, problems).run()


class _Checker:
    def __init__(self, script: Script, problems: Problems) -> None:
        self.script = script
        self.problems = problems
        self.is_whole = not problems.fatal  # else a list may be empty because its items could not be read
        self.phase: Phase | None = None
        self.topic: Topic | None = None
        self.skill: Skill | None = None
        self.interrupt: Interrupt | None = None
        self.detector: Detector | None = None
        self.loop_names: list[str] = []
        self.shown: set[str] = set()  # the forms that actions show
        self.met: set[str] = set()  # the experiments that actions meet
        self.flow = VariableFlow(script)

    def add(self, code: str, message: str, at: Location, fix: str = "") -> None:
        self.problems.add(code, message, at, path=self.path(), fix=fix)

    def nothing_in(self, message: str, at: Location) -> None:
        if self.is_whole:
            self.add("NO_ACTIONS", message, at)

    def path(self) -> str:
        return "/".join(node.id for node in (self.phase, self.topic, self.skill, self.interrupt, self.detector) if node)

    def run(self) -> None:
        script = self.script
        self.ids([script], "script", "script")
        self.declarations(script.globals)
        self.declarations(script.declare)
        self.ids(script.phases, "phase", "phase")
        if not script.phases:
            self.nothing_in("the script has no phases", script.at)
        for phase in script.phases:
            self.check_phase(phase)
        self.ids(script.skills, "skill", "skill")
        for skill in script.skills:
            self.check_skill(skill)
        self.ids(script.roles, "role", "role")
        self.ids(script.forms, "form", "form")
        self.ids(script.interrupts, "interrupt", "interrupt")
        for interrupt in script.interrupts:
            self.check_interrupt(interrupt)
        self.ids(script.detectors, "detector", "detector")
        if len(script.detectors) > DETECTORS_MAX:
            self.add("CONSTRAINT_VIOLATION", f"a script may have {DETECTORS_MAX} detectors", script.at)
        for detector in script.detectors:
            self.check_detector(detector)
        self.check_on_budget()
        self.context(script.context)
        for repair in script.repairs:
            self.texts(repair.say)
        self.forms()
        self.experiments()
        check_migrations(script, self.problems)
        told = self.flow.check(self.problems)
        if not self.problems.fatal:
            analyse(script, self.problems, told)

    def check_phase(self, phase: Phase) -> None:
        self.phase = phase
        self.expression(phase.when)
        self.declarations(phase.declare)
        self.ids(phase.topics, "topic", "topic")
        if not phase.topics:
            self.nothing_in(f"phase {phase.id} has no topics", phase.at)
        for topic in phase.topics:
            self.check_topic(topic)
        self.phase = None

    def check_topic(self, topic: Topic) -> None:
        self.expression(topic.when)
        self.topic = topic
        self.declarations(topic.declare)
        self.ids(list(walk(topic.actions)), "action", "id")
        if not topic.actions:
            self.nothing_in(f"topic {topic.id} has no actions", topic.at)
        for action in topic.actions:
            self.action(action)
        self.topic = None

    def check_skill(self, skill: Skill) -> None:
        self.skill = skill
        self.declarations((*skill.params, *skill.declare))
        self.ids(list(walk(skill.actions)), "action", "id")
        for action in skill.actions:
            self.action(action)
        for name in skill.returns:
            self.flow.read(name, skill.mark("returns"), self.place)
        self.skill = None

    def check_interrupt(self, interrupt: Interrupt) -> None:
        trigger = interrupt.on
        if not (any(trigger.keywords) or trigger.intent or trigger.detector):
            self.add("TRIGGER_EMPTY", "nothing says when this happens", interrupt.mark("on"))
        known = [each.id for each in self.script.detectors]
        if trigger.detector and trigger.detector not in known:
            fix = suggest(trigger.detector, known, otherwise="")
            self.add("DETECTOR_UNKNOWN", f"there is no detector {trigger.detector}", trigger.mark("detector"), fix)
        self.interrupt = interrupt
        self.expression(interrupt.when)
        self.ids(list(walk(interrupt.actions)), "action", "id")
        self.loop_names += ["detected"] if trigger.detector else []  # what the detector saw
        for action in interrupt.actions:
            self.action(action)
        self.loop_names = []
        if interrupt.then.policy == "goto":
            self.target(interrupt.then.target, interrupt.then.at)
        self.interrupt = None

    def check_detector(self, detector: Detector) -> None:
        self.detector = detector
        for code, message, at, fix in check_detector(detector):
            self.add(code, message, at, fix)
        self.expression(detector.when)
        self.loop_names.append("detected")  # what it sees
        self.texts(detector.replace)
        self.ids(list(walk(detector.actions)), "action", "id")
        for action in detector.actions:
            self.action(action)
        self.loop_names.pop()
        self.detector = None

    def check_on_budget(self) -> None:
        """What `on_budget` does is in sight of what a detector's actions see, and like them it cannot wait."""
        for each in self.script.watchers[len(self.script.detectors) :]:
            self.detector = each
            for action in unable(each.actions):
                message = f"`on_budget` cannot `{action_type(action)}`: it acts at once, in the middle of a turn"
                self.add("ON_BUDGET_WAITS", message, action.at)
            self.ids(list(walk(each.actions)), "action", "id")
            self.block(each.actions)
            self.detector = None

    # -- names --------------------------------------------------------------------------------------------------

    def ids(self, nodes: Sequence[_Named], kind: str, key: str) -> None:
        seen: dict[str, Location] = {}
        for node in nodes:
            at = node.mark(key)
            if not _ID.fullmatch(node.id) or len(node.id) > ID_CHARS_MAX:
                self.add("ID_INVALID", f"{node.id!r} is no id", at, hidden_character(node.id))
            if node.id in seen:
                self.add("DUPLICATE_ID", f"{kind} {node.id} stands already in line {seen[node.id].line}", at)
            seen.setdefault(node.id, at)

    def name(self, name: str, at: Location) -> None:
        allowed = _NAME if self.script.form == "native" else _OLDER_NAME
        if not allowed.fullmatch(name) or len(name) > ID_CHARS_MAX:
            self.add("VARIABLE_NAME_INVALID", f"{name!r} is no name for a variable", at)
        elif is_reserved(name):
            self.add("RESERVED_NAME", f"`{name}` is the runtime's own name", at)

    def writes(self, name: str, at: Location) -> None:
        self.name(name, at)
        if any(plan.id == name for plan in self.script.experiments):
            self.add("EXPERIMENT_SET", f"`{name}` is an experiment: its arm is drawn, never set", at)
        self.flow.write(name, self.place)

    @property
    def place(self) -> Place:
        """What is being checked: the nodes whose variables are in sight."""
        return Place(self.phase, self.topic, self.skill, self.interrupt, self.detector)

    def declarations(self, declared: Iterable[Declaration]) -> None:
        seen: set[str] = set()
        for each in declared:
            self.name(each.var, each.mark("var"))
            if each.var in seen:
                self.add("DUPLICATE_DECLARATION", f"{each.var} is declared twice here", each.mark("var"))
            seen.add(each.var)
            self.typed(each, each.value, "value")

    def typed(self, node: Declaration | Output, value: Value, key: str) -> None:
        """Type, choices and the value given with them."""
        declared = node.kind
        if declared == "choice" and not node.choices:
            self.add("CHOICES_INVALID", "a choice needs `choices`", node.mark("type"))
        elif len(set(node.choices)) < len(node.choices):
            self.add("CHOICES_INVALID", "a choice stands twice", node.mark("choices"))
        elif declared is not None:
            try:
                coerce(value, declared, node.choices)
            except ValueRefused as refused:
                self.add("DEFAULT_MISMATCH", str(refused), node.mark(key))

    # -- actions ------------------------------------------------------------------------------------------------

    def action(self, action: Action) -> None:
        self.expression(action.when)
        self.role(action.role, action.mark("role"))
        match action:
            case Say():
                self.texts(*action.texts)
                if not any(text.source.strip() for text in action.texts):
                    self.add("EMPTY_TEXT", "there is nothing to say", action.mark("say"))
            case AiSay():
                self.texts(action.task)
                self.criteria(action.exit_criteria)
            case Ask():
                self.asking(action)
            case AiAsk():
                self.texts(action.exit)
                self.asking(action)
                self.expression(action.exit_when)
                self.criteria(action.exit_criteria)
                self.policies(action)
            case AiThink():
                self.texts(action.task)
                self.outputs(action.outputs)
            case Set():
                for name, value in action.assignments.items():
                    self.expression(value)
                    self.writes(name, value.at)
            case Choose():
                self.choose(action)
            case UserSay():
                self.texts(action.text)
            case Show():
                self.texts(action.media.image, action.media.url, action.media.caption)
                if action.media.image is None and action.media.url is None:
                    self.add("REQUIRED_FIELD_MISSING", "`show` needs `image` or `url`", action.media.at)
            case If():
                self.expression(action.condition)
                self.block(action.then)
                self.block(action.otherwise)
            case Experiment():
                self.experiment(action)
            case Foreach():
                self.foreach(action)
            case Repeat():
                self.block(action.do)
                self.expression(action.until.until)
            case Call():
                self.call(action)
            case Emit():
                self.emit(action)
            case Remember() | Recall():
                self.memory(action)
            case Form():
                self.form(action)
            case Chat():
                self.context(action.context)
                self.texts(action.task, action.exit)
                self.expression(action.exit_when)
                self.criteria(action.exit_criteria)
                self.policies(action)
            case Scene():
                for role in (action.speakers.ai, action.speakers.human):
                    self.role(role, action.speakers.at)
            case Goto():
                self.target(action.target, action.mark("goto"))
            case End():
                pass
            case _:
                assert_never(action)

    def context(self, context: Context | None) -> None:
        for fault in faults_of(context) if context is not None else ():
            self.add(fault.code, fault.message, fault.at, fault.fix)

    def block(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.action(action)

    def foreach(self, action: Foreach) -> None:
        self.expression(action.loop.items)
        self.name(action.loop.name, action.loop.at)
        self.loop_names.append(action.loop.name)
        self.block(action.do)
        self.loop_names.pop()

    def emit(self, action: Emit) -> None:
        if not _EVENT.fullmatch(action.signal.event):
            self.add("ID_INVALID", f"{action.signal.event!r} is no name for an event", action.signal.mark("event"))
        for value in action.signal.data.values():
            self.expression(value)

    def memory(self, action: Remember | Recall) -> None:
        self.may_remember(action.at)
        if isinstance(action, Remember):
            if self.script.memory.remember == "nothing" and not self.script.memory.is_off:
                self.add("MEMORY_OFF", "the script's `memory` remembers `nothing`", action.at)
            text, written = action.text, sources_in(dict(action.metadata), action.mark("metadata"))
            self.texts(action.about, action.source)
        else:
            text, written = action.query, sources_in(dict(action.filters), action.mark("filters"))
        self.texts(text)
        if not text.source.strip():
            self.add("EMPTY_TEXT", "there is nothing to remember or recall", text.at)
        for source in written:
            if isinstance(source, Template):
                self.texts(source)
            else:
                self.expression(source)
        if isinstance(action, Recall):
            self.writes(action.into, action.mark("into"))

    def may_remember(self, at: Location) -> None:
        if self.script.memory.is_off:
            self.add("MEMORY_OFF", "the script's `memory` is `off`", at)

    def role(self, role: str, at: Location) -> None:
        """A script without roles may name them as it likes; the model is told."""
        known = [each.id for each in self.script.roles]
        if role and known and role not in known:
            self.add("ROLE_UNKNOWN", f"there is no role {role}", at, suggest(role, known))

    def form(self, action: Form) -> None:
        self.texts(action.invalid)
        self.on_fail(action.on_fail)
        sheet = next((form for form in self.script.forms if form.id == action.sheet), None)
        if sheet is None:
            fix = suggest(action.sheet, [form.id for form in self.script.forms], otherwise="")
            self.add("FORM_UNKNOWN", f"there is no form {action.sheet}", action.mark("form"), fix)
            return
        self.shown.add(sheet.id)
        self.sheet(sheet)

    def forms(self) -> None:
        """The forms by themselves; what they read counts where they are shown."""
        aside = _Checker(self.script, self.problems)
        for sheet in self.script.forms:
            aside.sheet(sheet)
            for found in form_sheets.faults(sheet):
                self.add(found.code, found.message, found.at)
        for found in form_sheets.unused(self.script.forms, self.shown, self.script.at.file):
            self.add(found.code, found.message, found.at)

    def experiments(self) -> None:
        """The experiments by themselves, and those that nothing meets."""
        plans = self.script.experiments
        self.ids(plans, "experiment", "experiment")
        for plan in plans:
            self.name(plan.id, plan.mark("experiment"))
            self.ids(plan.arms, "arm", "arm")
        declared = (*self.script.globals, *self.script.declare)
        self.faults((*plan_faults(plans, declared), *unused(plans, self.met, self.script.at.file)))

    def faults(self, found: Iterable[Fault]) -> None:
        for fault in found:
            if self.is_whole or fault.code not in OF_A_WHOLE:
                self.add(fault.code, fault.message, fault.at, fault.fix)

    def experiment(self, action: Experiment) -> None:
        self.met.add(action.plan)
        self.faults(block_faults(action, self.script.experiments))
        for inner in action.arms.values():
            self.block(inner)

    def sheet(self, sheet: FormSheet) -> None:
        """A form where it is shown: its fields are variables there."""
        self.texts(sheet.title, sheet.text)
        for each in sheet.fields:
            self.writes(each.name, each.mark("field"))
            self.field(each)

    def field(self, field: FormField) -> None:
        self.texts(field.label, field.placeholder)
        self.expression(field.computed)
        output = form_sheets.as_output(field)
        if field.computed is None and (output.type != "choice" or output.choices):
            self.output(output, set())
        self.loop_names += [column.name for column in field.columns]  # a row's cells, while it is validated
        for column in field.columns:
            self.name(column.name, column.mark("field"))
            self.field(column)
        self.loop_names = self.loop_names[: len(self.loop_names) - len(field.columns)]

    def call(self, action: Call) -> None:
        skill = next((skill for skill in self.script.skills if skill.id == action.skill), None)
        for value in action.input.values():
            self.loop_names += [action.loop.name] if action.loop else []
            self.expression(value)
            self.loop_names = self.loop_names[:-1] if action.loop else self.loop_names
        if action.loop is not None:
            self.expression(action.loop.items)
            self.name(action.loop.name, action.loop.at)
        for name in action.assigned:
            self.writes(name, action.mark("output"))
        if skill is None:
            fix = suggest(action.skill, [skill.id for skill in self.script.skills], otherwise="")
            self.add("SKILL_UNKNOWN", f"there is no skill {action.skill}", action.mark("call"), fix)
            return
        self.parameters(action, skill)

    def parameters(self, action: Call, skill: Skill) -> None:
        known = [each.var for each in skill.params]
        for name, value in action.input.items():
            if name not in known:
                fix = suggest(name, known)
                self.add("PARAMETER_UNKNOWN", f"the skill {skill.id} takes no `{name}`", value.at, fix)
        for each in skill.params:
            if each.required and each.value is None and each.var not in action.input:
                fix = f"Add `{each.var}:` to `input`."
                self.add("PARAMETER_MISSING", f"the skill {skill.id} needs `{each.var}`", action.mark("call"), fix)
        for name in action.output.values():
            if name not in skill.returns:
                fix = suggest(name, list(skill.returns))
                self.add("RETURN_UNKNOWN", f"the skill {skill.id} does not return `{name}`", action.mark("output"), fix)

    def asking(self, action: Ask | AiAsk) -> None:
        self.texts(action.question if isinstance(action, Ask) else action.task, action.invalid)
        self.outputs(action.outputs)
        self.on_fail(action.on_fail)

    def choose(self, action: Choose) -> None:
        self.writes(action.variable, action.mark("choose"))
        self.texts(action.question, action.invalid)
        self.on_fail(action.on_fail)
        keys = [choice.key.casefold() for choice in action.choices]
        if not keys or len(set(keys)) < len(keys):
            self.add("CHOICES_INVALID", "`choices` lists each choice once", action.mark("choices"))
        for choice in action.choices:
            self.texts(choice.text)
            self.block(choice.actions)

    def on_fail(self, on_fail: OnFail) -> None:
        if on_fail.policy == "goto":
            self.target(on_fail.target, on_fail.at)

    def policies(self, action: AiAsk | Chat) -> None:
        for key, policy in policies(action).items():
            self.texts(policy.say)
            if policy.then.policy == "goto":
                self.target(policy.then.target, policy.then.at)
            if policy.after > rounds_of(action):
                message = f"`{key}` waits for {policy.after} replies, and there are {rounds_of(action)} at most"
                self.add("POLICY_TOO_LATE", message, policy.mark("after"))

    def target(self, target: str, at: Location) -> None:
        if self.skill is not None:
            self.add("GOTO_IN_SKILL", "a skill ends where it was called; it cannot jump away", at)
            return
        phase = self.phase
        if resolve_target(self.script, target, phase.id if phase is not None else "") is not None:
            return
        known = [f"{phase.id}/{topic.id}" for phase in self.script.phases for topic in phase.topics]
        known += [topic.id for topic in phase.topics] if phase is not None else []
        self.add("GOTO_UNKNOWN", f"there is no topic or phase {target}", at, suggest(target, known))

    # -- outputs --------------------------------------------------------------------------------------------------

    def outputs(self, outputs: Iterable[OutputItem]) -> None:
        seen: set[str] = set()
        for item in outputs:
            match item:
                case Output():
                    self.writes(item.get, item.mark("get"))
                    self.output(item, seen)
                case Records():
                    self.writes(item.tolist, item.mark("tolist"))
                    for each in item.fields:
                        self.name(each.get, each.mark("get"))
                        self.output(each, seen)
                case Assignment():
                    self.expression(item.value)
                    self.expression(item.when)
                    self.writes(item.set, item.mark("set"))

    def output(self, output: Output, seen: set[str]) -> None:
        if output.get in seen:
            self.add("DUPLICATE_DECLARATION", f"{output.get} is taken twice here", output.mark("get"))
        seen.add(output.get)
        self.typed(output, output.default, "default")
        self.texts(output.invalid)
        self.limits(output)
        if output.pattern is not None:
            self.pattern(output.pattern, output.mark("pattern"))
        if output.validate is not None:
            self.loop_names.append(output.get)  # the answer itself is at hand while it is validated
            self.expression(output.validate)
            self.loop_names.pop()

    def pattern(self, pattern: str, at: Location) -> None:
        try:
            regex.compile(pattern)
        except regex.error as error:
            self.add("PATTERN_INVALID", str(error), at)
            return
        text = ambiguous_part(pattern)
        if text is not None:
            self.add("PATTERN_BACKTRACKS", f"a repetition in it can read `{text}` in more than one way", at)

    def limits(self, output: Output) -> None:
        """`min` and `max`: dates for a date, else numbers (of the value, or of the length of a text or list)."""
        for key, limit in (("min", output.min), ("max", output.max)):
            wanted = "date" if output.type == "date" else "number"
            if limit is None:
                continue
            try:
                coerce(str(limit) if wanted == "date" else limit, "date" if wanted == "date" else "number")
            except ValueRefused as refused:
                fix = f"Write a {wanted}, such as `{key}: {'2026-01-31' if wanted == 'date' else 10}`."
                self.add("RANGE_INVALID", f"`{key}`: {refused}", output.mark(key), fix)
                return
        if output.min is not None and output.max is not None and _above(output.min, output.max):
            self.add("RANGE_INVALID", "`min` is above `max`", output.mark("min"))

    def criteria(self, criteria: ExitCriteria | None) -> None:
        for condition in criteria.custom_conditions if criteria else ():
            self.flow.read(condition.variable, condition.mark("variable"), self.place)

    # -- texts and expressions --------------------------------------------------------------------------------------

    def texts(self, *texts: Template | None) -> None:
        for text in texts:
            if text is not None:
                self.compiled(text, "TEMPLATE_INVALID")
                for match in _SINGLE_BRACES.finditer(text.source) if self.script.form == "native" else ():
                    self.flow.mention(match[1] or match[2], match[0], _below(text, match.start()))

    def expression(self, expression: Expression | None) -> None:
        if expression is None:
            return
        if not expression.source.strip():
            self.add("EXPRESSION_INVALID", "the expression is empty", expression.at)
            return
        self.compiled(expression, "EXPRESSION_INVALID")

    def compiled(self, source: Template | Expression, code: str) -> None:
        try:
            compiled: Compiled = (
                compile_template(source.source) if isinstance(source, Template) else compile_expression(source.source)
            )
        except ExpressionInvalid as error:
            at = source.at
            line = error.line - 1
            fix = expression_fix(source.source) if isinstance(source, Expression) else ""
            self.add(code, str(error), Location(at.line + line, 1 if line else at.column, at.file), fix)
            return
        if "recall" in compiled.names and "recall" not in self.loop_names:
            self.may_remember(where(source, "recall"))
        for name in sorted(compiled.reads - set(self.loop_names)):
            self.flow.read(name, where(source, name), self.place)
        for fault in compiled.facts.faults:
            if self.is_given(fault.root):
                self.member(fault, source)

    def is_given(self, name: str) -> bool:
        """Whether a built-in name is what the runtime gives here, and no variable of the script."""
        if name != DETECTED:
            return name not in self.loop_names
        is_seen = self.detector is not None or (self.interrupt is not None and bool(self.interrupt.on.detector))
        return is_seen and self.loop_names.count(DETECTED) == 1

    def member(self, fault: MemberFault, source: Template | Expression) -> None:
        below = fault.line - 1
        at = Location(source.at.line + below, 1 if below else source.at.column, source.at.file)
        severity: Severity | None = None if fault.is_fatal else "warning"
        self.problems.add("MEMBER_UNKNOWN", fault.message, at, path=self.path(), fix=fault.fix, severity=severity)


def _above(low: int | float | str, high: int | float | str) -> bool:
    numbers = [number_in(limit) if isinstance(limit, str) else limit for limit in (low, high)]
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] > numbers[1]
    return str(low) > str(high)


def _below(text: Template, offset: int) -> Location:
    lines = text.source.count("\n", 0, offset)
    return Location(text.at.line + lines, 1 if lines else text.at.column, text.at.file)
