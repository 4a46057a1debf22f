"""One user's memory in a program without an event loop and without a server: `with open_memory("data") as memory`.

The same use cases as behind the API, so that everything it promises holds here as well.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from api.app import utc_now
from api.budgets import Spending
from api.caller import TENANT
from api.catalogue import Catalogue
from api.client.sync import Loop
from api.ids import has_control
from api.memory.calling import MemoryCalls
from api.memory.embedding import Embedding, embedding_of
from api.memory.house import House, make_house
from api.memory.refusals import MemoryRefused
from api.memory.telling import Tellers
from api.memory.user_memory import SessionRoom, UserMemory
from api.metrics import Metrics
from api.models import close_model, make_model
from api.quiet import warnings_only
from api.random_ids import new_id
from api.settings import Settings, load_settings
from runtime.ports import Model
from store.embedders.own import Embed, own_embedder
from store.record import Record

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
    """The memory of one user in a data folder, which is made if it is new. No server may hold the folder meanwhile.

    `embedder` and `model` (which sums up) are named as in the settings; an embedder may also be a function from a list
    of texts to a row of numbers for each. Other settings are those of `cuebook.toml` and
    the environment, and `settings` before them. Sessions keep `context_length` units in their context and `short_term`
    in their short-term memory; None: they have none.

    Raises MemoryRefused for no user, SettingsInvalid, ModelUnknown, ScriptedFileInvalid, and what Record.open raises.
    """
    if has_control(user):
        raise MemoryRefused("the user holds a control character or a line break")
    if not user:
        raise MemoryRefused("say whose memory it is: `user` is empty")
    named = model if isinstance(model, str) else None
    own_call = embedder if callable(embedder) else None
    embedder_name = embedder if isinstance(embedder, str) else None
    own = load_settings(flags={**(settings or {}), "data": str(data), "embedder": embedder_name, "model": named})
    warnings_only()
    talker = make_model(own) if model is None or isinstance(model, str) else model
    record = Record.open(own.data)
    loop, stack = Loop(), AsyncExitStack()
    stack.push_async_callback(close_model, talker)
    stack.push_async_callback(record.close)
    with ExitStack() as closing:
        closing.callback(loop.close)
        closing.callback(lambda: loop.result(stack.aclose()))
        embedding = embedding_of(own) if own_call is None else Embedding(own_embedder(own_call))
        house = loop.result(_begun(stack, own, record, talker, embedding))
        yield UserMemory(loop, house, tenant, user, SessionRoom(context_length, short_term), closing.close)


async def _begun(stack: AsyncExitStack, own: Settings, record: Record, model: Model, embedding: Embedding) -> House:
    """All that memory is made of, with the work on it under way until the stack is closed. Raises SettingsInvalid."""
    metrics, catalogue = Metrics(), Catalogue(record, utc_now)
    calls = MemoryCalls(model, record.memory, Spending(record, own.budgets), metrics, utc_now, new_id)
    teller_for = Tellers(calls, utc_now).teller
    house = make_house(record, own, embedding, catalogue.memory_plan, teller_for, utc_now, new_id, metrics)
    await stack.enter_async_context(house.running())
    return house
