"""Routes that migrate sessions to another version of their script, and back."""

from typing import Annotated

from litestar import Response, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from api.errors import described
from api.http.request import ApiRequest, SessionId
from api.schemas.migrations import MigrationView, NewVersion
from api.sessions.migration import MigrationOutcome
from api.sessions.views import ETAG, etag, message_view, position, replies, wait_view

_EXAMPLES = [
    Example(summary="A preview with the latest version", value={"dryRun": True}),
    Example(summary="To version 1 of its script", value={"version": 1}),
]
_ERRORS = ("SCRIPT_NOT_FOUND", "SESSION_BUSY", "SESSION_REDACTED", "TURN_CONFLICT", "SERVER_BUSY")


@post(
    "/sessions/{sessionId:str}/migrate",
    status_code=200,
    summary="Migrate a session",
    description="Maps the position by ids and the script's `migrations:`. A session that cannot migrate does not "
    "change: the verdict is `blocked`, and `why` says what is missing. `dryRun` or a second request changes nothing.",
    response_headers=[ETAG],
    responses=described(
        "SCRIPT_NOT_FOUND",
        "SCRIPT_NOT_PUBLISHED",
        "ACTION_EXECUTION_ERROR",
        "LIMIT_EXCEEDED",
        "LLM_SERVICE_ERROR",
        *_ERRORS,
        "SCRIPT_VALIDATION_ERROR",
    ),
)
async def migrate_session(
    session_id: SessionId, request: ApiRequest, data: Annotated[NewVersion, BodyKwarg(examples=_EXAMPLES)]
) -> Response[MigrationView]:
    """Migrate a session."""
    return _answer(await request.services.migrator.migrate(request.tenant, session_id, data))


@post(
    "/sessions/{sessionId:str}/migrate/undo",
    status_code=200,
    summary="Undo a migration",
    description="Restores the version and state before, if no turn followed the migration.",
    response_headers=[ETAG],
    responses=described("SESSION_BUSY", "MIGRATION_BLOCKED", *_ERRORS),
)
async def undo_migration(session_id: SessionId, request: ApiRequest) -> Response[MigrationView]:
    """Undo a migration."""
    return _answer(await request.services.migrator.undo(request.tenant, session_id))


def _answer(outcome: MigrationOutcome) -> Response[MigrationView]:
    waits = outcome.row is not None or outcome.verdict != "restart_topic"
    view = MigrationView.of(
        outcome,
        session_id=outcome.session.session_id,
        why=list(outcome.why),
        moved=outcome.row is not None,
        from_version=outcome.session.script_version,
        turn=outcome.state.turn,
        position=position(outcome.program, outcome.state, None if waits else (*_topic(outcome.new_place), "")),
        wait=wait_view(outcome.state.wait) if waits else None,
        messages=[message_view(message) for message in replies(outcome.row)] if outcome.row is not None else [],
    )
    return Response(view, headers=etag(outcome.state.turn))


def _topic(place: str) -> tuple[str, str]:
    phase, _, topic = place.partition("/")
    return phase, topic
