"""Routes for the context of a session: read it, and read it as messages."""

from typing import Annotated, Literal

from litestar import get

from api.http.request import ApiRequest, SessionId, query
from api.schemas.base import NUMBER_MAX
from api.schemas.lifecycle import ContextView, PromptMessage
from api.sessions.compress import MORE, context_messages, context_view, history_of
from api.sessions.session_cache import CachedSession, require_not_redacted
from runtime.context.selection import MESSAGES_MAX


@get("/sessions/{sessionId:str}/context", summary="Read the context of a session")
async def get_context(session_id: SessionId, request: ApiRequest) -> ContextView:
    """Return the strategy, what it stores, and what models see now."""
    return context_view(request.services.turn_runner.contexts, await _readable(session_id, request))


@get("/sessions/{sessionId:str}/history", summary="Read the conversation as model messages")
async def get_history(
    session_id: SessionId,
    request: ApiRequest,
    messages_max: Annotated[
        int,
        query(
            "maxMessages",
            "The greatest number of messages; a longer answer is returned with its question.",
            ge=1,
            le=MESSAGES_MAX - MORE,
        ),
    ] = 50,
    tokens_max: Annotated[
        int | None, query("maxTokens", "The approximate greatest number of tokens.", ge=1, le=NUMBER_MAX)
    ] = None,
    view: Annotated[
        Literal["messages", "context"], query("view", "`context`: what models see, after the summary and memo.")
    ] = "messages",
) -> list[PromptMessage]:
    """Return the last messages as `{role, content}` with tool calls, from a message of the user on.

    If the assistant began the conversation, they begin with one of its messages. Attachments follow the text of a
    message, as `[image: https://example.org/1]`. Nothing is changed.
    """
    cached, turn_runner = await _readable(session_id, request), request.services.turn_runner
    if view == "context":
        return context_messages(turn_runner.contexts, cached)
    return await history_of(turn_runner.store, cached, messages_max, tokens_max)


async def _readable(session_id: str, request: ApiRequest) -> CachedSession:
    cached = await request.services.chat.session(request.tenant, session_id)
    require_not_redacted(cached.session)
    return cached
