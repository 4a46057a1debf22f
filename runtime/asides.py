"""What is done at once, in the middle of a turn, beside the conversation: by a detector, or when a budget is used up.

It sees the session's and global variables. Nothing that goes wrong in it costs the turn.
"""

from collections.abc import Mapping

from runtime.actions import assigning, experimenting, remembering, speaking
from runtime.events import ActionEntered, ActionLeft, ActionSkipped
from runtime.outcomes import Finish
from runtime.run import ActionFailed, Run
from runtime.scopes import WriteRefused
from runtime.state import Cell, Frame
from scripts.actions import Action, Emit, End, Experiment, If, Remember, Say, Scene, Set, Show, action_type


class Aside:
    """Puts the sight of one of `Script.watchers` in the place of the conversation's."""

    def __init__(self, run: Run, watcher: str, cells: Mapping[str, Cell]) -> None:
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


def perform(run: Run, actions: tuple[Action, ...]) -> Finish | None:
    """Carries out the actions of the aside at hand; how the conversation ends, if it is to end."""
    watcher = run.state.frames[-1].detector
    for action in actions:
        run.action_id = action.id
        run.count_action()
        if action.when is not None and not run.holds(action.when):
            run.record(ActionSkipped(action.id, action_type(action), detector=watcher))
            continue
        run.record(ActionEntered(action.id, action_type(action), detector=watcher))
        finish: Finish | None = None
        try:
            finish = _do(run, action)
        except (ActionFailed, WriteRefused) as error:
            run.warn("detector_failed", str(error))
        run.record(ActionLeft(action.id, 0, detector=watcher))
        if finish is not None:
            return finish
    return None


def _do(run: Run, action: Action) -> Finish | None:
    """One action. Raises ActionFailed, WriteRefused."""
    match action:
        case If():
            return perform(run, action.then if run.holds(action.condition) else action.otherwise)
        case Experiment():
            return perform(run, action.arms.get(experimenting.met(run, action), ()))
        case Say():
            speaking.say(run, action)
        case Show():
            speaking.show(run, action)
        case Scene():
            speaking.scene(run, action)
        case Set():
            assigning.assign(run, action)
        case Emit():
            assigning.emit(run, action)
        case Remember():
            remembering.remember(run, action)
        case End():
            return assigning.end(action)
        case _:
            raise ActionFailed(f"`{action_type(action)}` is nothing that can be done at once")
    return None
