"""Outlines of scripts for analysts: the actions in order, the declared variables, labels, arms and end reasons."""

import msgspec

OUTLINES = "outlines.json"
"""The file of a delta with the outlines; it is written by a package that can read scripts."""


class ActionOutline(msgspec.Struct, frozen=True):
    """One action; the columns of `script_actions`."""

    digest: str
    script_id: str
    position: int
    phase_id: str
    phase_position: int
    topic_id: str
    topic_position: int
    action_id: str
    action_type: str
    is_question: bool
    says: str | None


class VariableOutline(msgspec.Struct, frozen=True):
    """One declared variable; the columns of `script_variables`."""

    digest: str
    script_id: str
    scope: str
    phase_id: str
    topic_id: str
    name: str
    type: str | None
    define: str | None
    is_pii: bool


class LabelOutline(msgspec.Struct, frozen=True):
    """One label that an author defined for a detector; a model may also answer with other labels."""

    digest: str
    label: str


class ArmOutline(msgspec.Struct, frozen=True):
    """One arm of an experiment; the columns of `script_arms`."""

    digest: str
    script_id: str
    experiment: str
    unit: str
    arm: str
    position: int
    weight: int
    define: str | None


class EndReasonOutline(msgspec.Struct, frozen=True):
    """One end reason of a script or of the runtime; an application may use any other text as a reason."""

    digest: str
    reason: str


class MilestoneOutline(msgspec.Struct, frozen=True):
    """One milestone of a script; the columns of `script_milestones`."""

    digest: str
    script_id: str
    milestone: str


class Outline(msgspec.Struct, frozen=True):
    """The outlines of the scripts `digests`."""

    digests: list[str]
    actions: list[ActionOutline]
    variables: list[VariableOutline]
    labels: list[LabelOutline] = []
    arms: list[ArmOutline] = []
    end_reasons: list[EndReasonOutline] = []
    milestones: list[MilestoneOutline] = []
