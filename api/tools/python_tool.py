"""Python functions as tools, typed by their annotations, and found as entry points of the group `cuebook.tools`."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, get_type_hints

import msgspec
import structlog
from msgspec import Struct

from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.values import Value

log = structlog.get_logger()

GROUP = "cuebook.tools"


class Tool:
    """A function that scripts may call. Use it as a decorator, and name the result as an entry point of the group
    `cuebook.tools`.

    The parameters and the result are those of its annotations: plain types, dataclasses, TypedDicts and msgspec
    Structs. A function that is not a coroutine runs in a thread, which a time-out does not stop. An exception of the
    function is a failure of the tool; scripts do not see its text.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        parameters = inspect.signature(function).parameters.values()
        unsupported = [each.name for each in parameters if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}]
        if unsupported:
            raise TypeError(f"a tool has named parameters only, not *{unsupported[0]}")
        fields = [
            (each.name, hints.get(each.name, Any))
            if each.default is each.empty
            else (each.name, hints.get(each.name, Any), each.default)
            for each in parameters
        ]
        self._function = function
        self._arguments: type[Struct] = msgspec.defstruct(
            f"{function.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self._function(*arguments, **named)

    async def call(self, arguments: Mapping[str, Value]) -> object:
        """Call the function with arguments that its annotations convert. Raises ToolCallFailed."""
        try:
            given = msgspec.convert(dict(arguments), self._arguments)
        except msgspec.ValidationError as error:
            raise ToolCallFailed("arguments", f"the function does not take these parameters: {error}") from error
        named = {name: getattr(given, name) for name in self._arguments.__struct_fields__}
        try:
            if inspect.iscoroutinefunction(self._function):
                result = await self._function(**named)
            else:
                result = await asyncio.to_thread(self._function, **named)
            return msgspec.to_builtins(result)
        except Exception as error:
            # by type only: its text may contain personal values
            log.warning("a tool raised an exception", tool=self.__name__, error=type(error).__name__)
            raise ToolCallFailed("error", "the function failed") from error


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
