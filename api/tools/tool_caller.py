"""Calls a tool in the way that it is declared: over HTTP, as a Python function, or through an MCP server."""

import asyncio
from collections.abc import Mapping
from functools import cache

import structlog

from api.settings import Settings
from api.tools.http_tools import HttpTools
from api.tools.mcp_tools import McpTools
from api.tools.python_tool import load_tool
from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.values import Value
from scripts.model.script import Script
from scripts.model.tools import ToolDefinition

log = structlog.get_logger()


class ToolCaller:
    """The connections to all tools of a server."""

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
            return await self._mcp.call(provider.mcp, provider.tool or tool.id, arguments, key)
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
