"""What a `goto` names: ``phase/topic``, a topic of the same phase, or a phase."""

from scripts.model import Script


def resolve_target(script: Script, target: str, phase_id: str) -> tuple[str, str] | None:
    """The (phase, topic) ids a target means, seen from a phase; a phase alone means its first topic. None: no such."""
    phases = {phase.id: phase for phase in script.phases}
    first, slash, second = target.partition("/")
    if slash:
        topics = [topic.id for topic in phases[first].topics] if first in phases else []
        return (first, second) if second in topics else None
    if phase_id in phases and any(topic.id == target for topic in phases[phase_id].topics):
        return phase_id, target
    if target in phases and phases[target].topics:
        return target, phases[target].topics[0].id
    return None
