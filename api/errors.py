"""Every way a request can fail, in one table, and the one shape in which clients hear of it."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
import structlog
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from msgspec import Struct

from api.memory.refusals import MemoryRefused, TooManyJobs, UnitTaken
from api.turn_log import fields_of
from api.wording import worded
from store.debugging import is_debugging
from store.errors import (
    CompactionRunning,
    CursorInvalid,
    DatabaseFileLost,
    DiskTooSmall,
    FilterInvalid,
    QueryRefused,
    QueryStopped,
    ReadTimedOut,
    ReportRefused,
    StoreBusy,
    StoreError,
    VariablesFull,
)

log = structlog.get_logger()

ErrorType: TypeAlias = Literal["syntax", "configuration", "runtime", "session", "system"]


class Kind(Struct, frozen=True):
    """What a code means to a client."""

    status: int
    type: ErrorType
    suggestion: str
    retry_action: str = ""  # empty: trying again does not help
    retry_after_s: int = 0


CODES: Mapping[str, Kind] = {
    "REQUEST_INVALID": Kind(400, "configuration", "Correct the request as the message says."),
    "UNAUTHENTICATED": Kind(401, "configuration", "Send a key that is good: `Authorization: Bearer KEY`."),
    "FORBIDDEN": Kind(403, "configuration", "Use a key that may do this."),
    "RATE_LIMITED": Kind(429, "system", "Send fewer requests at a time.", "wait", 1),
    "REQUESTS_FULL": Kind(429, "system", "Wait for the answers to the requests that are open.", "wait", 1),
    "REQUEST_TIMEOUT": Kind(408, "system", "Send the whole body at once.", "resend"),
    "KEY_NOT_FOUND": Kind(404, "configuration", "Correct the id; `GET /api/keys` lists them."),
    "NOT_FOUND": Kind(404, "configuration", "The API is described at /schema."),
    "METHOD_NOT_ALLOWED": Kind(405, "configuration", "The API is described at /schema."),
    "REQUEST_INCOMPLETE": Kind(400, "configuration", "Send the whole body: the connection ended before."),
    "PAYLOAD_TOO_LARGE": Kind(413, "configuration", "Send less at once."),
    "UNSUPPORTED_MEDIA_TYPE": Kind(415, "configuration", "Send JSON, with `Content-Type: application/json`."),
    "SCRIPT_NOT_FOUND": Kind(404, "configuration", "Import the script, or correct its id."),
    "SCRIPT_NOT_PUBLISHED": Kind(409, "configuration", "Publish a version of the script, or use another."),
    "SCRIPT_PARSE_ERROR": Kind(400, "syntax", "Mend the YAML at the places in `details`."),
    "SCRIPT_VALIDATION_ERROR": Kind(422, "configuration", "Mend the script at the places in `details`."),
    "SESSION_NOT_FOUND": Kind(404, "session", "Correct the id, or create a session."),
    "TURN_NOT_FOUND": Kind(404, "session", "Ask for a turn that the session has taken; `snapshots` lists them."),
    "SESSION_BUSY": Kind(409, "session", "Send one message at a time, or `Prefer: busy=queue`.", "wait", 1),
    "SESSION_ENDED": Kind(409, "session", "Create a new session."),
    "SESSION_TEXT_DROPPED": Kind(410, "session", "Create a new session; of this one only what is counted is left."),
    "SESSION_PAUSED": Kind(409, "session", "Resume the session first."),
    "INTERVENTION_REFUSED": Kind(409, "session", "Look at the session's status, and ask for what it allows."),
    "SESSION_EXISTS": Kind(409, "session", "Import it with `replace` or with `copy`."),
    "SESSION_KEY_TAKEN": Kind(409, "session", "Use the session that has this key, or another key."),
    "MIGRATION_BLOCKED": Kind(409, "session", "Leave the session where it is, or move it to a version that you name."),
    "TURN_CONFLICT": Kind(412, "session", "Read the session again and decide anew.", "reload"),
    "DOCUMENT_INVALID": Kind(422, "configuration", "Mend the document as the message says; nothing was imported."),
    "IDEMPOTENCY_MISMATCH": Kind(422, "configuration", "Use a new Idempotency-Key for a new request."),
    "IDEMPOTENCY_IN_FLIGHT": Kind(409, "session", "The same request is still being answered.", "wait", 1),
    "ACTION_EXECUTION_ERROR": Kind(500, "runtime", "Mend the action in the script; the session stays where it was."),
    "LIMIT_EXCEEDED": Kind(500, "runtime", "Mend the action that never ends; the session stays where it was."),
    "LLM_SERVICE_ERROR": Kind(503, "runtime", "Send the same message again.", "resend", 5),
    "LLM_CALL_INTERRUPTED": Kind(503, "runtime", "Send the same message again: the call is made anew.", "resend", 1),
    "MEMORY_FAILED": Kind(503, "runtime", "Send the same message again.", "resend", 5),
    "VARIABLE_STORE_INIT_ERROR": Kind(500, "system", "The saved session needs another version of Cuebook."),
    "DATABASE_ERROR": Kind(500, "system", "See the log for this request id."),
    "DATABASE_FILE_LOST": Kind(503, "system", "Put the database file back and restart the server; see its log."),
    "WEBHOOK_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/webhooks lists them."),
    "DELIVERY_NOT_FOUND": Kind(404, "configuration", "Correct the id; what was settled is deleted after a time."),
    "WEBHOOKS_FULL": Kind(409, "configuration", "Delete a webhook, or change one; `webhooks_max` is their number."),
    "FILTER_INVALID": Kind(400, "configuration", "Correct the filter as the message says; nothing was read."),
    "MEMORY_NOT_FOUND": Kind(404, "configuration", "Correct the user; nothing has been remembered of this one."),
    "MEMORY_UNIT_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/units lists them."),
    "MEMORY_UNIT_TAKEN": Kind(409, "configuration", "Give the unit another `unitId`, or none."),
    "MEMORY_GROUP_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/groups lists them."),
    "MEMORY_JOB_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/jobs lists them."),
    "MEMORY_JOBS_FULL": Kind(429, "system", "Wait until some of the work is done.", "wait", 5),
    "QUERY_INVALID": Kind(400, "configuration", "Correct the query as the message says; nothing was read."),
    "QUERY_STOPPED": Kind(422, "configuration", "Ask for less at once, or give it more time."),
    "REPORT_NOT_FOUND": Kind(404, "configuration", "Correct the name; GET /api/analytics/reports lists them."),
    "REPORT_INVALID": Kind(400, "configuration", "Correct it as the message says; the list of reports helps."),
    "ANALYTICS_NOT_READY": Kind(503, "system", "Ask again: they are being made meanwhile.", "wait", 1),
    "RETENTION_RUNNING": Kind(409, "system", "One run drops all that is due; GET tells how far it is.", "wait", 5),
    "COMPACTION_RUNNING": Kind(409, "system", "One compaction does for all that was removed before it.", "wait", 5),
    "DISK_TOO_SMALL": Kind(507, "system", "Make room on the disk of the record; nothing was changed."),
    "STREAMS_FULL": Kind(429, "system", "Close streams that nobody reads, or ask again later.", "wait", 5),
    "SERVER_BUSY": Kind(503, "system", "Send the same request again.", "resend", 1),
    "INTERNAL_ERROR": Kind(500, "system", "See the log for this request id."),
}


_MEND_FIRST = "Mend the server's settings or the script as the message says; sending it again does not help before."


class ApiError(Exception):
    """A failure that a client hears of. `details` is plain JSON data; nothing in it names paths or SQL. `lasting`: it
    stays until somebody mends the server's settings or the script, whatever is usual with the code. `retry_after_s`
    tells when to ask again, where that is known better than the code does.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Any = None,
        context: Mapping[str, Any] | None = None,
        lasting: bool = False,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.context = dict(context or {})
        self.lasting = lasting
        self.retry_after_s = retry_after_s

    @property
    def kind(self) -> Kind:
        """What the code means, and here whether asking again helps."""
        usual = CODES[self.code]
        if self.lasting:
            return Kind(usual.status, usual.type, _MEND_FIRST)
        if self.retry_after_s is not None:
            return msgspec.structs.replace(usual, retry_after_s=self.retry_after_s)
        return usual


class Recovery(Struct, frozen=True, rename="camel"):
    """What a client can do."""

    can_retry: bool
    retry_action: str
    suggestion: str


class ErrorBody(Struct, frozen=True, rename="camel"):
    """What went wrong."""

    code: str
    type: ErrorType
    message: str
    details: Any
    context: dict[str, Any]
    recovery: Recovery


class ErrorAnswer(Struct, frozen=True, rename="camel"):
    """The answer to every request that fails."""

    success: bool
    error: ErrorBody


def answer(error: ApiError, request_id: str, timestamp: str) -> ErrorAnswer:
    """The body a client gets."""
    kind = error.kind
    return ErrorAnswer(
        success=False,
        error=ErrorBody(
            code=error.code,
            type=kind.type,
            message=error.message,
            details=error.details,
            context={**error.context, "timestamp": timestamp, "requestId": request_id},
            recovery=Recovery(bool(kind.retry_action), kind.retry_action, kind.suggestion),
        ),
    )


def headers_of(failure: ApiError, error: BaseException) -> dict[str, str]:
    """What an answer tells beside its body: when to ask again, how to say who asks, which methods there are."""
    kind = failure.kind
    headers = {"Retry-After": str(kind.retry_after_s)} if kind.retry_after_s else {}
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="cuebook"'
    if kind.status == 405 and isinstance(error, HTTPException):
        headers["Allow"] = (error.headers or {}).get("allow", "")
    return headers


def described(*codes: str) -> dict[int, ResponseSpec]:
    """How the description of a route lists what it may refuse: by status, with the codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code].status, []).append(code)
    return {
        status: ResponseSpec(ErrorAnswer, generate_examples=False, description=", ".join(found))
        for status, found in by_status.items()
    }


_QUOTING = frozenset({"ACTION_EXECUTION_ERROR", "MEMORY_FAILED"})
"""Whose messages may quote values of variables; who may read the session finds them there."""


_LOGGED_ONCE = frozenset({"DATABASE_FILE_LOST"})
"""What the server logs when it happens, not with every request that it fails."""


def log_failure(failure: ApiError, error: BaseException, request_id: str, route: str) -> None:
    """Writes down what is no mistake of the client's. `route` is a template: ids of a path may be words of a user."""
    if failure.kind.status >= 500 and failure.code not in _LOGGED_ONCE:
        message = "a turn failed; the session says why" if failure.code in _QUOTING else failure.message
        unexpected = None if isinstance(error, ApiError | DiskTooSmall) else error
        fields = {"code": failure.code, "request_id": request_id, "route": route} | fields_of(error)
        log.error(message, **fields, exc_info=unexpected)
    elif is_debugging():
        log.debug("a request was refused", code=failure.code, request_id=request_id, route=route)


def translate(error: BaseException, sent_names: Mapping[str, str] | None = None) -> ApiError:
    """What a client hears of any exception; `sent_names` are the parameters of its route as it spells them."""
    match error:
        case ApiError():
            return error
        case HTTPException():
            return _http_error(error, sent_names or {})
        case CursorInvalid():
            return ApiError("REQUEST_INVALID", "the cursor is none that this list gave")
        case VariablesFull() | MemoryRefused():
            return ApiError("REQUEST_INVALID", str(error))
        case FilterInvalid():
            return ApiError("FILTER_INVALID", str(error))
        case QueryRefused():
            return ApiError("QUERY_INVALID", str(error))
        case QueryStopped():
            return ApiError("QUERY_STOPPED", str(error))
        case ReportRefused():
            return ApiError("REPORT_INVALID", str(error))
        case UnitTaken():
            return ApiError("MEMORY_UNIT_TAKEN", str(error))
        case TooManyJobs():
            return ApiError("MEMORY_JOBS_FULL", str(error))
        case CompactionRunning():
            return ApiError("COMPACTION_RUNNING", "the record is being compacted already")
        case DiskTooSmall():
            return ApiError("DISK_TOO_SMALL", str(error))
        case StoreBusy() | ReadTimedOut():
            return ApiError("SERVER_BUSY", "the record has too much to do")
        case DatabaseFileLost():
            message = (
                "the database file was deleted, moved or replaced while the server had it open; nothing is written"
            )
            return ApiError("DATABASE_FILE_LOST", message)
        case StoreError():
            return ApiError("DATABASE_ERROR", "the record could not be read or written")
        case _:
            return ApiError("INTERNAL_ERROR", "something went wrong that should not have")


def _http_error(error: HTTPException, sent_names: Mapping[str, str]) -> ApiError:
    """The server's own refusals: routes, methods, bodies, parameters."""
    codes = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "PAYLOAD_TOO_LARGE"}
    if error.status_code in codes:
        return ApiError(codes[error.status_code], error.detail or "not possible")
    if error.status_code >= 500:
        return ApiError("INTERNAL_ERROR", "something went wrong that should not have")
    if not isinstance(error.extra, list):
        return ApiError("REQUEST_INVALID", error.detail, details=error.extra if isinstance(error.extra, dict) else None)
    details = [_reworded(each, sent_names) if isinstance(each, dict) else each for each in error.extra]
    first = next(iter(details), None)
    problem = _request_problem(first, error.detail) if isinstance(first, dict) else error.detail
    return ApiError("REQUEST_INVALID", problem, details=details)


def _reworded(detail: dict[str, Any], sent_names: Mapping[str, str]) -> dict[str, Any]:
    said = {key: worded(each) if key == "message" and isinstance(each, str) else each for key, each in detail.items()}
    if detail.get("source") in {"query", "header", "cookie"} and isinstance(detail.get("key"), str):
        said["key"] = sent_names.get(detail["key"], detail["key"])
    return said


def _request_problem(detail: dict[str, Any], otherwise: str) -> str:
    key = "the body" if detail.get("key") in {None, "data"} else detail["key"]
    return f"{key}: {detail.get('message', otherwise)}".replace("the body: 'data'", "the body is empty")
