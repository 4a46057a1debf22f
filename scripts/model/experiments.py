"""Experiments with several arms, and the checks of experiments and of the actions that use them.

The arm of a user or session is stored in a variable with the experiment's name: a choice, of global or session scope.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.expressions.suggestions import stands_for, suggest
from scripts.model.actions import Experiment
from scripts.model.base import Node
from scripts.model.diagnostics import Fault
from scripts.model.variables import Declaration

WEIGHT_MAX = 1_000

Unit: TypeAlias = Literal["user", "session"]
"""The unit that is assigned to an arm: a user, for all sessions, or one session."""


class Arm(Node, frozen=True, kw_only=True):
    """One arm of an experiment; its share of the users is its weight divided by the sum of all weights."""

    id: str = field(name="arm")
    weight: Annotated[int, Meta(ge=1, le=WEIGHT_MAX)] = 1
    define: str = ""


class ExperimentPlan(Node, frozen=True, kw_only=True):
    """An experiment with randomly assigned arms; the action `experiment` assigns the arm."""

    id: str = field(name="experiment")
    define: str = ""
    arms: tuple[Arm, ...] = field()
    by: Unit = "user"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms."""
        return tuple(arm.id for arm in self.arms)


def arm_variables(plans: Iterable[ExperimentPlan], by: Unit) -> tuple[Declaration, ...]:
    """Return the variables that store the arms of users, or those of sessions."""
    return tuple(
        Declaration(
            var=plan.id,
            define=plan.define,
            type="choice",
            choices=plan.names,
            at=plan.at,
            marks={"var": plan.mark("experiment")},
        )
        for plan in plans
        if plan.by == by
    )


def plan_faults(plans: tuple[ExperimentPlan, ...], declared: Iterable[Declaration]) -> Iterator[Fault]:
    """Check the experiments themselves; `declared` are the variables of the session and global scope."""
    names = {each.var for each in declared}
    for plan in plans:
        if plan.id in names:
            yield Fault("DUPLICATE_DECLARATION", f"{plan.id} is already a variable", plan.mark("experiment"))
        if len(plan.arms) < 2:
            parts = re.split(r"[\s,，、]+", "".join(plan.names).strip())
            fix = f"Separate the items with `, `: `[{', '.join(parts)}]`." if len(parts) > 1 else ""
            message = f"{plan.id} has {'only one' if plan.arms else 'no'} arm"
            yield Fault("ARMS_TOO_FEW", message, plan.mark("arms"), fix)


def block_faults(action: Experiment, plans: tuple[ExperimentPlan, ...]) -> Iterator[Fault]:
    """Check an `experiment` action."""
    plan = next((each for each in plans if each.id == action.plan), None)
    if plan is not None and len(plan.arms) < 2:
        return  # reported for the experiment itself
    if plan is None:
        fix = suggest(action.plan, [each.id for each in plans], otherwise="")
        yield Fault("EXPERIMENT_UNKNOWN", f"unknown experiment {action.plan}", action.mark("experiment"), fix)
        return
    at = action.mark("arms")
    missing = [name for name in plan.names if name not in action.arms] if action.arms else []
    for name, inner in action.arms.items():
        if name not in plan.names:
            where = inner[0].at if inner else at
            yield Fault("ARM_UNKNOWN", f"{plan.id} has no arm {name}", where, suggest(name, plan.names))
            missing = [each for each in missing if not stands_for(name, each)]
    if missing:
        fix = f"Add `{missing[0]}:`, with `[]` if it has no actions."
        yield Fault("ARM_MISSING", f"no actions for the arm {', '.join(missing)}", at, fix)
