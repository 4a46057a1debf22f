"""What clients see of a session in memory, and the header that names its turn."""

import msgspec
from litestar.datastructures import ResponseHeader

from api.hot import Hot
from api.schemas.sessions import Failed, SessionView, Snapshot
from api.views import script_outline, snapshot

ETAG = ResponseHeader(name="ETag", documentation_only=True, description="The session's turn, for `If-Match`.")


def etag(turn: int) -> dict[str, str]:
    """The header that names a session's turn."""
    return {"ETag": f'"{turn}"'}


def session_view(hot: Hot) -> SessionView:
    """A session as it stands."""
    shown = shown_of(hot)
    return SessionView(
        **msgspec.structs.asdict(shown),
        session_id=hot.session.session_id,
        user_id=hot.session.user_id,
        script_id=hot.session.script_uuid,
        status=hot.state.status,
        ai_message=hot.said_last,
        error=Failed(code=hot.failure.code, message=hot.failure.message) if hot.failure is not None else None,
        key=hot.session.key,
        locale=hot.state.locale,
        metadata={
            **hot.session.metadata,
            "script": script_outline(hot.program.script),
            "globalVariables": shown.global_variables,
            "variableStore": msgspec.to_builtins(shown.variable_store),
        },
        created_at=hot.session.created_at,
        updated_at=hot.updated_at,
        completed_at=hot.updated_at if hot.state.status == "completed" else None,
        text_dropped_at=hot.session.text_dropped_at,
    )


def shown_of(hot: Hot) -> Snapshot:
    """Where it stands, or where its last turn failed."""
    failed_at = hot.failure.place if hot.failure is not None else None
    return snapshot(hot.program, hot.state, hot.execution_status, failed_at)
