"""Python functions of installed packages as tools: entry points of the group `cuebook.tools`."""

import asyncio
from collections.abc import Mapping
from importlib.metadata import entry_points

import structlog

from api.tools.python_tool import Tool
from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.values import Value

log = structlog.get_logger()

GROUP = "cuebook.tools"


class PythonTools:
    """The functions by the name of their entry point, loaded on first use."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    async def call(self, name: str, arguments: Mapping[str, Value]) -> object:
        """Call the function of an entry point. Raises ToolCallFailed."""
        if name not in self._tools:  # an import may take seconds, for which the event loop must not stand still
            self._tools[name] = await asyncio.to_thread(load_tool, name)
        return await self._tools[name].call(arguments)


def load_tool(name: str) -> Tool:
    """Return the tool of an entry point. Raises ToolCallFailed."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise ToolCallFailed("unavailable", f"no installed package has an entry point {name} in the group {GROUP}")
    try:
        loaded = found.load()
    except Exception as error:  # an import runs the package's own code
        log.warning("a tool cannot be imported", tool=name, error=str(error))
        raise ToolCallFailed("unavailable", f"the entry point {name} cannot be imported") from error
    if not isinstance(loaded, Tool):
        raise ToolCallFailed("unavailable", f"the entry point {name} is not a cuebook.Tool")
    return loaded
