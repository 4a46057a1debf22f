"""Where the conversation goes on when an action does not simply end: the policies of questions and of interrupts."""

from typing import assert_never

from runtime.outcomes import DONE, Finish, Jump, Leave, Outcome
from runtime.run import ActionFailed, Run
from scripts.actions import OnFail, Onward
from scripts.model import After
from scripts.targets import resolve_target

USER_ENDED = "the user ended it"


def reasons_of(action_id: str) -> tuple[str, ...]:
    """Return the reasons that the runtime itself gives where the policy of an action ends the conversation."""
    return _no_valid_answer(action_id), _no_answer(action_id)


def _no_valid_answer(action_id: str) -> str:
    return f"no valid answer to {action_id}"


def _no_answer(action_id: str) -> str:
    return f"no answer to {action_id}"


def after_failure(run: Run, on_fail: OnFail, action_id: str) -> Outcome | None:
    """Where `on_fail` leads away to; None where the script just goes on."""
    if on_fail.policy == "end":
        return Finish(_no_valid_answer(action_id), "rounds", action_id)
    return jump(run, on_fail.target) if on_fail.policy == "goto" else None


def onward(run: Run, then: Onward, action_id: str) -> Outcome | None:
    """Where a policy for replies that lead nowhere leads away to; None where the script just goes on."""
    if then.policy == "end":
        return Finish(_no_answer(action_id), "rounds", action_id)
    return jump(run, then.target) if then.policy == "goto" else None


def after(run: Run, then: After) -> Outcome:
    """What becomes of an action that something else came up at; `resume` is no business of this function's."""
    match then.policy:
        case "restart_topic":
            return Jump(run.state.phase, run.state.topic)
        case "leave_topic":
            return Leave()
        case "goto":
            return jump(run, then.target)
        case "end":
            return Finish(USER_ENDED, "user", run.action_id)
        case "skip" | "resume":
            return DONE
        case _:
            assert_never(then.policy)


def jump(run: Run, target: str) -> Jump:
    """The jump to a target. Raises ActionFailed."""
    found = resolve_target(run.program.script, target, run.state.phase)
    if found is None:
        raise ActionFailed(f"there is no topic or phase {target}")
    return Jump(*found)
