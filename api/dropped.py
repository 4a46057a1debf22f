"""Sessions whose text was dropped: they are looked at and counted, and cannot be gone on with."""

from api.errors import ApiError
from store.rows import SessionRow


def require_text(session: SessionRow) -> None:
    """Raises ApiError SESSION_TEXT_DROPPED where the words and values of a session are gone."""
    if session.text_dropped_at is not None:
        at = session.text_dropped_at.isoformat()
        message = f"what was said and known in the session was dropped on {at[:10]}, as the server's retention says"
        context = {"sessionId": session.session_id, "textDroppedAt": at}
        raise ApiError("SESSION_TEXT_DROPPED", message, context=context)
