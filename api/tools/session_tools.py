"""The tools of a server, and those of one turn of a session: every call is recorded before and after it is made, and
never made twice.
"""

import asyncio
from collections.abc import Mapping
from functools import cache

import msgspec
import structlog
from msgspec import Struct

from api.metrics import Metrics
from api.models.model_calls import NO_REPLY, CallLog
from api.settings import Settings
from api.tools.http_tools import HttpTools
from api.tools.mcp_tools import McpTools
from api.tools.python_tool import load_tool
from runtime.state.deadlines import until
from runtime.state.tool_ports import (
    TOOL_PURPOSE,
    CallOptions,
    ToolCallFailed,
    ToolCallInterrupted,
    ToolFailure,
    ToolReply,
    ToolRequest,
    ToolResult,
)
from runtime.tools.results import checked_result, parse_if_declared
from runtime.turn.calls import GIVEN_UP
from scripts.expressions.values import Value
from scripts.model.script import Script
from scripts.model.tools import ToolDefinition
from store.interface.errors import RowRefused
from store.interface.rows import CallRow, encode

log = structlog.get_logger()


class ToolCaller:
    """Calls the tools of a server as they are declared: over HTTP, as a Python function, or through an MCP server."""

    def __init__(self, settings: Settings) -> None:
        self._providers = settings.tool_providers
        self._http = HttpTools(settings)
        self._load = cache(load_tool)
        self._mcp = McpTools(settings.mcp_servers, settings.tool_result_bytes_max)

    async def call(self, tool: ToolDefinition, arguments: Mapping[str, Value], key: str) -> object:
        """Return the result of a call; `key` is the same for every attempt at it. Raises ToolCallFailed."""
        if tool.http is not None:
            return await self._http.call(tool, tool.http, arguments, key)
        provider = self._providers.get(tool.id)
        if provider is None:
            raise ToolCallFailed("unavailable", f"the server's settings have no `[tool_providers.{tool.id}]`")
        if provider.mcp:
            result = await self._mcp.call(provider.mcp, provider.tool or tool.id, arguments, key)
            return parse_if_declared(tool, result)
        loaded = await asyncio.to_thread(self._load, provider.python)  # an import may take seconds
        return await loaded.call(arguments)

    def log_lacking(self, script: Script) -> None:
        """Log a warning for tools that a script declares and the settings do not provide."""
        names = [tool.id for tool in script.tools if tool.http is None and tool.id not in self._providers]
        if names:
            log.warning("script declares tools that the server does not have", script=script.id, tools=names)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
        await self._mcp.close()


class SessionTools(Struct, frozen=True):
    """The tools of one attempt at a turn, whose calls are written to `calls`."""

    caller: ToolCaller
    metrics: Metrics
    calls: CallLog

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the recorded result of the call, or make it. Raises ToolCallInterrupted."""
        digest = request.digest
        same = [row for row in self.calls.attempts.rows.values() if row.request_digest == digest]
        for row in same:
            if bytes(row.reply) != NO_REPLY:
                return ToolResult(msgspec.json.decode(bytes(row.reply), type=ToolReply), row.call_id)
        interrupted = next((row for row in same if row.ended_at is None), None)
        if interrupted is not None and options.on_interrupted == "fail":
            await self.calls.note_interruption(interrupted)
            raise ToolCallInterrupted(
                f"a call of the tool {tool.id} was interrupted, and may have been carried out; "
                "send the message again to repeat it"
            )
        row = await self.calls.begin(request, TOOL_PURPOSE, request.tool, digest)
        key = (same[0] if same else row).call_id  # every attempt at the call has that of the first one
        return ToolResult(await self._make_call(tool, request, options, row, key), row.call_id)

    async def _make_call(
        self, tool: ToolDefinition, request: ToolRequest, options: CallOptions, row: CallRow, key: str
    ) -> ToolReply:
        try:
            reply = ToolReply(await self._result(tool, request, options, key))
            is_final = True
        except ToolCallFailed as failed:
            reply = ToolReply(failure=failed.failure)
            # the service has carried the call out, although its answer is not as declared
            is_carried_out = failed.kind == "result" and tool.makes_changes
            is_final = options.is_handled or is_carried_out
        except BaseException:  # the turn was cancelled
            await self._end(row, None, GIVEN_UP)
            raise
        error = "" if reply.failure is None else f"{reply.failure.kind}: {reply.failure.message}"
        try:
            await self._end(row, reply if is_final else None, error)
        except RowRefused:
            refused = ToolFailure("result", "the result contains values that cannot be stored")
            reply = ToolReply(failure=refused)
            await self._end(row, reply, refused.message)
        return reply

    async def _result(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions, key: str) -> Value:
        """Call the tool. Raises ToolCallFailed."""
        try:
            async with until(options.ends_at) as limit:
                result = await self.caller.call(tool, request.arguments, key)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolCallFailed("timeout", "the tool did not answer in time") from error
        return checked_result(tool, result)

    async def _end(self, row: CallRow, reply: ToolReply | None, error: str) -> None:
        await self.calls.end(row, None if reply is None else encode(reply), error)
        self.metrics.count_tool_call(done=not error)
