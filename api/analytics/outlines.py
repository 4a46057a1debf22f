"""The outline of a script for the analytics tables: its actions in their order, and its declared variables."""

from collections.abc import Iterable, Iterator

from runtime.actions.outcomes import USER_ENDED, reasons_of
from scripts.checks.effects import effect_of
from scripts.model.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Chat,
    Choose,
    End,
    Form,
    Question,
    Say,
    UserSay,
    action_type,
    walk,
)
from scripts.model.base import Template
from scripts.model.script import DETECTORS, Detector, Phase, Script, declarations_of, nodes
from scripts.model.variables import Declaration
from store.analytics.outlines import (
    ActionOutline,
    ArmOutline,
    EndReasonOutline,
    LabelOutline,
    MilestoneOutline,
    Outline,
    VariableOutline,
)

SAYS_CHARS_MAX = 200
UNKNOWN = "*"
"""Represents all variables of a script that cannot be read: any of them may be personal."""


def outline_of(scripts: Iterable[tuple[str, Script | None]]) -> Outline:
    """Return the outline of versions of scripts by their digests; None is one that this Cuebook cannot read."""
    whole = Outline([], [], [], [], [], [], [])
    for digest, script in scripts:
        whole.digests.append(digest)
        if script is None:
            whole.variables.append(VariableOutline(digest, "", "session", "", "", UNKNOWN, None, None, is_pii=True))
            continue
        labels = sorted({label for watcher in script.watchers for label in _labels(watcher)})
        whole.actions.extend(_actions(digest, script))
        whole.variables.extend(_variables(digest, script))
        whole.labels.extend(LabelOutline(digest, label) for label in labels)
        whole.arms.extend(_arms(digest, script))
        whole.end_reasons.extend(EndReasonOutline(digest, reason) for reason in sorted(_end_reasons(script)))
        whole.milestones.extend(MilestoneOutline(digest, script.id, name) for name in sorted(_milestones(script)))
    return whole


def _labels(detector: Detector) -> Iterator[str]:
    """Yield the labels that a detector may report."""
    yield detector.id
    yield from (rule.label for rule in detector.rules if rule.label)
    yield from (pattern.id for pattern in detector.patterns)


def _arms(digest: str, script: Script) -> Iterator[ArmOutline]:
    for plan in script.experiments:
        for position, arm in enumerate(plan.arms, 1):
            yield ArmOutline(
                digest=digest,
                script_id=script.id,
                experiment=plan.id,
                unit=plan.by,
                arm=arm.id,
                position=position,
                weight=arm.weight,
                define=arm.define or None,
            )


def _end_reasons(script: Script) -> set[str]:
    """Return the reasons with which the script may end a session."""
    actions = [each for *_, listed in _homes(script) for each in walk(listed)]
    endings = (each.ending for each in actions if isinstance(each, End))
    written = {ending.reason for ending in endings if ending is not None and ending.reason}
    return written | {USER_ENDED} | {reason for each in actions for reason in reasons_of(each.id)}


def _milestones(script: Script) -> set[str]:
    """Return the names of the milestones of a script."""
    actions = (each for *_, listed in _homes(script) for each in walk(listed))
    topics = (topic for phase in script.phases for topic in phase.topics)
    return {each.milestone for each in (*actions, *topics) if each.milestone}


def _actions(digest: str, script: Script) -> Iterator[ActionOutline]:
    position = 0
    for topic_position, (phase_position, phase_id, topic_id, actions) in enumerate(_homes(script), 1):
        for action in walk(actions):
            position += 1
            yield ActionOutline(
                digest=digest,
                script_id=script.id,
                position=position,
                phase_id=phase_id,
                phase_position=phase_position,
                topic_id=topic_id,
                topic_position=topic_position if phase_position else 0,
                action_id=action.id,
                action_type=action_type(action),
                is_question=isinstance(action, Question) and effect_of(action).waits != "never",
                says=_says(script, action),
            )


def _homes(script: Script) -> Iterator[tuple[int, str, str, tuple[Action, ...]]]:
    """Yield every list of actions with the position (0: none) and id of its phase, and the id of its topic."""
    positions = {phase.id: number for number, phase in enumerate(script.phases, 1)}
    for path, node in nodes(script):
        if not isinstance(node, Phase | Detector):
            phase_id, topic_id = path
            yield positions.get(phase_id, 0), phase_id, topic_id, node.actions
    for watcher in script.watchers:
        yield 0, DETECTORS, watcher.id, watcher.actions


def _says(script: Script, action: Action) -> str | None:
    text = _text(script, action)
    if text is None:
        return None
    words = " ".join(text.source.split())
    return words if len(words) <= SAYS_CHARS_MAX else f"{words[: SAYS_CHARS_MAX - 1]}…"


def _text(script: Script, action: Action) -> Template | None:
    """Return the text of an action, or its subject."""
    match action:
        case Say():
            return action.texts[0] if action.texts else None
        case Ask() | Choose():
            return action.question
        case AiSay() | AiAsk() | AiThink() | Chat():
            return action.task
        case Form():
            return next((each.text or each.title for each in script.forms if each.id == action.sheet), None)
        case UserSay():
            return action.text
        case _:
            return None


def _variables(digest: str, script: Script) -> Iterator[VariableOutline]:
    for scope, phase_id, topic_id, declared in _declarations(script):
        for each in declared:
            yield VariableOutline(
                digest=digest,
                script_id=script.id,
                scope=scope,
                phase_id=phase_id,
                topic_id=topic_id,
                name=each.var,
                type=each.kind,
                define=each.define or None,
                is_pii=each.pii,
            )


def _declarations(script: Script) -> Iterator[tuple[str, str, str, tuple[Declaration, ...]]]:
    """Yield every block of declarations with its scope, phase and topic."""
    yield "global", "", "", script.globals
    yield "session", "", "", script.declare
    for path, node in nodes(script):
        phase_id, topic_id = path if len(path) > 1 else (*path, "")
        yield "phase" if isinstance(node, Phase) else "topic", phase_id, topic_id, declarations_of(node)
