"""One user's memory in a program without an event loop and without a server: `with open_memory("data") as memory`.

The same use cases as behind the API, so that everything it promises holds here as well.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from api.caller import TENANT
from api.client.sync import Loop
from api.memory.parts import Remembering, remembering
from api.memory.user_memory import SessionRoom, UserMemory
from api.models import close_model, make_model
from api.quiet import warnings_only
from api.settings import Settings, load_settings
from runtime.ports import Model
from store.record import Record

CONTEXT_LENGTH = 10
SHORT_TERM = 50


@contextmanager
def open_memory(
    data: Path | str,
    user: str = "user",
    *,
    tenant: str = TENANT,
    embedder: str | None = None,
    model: Model | str | None = None,
    context_length: int = CONTEXT_LENGTH,
    short_term: int | None = SHORT_TERM,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[UserMemory]:
    """The memory of one user in a data folder, which is made if it is new. No server may hold the folder meanwhile.

    `embedder` and `model` (which sums up) are named as in the settings; other settings are those of `cuebook.toml` and
    the environment, and `settings` before them. Sessions keep `context_length` units in their context and `short_term`
    in their short-term memory; None: they have none.

    Raises SettingsInvalid, ModelUnknown, ScriptedFileInvalid, and what Record.open raises.
    """
    named = model if isinstance(model, str) else None
    own = load_settings(flags={**(settings or {}), "data": str(data), "embedder": embedder, "model": named})
    warnings_only()
    talker = make_model(own) if model is None or isinstance(model, str) else model
    record = Record.open(own.data)
    loop, stack = Loop(), AsyncExitStack()
    stack.push_async_callback(close_model, talker)
    stack.push_async_callback(record.close)
    try:
        parts = loop.result(_begun(stack, own, record, talker))
        yield UserMemory(loop, parts, tenant, user, SessionRoom(context_length, short_term))
    finally:
        loop.result(stack.aclose())
        loop.close()


async def _begun(stack: AsyncExitStack, own: Settings, record: Record, model: Model) -> Remembering:
    """The parts of memory, with the work on it under way until the stack is closed. Raises SettingsInvalid."""
    parts = remembering(own, record, model)
    stack.push_async_callback(parts.close)
    await stack.enter_async_context(parts.work.running())
    return parts
