"""The table of error codes, and the shape of an error answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import structlog
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from msgspec import UNSET, Struct, UnsetType

from api.logs.turn_fields import fields_of
from api.memory_errors import InvalidMemoryRequest, TooManyJobs, UnitIdExists
from api.validation_messages import humanize_validation_error
from store.interface.debug_logging import is_debugging
from store.interface.errors import (
    CompactionRunning,
    CursorInvalid,
    DatabaseFileLost,
    DiskTooSmall,
    FilterInvalid,
    QueryRefused,
    QueryStopped,
    ReadTimedOut,
    ReportRefused,
    RestartNeeded,
    StoreBusy,
    StoreError,
    VariablesFull,
    WriteFailed,
)

log = structlog.get_logger()

ErrorType: TypeAlias = Literal["syntax", "configuration", "runtime", "session", "system"]


class Kind(Struct, frozen=True):
    """The status, the type and the recovery of a code."""

    status: int
    type: ErrorType
    suggestion: str
    retry_action: str = ""  # empty: a retry does not help
    retry_after_s: int = 0


CODES: Mapping[str, Kind] = {
    "REQUEST_INVALID": Kind(400, "configuration", "Correct the request as the message says."),
    "UNAUTHENTICATED": Kind(401, "configuration", "Send a valid key: `Authorization: Bearer KEY`."),
    "FORBIDDEN": Kind(403, "configuration", "Use a key whose role permits this."),
    "RATE_LIMITED": Kind(429, "system", "Send fewer requests at a time.", "wait", 1),
    "REQUESTS_FULL": Kind(429, "system", "Wait until open requests are answered.", "wait", 1),
    "REQUEST_TIMEOUT": Kind(408, "system", "Send the whole body at once.", "resend"),
    "KEY_NOT_FOUND": Kind(404, "configuration", "Correct the id; `GET /api/keys` lists them."),
    "NOT_FOUND": Kind(404, "configuration", "See the description of the API at /schema."),
    "METHOD_NOT_ALLOWED": Kind(405, "configuration", "See the description of the API at /schema."),
    "REQUEST_INCOMPLETE": Kind(400, "configuration", "Send the whole body; the connection ended before its end."),
    "PAYLOAD_TOO_LARGE": Kind(413, "configuration", "Send less at once."),
    "UNSUPPORTED_MEDIA_TYPE": Kind(415, "configuration", "Send JSON, with `Content-Type: application/json`."),
    "SCRIPT_NOT_FOUND": Kind(404, "configuration", "Import the script, or correct its id."),
    "SCRIPT_NOT_PUBLISHED": Kind(409, "configuration", "Publish a version of the script, or use another."),
    "SCRIPT_PARSE_ERROR": Kind(400, "syntax", "Fix the YAML at the places in `details`."),
    "SCRIPT_VALIDATION_ERROR": Kind(422, "configuration", "Fix the script at the places in `details`."),
    "SESSION_NOT_FOUND": Kind(404, "session", "Correct the id, or create a session."),
    "TURN_NOT_FOUND": Kind(404, "session", "Name a turn of the session; `snapshots` lists them."),
    "SESSION_BUSY": Kind(409, "session", "Send one message at a time, or `Prefer: busy=queue`.", "wait", 1),
    "SESSION_ENDED": Kind(409, "session", "Create a new session."),
    "SESSION_REDACTED": Kind(410, "session", "Create a new session; only the counts of this one remain."),
    "SESSION_PAUSED": Kind(409, "session", "Resume the session first."),
    "INTERVENTION_REFUSED": Kind(409, "session", "Read the session's status and send a request that it permits."),
    "SESSION_EXISTS": Kind(409, "session", "Import it with `replace` or with `copy`."),
    "SESSION_KEY_EXISTS": Kind(409, "session", "Use the session that has this key, or another key."),
    "MIGRATION_BLOCKED": Kind(409, "session", "Leave the session on its version, or name another version."),
    "TURN_CONFLICT": Kind(412, "session", "Read the session again, then decide.", "reload"),
    "DOCUMENT_INVALID": Kind(422, "configuration", "Fix the document as the message says; nothing was imported."),
    "IDEMPOTENCY_MISMATCH": Kind(422, "configuration", "Use a new Idempotency-Key for a new request."),
    "IDEMPOTENCY_IN_FLIGHT": Kind(409, "session", "Wait for the answer to the same request.", "wait", 1),
    "ACTION_EXECUTION_ERROR": Kind(500, "runtime", "Fix the action in the script; the session did not change."),
    "LIMIT_EXCEEDED": Kind(500, "runtime", "Fix the action that does not end; the session did not change."),
    "LLM_SERVICE_ERROR": Kind(503, "runtime", "Send the same message again.", "resend", 5),
    "LLM_CALL_INTERRUPTED": Kind(503, "runtime", "Send the same message again; the call is repeated.", "resend", 1),
    "MEMORY_FAILED": Kind(503, "runtime", "Send the same message again.", "resend", 5),
    "VARIABLE_STORE_INIT_ERROR": Kind(500, "system", "The saved session needs another version of Cuebook."),
    "DATABASE_ERROR": Kind(500, "system", "See the log for this request id."),
    "DATABASE_FILE_LOST": Kind(503, "system", "Restore the database file and restart the server; see its log."),
    "DATABASE_STOPPED": Kind(503, "system", "Check the disk, then restart the server; see its log."),
    "DATABASE_UNAVAILABLE": Kind(503, "system", "Send the same request again; `/ready` says why.", "resend", 5),
    "WEBHOOK_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/webhooks lists them."),
    "DELIVERY_NOT_FOUND": Kind(404, "configuration", "Correct the id; finished deliveries are deleted after a time."),
    "WEBHOOKS_FULL": Kind(409, "configuration", "Delete a webhook, or change one; `webhooks_max` is the limit."),
    "FILTER_INVALID": Kind(400, "configuration", "Correct the filter as the message says; nothing was read."),
    "MEMORY_NOT_FOUND": Kind(404, "configuration", "Correct the user id; this user has no memory."),
    "MEMORY_UNIT_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/units lists them."),
    "MEMORY_UNIT_EXISTS": Kind(409, "configuration", "Use another `unitId`, or leave it out."),
    "MEMORY_GROUP_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/groups lists them."),
    "MEMORY_JOB_NOT_FOUND": Kind(404, "configuration", "Correct the id; GET /api/memory/jobs lists them."),
    "MEMORY_JOBS_FULL": Kind(429, "system", "Wait until some jobs are finished.", "wait", 5),
    "QUERY_INVALID": Kind(400, "configuration", "Correct the query as the message says; nothing was read."),
    "QUERY_STOPPED": Kind(422, "configuration", "Request less, or raise `timeoutS`."),
    "REPORT_NOT_FOUND": Kind(404, "configuration", "Correct the name; GET /api/analytics/reports lists them."),
    "REPORT_INVALID": Kind(
        400, "configuration", "Correct the parameters as the message says; see the list of reports."
    ),
    "ANALYTICS_NOT_READY": Kind(503, "system", "Repeat the request; the analytics are being refreshed.", "wait", 1),
    "RETENTION_RUNNING": Kind(409, "system", "Wait for the run in progress; GET shows its progress.", "wait", 5),
    "COMPACTION_RUNNING": Kind(409, "system", "Wait for the compaction in progress.", "wait", 5),
    "DISK_TOO_SMALL": Kind(507, "system", "Free space on the disk of the database; nothing was changed."),
    "STREAMS_FULL": Kind(429, "system", "Close unused streams, or retry later.", "wait", 5),
    "SERVER_BUSY": Kind(503, "system", "Send the same request again.", "resend", 1),
    "INTERNAL_ERROR": Kind(500, "system", "See the log for this request id."),
}


class ErrorDetail(Struct, frozen=True, kw_only=True):
    """One cause of an error: the field, parameter or header it is in, or the line and column of a text, from 1.

    Problems of a script also have the code, severity and fix of their diagnostic, and the file they are in.
    """

    message: str
    field: str | UnsetType = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET
    code: str | UnsetType = UNSET
    severity: str | UnsetType = UNSET
    fix: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


_FIX_FIRST = "Fix the server's settings or the script as the message says; a retry does not help until then."


class ApiError(Exception):
    """An error that is sent to a client.

    `details` hold neither paths of this machine nor SQL. With `lasting` the error remains until the settings or the
    script are fixed, whatever the code's recovery is. `retry_after_s` replaces the code's time until a retry.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Sequence[ErrorDetail] = (),
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
        """Return the kind of the code, with the recovery of this error."""
        usual = CODES[self.code]
        if self.lasting:
            return Kind(usual.status, usual.type, _FIX_FIRST)
        if self.retry_after_s is not None:
            return msgspec.structs.replace(usual, retry_after_s=self.retry_after_s)
        return usual


class Recovery(Struct, frozen=True, rename="camel"):
    """How a client can recover from an error."""

    can_retry: bool
    retry_action: str
    suggestion: str


class ErrorBody(Struct, frozen=True, rename="camel"):
    """The error itself."""

    code: str
    type: ErrorType
    message: str
    details: Sequence[ErrorDetail]
    context: dict[str, Any]
    recovery: Recovery


class ErrorAnswer(Struct, frozen=True, rename="camel"):
    """The answer to every request that fails."""

    success: bool
    error: ErrorBody


def answer(error: ApiError, request_id: str, timestamp: str) -> ErrorAnswer:
    """Return the body of an error answer."""
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
    """Return the headers of an error answer: `Retry-After`, `WWW-Authenticate`, `Allow`."""
    kind = failure.kind
    headers = {"Retry-After": str(kind.retry_after_s)} if kind.retry_after_s else {}
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="cuebook"'
    if kind.status == 405 and isinstance(error, HTTPException):
        headers["Allow"] = (error.headers or {}).get("allow", "")
    return headers


def described(*codes: str) -> dict[int, ResponseSpec]:
    """Return the error responses of a route for its OpenAPI description, by status with their codes."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(CODES[code].status, []).append(code)
    return {
        status: ResponseSpec(ErrorAnswer, generate_examples=False, description=", ".join(names))
        for status, names in by_status.items()
    }


_QUOTING = frozenset({"ACTION_EXECUTION_ERROR", "MEMORY_FAILED"})
"""Codes whose messages may quote values of variables; they are in the session, not in the log."""


_LOGGED_ONCE = frozenset({"DATABASE_FILE_LOST", "DATABASE_STOPPED"})
"""Codes that are logged once when they occur, not with every request that fails."""


def log_failure(failure: ApiError, error: BaseException, request_id: str, route: str) -> None:
    """Log an error that the client did not cause. `route` is a template, since ids in a path may be personal data."""
    if failure.kind.status >= 500 and failure.code not in _LOGGED_ONCE:
        message = "a turn failed; see the session's error" if failure.code in _QUOTING else failure.message
        unexpected = None if isinstance(error, ApiError | DiskTooSmall) else error
        fields = {"code": failure.code, "request_id": request_id, "route": route} | fields_of(error)
        log.error(message, **fields, exc_info=unexpected)
    elif is_debugging():
        log.debug("a request was refused", code=failure.code, request_id=request_id, route=route)


_TRANSLATED: Mapping[type[BaseException], tuple[str, str]] = {
    CursorInvalid: ("REQUEST_INVALID", "the cursor does not belong to this list"),
    VariablesFull: ("REQUEST_INVALID", ""),
    InvalidMemoryRequest: ("REQUEST_INVALID", ""),
    FilterInvalid: ("FILTER_INVALID", ""),
    QueryRefused: ("QUERY_INVALID", ""),
    QueryStopped: ("QUERY_STOPPED", ""),
    ReportRefused: ("REPORT_INVALID", ""),
    UnitIdExists: ("MEMORY_UNIT_EXISTS", ""),
    TooManyJobs: ("MEMORY_JOBS_FULL", ""),
    CompactionRunning: ("COMPACTION_RUNNING", "a compaction is in progress already"),
    DiskTooSmall: ("DISK_TOO_SMALL", ""),
    StoreBusy: ("SERVER_BUSY", "the database is busy"),
    ReadTimedOut: ("SERVER_BUSY", "the database is busy"),
    DatabaseFileLost: (
        "DATABASE_FILE_LOST",
        "the database file was deleted, moved or replaced while the server had it open; nothing is written",
    ),
    RestartNeeded: ("DATABASE_STOPPED", "the disk failed, so nothing is written until the server is restarted"),
    WriteFailed: ("DATABASE_UNAVAILABLE", "the database could not be written"),
    StoreError: ("DATABASE_ERROR", "the database could not be read or written"),
    Exception: ("INTERNAL_ERROR", "internal error; see the log for this request id"),
}
"""The code and message of an exception; an empty message is that of the exception. Base classes follow their own."""


def translate(error: BaseException, sent_names: Mapping[str, str] | None = None) -> ApiError:
    """Translate any exception; `sent_names` are the route's parameters as the client spells them."""
    match error:
        case ApiError():
            return error
        case HTTPException():
            return _http_error(error, sent_names or {})
    code, message = next(
        (each for kind, each in _TRANSLATED.items() if isinstance(error, kind)), _TRANSLATED[Exception]
    )
    return ApiError(code, message or str(error))


def _http_error(error: HTTPException, sent_names: Mapping[str, str]) -> ApiError:
    """Translate errors of the HTTP framework: routes, methods, bodies, parameters."""
    codes = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "PAYLOAD_TOO_LARGE"}
    if error.status_code in codes:
        return ApiError(codes[error.status_code], error.detail or "not possible")
    if error.status_code >= 500:
        return ApiError("INTERNAL_ERROR", "internal error; see the log for this request id")
    if not isinstance(error.extra, list):
        return ApiError("REQUEST_INVALID", error.detail)
    details = [_detail(each, error.detail, sent_names) for each in error.extra]
    return ApiError("REQUEST_INVALID", _request_problem(details[0]) if details else error.detail, details=details)


def _detail(found: dict[str, Any], otherwise: str, sent_names: Mapping[str, str]) -> ErrorDetail:
    """Translate one problem that the HTTP framework found in a body, a parameter or a header."""
    key = str(found.get("key", "data"))
    if found.get("source") in {"query", "header", "cookie"}:
        key = sent_names.get(key, key)
    message = humanize_validation_error(found.get("message", otherwise))
    return ErrorDetail(message=message, field=UNSET if key == "data" else key)


def _request_problem(detail: ErrorDetail) -> str:
    where = "the body" if detail.field is UNSET else detail.field
    return f"{where}: {detail.message}".replace("the body: 'data'", "the body is empty")
