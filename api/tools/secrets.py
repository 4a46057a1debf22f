"""Secrets of tools: from the settings, and only for the hosts that the settings name."""

from collections.abc import Callable, Mapping

from api.settings import ToolSecret
from runtime.state.tool_ports import ToolCallFailed


class Secrets:
    """The secrets of a server by name."""

    def __init__(self, secrets: Mapping[str, ToolSecret]) -> None:
        self._secrets = secrets

    def for_host(self, host: str) -> Callable[[str], str]:
        """Return the function `secret` of headers to a host. It raises ToolCallFailed, without any secret."""

        def secret(name: str) -> str:
            found = self._secrets.get(name)
            if found is None:
                raise ToolCallFailed("forbidden", f"the server's settings have no `[tool_secrets.{name}]`")
            if host not in {each.lower() for each in found.hosts}:
                raise ToolCallFailed("forbidden", f"the secret {name} may not be sent to {host}; see its `hosts`")
            text = found.text()
            if not text:
                raise ToolCallFailed("forbidden", f"the secret {name} is empty; set the variable {found.env}")
            return text

        return secret
