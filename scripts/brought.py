"""What a side file brings to the scripts that use it."""

from scripts.experiments import ExperimentPlan
from scripts.model import Detector, FormSheet, Interrupt, Repair, Role, Skill, StringTable
from scripts.nodes import Node
from scripts.variables import Declaration


class SideFile(Node, frozen=True, kw_only=True):
    """What a side file may bring."""

    use: tuple[str, ...] = ()
    globals: tuple[Declaration, ...] = ()
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormSheet, ...] = ()
    experiments: tuple[ExperimentPlan, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    repairs: tuple[Repair, ...] = ()
    detectors: tuple[Detector, ...] = ()
    strings: tuple[StringTable, ...] = ()
