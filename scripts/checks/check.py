"""Check a script whose structure is valid: walk through its nodes, and know what has a name at each of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from scripts.checks import effects, form_checks, source_checks, tool_checks
from scripts.checks.action_checks import action_faults, memory_off
from scripts.checks.answer_words import check_answer_words
from scripts.checks.answerability import check_questions
from scripts.checks.arithmetic_checks import check_arithmetic
from scripts.checks.call_checks import recursion_faults, skill_faults
from scripts.checks.choice_checks import choice_faults, trigger_faults
from scripts.checks.constant_conditions import check_conditions, check_constants
from scripts.checks.control_flow import ControlFlowGraph
from scripts.checks.declaration_checks import declaration_faults, value_faults
from scripts.checks.definite_assignment import check_assignment, where
from scripts.checks.detector_checks import check_detector, unable
from scripts.checks.effects import Body, Read, Write, effect_of, forget_effects
from scripts.checks.identifier_checks import id_faults, label_faults, variable_faults
from scripts.checks.name_checks import check_names
from scripts.checks.output_checks import ignored_fallback, ignored_pattern, output_faults, record_faults
from scripts.checks.personal_data import check_copies
from scripts.checks.plain_texts import check_plain_texts
from scripts.checks.reachability import check_reachability
from scripts.checks.time_checks import default_faults, script_faults
from scripts.checks.type_check import check_sense
from scripts.checks.unreadable_parts import LostParts
from scripts.checks.variable_flow import Place, VariableFlow
from scripts.detectors.judge import DETECTORS_MAX
from scripts.expressions.expressions import forget_compiled
from scripts.expressions.members import DETECTED, FAILURE
from scripts.expressions.suggestions import suggest
from scripts.model import actions
from scripts.model.actions import Action, action_type, outputs_of, tools_of, walk
from scripts.model.base import NOWHERE, Expression, Location, Template
from scripts.model.context_strategies import faults_of
from scripts.model.diagnostics import Fault, Problems
from scripts.model.experiments import ExperimentPlan, plan_faults
from scripts.model.script import (
    Detector,
    FormDefinition,
    FormField,
    Interrupt,
    Phase,
    Role,
    Script,
    Skill,
    Topic,
    as_output,
    declarations_of,
    resolve_target,
    timers_of,
    topic_ids,
)
from scripts.model.tools import ToolDefinition
from scripts.model.variables import Declaration, Output, Records
from scripts.versions.rename_map import check_migrations

_COUNT_FIX = "Count in a variable: `set: {n: 0}` before the loop, `set: {n: =n + 1}` in it, and then {{ n }}."
_N = TypeVar("_N", bound=Skill | Role | FormDefinition | Detector | ToolDefinition)


def check_script(script: Script, problems: Problems, texts: Mapping[str, str]) -> None:
    """Add every problem of a script; every node must have an id.

    `texts` are the script (by "") and its include files, in which the parts are looked for that errors made unreadable.
    """
    checker = _Checker(script, problems, texts)
    checker.run()
    _check_flow(script, problems, checker.flow, checker.lost)
    forget_effects()
    forget_compiled()


def _check_flow(script: Script, problems: Problems, flow: VariableFlow, lost: LostParts) -> None:
    """Check a script as a whole: its variables, and without errors also what happens in it."""
    reported = flow.check(problems, lost)
    check_plain_texts(script, flow.known_names(), problems)
    layout = ControlFlowGraph(script)
    if problems.fatal:
        check_sense(layout, problems, is_whole=not lost)
        return
    answered = check_assignment(layout, problems, reported)
    if script.form == "native":
        check_conditions(layout, problems, answered)
    for check in (check_reachability, check_sense, check_arithmetic, check_constants, check_questions, check_names):
        check(layout, problems)
    check_copies(script, problems)
    check_answer_words(script, problems)


class _Checker:
    def __init__(self, script: Script, problems: Problems, texts: Mapping[str, str]) -> None:
        self.script = script
        self.is_native = script.form == "native"
        self.problems = problems
        self.texts = texts
        self.lost = LostParts(texts, problems)
        self.place = Place()
        self.at_hand: list[str] = []  # names that have a value besides the variables
        self.is_in_tool = False  # an action calls a tool, and the source belongs to it or to its `on_fail`
        self.shown: set[str] = set()  # forms that actions show
        self.met: set[str] = set()  # experiments that actions use
        self.flow = VariableFlow(script)
        self.topics = topic_ids(script)

    def add(self, code: str, message: str, at: Location, fix: str = "") -> None:
        self.faults([Fault(code, message, at, fix)])

    def faults(self, found: Iterable[Fault]) -> None:
        path = self.place.path
        for each in found:
            if not self.lost.may_cause(each):
                self.problems.add(each.code, each.message, each.at, path=path, fix=each.fix, severity=each.severity)

    @contextmanager
    def within(self, place: Place) -> Iterator[None]:
        """Check the parts of a node."""
        outer, self.place = self.place, place
        yield
        self.place = outer

    @contextmanager
    def names(self, *names: str) -> Iterator[None]:
        """Check sources that may read these names as well."""
        outer, self.at_hand = self.at_hand, [*self.at_hand, *names]
        yield
        self.at_hand = outer

    # -- nodes --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        script = self.script
        self.faults(id_faults([script], "script"))
        self.declarations(script.globals)
        self.declarations(script.declare)
        if not script.phases:
            self.add("NO_ACTIONS", "the script has no phases", script.at)
        if len(script.detectors) > DETECTORS_MAX:
            self.add("CONSTRAINT_VIOLATION", f"a script may have at most {DETECTORS_MAX} detectors", script.at)
        for kind in ("phase", "skill", "role", "form", "interrupt", "detector", "experiment", "tool"):
            self.faults(id_faults(getattr(script, f"{kind}s"), kind))
        for phase in script.phases:
            self.phase(phase)
        for skill in script.skills:
            self.skill(skill)
        self.faults(recursion_faults(script.skills))
        for interrupt in script.interrupts:
            self.interrupt(interrupt)
        for detector in script.detectors:
            self.detector(detector)
        self.on_budget()
        self.faults(faults_of(script.context) if script.context is not None else ())
        self.check_times(script)
        self.faults(script_faults(script))
        self.sources(*(repair.say for repair in script.repairs))
        self.forms()
        for tool in script.tools:
            self.faults(tool_checks.faults(tool))
        self.experiments()
        check_migrations(script, self.problems)

    def phase(self, phase: Phase) -> None:
        with self.within(Place(phase)):
            self.sources(phase.when)
            self.declarations(phase.declare)
            self.faults(id_faults(phase.topics, "topic"))
            self.check_times(phase)
            if not phase.topics:
                self.add("NO_ACTIONS", f"phase {phase.id} has no topics", phase.at)
            for topic in phase.topics:
                self.topic(phase, topic)

    def topic(self, phase: Phase, topic: Topic) -> None:
        self.sources(topic.when)
        self.faults(label_faults(topic.milestone, topic, "milestone"))
        with self.within(Place(phase, topic)):
            self.declarations(topic.declare)
            self.check_times(topic)
            if not topic.actions:
                self.add("NO_ACTIONS", f"topic {topic.id} has no actions", topic.at)
            self.node_actions(topic.actions)

    def skill(self, skill: Skill) -> None:
        with self.within(Place(node=skill)):
            self.declarations((*skill.params, *skill.declare))
            self.node_actions(skill.actions)
            for name in skill.returns:
                self.flow.read(name, skill.mark("returns"), self.place)

    def interrupt(self, interrupt: Interrupt) -> None:
        trigger = interrupt.on
        self.faults(trigger_faults(interrupt, is_native=self.is_native))
        if trigger.detector:
            self.find("detector", trigger.detector, self.script.detectors, trigger.mark("detector"))
        with self.within(Place(node=interrupt)):
            self.sources(interrupt.when)
            with self.names(*([DETECTED] if trigger.detector else [])):  # the finding of the detector
                self.node_actions(interrupt.actions)
            if interrupt.then.policy == "goto":
                self.target(interrupt.then.target, interrupt.then.at)

    def detector(self, detector: Detector) -> None:
        with self.within(Place(node=detector)):
            self.faults(check_detector(detector))
            self.sources(detector.when)
            with self.names(DETECTED):  # its finding
                self.sources(detector.replace)
                self.node_actions(detector.actions)

    def on_budget(self) -> None:
        """Check `on_budget`: its actions read the same variables as a detector's, and cannot wait either."""
        for each in self.script.watchers[len(self.script.detectors) :]:
            with self.within(Place(node=each)):
                for action in unable(each.actions):
                    message = f"`on_budget` cannot `{action_type(action)}`: its actions run immediately, within a turn"
                    self.add("ON_BUDGET_WAITS", message, action.at)
                self.node_actions(each.actions)

    def check_times(self, node: Script | Phase | Topic) -> None:
        """Check the reminders and the expiry of all questions of a node."""
        self.faults(default_faults(node))
        self.sources(*(each.say for each in node.remind))
        self.sources(*(each.date for each in timers_of(node)))
        if node.expire is not None and node.expire.then.policy == "goto":
            self.target(node.expire.then.target, node.expire.then.at)

    def forms(self) -> None:
        """Check the forms; the variables that they read are checked where they are shown."""
        aside = _Checker(self.script, self.problems, self.texts)
        for sheet in self.script.forms:
            aside.sheet(sheet)
            self.faults(form_checks.faults(sheet))
        self.check_unused("form", self.script.forms, self.shown)

    def experiments(self) -> None:
        """Check the experiments, and report unused ones."""
        plans = self.script.experiments
        for plan in plans:
            self.name(plan.id, plan.mark("experiment"))
            self.faults(id_faults(plan.arms, "arm"))
        self.faults(plan_faults(plans, (*self.script.globals, *self.script.declare)))
        self.check_unused("experiment", plans, self.met)

    def check_unused(self, kind: str, nodes: Sequence[FormDefinition | ExperimentPlan], used: set[str]) -> None:
        """Report the script's own nodes that no action uses; those of an include file may serve other scripts."""
        for each in nodes:
            if each.id not in used and each.at.file == self.script.at.file and each.at != NOWHERE:
                self.add(f"{kind.upper()}_UNUSED", f"no action uses the {kind} {each.id}", each.mark(kind))

    # -- names --------------------------------------------------------------------------------------------------

    def find(self, kind: str, name: str, nodes: Sequence[_N], at: Location) -> _N | None:
        """Return the node with an id, and report one that does not exist."""
        node = next((each for each in nodes if each.id == name), None)
        if node is None:
            fix = suggest(name, [each.id for each in nodes], otherwise=None if kind == "role" else "")
            self.add(f"{kind.upper()}_UNKNOWN", f"unknown {kind} {name}", at, fix)
        return node

    def role(self, role: str, at: Location) -> None:
        """Check a role; a script without `roles` may use any name, which the model sees."""
        if role and self.script.roles:
            self.find("role", role, self.script.roles, at)

    def target(self, target: str, at: Location, others: Sequence[str] = ()) -> None:
        """Check a target; `others` are the words that are possible instead of one."""
        if isinstance(self.place.node, Skill):
            self.add("GOTO_IN_SKILL", "a skill returns to its caller; it cannot jump", at)
            return
        phase = self.place.phase
        if resolve_target(self.topics, target, phase.id if phase is not None else "") is not None:
            return
        known = [*others, *(f"{phase.id}/{topic.id}" for phase in self.script.phases for topic in phase.topics)]
        known += [topic.id for topic in phase.topics] if phase is not None else []
        elsewhere = [each for each in known if each.endswith(f"/{target}")]
        fix = f"Did you mean `{elsewhere[0]}`?" if len(elsewhere) == 1 else suggest(target, known)
        self.add("GOTO_UNKNOWN", f"unknown topic or phase {target}", at, fix)

    def name(self, name: str, at: Location) -> None:
        self.faults(variable_faults(name, at, is_native=self.is_native))

    def writes(self, name: str, at: Location) -> None:
        self.name(name, at)
        if any(plan.id == name for plan in self.script.experiments):
            self.add("EXPERIMENT_SET", f"`{name}` is an experiment, whose arm cannot be set", at)
        self.flow.write(name, self.place)

    def declarations(self, declared: Iterable[Declaration]) -> None:
        self.faults(declaration_faults(declared, is_native=self.is_native))

    def declaration(self, name: str) -> Declaration | None:
        """Return the declaration of a variable that is visible here."""
        nodes = (node for node in (self.place.node, self.place.phase) if node is not None)
        layers = (declared for node in nodes for declared in declarations_of(node))
        found = (*layers, *self.script.session_variables, *self.script.global_variables)
        return next((each for each in found if each.var == name), None)

    # -- actions ------------------------------------------------------------------------------------------------

    def node_actions(self, actions: tuple[Action, ...]) -> None:
        """Check all actions of a node."""
        self.faults(id_faults(walk(actions), "action", "id"))
        self.block(actions)

    def block(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.action(action)

    def action(self, action: Action) -> None:
        self.sources(action.when)
        self.role(action.role, action.mark("role"))
        effect = effect_of(action)
        is_in_tool, self.is_in_tool = self.is_in_tool, self.is_in_tool or isinstance(action, actions.CallTool)
        for step in effect.steps:
            self.step(step)
        for leave in effect.leaves:
            if leave.target is not None:
                self.target(leave.target, leave.at)
        self.body(effect.body)
        self.is_in_tool = is_in_tool
        self.block(effect.failing)
        self.outputs(action)
        self.faults(action_faults(action, self.script))
        self.offers(action)
        self.likely_expressions(action)
        self.own(action)

    def step(self, step: Read | Write) -> None:
        match step:
            case Read():
                with self.names(*step.at_hand):
                    self.sources(step.source)
            case Write():
                self.sources(step.value)
                self.writes(step.name, step.at)

    def body(self, body: Body) -> None:
        match body:
            case effects.Branch():
                self.block(body.then)
                self.block(body.otherwise)
            case effects.Each():
                self.name(body.loop.name, body.loop.at)
                with self.names(body.loop.name):
                    self.block(body.do)
            case effects.LoopBack():
                self.block(body.do)
                self.sources(body.until)
            case effects.Select():
                if body.word == "choice":
                    self.writes(body.put.name, body.put.at)
                for option in body.options:
                    self.block(option.actions)
            case effects.Run():
                self.call(body.call)
            case effects.Straight():
                pass

    def own(self, action: Action) -> None:
        """Check what only actions of this type have, and what depends on where they are."""
        match action:
            case actions.Choose():
                self.faults(choice_faults(action, is_whole=not self.problems.fatal))
                for each in action.choices:
                    if isinstance(each, actions.ListedChoices):
                        self.name(each.loop.name, each.loop.at)
            case actions.Experiment():
                self.met.add(action.plan)
            case actions.CallTool():
                tool = self.find("tool", action.tool, self.script.tools, action.mark("tool"))
                self.faults(tool_checks.call_faults(action, tool, self.declaration) if tool is not None else ())
            case actions.Form():
                sheet = self.find("form", action.sheet, self.script.forms, action.mark("form"))
                if sheet is not None:
                    self.shown.add(sheet.id)
                    self.sheet(sheet)
            case actions.Sleep() if action.on_message not in {"hold", "resume"}:
                self.target(action.on_message, action.mark("on_message"), ("hold", "resume"))
            case actions.Scene():
                for role in (action.speakers.ai, action.speakers.human):
                    self.role(role, action.speakers.at)

    def call(self, action: actions.Call) -> None:
        if action.loop is not None:
            self.name(action.loop.name, action.loop.at)
        for name in action.assigned:
            self.writes(name, action.mark("output"))
        skill = self.find("skill", action.skill, self.script.skills, action.mark("call"))
        self.faults(skill_faults(action, skill) if skill is not None else ())

    def offers(self, action: Action) -> None:
        """Check the tools that the model of an action may call."""
        seen = set[str]()
        for offer in tools_of(action):
            tool = self.find("tool", offer.tool, self.script.tools, offer.mark("tool"))
            if offer.tool in seen:
                self.add("DUPLICATE_ID", f"the tool {offer.tool} is listed twice", offer.mark("tool"))
            elif tool is not None:
                self.faults(tool_checks.offer_faults(offer, tool, self.declaration))
            seen.add(offer.tool)

    def likely_expressions(self, action: Action) -> None:
        """Record texts for which an expression was probably meant, except for choices of the variable that is set."""
        for name, written, at in source_checks.texts_like_expressions(action):
            declared = self.declaration(name) if isinstance(action, actions.Set) else None
            if declared is None or written not in declared.choices:
                is_wrong = declared is not None and declared.kind not in {None, "text", "choice"}
                self.flow.text(written, at, self.place, "warning" if is_wrong else None)

    # -- outputs and fields ---------------------------------------------------------------------------------------

    def outputs(self, action: Action) -> None:
        seen: set[str] = set()
        for item in outputs_of(action):
            for each in item.questions:
                if isinstance(item, Records):
                    self.name(each.get, each.mark("get"))
                self.output(each, seen)
                self.faults(ignored_pattern(each))
                if isinstance(action, actions.Ask):
                    self.faults(ignored_fallback(each))
            if isinstance(item, Records):
                self.faults(record_faults(item))

    def output(self, output: Output, seen: set[str]) -> None:
        if output.get in seen:
            self.add("DUPLICATE_DECLARATION", f"{output.get} is an output twice here", output.mark("get"))
        seen.add(output.get)
        self.sources(*output.expressions)
        default = None if isinstance(output.default, Expression) else output.default
        self.faults(value_faults(output, default, "default", is_native=self.is_native))
        self.sources(output.invalid)
        self.faults(output_faults(output))
        with self.names(output.get):  # the answer itself is visible while it is validated
            for each in output.validate:
                self.sources(each.unless, each.say)

    def sheet(self, sheet: FormDefinition) -> None:
        """Check a form where it is shown: its fields are variables there."""
        self.sources(sheet.title, sheet.text)
        for each in sheet.fields:
            self.writes(each.name, each.mark("field"))
            self.field(each)

    def field(self, field: FormField) -> None:
        self.sources(field.label, field.placeholder, field.computed)
        output = as_output(field)
        if field.computed is None and (output.type != "choice" or output.choice_list):
            self.output(output, set())
        with self.names(*(column.name for column in field.columns)):  # the cells of the row that is validated
            for column in field.columns:
                self.name(column.name, column.mark("field"))
                self.field(column)

    # -- texts and expressions --------------------------------------------------------------------------------------

    def sources(self, *sources: Template | Expression | None) -> None:
        for source in sources:
            if source is not None:
                self.source(source)

    def source(self, source: Template | Expression) -> None:
        if isinstance(source, Template) and self.is_native:
            self.faults(source_checks.quote_faults(source))
            for found in source_checks.single_braces(source):
                self.flow.mention(*found, self.place, is_at_hand=found[0] in self.at_hand)
        fault = source_checks.syntax_fault(source)
        if fault is not None:
            self.faults([fault])
            return
        self.faults(source_checks.function_faults(source))
        self.faults(source_checks.duration_faults(source))
        self.reads(source)
        self.faults(source_checks.member_faults(source, self.is_given))
        self.faults(source_checks.place_faults(source, self.script.phases))

    def reads(self, source: Template | Expression) -> None:
        """Record the variables that a text or expression reads."""
        compiled = source.compiled
        if "recall" in compiled.names and "recall" not in self.at_hand and self.script.memory.is_off:
            self.faults([memory_off(where(source, "recall"))])
        for name in sorted(compiled.reads - set(self.at_hand) - compiled.facts.called.keys()):
            if name == "loop":  # no variable can have this name
                message = "`loop` exists only within {% for %}; `foreach` and `each` do not count"
                self.add("VARIABLE_NEVER_SET", message, where(source, name), _COUNT_FIX)
            else:
                self.flow.read(name, where(source, name), self.place)

    def is_given(self, name: str) -> bool:
        """Return whether a name refers to a built-in value here, not to a variable of the script."""
        if name not in {DETECTED, FAILURE}:
            return name not in self.at_hand
        node = self.place.node
        is_detecting = isinstance(node, Detector) or (isinstance(node, Interrupt) and bool(node.on.detector))
        is_seen = is_detecting if name == DETECTED else self.is_in_tool
        return is_seen and self.at_hand.count(name) == 1
