"""A script prepared for running: every node by its id, every list of actions by its place."""

from collections.abc import Mapping
from functools import cached_property

from runtime.state import DETECTORS, INTERRUPTS
from scripts.actions import Action, arms, walk
from scripts.analysis.arithmetic import counted_answers
from scripts.analysis.layout import Layout
from scripts.detectors.estimate import Vocabulary
from scripts.model import FormSheet, Interrupt, Locale, Phase, Script, Skill, Topic
from scripts.strings import localised, own_locale, table_for
from scripts.variables import Declaration

Place = tuple[str, str, str, str]
"""Phase, topic, block and arm: what names a list of actions (block and arm empty for the topic's own).

A skill counts as a topic of no phase, an interrupt as one of `INTERRUPTS`, a detector as one
of `DETECTORS`.
"""


class PlaceLost(LookupError):
    """A saved place that the script does not have; the message names it."""


class Program:
    """Look-ups over one script, made once and shared by all its sessions."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.phases: dict[str, Phase] = {phase.id: phase for phase in script.phases}
        self.topics: dict[tuple[str, str], Topic] = {}
        self._actions: dict[tuple[str, str, str], Action] = {}
        self._lists: dict[Place, tuple[Action, ...]] = {}
        for phase in script.phases:
            for topic in phase.topics:
                self._add_topic(phase, topic)
        self.skills = {skill.id: skill for skill in script.skills}
        for skill in script.skills:
            self._add_actions("", skill.id, skill.actions)
        self.interrupts = {each.id: each for each in script.interrupts}
        for each in script.interrupts:
            self._add_actions(INTERRUPTS, each.id, each.actions)
        self.watches_assistant = any(each.watches_assistant for each in script.detectors)
        self.vocabularies = {each.id: Vocabulary(each.measures, each.signs) for each in script.detectors}
        for watcher in script.watchers:
            self._add_actions(DETECTORS, watcher.id, watcher.actions)
        self.roles = {role.id: role for role in script.roles}
        self.forms = {form.id: form for form in script.forms}
        self.experiments = {plan.id: plan for plan in script.experiments}
        self.session_names = _declared(script.session_variables)
        self.global_names = _declared(script.global_variables)
        self.phase_names = {phase.id: _declared(phase.declare) for phase in script.phases}
        self.topic_names = {key: _declared(topic.declare) for key, topic in self.topics.items()}
        self.topic_names |= {("", id): _declared((*each.params, *each.declare)) for id, each in self.skills.items()}

    @cached_property
    def _counted(self) -> frozenset[tuple[str, str, str]]:
        found = counted_answers(Layout(self.script))
        return frozenset((*each.spot, each.output.get) for each in found if each.output.pattern is None)

    def is_counted(self, home: tuple[str, str], name: str) -> bool:
        """Whether the script counts with an answer of a topic or skill, so that only a number will do."""
        return (*home, name) in self._counted

    def _add_topic(self, phase: Phase, topic: Topic) -> None:
        self.topics[phase.id, topic.id] = topic
        self._add_actions(phase.id, topic.id, topic.actions)

    def _add_actions(self, phase: str, topic: str, actions: tuple[Action, ...]) -> None:
        self._lists[phase, topic, "", ""] = actions
        for action in walk(actions):
            self._actions[phase, topic, action.id] = action
            for arm, inner in arms(action).items():
                self._lists[phase, topic, action.id, arm] = inner

    def topic(self, phase: str, topic: str) -> Topic:
        """The topic of these ids. Raises PlaceLost."""
        try:
            return self.topics[phase, topic]
        except KeyError:
            raise PlaceLost(f"the script has no topic {phase}/{topic}") from None

    def skill(self, skill: str) -> Skill:
        """The skill of this id. Raises PlaceLost."""
        try:
            return self.skills[skill]
        except KeyError:
            raise PlaceLost(f"the script has no skill {skill}") from None

    def interrupt(self, interrupt: str) -> Interrupt:
        """The interrupt of this id. Raises PlaceLost."""
        try:
            return self.interrupts[interrupt]
        except KeyError:
            raise PlaceLost(f"the script has no interrupt {interrupt}") from None

    def form(self, form: str) -> FormSheet:
        """The form of this id. Raises PlaceLost."""
        try:
            return self.forms[form]
        except KeyError:
            raise PlaceLost(f"the script has no form {form}") from None

    def action(self, phase: str, topic: str, action: str) -> Action:
        """The action of these ids. Raises PlaceLost."""
        try:
            return self._actions[phase, topic, action]
        except KeyError:
            raise PlaceLost(f"the script has no action {phase}/{topic}/{action}") from None

    def has_action(self, path: tuple[str, str, str]) -> bool:
        """Whether there is an action of these ids."""
        return path in self._actions

    def actions(self, place: Place) -> tuple[Action, ...]:
        """The list of actions at a place; empty where the script has none."""
        return self._lists.get(place, ())

    def following(self, place: Place, action: str) -> Action | None:
        """The action after another in a list, or None at its end. Raises PlaceLost."""
        actions = self.actions(place)
        for index, each in enumerate(actions):
            if each.id == action:
                return actions[index + 1] if index + 1 < len(actions) else None
        raise PlaceLost(f"the script has no action {'/'.join(place[:2])}/{action}")

    def indices(self, phase: str, topic: str, action: str) -> tuple[int, int, int]:
        """Where phase, topic and action stand in the script, counted from 0; an action inside a block counts by it."""
        phase_at = next((i for i, each in enumerate(self.script.phases) if each.id == phase), 0)
        topics = self.phases[phase].topics if phase in self.phases else ()
        topic_at = next((i for i, each in enumerate(topics) if each.id == topic), 0)
        actions = topics[topic_at].actions if topics else ()
        action_at = next((i for i, each in enumerate(actions) if action in {inner.id for inner in walk((each,))}), 0)
        return phase_at, topic_at, action_at

    @property
    def locale(self) -> Locale:
        """The language of the script's texts."""
        return own_locale(self.script)

    def in_locale(self, locale: Locale) -> "Program":
        """The same program with the texts of a language; itself where the script has no string table for it."""
        table = table_for(self.script, locale)
        return self if table is None else Program(localised(self.script, table))


def _declared(declarations: tuple[Declaration, ...]) -> Mapping[str, Declaration]:
    return {each.var: each for each in declarations}
