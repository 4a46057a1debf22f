"""Tools that the model of an action may call before it replies: what is offered, and one call with its outcome.

A call takes no round of the action. Only tools that change nothing are offered, so that a call may be repeated.
"""

from runtime.state.ports import ModelRequest, ToolCall, ToolOffer, ToolOutcome
from runtime.turn.context import TurnContext
from runtime.turn.tool_use import ToolUse, store_result, use_tool
from scripts.model.actions import Action, tools_of
from scripts.model.tools import ToolDefinition

CALLS_OF_REPLY_MAX = 5
"""The calls of tools before one reply; after them the model has to reply without a further call."""


def tools_offered(run: TurnContext, action: Action) -> tuple[ToolOffer, ...]:
    """Return the tools that the model may call."""
    tools = (run.program.tools.get(each.tool) for each in tools_of(action))
    return tuple(_offer(tool) for tool in tools if tool is not None and not tool.makes_changes)


def _offer(tool: ToolDefinition) -> ToolOffer:
    return ToolOffer(id=tool.id, define=tool.define, params=tool.params, required=tool.required)


async def call_for_model(run: TurnContext, action: Action, request: ModelRequest, call: ToolCall) -> ToolOutcome:
    """Make a call that the model wants, and store its result if the script says where.

    A failure is an outcome that the model learns. Raises LimitExceeded, ToolCallInterrupted.
    """
    tool = run.program.tools[call.tool]
    use = ToolUse(
        tool=tool,
        action_id=action.id,
        visit=request.visit,
        number=len(request.outcomes),
        arguments=tool.with_defaults(call.arguments),
        timeout_s=tool.timeout_s,
        on_interrupted="retry",
        is_handled=True,
    )
    reply = await use_tool(run, use)
    into = next((each.into for each in tools_of(action) if each.tool == call.tool), None)
    if reply.failure is None and into is not None:
        store_result(run, into, reply.result)
    return ToolOutcome(call, reply.result, reply.failure)
