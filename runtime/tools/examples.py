"""Tools that reach nothing: the declared examples, replies from a file or a case, and recorded results."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from runtime.state.events import ToolAnswered, ToolCalled
from runtime.state.tool_ports import CallOptions, ToolCallFailed, ToolReply, ToolRequest, ToolResult, Tools
from runtime.tools.results import checked_result
from scripts.model.tools import ToolDefinition


class ExampleTools:
    """Answers every call with the declared example."""

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the example, or a failure if none is declared."""
        if tool.has_example:
            return ToolResult(ToolReply(tool.example))
        failed = ToolCallFailed("unavailable", f"the tool {tool.id} has no `example`")
        return ToolResult(ToolReply(failure=failed.failure))


EXAMPLES = ExampleTools()


ToolReplies: TypeAlias = Mapping[str, Sequence[ToolReply]]
"""The replies by tool: one for each call, of which the last serves all further calls."""


class ScriptedTools:
    """Answers calls with given replies by tool; a tool without replies is answered by its example."""

    def __init__(self, replies: ToolReplies) -> None:
        self._replies = replies
        self._made: dict[str, int] = {}

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the next reply of the tool, checked against the declaration."""
        replies = self._replies.get(tool.id, ())
        if not replies:
            return await EXAMPLES.call(tool, request, options)
        number = self._made.get(tool.id, 0)
        self._made[tool.id] = number + 1
        reply = replies[min(number, len(replies) - 1)]
        if reply.failure is not None:
            return ToolResult(reply)
        try:
            return ToolResult(ToolReply(checked_result(tool, reply.result)))
        except ToolCallFailed as failed:
            return ToolResult(ToolReply(failure=failed.failure))


class RecordingTools:
    """Passes calls on and records the replies by tool."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._replies: dict[str, list[ToolReply]] = {}

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the reply of the recorded tools."""
        found = await self._tools.call(tool, request, options)
        self._replies.setdefault(tool.id, []).append(found.reply)
        return found

    @property
    def replies(self) -> ToolReplies:
        """Return all recorded replies by tool, in the order of their calls."""
        return {name: tuple(replies) for name, replies in self._replies.items()}


# -- replaying --------------------------------------------------------------------------------------------------------


class ToolNotRecorded(Exception):
    """A call without a recorded result. It ends the turn."""

    def __init__(self, request: ToolRequest) -> None:
        super().__init__(f"the turn calls the tool {request.tool} in a way that was not recorded")
        self.action_id = request.action_id


class RecordedToolCall(Struct, frozen=True):
    """A recorded call of a tool and its result."""

    called: ToolCalled
    answered: ToolAnswered


def recorded_calls(events: Sequence[Mapping[str, Any]]) -> tuple[RecordedToolCall, ...]:
    """Return the calls of a turn from its events, each a mapping with `kind`; each result follows its call."""
    calls = (msgspec.convert(each, ToolCalled) for each in events if each["kind"] == "tool_call")
    results = (msgspec.convert(each, ToolAnswered) for each in events if each["kind"] == "tool_result")
    return tuple(RecordedToolCall(called, answered) for called, answered in zip(calls, results, strict=True))


class RecordedTools:
    """Returns the recorded results of one turn; further calls go to `further`, if there are such tools."""

    def __init__(self, recorded: Sequence[RecordedToolCall], further: Tools | None = None) -> None:
        self._recorded = list(recorded)
        self._further = further

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the recorded result of the same call; each is used once. Raises ToolNotRecorded."""
        for each in self._recorded:
            called = each.called
            if (called.action_id, called.tool, called.arguments) == (request.action_id, tool.id, request.arguments):
                self._recorded.remove(each)
                return ToolResult(ToolReply(each.answered.result, each.answered.failure))
        if self._further is None:
            raise ToolNotRecorded(request)
        return await self._further.call(tool, request, options)
