"""A script prepared for execution: all nodes by id, all lists of actions by place."""

from collections.abc import Iterable, Mapping
from datetime import UTC, tzinfo
from functools import cached_property
from typing import TypeVar

from runtime.state.state import State
from scripts.checks.arithmetic_checks import counted_answers
from scripts.checks.control_flow import ControlFlowGraph
from scripts.detectors.estimate import Vocabulary
from scripts.detectors.judge import watches
from scripts.expressions.time_values import zone_of
from scripts.model.actions import HAND_OVER, Action, Chat, Emit, Form, Question, Sleep, arms, outputs_of, walk
from scripts.model.script import (
    DETECTORS,
    INTERRUPTS,
    Interrupt,
    Locale,
    Phase,
    Scope,
    Script,
    Topic,
    Trigger,
    all_declarations,
    resolve_target,
    topic_ids,
)
from scripts.model.variable_names import reads_below
from scripts.model.variables import Declaration, OutputItem, by_name
from scripts.translations.localisation import localise, own_locale, table_for

Place = tuple[str, str, str, str]
"""Phase, topic, block and arm: the key of a list of actions (block and arm are empty for the topic's own list).

The topic of a skill has an empty phase; an interrupt counts as a topic of the phase `INTERRUPTS`, a detector as one of
`DETECTORS`.
"""


_CALLS = ("visits", "minutes_spent")
ZONE_VARIABLE = "timezone"
"""The global variable with the name of the user's time zone."""


def answering_id(place: tuple[str, str]) -> str:
    """Return the id of the interrupt that a topic is while it answers messages to a sleeping session."""
    return f":{'/'.join(place)}"


def answering_place(interrupt: str) -> tuple[str, str]:
    """Return the phase and topic of such an id."""
    phase, _, topic = interrupt.removeprefix(":").partition("/")
    return phase, topic


class PlaceLost(LookupError):
    """A saved place that does not exist in the script; the message names it."""


_Key = TypeVar("_Key")
_Node = TypeVar("_Node")


class Nodes(dict[_Key, _Node]):
    """The nodes of one `kind` by their ids. A node that the script does not have raises PlaceLost."""

    def __init__(self, kind: str, nodes: Iterable[tuple[_Key, _Node]] = ()) -> None:
        super().__init__(nodes)
        self._kind = kind

    def __missing__(self, key: _Key) -> _Node:
        raise PlaceLost(f"the script has no {self._kind} {'/'.join(key) if isinstance(key, tuple) else key}")


class Program:
    """Lookup tables of one script, built once and shared by all its sessions."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.phases: dict[str, Phase] = {phase.id: phase for phase in script.phases}
        self.topics: Nodes[tuple[str, str], Topic] = Nodes("topic")
        self._actions: Nodes[tuple[str, str, str], Action] = Nodes("action")
        self._lists: dict[Place, tuple[Action, ...]] = {}
        self._targets: dict[tuple[str, str], tuple[str, str] | None] = {}  # by the script's targets, and phase
        self._indices: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        for phase_at, phase in enumerate(script.phases):
            self._indices[phase.id, "", ""] = phase_at, 0, 0
            for topic_at, topic in enumerate(phase.topics):
                self._add_topic(phase, topic, (phase_at, topic_at))
        self.skills = Nodes("skill", ((skill.id, skill) for skill in script.skills))
        for skill in script.skills:
            self._add_actions("", skill.id, skill.actions)
        self.interrupts = Nodes("interrupt", ((each.id, each) for each in script.interrupts))
        for each in script.interrupts:
            self._add_actions(INTERRUPTS, each.id, each.actions)
        self.answering: dict[str, Topic] = {}  # by the id of their interrupt, the topics that answer during a `wait`
        for place in {self.target(each.on_message, home[0]) for home, each in self._sleeping_topics()}:
            if place is not None:  # a topic that answers while the session sleeps is like an interrupt
                answering = Interrupt(id=answering_id(place), on=Trigger(), actions=self.topics[place].actions)
                self.interrupts[answering.id] = answering
                self.answering[answering.id] = self.topics[place]
                self._add_actions(INTERRUPTS, answering.id, answering.actions)
        self.watches_user = any(watches(each, "user") for each in script.detectors)
        self.watches_assistant = any(watches(each, "assistant") for each in script.detectors)
        self.vocabularies = {each.id: Vocabulary(each.measures, each.signs) for each in script.detectors}
        for watcher in script.watchers:
            self._add_actions(DETECTORS, watcher.id, watcher.actions)
        self.roles = {role.id: role for role in script.roles}
        self.forms = Nodes("form", ((form.id, form) for form in script.forms))
        self.tools = {tool.id: tool for tool in script.tools}
        self.experiments = {plan.id: plan for plan in script.experiments}
        self.session_names = by_name(script.session_variables)
        self.global_names = by_name(script.global_variables)
        self.phase_names = {phase.id: by_name(phase.declare) for phase in script.phases}
        self.topic_names = {key: by_name(topic.declare) for key, topic in self.topics.items()}
        self.topic_names |= {("", id): by_name((*each.params, *each.declare)) for id, each in self.skills.items()}
        self.topic_names |= {(INTERRUPTS, id): by_name(each.declare) for id, each in self.answering.items()}
        self._note_what_is_used(script)
        self.typed_outputs: dict[tuple[str, str, str], tuple[OutputItem, ...]] = {}
        """The outputs of actions, by phase, topic and id, each with the type that its variable is declared with; added
        when an action first runs.
        """
        self.computed_outputs: set[tuple[str, str, str]] = set()
        """The actions among these whose outputs have a limit or a default that is an expression."""

    @cached_property
    def _counted(self) -> frozenset[tuple[str, str, str]]:
        layout = ControlFlowGraph(self.script)
        found = (each for each in counted_answers(layout) if each.output.pattern is None)
        return frozenset((*layout.spot(each.node), each.output.get) for each in found)

    def is_counted(self, home: tuple[str, str], name: str) -> bool:
        """Return whether the script counts with an answer of a topic or skill, so that the answer must be a number."""
        return (*home, name) in self._counted

    def _note_what_is_used(self, script: Script) -> None:
        """Note what a turn can leave out, because nothing in the script uses it."""
        self.has_calls = bool(script.skills or self.interrupts or script.watchers)
        self.has_auto_variables = any(each.auto for each in all_declarations(script))
        self.has_patterns = any(map(_has_pattern, self._actions.values())) or any(
            each.pattern is not None
            for form in script.forms
            for field in form.fields
            for each in (field, *field.columns)
        )
        self.has_context = script.context is not None or any(
            isinstance(each, Chat) and each.context is not None for each in self._actions.values()
        )
        holders: tuple[Script | Phase | Topic, ...] = (script, *script.phases, *self.topics.values())
        self.has_time = any(_has_time(each) for each in self._actions.values()) or any(
            each.remind or each.expire for each in holders
        )
        self.speaks_by_itself = self.has_time or any(
            isinstance(each, Emit) and each.signal.event == HAND_OVER for each in self._actions.values()
        )
        functions = {name for each in reads_below(script) for name in _CALLS if f"{name}(" in each.source}
        self.counts_visits = "visits" in functions
        self.counts_minutes = "minutes_spent" in functions

    @cached_property
    def form_labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return what a typed reply may call the fields of a form, by the id of the action that shows it."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self._actions.values():
            for field in self.forms[each.sheet].fields if isinstance(each, Form) else ():
                label = field.label.source if field.label is not None else ""
                found[each.id] = (*found.get(each.id, ()), *filter(None, (label, field.define, field.name)))
        return found

    def _sleeping_topics(self) -> list[tuple[tuple[str, str, str], Sleep]]:
        """Return the waits in which a topic answers messages."""
        return [
            (home, each)
            for home, each in self._actions.items()
            if isinstance(each, Sleep) and each.on_message not in {"hold", "resume"}
        ]

    def _add_topic(self, phase: Phase, topic: Topic, index: tuple[int, int]) -> None:
        self.topics[phase.id, topic.id] = topic
        self._add_actions(phase.id, topic.id, topic.actions)
        self._indices[phase.id, topic.id, ""] = *index, 0
        for action_at, action in enumerate(topic.actions):
            self._indices |= {(phase.id, topic.id, inner.id): (*index, action_at) for inner in walk((action,))}

    def _add_actions(self, phase: str, topic: str, actions: tuple[Action, ...]) -> None:
        self._lists[phase, topic, "", ""] = actions
        for action in walk(actions):
            self._actions[phase, topic, action.id] = action
            for arm, inner in arms(action).items():
                self._lists[phase, topic, action.id, arm] = inner

    def action(self, phase: str, topic: str, action: str) -> Action:
        """Return the action of these ids. Raises PlaceLost."""
        return self._actions[phase, topic, action]

    def target(self, target: str, phase: str) -> tuple[str, str] | None:
        """Return phase and topic of a target of `goto`, seen from a phase; None if the script has none."""
        if (target, phase) not in self._targets:
            self._targets[target, phase] = resolve_target(topic_ids(self.script), target, phase)
        return self._targets[target, phase]

    def declarations(self, scope: Scope, phase: str, home: tuple[str, str]) -> Mapping[str, Declaration]:
        """Return the declarations of a scope by name; those of the topic are looked up at `home`."""
        match scope:
            case "global":
                return self.global_names
            case "session":
                return self.session_names
            case "phase":
                return self.phase_names.get(phase, {})
            case "topic":
                return self.topic_names.get(home, {})

    def has_action(self, path: tuple[str, str, str]) -> bool:
        """Return whether there is an action of these ids."""
        return path in self._actions

    def actions(self, place: Place) -> tuple[Action, ...]:
        """Return the list of actions at a place; empty if the script has none."""
        return self._lists.get(place, ())

    def following(self, place: Place, action: str) -> Action | None:
        """Return the next action in a list, or None at its end. Raises PlaceLost."""
        actions = self._lists.get(place, ())
        for index, each in enumerate(actions):
            if each.id == action:
                return actions[index + 1] if index + 1 < len(actions) else None
        raise PlaceLost(f"the script has no action {'/'.join(place[:2])}/{action}")

    def indices(self, phase: str, topic: str, action: str) -> tuple[int, int, int]:
        """Return the indices of phase, topic and action, from 0; an action in a block has the index of the block."""
        at = self._indices
        return at.get((phase, topic, action)) or at.get((phase, topic, "")) or at.get((phase, "", "")) or (0, 0, 0)

    @property
    def locale(self) -> Locale:
        """Return the language of the script's texts."""
        return own_locale(self.script)

    def zone(self, state: State, default: str) -> tzinfo:
        """Return the time zone of a session: its own, else the user's, else the script's, else `default`."""
        cell = state.global_cells.get(ZONE_VARIABLE)
        user = cell.value if cell is not None and isinstance(cell.value, str) else ""
        for name in (state.timezone, user, self.script.timezone, default):
            if name and (zone := zone_of(name)) is not None:
                return zone
        return UTC

    def in_locale(self, locale: Locale) -> "Program":
        """Return the program with its texts in a language; the program itself if the script has no translation."""
        table = table_for(self.script, locale)
        return self if table is None else Program(localise(self.script, table))


def _has_time(action: Action) -> bool:
    return isinstance(action, Sleep) or (isinstance(action, Question) and bool(action.remind or action.expire))


def _has_pattern(action: Action) -> bool:
    return any(output.pattern is not None for item in outputs_of(action) for output in item.questions)
