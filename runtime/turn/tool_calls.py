"""The tools of a turn, and the calls made over all its restarts: a call that was made before is not made again."""

from msgspec import Struct

from runtime.state.tool_ports import ToolResult, Tools


class ToolCalls(Struct):
    """The tools of one turn, and its finished calls by digest."""

    tools: Tools
    finished: dict[str, ToolResult] = {}

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the recorded calls."""
        return tuple(each.call_id for each in self.finished.values() if each.call_id)
