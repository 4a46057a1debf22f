"""Compresses sessions on request, and shows the context that models see of a session's conversation."""

from functools import partial
from typing import Any

import msgspec

from api.schemas.lifecycle import ContextView, LastResizeView, NewCompression, PromptMessage
from api.sessions.history import first_message, messages_between, recent_messages
from api.sessions.interventions import PlannedIntervention
from api.sessions.live_turns import TurnResult
from api.sessions.session_cache import CachedSession
from runtime.context.messages import attachment_texts
from runtime.context.ports import View
from runtime.context.selection import MESSAGES_MAX, Contexts, SelectedStrategy, view_of
from runtime.context.windows import recent, tokens_in
from runtime.prompts.escaping import encode_value
from runtime.state.events import Message
from runtime.state.inputs import Compress
from runtime.state.state import ContextMemory, State
from runtime.turn.context_upkeep import tokens_of_history
from scripts.model.actions import Action
from store.store import Store

NEWEST = "newest"  # name of the context without a chosen strategy
SUMMARY, MEMO = "[Conversation Summary]", "[Memo]"
MORE = 20  # additional messages, to find a message of the opener
_PROMPT_FIELDS = ("name", "reasoning_content", "tool_calls", "tool_call_id")  # metadata of a message that prompts need


def compression(store: Store, request: NewCompression) -> PlannedIntervention:
    """Plan to summarise all but the last messages of a session, unless that is done already."""
    return PlannedIntervention(request, partial(_to_compress, store, request))


def summary_fields(answer: TurnResult) -> dict[str, Any]:
    """Return what a CompressionView says of the summary that a session has after its compression."""
    memory = answer.state.context or ContextMemory()
    by = next((event.data.get("by", "") for event in answer.row.events if event.kind == "resized"), "")
    remaining = _after(answer.state, memory.summary_to)
    return {"summary": memory.summary, "summary_to": memory.summary_to, "remaining": remaining, "by": by}


async def _to_compress(store: Store, request: NewCompression, cached: CachedSession) -> Compress | None:
    keep, gaps = request.keep, cached.state.gaps
    summary_to = cached.state.context.summary_to if cached.state.context is not None else 0
    newest = await store.turns.recent_messages(*cached.key, keep, without=gaps)
    last = newest[0].seq - 1 if len(newest) == keep else 0
    older = await messages_between(store, *cached.key, summary_to + 1, last, gaps) if last > summary_to else ()
    return Compress(older, keep, request.instruct) if older else None


def _after(state: State, number: int) -> int:
    """Return how many messages of the conversation follow a number."""
    removed = sum(max(last - max(first - 1, number), 0) for first, last in state.gaps)
    return state.message_seq - number - removed


# -- read -------------------------------------------------------------------------------------------------------------


def context_view(contexts: Contexts, cached: CachedSession) -> ContextView:
    """Return what a model would see of the conversation now, and what the context strategy stores."""
    chosen, view = _visible(contexts, cached)
    memory = cached.state.context or ContextMemory()
    last = memory.last_resize
    return ContextView.of(
        memory,
        strategy=chosen.settings.strategy if chosen is not None else NEWEST,
        settings=msgspec.to_builtins(chosen.settings) if chosen is not None else None,
        last_resize=None if last is None else LastResizeView.of(last),
        messages=[message.number for message in view.messages],
        tokens=sum(map(tokens_in, view.messages)) + tokens_of_history(view.summary, view.memo),
    )


async def history_of(
    store: Store, cached: CachedSession, messages_max: int, tokens_max: int | None
) -> list[PromptMessage]:
    """Return the last messages of a conversation, from a message of the opener on, for an application's own prompt."""
    gaps = cached.state.gaps
    opener = cached.state.context.opener if cached.state.context is not None else None
    if opener is None:
        opener = await first_message(store, *cached.key, gaps)
    messages: tuple[Message, ...] = ()
    for limit in (messages_max + MORE, MESSAGES_MAX):  # a few more are read, or many if an exchange is that long
        candidates = await recent_messages(store, *cached.key, limit, gaps)
        messages = recent(candidates, messages_max, tokens_max, opener)
        first = next((each.role for each in messages if each.role != "system"), opener)
        if len(candidates) < limit or first == opener:
            break
    return [_plain(message) for message in messages]


def context_messages(contexts: Contexts, cached: CachedSession) -> list[PromptMessage]:
    """Return what a model would see of the conversation now, as messages."""
    _, view = _visible(contexts, cached)
    accounts = [(SUMMARY, view.summary)] if view.summary else []
    accounts += [(MEMO, encode_value(dict(view.memo)))] if view.memo else []
    preamble = [PromptMessage(role="system", content=f"{name} {text}") for name, text in accounts]
    return [*preamble, *map(_plain, view.messages)]


def _visible(contexts: Contexts, cached: CachedSession) -> tuple[SelectedStrategy | None, View]:
    chosen = contexts.choose(cached.program.script, cached.state, _current_action(cached))
    return chosen, view_of(chosen, cached.history, cached.state.context)


def _current_action(cached: CachedSession) -> Action | None:
    state, program = cached.state, cached.program
    path = (*state.home(), state.frames[-1].action) if state.frames else None
    return program.action(*path) if path is not None and program.has_action(path) else None


def _plain(message: Message) -> PromptMessage:
    others = {name: message.metadata[name] for name in _PROMPT_FIELDS if message.metadata.get(name) is not None}
    content = "\n".join(filter(None, [message.content, *attachment_texts(message)]))
    return PromptMessage(role=message.role, content=content, **others)
