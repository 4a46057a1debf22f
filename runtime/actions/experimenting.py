"""`experiment`: which arm a user or session is in, drawn once and kept; and the actions of that arm."""

import hashlib
from bisect import bisect
from itertools import accumulate

import msgspec

from runtime.events import Exposed
from runtime.outcomes import DONE, Enter, Outcome
from runtime.run import Run
from scripts.actions import Experiment
from scripts.experiments import ExperimentPlan
from scripts.model import Scope


def experiment(run: Run, action: Experiment) -> Outcome:
    """The actions of the arm, where the block has any."""
    arm = met(run, action)
    return Enter(arm) if action.arms.get(arm) else DONE


def met(run: Run, action: Experiment) -> str:
    """The arm of whoever meets the experiment, which is kept from here on. The first time is on record."""
    plan = run.program.experiments[action.plan]
    scope: Scope = "global" if plan.by == "user" else "session"
    cell = run.scopes.cells(scope).get(plan.id)
    kept = (cell.value if cell is not None else None, run.state.exposed.get(plan.id))
    arm = next((name for name in kept if isinstance(name, str) and name in plan.names), None)
    if arm is None:
        arm = drawn(plan, run.state.user_id if plan.by == "user" else str(run.state.seed))
    if cell is None or cell.value != arm:
        run.assign_in(scope, plan.id, arm, "script")
    if run.state.exposed.get(plan.id) != arm:
        run.state.exposed[plan.id] = arm
        run.record(Exposed(action.id, plan.id, arm, plan.by))
    return arm


def drawn(plan: ExperimentPlan, unit: str) -> str:
    """The arm that falls to a user, by the id, or to a session, by the seed.

    It follows from the experiment's id, the unit, and the arms with their weights alone, so that two sessions of a user
    agree without knowing of each other.
    """
    digest = hashlib.sha256(msgspec.json.encode([plan.id, unit])).digest()
    bounds = list(accumulate(arm.weight for arm in plan.arms))
    return plan.names[bisect(bounds, int.from_bytes(digest[:8]) % bounds[-1])]
