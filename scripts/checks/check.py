"""Check a script whose structure is valid: names, targets, texts, expressions, and the flow of its variables."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import regex

from scripts.checks import form_checks, tool_checks
from scripts.checks.answer_words import check_answer_words
from scripts.checks.answerability import check_questions
from scripts.checks.choice_checks import choice_faults, list_faults, reply_faults, several_names, trigger_faults
from scripts.checks.constant_conditions import check_conditions, check_constants
from scripts.checks.control_flow import ControlFlowGraph, Spot
from scripts.checks.definite_assignment import check_assignment, where
from scripts.checks.detector_checks import check_detector, unable
from scripts.checks.effects import (
    Body,
    Branch,
    Each,
    LoopBack,
    Read,
    Run,
    Select,
    Straight,
    Write,
    effect_of,
    forget_effects,
)
from scripts.checks.filter_checks import filter_faults
from scripts.checks.name_checks import check_names
from scripts.checks.output_checks import ignored_pattern, output_faults, record_faults
from scripts.checks.personal_data import check_copies
from scripts.checks.plain_texts import check_plain_texts
from scripts.checks.reachability import check_reachability
from scripts.checks.skill_checks import recursion_faults
from scripts.checks.time_checks import action_faults, default_faults, script_faults
from scripts.checks.type_check import check_arithmetic, check_sense
from scripts.checks.variable_flow import LostParts, Place, VariableFlow
from scripts.detectors.judge import DETECTORS_MAX
from scripts.expressions.expression_fixes import expression_fix, function_fix, method_fix, template_fix, unclosed_fix
from scripts.expressions.expressions import Compiled, forget_compiled, is_reserved
from scripts.expressions.members import DETECTED, FAILURE, MemberFault
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.suggestions import SURE, likeness, suggest
from scripts.expressions.values import Value, ValueRefused, coerce
from scripts.model import actions
from scripts.model.actions import Action, action_type, outputs_of, policies, rounds_of, tools_of, walk
from scripts.model.base import ID_CHARS_MAX, NOWHERE, Expression, Location, Template
from scripts.model.context_strategies import Context, faults_of
from scripts.model.diagnostics import Fault, Problems, Severity
from scripts.model.experiments import Arm, ExperimentPlan, block_faults, plan_faults
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
    declared_in,
    resolve_target,
    timers_of,
    topic_ids,
)
from scripts.model.tools import ToolDefinition
from scripts.model.variables import Declaration, Output, Records
from scripts.versions.rename_map import check_migrations
from scripts.yaml.syntax_hints import hidden_character

_NAME_FIRST = r"\s*(?P<inner>(?P<name>[^\W\d]\w*)(?:\s*(?:\|\|?|\?\?|\bor\b)[^{}｛｝\n]+)?)\s*"  # name, name | upper
_SINGLE_BRACES = regex.compile(rf"(?<!\{{)\$?\{{{_NAME_FIRST}\}}(?!\}})|｛+{_NAME_FIRST}｝+")
_ID = regex.compile(r"[^\s/:\p{C}](?:[^/\p{C}]*[^\s/\p{C}])?")  # a name: sessions also store names of the older formats
_A = {"event": "an event", "milestone": "a milestone", "outcome": "an outcome"}
_EVENT = regex.compile(r"\w[\w.\-]*")
_NAME = regex.compile(r"[^\W\d]\w*")
_OLDER_NAME = regex.compile(r"[^\W\d][\w.\-（）()· ]*")
_OPERATOR = r"(?:\s*(?:[<>=!]=|[+*<>])\s*|\s+[-/]\s+)"
_LIKE_EXPRESSION = regex.compile(rf'"(\w+(?:{_OPERATOR}\w+)*)"')  # a literal, as expressions spell it


_VALUE_FIXES = {
    "boolean": "Write true or false.",
    "number": "Write a number in digits, such as 10, or change the type.",
    "list": "Write a list in brackets, such as `[a, b]`, or change the type.",
    "record": "Write a mapping in braces, such as `{name: Ana}`, or change the type.",
}
"""By type, the fix for a value of another type; the messages about other types name an example."""
_COUNT_FIX = "Count in a variable: `set: {n: 0}` before the loop, `set: {n: =n + 1}` in it, and then {{ n }}."
_NEEDS_ALL_PARTS = frozenset(
    {"NO_ACTIONS", "EXPERIMENT_UNUSED", "FORM_UNUSED", "ARMS_TOO_FEW", "ARM_UNKNOWN", "ARM_MISSING"}
)
"""Problems that are not reported if a part of the script is invalid, because a list may be empty only for that."""
_DEFINED_IN = {
    "GOTO_UNKNOWN": "phases",
    "SKILL_UNKNOWN": "skills",
    "FORM_UNKNOWN": "forms",
    "FIELDS_INVALID": "forms",
    "COLUMNS_INVALID": "forms",
    "ROLE_UNKNOWN": "roles",
    "PARAMETER_UNKNOWN": "skills",
    "RETURN_UNKNOWN": "skills",
    "DETECTOR_UNKNOWN": "detectors",
    "DETECTOR_WITHOUT_RULE": "detectors",
    "DETECTOR_EXAMPLE_FAILS": "detectors",
    "EXPERIMENT_UNKNOWN": "experiments",
    "TOOL_UNKNOWN": "tools",
    "TIMEZONE_MISSING": "",
}
"""The key of the script below which something is defined, by the code of the problem that it does not exist."""
_IN_ACTIONS = regex.compile(r"\bactions\[")

_KEEPS_VALUES = frozenset({"EXPRESSION_INVALID", "TEMPLATE_INVALID", "DEPRECATED_KEY", "KEY_IGNORED"})
"""Errors of reading after which the script still sets all its variables."""

_Named = (
    Script | Phase | Topic | Skill | Action | Role | FormDefinition | ExperimentPlan | Arm | Interrupt | Detector
    | ToolDefinition
)  # fmt: skip
_N = TypeVar("_N", bound=_Named)


def is_id(name: str) -> bool:
    """Return whether a name can be an id."""
    return _ID.fullmatch(name) is not None and len(name) <= ID_CHARS_MAX


def check_script(script: Script, problems: Problems, texts: Mapping[str, str]) -> None:
    """Add every problem of a script; every node must have an id.

    `texts` are the script (by "") and its include files, in which the parts are looked for that errors made unreadable.
    """
    _Checker(script, problems).run(texts)
    forget_effects()
    forget_compiled()


class _Checker:
    def __init__(self, script: Script, problems: Problems) -> None:
        self.script = script
        self.problems = problems
        self.is_whole = not problems.fatal
        self.losses = [each for each in problems.errors if each.code not in _KEEPS_VALUES]
        self.lost = {
            each.path for each in self.losses if not _IN_ACTIONS.search(each.path)
        }  # what is there may have ids
        self.place = Place()
        self.at_hand: list[str] = []  # names that have a value besides the variables
        self.is_in_tool = False  # an action calls a tool, and the source belongs to it or to its `on_fail`
        self.shown: set[str] = set()  # forms that actions show
        self.met: set[str] = set()  # experiments that actions use
        self.flow = VariableFlow(script)
        self.topics = topic_ids(script)

    def add(self, code: str, message: str, at: Location, fix: str = "", severity: Severity | None = None) -> None:
        if code in _DEFINED_IN and not fix.startswith("Did you mean") and self.may_be_lost(code):
            return
        if self.is_whole or code not in _NEEDS_ALL_PARTS:
            self.problems.add(code, message, at, path=self.place.path, fix=fix, severity=severity)

    def may_be_lost(self, code: str) -> bool:
        """Return whether what has an unknown name may be in a part that an error made unreadable."""
        holder = _DEFINED_IN[code]
        if any(each.code == "DUPLICATE_KEY" for each in self.problems.errors):
            return True
        return any(holder in path or path.startswith("use") or (not path and holder != "phases") for path in self.lost)

    def faults(self, found: Iterable[Fault]) -> None:
        for each in found:
            self.add(each.code, each.message, each.at, each.fix, each.severity)

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

    def run(self, texts: Mapping[str, str]) -> None:
        script = self.script
        self.ids([script], "script")
        self.declarations(script.globals)
        self.declarations(script.declare)
        if not script.phases:
            self.add("NO_ACTIONS", "the script has no phases", script.at)
        if len(script.detectors) > DETECTORS_MAX:
            self.add("CONSTRAINT_VIOLATION", f"a script may have at most {DETECTORS_MAX} detectors", script.at)
        for kind in ("phase", "skill", "role", "form", "interrupt", "detector", "experiment"):
            self.ids(getattr(script, f"{kind}s"), kind)
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
        self.context(script.context)
        self.timed(script)
        self.faults(script_faults(script))
        self.texts(*(repair.say for repair in script.repairs))
        self.forms()
        self.tools()
        self.experiments()
        check_migrations(script, self.problems)
        reported = self.flow.check(self.problems, LostParts(texts, self.losses) if self.losses else None)
        check_plain_texts(script, self.flow.known(), self.problems)
        if not self.problems.fatal:
            self.analyses(ControlFlowGraph(script), reported)
        else:
            check_sense(ControlFlowGraph(script), self.problems, is_whole=not self.losses)

    def analyses(self, layout: ControlFlowGraph, reported: Collection[tuple[str, Spot]]) -> None:
        """Check a script without errors as a whole; `reported` are reads for which a problem is recorded already."""
        answered = check_assignment(layout, self.problems, reported)
        if self.script.form == "native":
            check_conditions(layout, self.problems, answered)
        for check in (check_reachability, check_sense, check_arithmetic, check_constants, check_questions, check_names):
            check(layout, self.problems)
        check_copies(self.script, self.problems)
        check_answer_words(self.script, self.problems)

    def phase(self, phase: Phase) -> None:
        with self.within(Place(phase)):
            self.expression(phase.when)
            self.declarations(phase.declare)
            self.ids(phase.topics, "topic")
            self.timed(phase)
            if not phase.topics:
                self.add("NO_ACTIONS", f"phase {phase.id} has no topics", phase.at)
            for topic in phase.topics:
                self.topic(phase, topic)

    def topic(self, phase: Phase, topic: Topic) -> None:
        self.expression(topic.when)
        self.word(topic.milestone, topic, "milestone")
        with self.within(Place(phase, topic)):
            self.declarations(topic.declare)
            self.timed(topic)
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
        self.faults(trigger_faults(interrupt, is_native=self.script.form == "native"))
        if trigger.detector:
            self.found("detector", trigger.detector, self.script.detectors, trigger.mark("detector"))
        with self.within(Place(node=interrupt)):
            self.expression(interrupt.when)
            with self.names(*([DETECTED] if trigger.detector else [])):  # the finding of the detector
                self.node_actions(interrupt.actions)
            if interrupt.then.policy == "goto":
                self.target(interrupt.then.target, interrupt.then.at)

    def detector(self, detector: Detector) -> None:
        with self.within(Place(node=detector)):
            self.faults(check_detector(detector))
            self.expression(detector.when)
            with self.names(DETECTED):  # its finding
                self.texts(detector.replace)
                self.node_actions(detector.actions)

    def on_budget(self) -> None:
        """Check `on_budget`: its actions read the same variables as a detector's, and cannot wait either."""
        for each in self.script.watchers[len(self.script.detectors) :]:
            with self.within(Place(node=each)):
                for action in unable(each.actions):
                    message = f"`on_budget` cannot `{action_type(action)}`: its actions run immediately, within a turn"
                    self.add("ON_BUDGET_WAITS", message, action.at)
                self.node_actions(each.actions)

    def timed(self, node: Script | Phase | Topic) -> None:
        """Check the reminders and the expiry of all questions of a node."""
        self.faults(default_faults(node))
        self.texts(*(each.say for each in node.remind))
        for each in timers_of(node):
            self.expression(each.date)
        if node.expire is not None and node.expire.then.policy == "goto":
            self.target(node.expire.then.target, node.expire.then.at)

    # -- names --------------------------------------------------------------------------------------------------

    def ids(self, nodes: Sequence[_Named], kind: str, key: str = "") -> None:
        """Check the ids of nodes, which stand under a key with the name of their kind, or under another `key`."""
        seen: dict[str, Location] = {}
        for node in nodes:
            at = node.mark(key or kind)
            if not is_id(node.id):
                self.add("ID_INVALID", f"{node.id!r} is not a valid id", at, hidden_character(node.id))
            if node.id in seen:
                self.add("DUPLICATE_ID", f"duplicate {kind} {node.id}, first in line {seen[node.id].line}", at)
            seen.setdefault(node.id, at)

    def found(self, kind: str, name: str, nodes: Sequence[_N], at: Location) -> _N | None:
        """Return the node with an id, and report one that does not exist."""
        node = next((each for each in nodes if each.id == name), None)
        if node is None:
            fix = suggest(name, [each.id for each in nodes], otherwise=None if kind == "role" else "")
            self.add(f"{kind.upper()}_UNKNOWN", f"unknown {kind} {name}", at, fix)
        return node

    def unused(self, kind: str, nodes: Sequence[FormDefinition | ExperimentPlan], used: set[str]) -> None:
        """Report the script's own nodes that no action uses; those of an include file may serve other scripts."""
        for each in nodes:
            if each.id not in used and each.at.file == self.script.at.file and each.at != NOWHERE:
                self.add(f"{kind.upper()}_UNUSED", f"no action uses the {kind} {each.id}", each.mark(kind))

    def name(self, name: str, at: Location) -> None:
        allowed = _NAME if self.script.form == "native" else _OLDER_NAME
        if not allowed.fullmatch(name) or len(name) > ID_CHARS_MAX:
            self.add("VARIABLE_NAME_INVALID", f"{name!r} is not a valid variable name", at, _list_fix(name))
        elif is_reserved(name):
            self.add("RESERVED_NAME", f"the runtime reserves the name `{name}`", at)

    def writes(self, name: str, at: Location) -> None:
        self.name(name, at)
        if any(plan.id == name for plan in self.script.experiments):
            self.add("EXPERIMENT_SET", f"`{name}` is an experiment, whose arm cannot be set", at)
        self.flow.write(name, self.place)

    def declarations(self, declared: Iterable[Declaration]) -> None:
        seen: set[str] = set()
        for each in declared:
            self.name(each.var, each.mark("var"))
            if each.var in seen:
                self.add("DUPLICATE_DECLARATION", f"{each.var} is declared twice here", each.mark("var"))
            seen.add(each.var)
            self.typed(each, each.value, "value")

    def typed(self, node: Declaration | Output, value: Value, key: str) -> None:
        """Check the type and choices of a declaration, and its value."""
        declared = node.kind
        self.faults(list_faults(node.choices, node.mark("choices")))
        milder: Severity | None = None if self.script.form == "native" else "warning"
        self.faults(reply_faults(node.choices, node.mark("choices"), milder))
        if declared == "choice" and not (node.choice_list if isinstance(node, Output) else node.choices):
            self.add("CHOICES_INVALID", "a choice needs `choices`", node.mark("type"), "Add `choices: [a, b]`.")
        elif len(set(node.choices)) < len(node.choices):
            self.add("CHOICES_INVALID", "a choice occurs twice", node.mark("choices"))
        elif declared is not None:
            try:
                coerce(value, declared, node.choices)
            except ValueRefused as refused:
                self.add("DEFAULT_MISMATCH", str(refused), node.mark(key), _VALUE_FIXES.get(declared, ""))

    def word(self, written: str, node: Topic | Action | actions.Signal | actions.Ending, key: str) -> None:
        """Check a name for analysts or the application, which a file name or a URL may contain."""
        is_left_out = not written and key not in node.marks and key != "event"
        if not is_left_out and (not _EVENT.fullmatch(written) or len(written) > ID_CHARS_MAX):
            fix = "Use letters, digits, `_`, `-` and `.`, without blanks, such as `hand_over`."
            self.add("ID_INVALID", f"{written!r} is not a valid name of {_A[key]}", node.mark(key), fix)

    # -- actions ------------------------------------------------------------------------------------------------

    def node_actions(self, actions: tuple[Action, ...]) -> None:
        """Check all actions of a node."""
        self.ids(list(walk(actions)), "action", "id")
        self.block(actions)

    def block(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.action(action)

    def action(self, action: Action) -> None:
        self.expression(action.when)
        self.word(action.milestone, action, "milestone")
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
        self.policies(action)
        self.outputs(action)
        self.own(action)

    def step(self, step: Read | Write) -> None:
        match step:
            case Read(source=Template() as text):
                with self.names(*step.at_hand):
                    self.texts(text)
            case Read(source=Expression() as expression):
                with self.names(*step.at_hand):
                    self.expression(expression)
            case Write():
                self.expression(step.value)
                self.writes(step.name, step.at)

    def body(self, body: Body) -> None:
        match body:
            case Branch():
                self.block(body.then)
                self.block(body.otherwise)
            case Each():
                self.name(body.loop.name, body.loop.at)
                with self.names(body.loop.name):
                    self.block(body.do)
            case LoopBack():
                self.block(body.do)
                self.expression(body.until)
            case Select():
                if body.word == "choice":
                    self.writes(body.put.name, body.put.at)
                for option in body.options:
                    self.block(option.actions)
            case Run():
                self.call(body.call)
            case Straight():
                pass

    def own(self, action: Action) -> None:
        """Check what only actions of this type have."""
        self.faults(action_faults(action))
        self.exits(action)
        self.offers(action)
        if isinstance(action, actions.Asking) and not action.max_rounds and self.script.form == "native":
            message = f"0 rounds count as the default, {actions.ROUNDS_DEFAULT}"
            fix = f"Write a number from 1 to {actions.ROUNDS_MAX}, or remove it."
            self.add("CONSTRAINT_VIOLATION", message, action.mark("max_rounds"), fix, "warning")
        for name, value in _given(action):
            found = _LIKE_EXPRESSION.fullmatch(value.source)
            declared = self.declaration(name) if isinstance(action, actions.Set) else None
            if found is not None and (declared is None or found[1] not in declared.choices):
                is_wrong = declared is not None and declared.kind not in {None, "text", "choice"}
                self.flow.text(found[1], value.at, self.place, "warning" if is_wrong else None)
        match action:
            case actions.Say() if not any(text.source.strip() for text in action.texts):
                self.add("EMPTY_TEXT", "the text is empty", action.mark("say"))
            case actions.Show() if action.media.image is None and action.media.url is None:
                self.add("REQUIRED_FIELD_MISSING", "`show` needs `image` or `url`", action.media.at)
            case actions.Choose():
                self.faults(choice_faults(action, is_whole=not self.problems.fatal))
                for each in action.choices:
                    if isinstance(each, actions.ListedChoices):
                        self.name(each.loop.name, each.loop.at)
            case actions.Experiment():
                self.met.add(action.plan)
                self.faults(block_faults(action, self.script.experiments))
            case actions.Emit():
                self.word(action.signal.event, action.signal, "event")
                self.event(action.signal)
            case actions.End() if action.ending is not None:
                self.word(action.ending.outcome, action.ending, "outcome")
            case actions.Remember() | actions.Recall():
                self.memory(action)
            case actions.CallTool():
                self.tool(action)
            case actions.Form():
                self.form(action)
            case actions.Chat():
                self.context(action.context)
            case actions.Sleep() if action.on_message not in {"hold", "resume"}:
                self.target(action.on_message, action.mark("on_message"), ("hold", "resume"))
            case actions.Scene():
                for role in (action.speakers.ai, action.speakers.human):
                    self.role(role, action.speakers.at)

    def event(self, signal: actions.Signal) -> None:
        if signal.event != actions.HAND_OVER and likeness(signal.event.casefold(), actions.HAND_OVER) >= SURE:
            message = f"`{signal.event}` only informs the application; `{actions.HAND_OVER}` asks for a person"
            self.add("HAND_OVER_MISSPELT", message, signal.mark("event"))

    def exits(self, action: Action) -> None:
        """Check that the model has one thing to judge, because it answers whether it is done only once."""
        worded = [each for each in action.exits if each.said is not None] if isinstance(action, actions.Leading) else []
        if len(worded) > 1:
            fix = "Write both in one `said`: the model gives one judgement."
            self.add("KEY_CONFLICT", "`said` occurs in two exits", worded[1].mark("said"), fix)
        if isinstance(action, actions.AiAsk | actions.Chat):
            rounds = rounds_of(action)
            for each in (each for each in action.exits if each.min_rounds > rounds):
                message = f"`min_rounds` is {each.min_rounds}, but there are at most {rounds} rounds"
                self.add("POLICY_TOO_LATE", message, each.mark("min_rounds"))

    def context(self, context: Context | None) -> None:
        self.faults(faults_of(context) if context is not None else ())

    def memory(self, action: actions.Remember | actions.Recall) -> None:
        self.may_remember(action.at)
        plan = self.script.memory
        if isinstance(action, actions.Remember) and plan.remember == "nothing" and not plan.is_off:
            self.add("MEMORY_OFF", "the script's `memory` has `remember: nothing`", action.at)
        text = action.text if isinstance(action, actions.Remember) else action.query
        if not text.source.strip():
            self.add("EMPTY_TEXT", "the text is empty", text.at)
        if isinstance(action, actions.Recall):
            self.faults(filter_faults(action.filters, action.mark("filters")))

    def may_remember(self, at: Location) -> None:
        if self.script.memory.is_off:
            self.add("MEMORY_OFF", "the script's `memory` is `off`", at)

    def role(self, role: str, at: Location) -> None:
        """Check a role; a script without `roles` may use any name, which the model sees."""
        if role and self.script.roles:
            self.found("role", role, self.script.roles, at)

    def tool(self, action: actions.CallTool) -> None:
        tool = self.found("tool", action.tool, self.script.tools, action.mark("tool"))
        if tool is not None:
            self.faults(tool_checks.call_faults(action, tool, self.declaration))

    def offers(self, action: Action) -> None:
        """Check the tools that the model of an action may call."""
        seen = set[str]()
        for offer in tools_of(action):
            tool = self.found("tool", offer.tool, self.script.tools, offer.mark("tool"))
            if offer.tool in seen:
                self.add("DUPLICATE_ID", f"the tool {offer.tool} is listed twice", offer.mark("tool"))
            elif tool is not None:
                self.faults(tool_checks.offer_faults(offer, tool, self.declaration))
            seen.add(offer.tool)

    def declaration(self, name: str) -> Declaration | None:
        """Return the declaration of a variable that is visible here."""
        nodes = (node for node in (self.place.node, self.place.phase) if node is not None)
        layers = (declared for node in nodes for declared in declared_in(node))
        found = (*layers, *self.script.session_variables, *self.script.global_variables)
        return next((each for each in found if each.var == name), None)

    def tools(self) -> None:
        """Check the tools of the script, if it has any; JSON Schema is imported only then."""
        if self.script.tools:
            self.ids(self.script.tools, "tool")
            for tool in self.script.tools:
                self.faults(tool_checks.faults(tool))

    def form(self, action: actions.Form) -> None:
        sheet = self.found("form", action.sheet, self.script.forms, action.mark("form"))
        if sheet is not None:
            self.shown.add(sheet.id)
            self.sheet(sheet)

    def forms(self) -> None:
        """Check the forms; the variables that they read are checked where they are shown."""
        aside = _Checker(self.script, self.problems)
        for sheet in self.script.forms:
            aside.sheet(sheet)
            self.faults(form_checks.faults(sheet))
        self.unused("form", self.script.forms, self.shown)

    def experiments(self) -> None:
        """Check the experiments, and report unused ones."""
        plans = self.script.experiments
        for plan in plans:
            self.name(plan.id, plan.mark("experiment"))
            self.ids(plan.arms, "arm")
        self.faults(plan_faults(plans, (*self.script.globals, *self.script.declare)))
        self.unused("experiment", plans, self.met)

    def sheet(self, sheet: FormDefinition) -> None:
        """Check a form where it is shown: its fields are variables there."""
        self.texts(sheet.title, sheet.text)
        for each in sheet.fields:
            self.writes(each.name, each.mark("field"))
            self.field(each)

    def field(self, field: FormField) -> None:
        self.texts(field.label, field.placeholder)
        self.expression(field.computed)
        output = as_output(field)
        if field.computed is None and (output.type != "choice" or output.choice_list):
            self.output(output, set())
        with self.names(*(column.name for column in field.columns)):  # the cells of the row that is validated
            for column in field.columns:
                self.name(column.name, column.mark("field"))
                self.field(column)

    def call(self, action: actions.Call) -> None:
        if action.loop is not None:
            self.name(action.loop.name, action.loop.at)
        for name in action.assigned:
            self.writes(name, action.mark("output"))
        skill = self.found("skill", action.skill, self.script.skills, action.mark("call"))
        if skill is not None:
            self.parameters(action, skill)

    def parameters(self, action: actions.Call, skill: Skill) -> None:
        known = [each.var for each in skill.params]
        missing = [
            each for each in skill.params if each.required and each.value is None and each.var not in action.input
        ]
        for name, value in action.input.items():
            if name not in known:
                fix = suggest(name, known)
                self.add("PARAMETER_UNKNOWN", f"the skill {skill.id} has no parameter `{name}`", value.at, fix)
                missing = [each for each in missing if not suggest(name, [each.var], "")]
        for each in missing:
            fix = f"Add `{each.var}:` to `with`, or to `input` in a file without `cuebook: 1`."
            self.add("PARAMETER_MISSING", f"the skill {skill.id} requires `{each.var}`", action.mark("call"), fix)
        for name in action.output.values():
            if name and name not in skill.returns:
                fix = suggest(name, list(skill.returns))
                self.add("RETURN_UNKNOWN", f"the skill {skill.id} does not return `{name}`", action.mark("output"), fix)

    def policies(self, action: Action) -> None:
        for key, policy in policies(action).items():
            if isinstance(action, actions.AiAsk | actions.Chat) and policy.after > rounds_of(action):
                message = f"`{key}` needs {policy.after} replies, but there are at most {rounds_of(action)}"
                self.add("POLICY_TOO_LATE", message, policy.mark("after"))

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

    # -- outputs --------------------------------------------------------------------------------------------------

    def outputs(self, action: Action) -> None:
        seen: set[str] = set()
        for item in outputs_of(action):
            for each in item.questions:
                if isinstance(item, Records):
                    self.name(each.get, each.mark("get"))
                self.output(each, seen)
                self.faults(ignored_pattern(each))
            if isinstance(item, Records):
                self.faults(record_faults(item))

    def output(self, output: Output, seen: set[str]) -> None:
        if output.get in seen:
            self.add("DUPLICATE_DECLARATION", f"{output.get} is an output twice here", output.mark("get"))
        seen.add(output.get)
        for value in output.expressions:
            self.expression(value)
        self.typed(output, None if isinstance(output.default, Expression) else output.default, "default")
        self.texts(output.invalid)
        self.faults(output_faults(output))
        with self.names(output.get):  # the answer itself is visible while it is validated
            for each in output.validate:
                self.expression(each.unless)
                self.texts(each.say)

    # -- texts and expressions --------------------------------------------------------------------------------------

    def texts(self, *texts: Template | None) -> None:
        for text in texts:
            if text is not None:
                self.compiled(text, "TEMPLATE_INVALID")
                for match in _SINGLE_BRACES.finditer(text.source) if self.script.form == "native" else ():
                    inner = regex.sub(r"\|\||\?\?", "or", match["inner"].strip())
                    fix = f"Write {{{{ {inner} }}}}."
                    self.flow.mention(match["name"], match[0], _line_at(text, match.start()), fix)

    def expression(self, expression: Expression | None) -> None:
        if expression is None:
            return
        if not expression.source.strip():
            self.add("EXPRESSION_INVALID", "the expression is empty", expression.at)
            return
        self.compiled(expression, "EXPRESSION_INVALID")

    def compiled(self, source: Template | Expression, code: str) -> None:
        try:
            compiled = source.compiled
        except ExpressionInvalid as error:
            unclosed = unclosed_fix(source.source) if isinstance(source, Template) else ""
            find_fix = template_fix if isinstance(source, Template) else expression_fix
            fix = unclosed or find_fix(source.source, str(error))
            message = "a part in braces is not closed" if unclosed else str(error)
            self.add(code, message, source.at.below(error.line - 1), fix)
            return
        for message, line in compiled.facts.unavailable:
            self.add(code, message, source.at.below(line - 1), template_fix(source.source, message))
        self.functions(compiled, source)
        if "recall" in compiled.names and "recall" not in self.at_hand:
            self.may_remember(where(source, "recall"))
        for name in sorted(compiled.reads - set(self.at_hand) - compiled.facts.called.keys()):
            if name == "loop":  # no variable can have this name
                message = "`loop` exists only within {% for %}; `foreach` and `each` do not count"
                self.add("VARIABLE_NEVER_SET", message, where(source, name), _COUNT_FIX)
            else:
                self.flow.read(name, where(source, name), self.place)
        for fault in compiled.facts.faults:
            if self.is_given(fault.root):
                self.member(fault, source)
        for function, place, line in compiled.facts.places:
            self.counted_place(function, place, source.at.below(line - 1))

    def functions(self, compiled: Compiled, source: Template | Expression) -> None:
        """Report calls of names that are no functions, and of methods that no value has; no variable can be called."""
        for name, line in compiled.facts.called.items():
            at = source.at.below(line - 1)
            self.add("MEMBER_UNKNOWN", f"there is no function `{name}`", at, function_fix(name), "warning")
        for name, line in compiled.facts.methods:
            at = source.at.below(line - 1)
            self.add("MEMBER_UNKNOWN", f"no value has the member `{name}`", at, method_fix(name))

    def counted_place(self, function: str, place: str, at: Location) -> None:
        """Check the place whose visits or minutes an expression reads."""
        known = [phase.id for phase in self.script.phases]
        if function == "visits":
            known += [f"{phase.id}/{topic.id}" for phase in self.script.phases for topic in phase.topics]
        if place not in known:
            self.add("GOTO_UNKNOWN", f"`{function}`: unknown phase or topic {place}", at, suggest(place, known))

    def is_given(self, name: str) -> bool:
        """Return whether a name refers to a built-in value here, not to a variable of the script."""
        if name not in {DETECTED, FAILURE}:
            return name not in self.at_hand
        node = self.place.node
        is_detecting = isinstance(node, Detector) or (isinstance(node, Interrupt) and bool(node.on.detector))
        is_seen = is_detecting if name == DETECTED else self.is_in_tool
        return is_seen and self.at_hand.count(name) == 1

    def member(self, fault: MemberFault, source: Template | Expression) -> None:
        severity: Severity | None = None if fault.is_fatal else "warning"
        self.add("MEMBER_UNKNOWN", fault.message, source.at.below(fault.line - 1), fault.fix, severity)


def _given(action: Action) -> Iterable[tuple[str, Template | Expression]]:
    """Return the values that an action gives to variables, parameters or data, by name."""
    match action:
        case actions.Set():
            return action.assignments.items()
        case actions.Add():
            return action.additions.items()
        case actions.Call():
            return action.input.items()
        case actions.CallTool():
            return action.given.items()
        case actions.Emit():
            return action.signal.data.items()
        case _:
            return ()


def _line_at(text: Template, offset: int) -> Location:
    return text.at.below(text.source.count("\n", 0, offset))


def _list_fix(name: str) -> str:
    """Return the fix for several names in one text, or an empty text."""
    names = several_names(name)
    return f"Write a list: `[{', '.join(names)}]`." if names else ""
