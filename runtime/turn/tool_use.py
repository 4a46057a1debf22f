"""A call of a tool within a turn: checked against the declaration, limited, and recorded as events.

An action calls a tool, or the model of an action does before it replies, which takes no round of the action. The model
is offered only tools that change nothing, so that a call may be repeated.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from runtime.state.events import ToolAnswered, ToolCalled
from runtime.state.ports import ModelRequest, ToolCall, ToolOffer, ToolOutcome
from runtime.state.scopes import WriteRefused
from runtime.state.tool_ports import CallOptions, ToolCallFailed, ToolReply, ToolRequest, ToolResult
from runtime.tools.results import check_arguments
from runtime.turn.context import LimitExceeded, TurnContext
from scripts.expressions.values import Value
from scripts.model.actions import Action, Into, OnInterrupted, tools_of
from scripts.model.tools import ToolDefinition

CALLS_OF_REPLY_MAX = 5
"""The calls of tools before one reply; after them the model has to reply without a further call."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A call as an action or a model asks for it; `number` tells it from others of the same visit of the action."""

    tool: ToolDefinition
    action_id: str
    visit: int
    number: int = 0
    arguments: Mapping[str, Value]
    timeout_s: float
    on_interrupted: OnInterrupted
    is_handled: bool = False  # whether the script or the model goes on after a failure


async def use_tool(run: TurnContext, use: ToolUse) -> ToolReply:
    """Call a tool and record the call and its result as events. Raises LimitExceeded, ToolCallInterrupted."""
    finished = run.tool_calls.finished
    run.record(ToolCalled(use.action_id, use.tool.id, use.arguments))
    request = ToolRequest(
        tool=use.tool.id,
        action_id=use.action_id,
        visit=use.visit,
        round=run.progress.round,
        number=use.number,
        arguments=use.arguments,
    )
    digest = request.digest
    try:
        check_arguments(use.tool, use.arguments)
        if digest not in finished:
            finished[digest] = await _call(run, use, request)
        reply = finished[digest].reply
    except ToolCallFailed as failed:
        reply = ToolReply(failure=failed.failure)
    run.record(ToolAnswered(use.action_id, use.tool.id, reply.result, reply.failure))
    return reply


def store_result(run: TurnContext, into: Into, result: Value) -> None:
    """Store a result in variables; one that cannot store its part stays unset, with a warning."""
    for name, part in into.variables.items():
        value = result if not part else result.get(part) if isinstance(result, dict) else None
        try:
            run.assign(name, value, "script")
        except WriteRefused as refused:
            run.warn_missing(name, str(refused))


async def _call(run: TurnContext, use: ToolUse, request: ToolRequest) -> ToolResult:
    if len(run.tool_calls.finished) >= run.limits.tool_calls_max:
        raise LimitExceeded(f"more than {run.limits.tool_calls_max} calls of tools in one turn")
    ends_at = min(run.calls.ends_at, asyncio.get_running_loop().time() + use.timeout_s)
    options = CallOptions(ends_at=ends_at, on_interrupted=use.on_interrupted, is_handled=use.is_handled)
    return await run.tool_calls.tools.call(use.tool, request, options)


# -- calls of models --------------------------------------------------------------------------------------------------


def tools_offered(run: TurnContext, action: Action) -> tuple[ToolOffer, ...]:
    """Return the tools that the model may call."""
    tools = (run.program.tools.get(each.tool) for each in tools_of(action))
    return tuple(
        ToolOffer(id=tool.id, define=tool.define, params=tool.params, required=tool.required)
        for tool in tools
        if tool is not None and not tool.makes_changes
    )


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
