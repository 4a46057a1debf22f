"""Experiments: what is tried out in several arms, and what is wrong with one or with a block that branches by it.

The arm a user or session is in is kept in a variable of the experiment's name: a choice, of global or session scope.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from scripts.actions import Experiment
from scripts.nodes import Location, Node
from scripts.suggest import suggest
from scripts.variables import Declaration

WEIGHT_MAX = 1_000

Unit: TypeAlias = Literal["user", "session"]
"""What stays in an arm once it is in it: a user, in whatever session, or one session."""


class Arm(Node, frozen=True, kw_only=True):
    """One of the ways that an experiment tries; of all weights together, it gets its own share of the users."""

    id: str = field(name="arm")
    weight: Annotated[int, Meta(ge=1, le=WEIGHT_MAX)] = 1
    define: str = ""


class ExperimentPlan(Node, frozen=True, kw_only=True):
    """What is tried out, in arms that chance assigns; `experiment:` as an action is where a conversation meets it."""

    id: str = field(name="experiment")
    define: str = ""
    arms: tuple[Arm, ...] = field()
    by: Unit = "user"

    @property
    def names(self) -> tuple[str, ...]:
        """Its arms by their names."""
        return tuple(arm.id for arm in self.arms)


def arm_variables(plans: Iterable[ExperimentPlan], by: Unit) -> tuple[Declaration, ...]:
    """The variables that keep the arms of users, or those of sessions."""
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


OF_A_WHOLE = frozenset({"EXPERIMENT_UNUSED", "ARMS_TOO_FEW", "ARM_UNKNOWN", "ARM_MISSING"})
"""What is told only where every arm and action could be read."""


class Fault(Struct, frozen=True):
    """Something wrong with an experiment, and where; an empty fix stands for that of the code."""

    code: str
    message: str
    at: Location
    fix: str = ""


def plan_faults(plans: tuple[ExperimentPlan, ...], declared: Iterable[Declaration]) -> Iterator[Fault]:
    """What is wrong with the experiments themselves; `declared` are the variables of the session and global scope."""
    taken = {each.var for each in declared}
    for plan in plans:
        if plan.id in taken:
            yield Fault("DUPLICATE_DECLARATION", f"{plan.id} is a variable already", plan.mark("experiment"))
        if len(plan.arms) < 2:
            yield Fault("ARMS_TOO_FEW", f"{plan.id} has {len(plan.arms) or 'no'} arm", plan.mark("arms"))


def block_faults(action: Experiment, plans: tuple[ExperimentPlan, ...]) -> Iterator[Fault]:
    """What is wrong with a place where a conversation meets an experiment."""
    plan = next((each for each in plans if each.id == action.plan), None)
    if plan is None:
        fix = suggest(action.plan, [each.id for each in plans], otherwise="")
        yield Fault("EXPERIMENT_UNKNOWN", f"there is no experiment {action.plan}", action.mark("experiment"), fix)
        return
    at = action.mark("arms")
    for name, inner in action.arms.items():
        if name not in plan.names:
            where = inner[0].at if inner else at
            yield Fault("ARM_UNKNOWN", f"{plan.id} has no arm {name}", where, suggest(name, plan.names))
    missing = [name for name in plan.names if name not in action.arms] if action.arms else []
    if missing:
        fix = f"Add `{missing[0]}:`, with `[]` where nothing is to happen."
        yield Fault("ARM_MISSING", f"nothing says what happens in the arm {', '.join(missing)}", at, fix)


def unused(plans: tuple[ExperimentPlan, ...], met: set[str], file: str) -> Iterator[Fault]:
    """The experiments of the script itself that no action meets; a side file may serve other scripts."""
    for plan in plans:
        if plan.id not in met and plan.at.file == file:
            yield Fault("EXPERIMENT_UNUSED", f"no action meets the experiment {plan.id}", plan.mark("experiment"))
