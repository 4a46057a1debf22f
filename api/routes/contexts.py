"""What models see of a session's conversation: looked at, read as messages, and compressed."""

from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.caller import tenant_of
from api.chat import Chat
from api.compressing import MORE, compress, context_messages, context_view, history_of
from api.dropped import require_text
from api.errors import described
from api.lifecycle.interventions import Interventions
from api.parameters import IdempotencyKey, IfMatch, Prefer, condition
from api.running import Running
from api.schemas.contexts import Compressed, ContextView, NewCompression, PromptMessage
from api.showing import ETAG
from runtime.context.chosen import MESSAGES_MAX

_KNOWN = described("REQUEST_INVALID", "SESSION_NOT_FOUND", "SESSION_TEXT_DROPPED", "VARIABLE_STORE_INIT_ERROR")
_EXAMPLES = [Example(summary="All but the last 20 messages", value={"keep": 20, "instruct": "Keep names and dates."})]


@post(
    "/sessions/{session_id:str}/compress",
    status_code=200,
    summary="Sum up the older part of a conversation",
    description="From now on models see the summary in the place of all but the last messages, whatever the strategy. "
    "The messages stay. Without a language model the summary is an extract. A summary that cannot be made is an error, "
    "and changes nothing.",
    response_headers=[ETAG],
    responses=described(
        "REQUEST_INVALID",
        "SESSION_NOT_FOUND",
        "SESSION_BUSY",
        "SESSION_ENDED",
        "SESSION_TEXT_DROPPED",
        "INTERVENTION_REFUSED",
        "TURN_CONFLICT",
        "IDEMPOTENCY_IN_FLIGHT",
        "IDEMPOTENCY_MISMATCH",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "ACTION_EXECUTION_ERROR",
        "LIMIT_EXCEEDED",
        "LLM_SERVICE_ERROR",
        "SERVER_BUSY",
    ),
)
async def compress_session(
    session_id: FromPath[str],
    data: Annotated[NewCompression, BodyKwarg(examples=_EXAMPLES)],
    interventions: NamedDependency[Interventions],
    running: NamedDependency[Running],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
) -> Response[Compressed]:
    """Sums up all but the last messages."""
    asked = condition(idempotency_key, if_match, prefer)
    answer, compressed = await compress(interventions, running.record, tenant_of(request), session_id, data, asked)
    return Response(compressed, headers={"ETag": f'"{answer.state.turn}"'})


@get("/sessions/{session_id:str}/context", summary="Look at what models see of a conversation", responses=_KNOWN)
async def get_context(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    running: NamedDependency[Running],
    request: Request[Any, Any, Any],
) -> ContextView:
    """The strategy, what it keeps, and what it shows now."""
    hot = await chat.session(tenant_of(request), session_id)
    require_text(hot.session)
    return context_view(running.contexts, hot)


@get("/sessions/{session_id:str}/history", summary="Read a conversation for a prompt", responses=_KNOWN)
async def get_history(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    running: NamedDependency[Running],
    request: Request[Any, Any, Any],
    messages_max: Annotated[
        int,
        QueryParameter(
            name="maxMessages",
            ge=1,
            le=MESSAGES_MAX - MORE,
            description="How many at most; one exchange is given whole.",
        ),
    ] = 50,
    tokens_max: Annotated[
        int | None,
        QueryParameter(name="maxTokens", ge=1, le=2**31, required=False, description="About how many tokens at most."),
    ] = None,
    view: Annotated[
        Literal["messages", "context"],
        QueryParameter(name="view", description="`context`: what models see, with the summary and memo before it."),
    ] = "messages",
) -> list[PromptMessage]:
    """The last messages, as `{role, content}` with the calls of tools; they begin where an exchange does.

    What is attached to one stands after its text, as `[image: https://example.org/1]`. Nothing is changed.
    """
    hot = await chat.session(tenant_of(request), session_id)
    require_text(hot.session)
    if view == "context":
        return context_messages(running.contexts, hot)
    return await history_of(running.record, hot, messages_max, tokens_max)


router = Router("/api", route_handlers=[compress_session, get_context, get_history], tags=["Sessions"])
