"""Sessions that move to another version of their script, and back."""

from typing import Annotated, Any

from litestar import Request, Response, Router, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath

from api.caller import tenant_of
from api.errors import described
from api.migrating import Migrating, Outcome
from api.schemas.migrations import MigrationView, NewVersion
from api.showing import ETAG
from api.views import position, said, wait_view

_EXAMPLES = [
    Example(summary="What would become of it in the latest version", value={"dryRun": True}),
    Example(summary="To version 1 of its script", value={"version": 1}),
]
_REFUSED = (
    "REQUEST_INVALID",
    "SESSION_NOT_FOUND",
    "SCRIPT_NOT_FOUND",
    "SCRIPT_NOT_PUBLISHED",
    "SESSION_BUSY",
    "SESSION_TEXT_DROPPED",
    "TURN_CONFLICT",
    "UNSUPPORTED_MEDIA_TYPE",
    "PAYLOAD_TOO_LARGE",
    "ACTION_EXECUTION_ERROR",
    "LIMIT_EXCEEDED",
    "LLM_SERVICE_ERROR",
    "SERVER_BUSY",
)


@post(
    "/sessions/{session_id:str}/migrate",
    status_code=200,
    summary="Move a session to another version of its script",
    description="By ids and the script's `migrations:`. A session that cannot move stays as it is: the verdict is "
    "`blocked`, and `why` says what is missing. `dryRun` changes nothing. A second request does nothing more.",
    response_headers=[ETAG],
    responses=described(*_REFUSED, "SCRIPT_VALIDATION_ERROR"),
)
async def migrate_session(
    session_id: FromPath[str],
    request: Request[Any, Any, Any],
    data: Annotated[NewVersion, BodyKwarg(examples=_EXAMPLES)],
    migrating: NamedDependency[Migrating],
) -> Response[MigrationView]:
    """Moves a session."""
    return _answer(await migrating.migrate(tenant_of(request), session_id, data))


@post(
    "/sessions/{session_id:str}/migrate/undo",
    status_code=200,
    summary="Take the move of a session back",
    description="To the version and state before, where no turn has been taken since.",
    response_headers=[ETAG],
    responses=described(
        "REQUEST_INVALID",
        "SESSION_NOT_FOUND",
        "SESSION_BUSY",
        "SESSION_TEXT_DROPPED",
        "MIGRATION_BLOCKED",
        "TURN_CONFLICT",
        "SCRIPT_NOT_FOUND",
        "SERVER_BUSY",
    ),
)
async def undo_migration(
    session_id: FromPath[str], migrating: NamedDependency[Migrating], request: Request[Any, Any, Any]
) -> Response[MigrationView]:
    """Takes a move back."""
    return _answer(await migrating.undo(tenant_of(request), session_id))


def _answer(outcome: Outcome) -> Response[MigrationView]:
    waits = outcome.row is not None or outcome.verdict != "restart_topic"
    view = MigrationView(
        session_id=outcome.session.session_id,
        verdict=outcome.verdict,
        why=list(outcome.why),
        moved=outcome.row is not None,
        place=outcome.place,
        new_place=outcome.new_place,
        from_version=outcome.session.script_version,
        version=outcome.version,
        turn=outcome.state.turn,
        position=position(outcome.program, outcome.state, None if waits else (*_topic(outcome.new_place), "")),
        wait=wait_view(outcome.state.wait) if waits else None,
        messages=said(outcome.row) if outcome.row is not None else [],
    )
    return Response(view, headers={"ETag": f'"{outcome.state.turn}"'})


def _topic(place: str) -> tuple[str, str]:
    phase, _, topic = place.partition("/")
    return phase, topic


router = Router("/api", route_handlers=[migrate_session, undo_migration], tags=["Sessions"])
