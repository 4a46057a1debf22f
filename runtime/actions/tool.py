"""`tool`: calls a tool and stores its result; a failure continues as `on_fail` says, or ends the turn."""

from runtime.actions.outcomes import DONE, Enter, Finish, Outcome, onward
from runtime.state.tool_ports import ToolCallFailed, ToolFailure
from runtime.turn.context import ActionFailed, TurnContext
from runtime.turn.model_requests import count_visit
from runtime.turn.tool_use import ToolUse, store_result, use_tool
from scripts.expressions.members import FAILURE
from scripts.expressions.values import Value
from scripts.model.actions import ON_FAIL, CallTool, FailureExit
from scripts.model.base import Template
from scripts.model.tools import ToolDefinition, seconds_of


async def call_tool(run: TurnContext, action: CallTool) -> Outcome:
    """Call the tool and store its result.

    Raises ToolCallFailed without `on_fail`, ToolCallInterrupted, LimitExceeded, ActionFailed.
    """
    tool = run.program.tools.get(action.tool)
    if tool is None:
        raise ActionFailed(f"there is no tool {action.tool}")
    use = ToolUse(
        tool=tool,
        action_id=action.id,
        visit=count_visit(run, action.id),
        arguments=_arguments(run, action, tool),
        timeout_s=tool.timeout_s if action.timeout is None else seconds_of(action.timeout),
        on_interrupted=action.on_interrupted or ("fail" if tool.makes_changes else "retry"),
        is_handled=action.on_fail is not None,
    )
    reply = await use_tool(run, use)
    if reply.failure is not None:
        return _fail(run, action, reply.failure)
    if action.into is not None:
        store_result(run, action.into, reply.result)
    return DONE


def _arguments(run: TurnContext, action: CallTool, tool: ToolDefinition) -> dict[str, Value]:
    given: dict[str, Value] = {
        name: run.text(value) if isinstance(value, Template) else run.value(value)
        for name, value in action.given.items()
    }
    return tool.with_defaults(given)


def _fail(run: TurnContext, action: CallTool, failure: ToolFailure) -> Outcome:
    if action.on_fail is None:
        message = f"the tool {action.tool} failed: {failure.message}"
        raise ToolCallFailed(failure.kind, message, retryable=failure.retryable)
    record: dict[str, Value] = {"kind": failure.kind, "message": failure.message}
    if action.on_fail.say is not None:
        run.say(run.text(action.on_fail.say, {FAILURE: record}))
    if action.on_fail.actions:
        return Enter(ON_FAIL, [record], FAILURE)
    return leave_tool(run, action)


def leave_tool(run: TurnContext, action: CallTool) -> Outcome:
    """Return the outcome of a failed tool, after the actions of its `on_fail`."""
    then = action.on_fail.then if action.on_fail is not None else FailureExit()
    return onward(run, then, Finish(f"the tool {action.tool} failed", "end_action", action.id))
