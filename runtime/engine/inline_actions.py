"""Actions that run at once within a turn: a detector's, those of `on_budget`, or those of a reminder or an expiry.

The first two see phase, session and global variables. An error in them never fails the turn.
"""

from collections.abc import Mapping

from runtime.actions import blocks
from runtime.actions.dispatch import AT_ONCE
from runtime.actions.outcomes import Finish, Outcome, Waits
from runtime.state.events import ActionEntered, ActionLeft, ActionSkipped
from runtime.state.ports import MemoryFailed
from runtime.state.scopes import WriteRefused
from runtime.state.state import Cell, Frame, Wait
from runtime.turn.calls import BudgetExceeded
from runtime.turn.context import ActionFailed, TurnContext
from scripts.model.actions import Action, Add, Emit, End, Experiment, If, Remember, Say, Scene, Set, Show, action_type
from scripts.model.script import ON_BUDGET


class InlineActions:
    """Replaces the scope of the conversation by that of one of `Script.watchers`."""

    def __init__(self, run: TurnContext, watcher: str, cells: Mapping[str, Cell]) -> None:
        self._run = run
        self._frames = run.state.frames
        self._frame = Frame("", detector=watcher, cells=dict(cells))
        self._before = run.action_id

    def __enter__(self) -> None:
        self._frames.append(self._frame)
        self._run.action_id = ""

    def __exit__(self, *_: object) -> None:
        self._frames.pop()
        self._run.action_id = self._before


def perform(run: TurnContext, actions: tuple[Action, ...]) -> Finish | None:
    """Run the inline actions of the current watcher or question; return how the conversation ends, if it is to end."""
    watcher = run.state.frames[-1].detector
    for action in actions:
        run.action_id = action.id
        run.count_action()
        if not _is_due(run, action):
            run.record(ActionSkipped(action.id, action_type(action), detector=watcher))
            continue
        run.record(ActionEntered(action.id, action_type(action), detector=watcher))
        finish: Finish | None = None
        try:
            finish = _do(run, action)
        except (ActionFailed, WriteRefused, MemoryFailed) as error:
            _warn(run, error)
        run.record(ActionLeft(action.id, 0, detector=watcher))
        if finish is not None:
            return finish
    return None


def _is_due(run: TurnContext, action: Action) -> bool:
    """Whether the `when` of an action holds; it does not if it searches a memory that fails."""
    try:
        return run.holds(action.when)
    except MemoryFailed as error:
        _warn(run, error)
        return False


def _warn(run: TurnContext, error: Exception) -> None:
    run.warn("detector_failed" if run.state.frames[-1].detector else "timer_failed", str(error))


def _do(run: TurnContext, action: Action) -> Finish | None:
    """Run one action. Raises ActionFailed, WriteRefused, MemoryFailed."""
    match action:
        case If():
            return perform(run, action.then if run.holds(action.condition) else action.otherwise)
        case Experiment():
            return perform(run, action.arms.get(blocks.arm_met(run, action), ()))
        case Say() | Show() | Scene() | Set() | Add() | Emit() | Remember() | End():
            outcome = AT_ONCE[type(action)](run, action)
            return outcome if isinstance(outcome, Finish) else None
        case _:
            raise ActionFailed(f"`{action_type(action)}` cannot be used as an inline action")


def run_out(run: TurnContext, exceeded: BudgetExceeded, wait: Wait) -> Outcome:
    """Run the script's `on_budget` actions, or say that the session is busy; then wait, or end the session."""
    run.warn("budget_exceeded", str(exceeded))
    finish: Finish | None = None
    if run.program.script.on_budget:
        with InlineActions(run, ON_BUDGET, {}):
            finish = perform(run, run.program.script.on_budget)
    else:
        run.say(run.phrase("busy"))
    return finish or Waits(wait)
