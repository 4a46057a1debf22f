"""The stage form: ``sessions: [{session, stages: [{stage, steps}]}]``, with its conditions and side files."""

from scripts.source import Mapping, Sequence, Tree


def recognises(tree: Tree | None) -> bool:
    """Whether a file is meant to be in this form."""
    return isinstance(tree, Mapping) and isinstance(tree.get("sessions"), Sequence)
