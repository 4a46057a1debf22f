"""One user's memory in a program without an event loop and without a server: `with open_memory("data") as memory`.

The calls use the same code as the API, so that the same guarantees hold.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from api.catalog.catalog import Catalog
from api.client.client import Loop
from api.local_files.settings_file import settings_of_program
from api.logs.configuration import warnings_only
from api.memory.embedding import EmbeddingService, embedding_of
from api.memory.memory_system import MemorySystem, create_memory
from api.memory.model_calls import MemoryCalls, summarizers
from api.memory.user_memory import SessionRoom, UserMemory
from api.metrics import Metrics
from api.models.model_calls import Spending
from api.models.server_model import close_model, make_model
from api.schemas.ids import TENANT, has_control, new_id
from api.schemas.memory_errors import InvalidMemoryRequest
from api.schemas.timestamps import utc_now
from api.settings import Settings
from runtime.state.ports import Model
from store.embedders.function_embedder import Embed, OwnEmbedder
from store.open_store import open_store
from store.store import Store

CONTEXT_LENGTH = 10
SHORT_TERM = 50


@contextmanager
def open_memory(
    data: Path | str,
    user: str = "user",
    *,
    tenant: str = TENANT,
    embedder: str | Embed | None = None,
    model: Model | str | None = None,
    context_length: int = CONTEXT_LENGTH,
    short_term: int | None = SHORT_TERM,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[UserMemory]:
    """Open the memory of one user in a data folder, which is created if it is new. No server may use the folder
    meanwhile.

    `embedder` and `model` (which writes summaries) are named as in the settings; an embedder may also be a function
    that maps a list of texts to one row of numbers per text. Other settings come from `cuebook.toml` and the
    environment; `settings` override them. Sessions have `context_length` units in their context and `short_term` units
    in their short-term memory; None disables it.

    Raises InvalidMemoryRequest for an invalid user, SettingsInvalid, ModelUnknown, ScriptedFileInvalid, and what
    open_store raises.
    """
    if has_control(user):
        raise InvalidMemoryRequest("`user` contains a control character or a line break")
    if not user:
        raise InvalidMemoryRequest("`user` is empty; name the user of the memory")
    named = model if isinstance(model, str) else None
    own_call = embedder if callable(embedder) else None
    embedder_name = embedder if isinstance(embedder, str) else None
    own = settings_of_program(settings, data=str(data), embedder=embedder_name, model=named)
    warnings_only()
    language_model = make_model(own) if model is None or isinstance(model, str) else model
    store = open_store(own.data, own.database_url)
    loop, stack = Loop(), AsyncExitStack()
    stack.push_async_callback(close_model, language_model)
    stack.push_async_callback(store.close)
    with ExitStack() as closing:
        closing.callback(loop.close)
        closing.callback(lambda: loop.result(stack.aclose()))
        embedding = embedding_of(own) if own_call is None else EmbeddingService(partial(OwnEmbedder.open, own_call))
        memory_system = loop.result(_start_memory(stack, own, store, language_model, embedding))
        yield UserMemory(loop, memory_system, tenant, user, SessionRoom(context_length, short_term), closing.close)


async def _start_memory(
    stack: AsyncExitStack, own: Settings, store: Store, model: Model, embedding: EmbeddingService
) -> MemorySystem:
    """Start the memory system; its worker runs until the stack is closed. Raises SettingsInvalid."""
    metrics, catalog = Metrics(), Catalog(store, utc_now)
    calls = MemoryCalls(model, store.memory, Spending(store, own.budgets), metrics, utc_now, new_id)
    summarizer_for = summarizers(calls, utc_now)
    memory_system = create_memory(store, own, embedding, catalog.memory_plan, summarizer_for, utc_now, new_id, metrics)
    await stack.enter_async_context(memory_system.running())
    return memory_system
