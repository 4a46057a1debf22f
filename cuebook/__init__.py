"""The public interface of Cuebook: import from here, and from nowhere else.

All other packages (`api`, `runtime`, `scripts`, `store`) may change with every version. A name is imported when it is
first used, so that `import cuebook` is cheap and a client does not load the server.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from api.app import create_app
    from api.client.client import Client, SyncClient
    from api.client.history import InMemoryStore, with_history
    from api.client.streams import StreamEvent, turn_of
    from api.client.transport import CuebookError, RetryPolicy
    from api.embedded import open_runtime
    from api.embedded_memory import open_memory
    from api.schemas.memory_errors import InvalidMemoryRequest, UnitIdExists, WorkFailed
    from api.settings import Settings, SettingsInvalid
    from api.tools.python_tool import Tool
    from api.webhooks.signing import InvalidSignature, verify_webhook
    from runtime.actions.own_action import ActionTurn
    from runtime.context.agent_history import AgentHistory
    from runtime.context.conversation import Conversation
    from runtime.context.resize import Handlers
    from runtime.state.ports import ModelFailed
    from scripts.model.actions import OwnAction
    from scripts.model.base import Expression, Template, Variable
    from scripts.model.own_actions import action
    from store.interface.errors import FilterInvalid

__all__ = [
    "ActionTurn",
    "AgentHistory",
    "Client",
    "Conversation",
    "CuebookError",
    "Expression",
    "FilterInvalid",
    "Handlers",
    "InMemoryStore",
    "InvalidMemoryRequest",
    "InvalidSignature",
    "ModelFailed",
    "OwnAction",
    "RetryPolicy",
    "Settings",
    "SettingsInvalid",
    "StreamEvent",
    "SyncClient",
    "Template",
    "Tool",
    "UnitIdExists",
    "Variable",
    "WorkFailed",
    "action",
    "create_app",
    "open_memory",
    "open_runtime",
    "turn_of",
    "verify_webhook",
    "with_history",
]

_MODULES: Final = {
    "ActionTurn": "runtime.actions.own_action",
    "Expression": "scripts.model.base",
    "OwnAction": "scripts.model.actions",
    "Template": "scripts.model.base",
    "Variable": "scripts.model.base",
    "action": "scripts.model.own_actions",
    "AgentHistory": "runtime.context.agent_history",
    "Client": "api.client.client",
    "Conversation": "runtime.context.conversation",
    "CuebookError": "api.client.transport",
    "FilterInvalid": "store.interface.errors",
    "Handlers": "runtime.context.resize",
    "InMemoryStore": "api.client.history",
    "InvalidMemoryRequest": "api.schemas.memory_errors",
    "InvalidSignature": "api.webhooks.signing",
    "ModelFailed": "runtime.state.ports",
    "RetryPolicy": "api.client.transport",
    "Settings": "api.settings",
    "SettingsInvalid": "api.settings",
    "StreamEvent": "api.client.streams",
    "SyncClient": "api.client.client",
    "Tool": "api.tools.python_tool",
    "UnitIdExists": "api.schemas.memory_errors",
    "WorkFailed": "api.schemas.memory_errors",
    "create_app": "api.app",
    "open_memory": "api.embedded_memory",
    "open_runtime": "api.embedded",
    "turn_of": "api.client.streams",
    "verify_webhook": "api.webhooks.signing",
    "with_history": "api.client.history",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
