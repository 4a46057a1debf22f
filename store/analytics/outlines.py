"""What analysts get to know of a script's text: its actions in their order and its declared variables, as rows."""

import msgspec

OUTLINES = "outlines.json"
"""The file of a delta that holds them; whoever can read scripts writes it there."""


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
    """One label that an author gave to what a detector sees; a model may also answer with words of its own."""

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
    """One reason for an end that stands in a script, or that the runtime gives; an application may give any other."""

    digest: str
    reason: str


class Outline(msgspec.Struct, frozen=True):
    """Those of some texts of scripts, by digest."""

    digests: list[str]
    actions: list[ActionOutline]
    variables: list[VariableOutline]
    labels: list[LabelOutline] = []
    arms: list[ArmOutline] = []
    end_reasons: list[EndReasonOutline] = []
