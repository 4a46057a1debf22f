"""The table of error codes, and the errors that are sent to clients."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
from litestar.exceptions import HTTPException
from msgspec import UNSET, Struct

from api.logs.turn_fields import fields_of
from api.schemas.errors import ErrorAnswer, ErrorBody, ErrorDetail, ErrorType, Recovery
from api.schemas.memory_errors import InvalidMemoryRequest, TooManyJobs, UnitIdExists
from api.schemas.validation_messages import humanize_validation_error
from runtime.state.inputs import InputRefused
from store.interface.debug_logging import is_debugging
from store.interface.errors import (
    BackupFailed,
    BackupRunning,
    CompactionRunning,
    CursorInvalid,
    DatabaseFileLost,
    DatabaseUnreachable,
    DiskFull,
    DiskTooSmall,
    FilterInvalid,
    FolderUnwritable,
    KeyUnwritable,
    MemoryMoved,
    NotWithPostgres,
    QueryRefused,
    QueryStopped,
    ReadTimedOut,
    ReportRefused,
    RestartNeeded,
    StoreBusy,
    StoreError,
    TurnClaimed,
    UserErased,
    VariablesFull,
    WriteFailed,
)

log = structlog.get_logger()

T = TypeVar("T")


class Kind(Struct, frozen=True, forbid_unknown_fields=True):
    """The status, the type and the recovery of a code."""

    status: int
    type: ErrorType
    suggestion: str
    retry_action: str = ""  # empty: a retry does not help
    retry_after_s: int = 0


CODES = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, Kind])
"""Every error by its code."""


_FIX_FIRST = "Fix the server's settings or the script as the message says; a retry does not help until then."


class ApiError(Exception):
    """An error that is sent to a client.

    `details` hold neither paths of this machine nor SQL. With `lasting` the error remains until the settings or the
    script are fixed, whatever the code's recovery is. `retry_after_s` replaces the code's time until a retry, `retry`
    what its suggestion says of one.
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
        retry: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.context = dict(context or {})
        self.lasting = lasting
        self.retry_after_s = retry_after_s
        self.retry = retry

    @property
    def kind(self) -> Kind:
        """Return the kind of the code, with the recovery of this error."""
        kind = CODES[self.code]
        if self.lasting:
            kind = Kind(kind.status, kind.type, _FIX_FIRST)
        if self.retry:
            suggestion = self.retry if kind.retry_action else f"{kind.suggestion} {self.retry}"
            kind = msgspec.structs.replace(kind, suggestion=suggestion)
        if self.retry_after_s is not None:
            kind = msgspec.structs.replace(kind, retry_after_s=self.retry_after_s)
        return kind


def invalid_field(field: str, problem: str) -> ApiError:
    """Return the error of a field, parameter or header of a request that is not valid."""
    return ApiError("REQUEST_INVALID", f"{field}: {problem}", details=[ErrorDetail(message=problem, field=field)])


def require_found(value: T | None, code: str, message: str, context: Mapping[str, Any] | None = None) -> T:
    """Return what a request names; raise an ApiError with this code if there is nothing: None or false."""
    if not value:
        raise ApiError(code, message, context=context)
    return value


def require_session(value: T | None, session_id: str) -> T:
    """Return what was read of a session. Raises ApiError SESSION_NOT_FOUND if there is nothing: None or false."""
    return require_found(value, "SESSION_NOT_FOUND", "Session not found", {"sessionId": session_id})


@contextmanager
def refusing(code: str, *kinds: type[Exception], context: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Raise an ApiError with this code, and the message of an error of these kinds."""
    try:
        yield
    except kinds as error:
        raise ApiError(code, str(error), context=context) from error


def refused_input(error: InputRefused, code: str, context: Mapping[str, Any]) -> ApiError:
    """Return the error of an input that a session does not take."""
    details = [ErrorDetail(message=str(error), field=error.field)] if error.field else []
    return ApiError(code, str(error), details=details, context=context)


@contextmanager
def refusing_field(field: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise an ApiError REQUEST_INVALID about a field of a request with the message of an error of these kinds."""
    try:
        yield
    except kinds as error:
        raise invalid_field(field, humanize_validation_error(str(error))) from error


def answer(error: ApiError, request_id: str, timestamp: str) -> ErrorAnswer:
    """Return the body of an error answer."""
    return ErrorAnswer(success=False, error=body_of(error, {"timestamp": timestamp, "requestId": request_id}))


def body_of(error: ApiError, context: Mapping[str, Any]) -> ErrorBody:
    """Return an error as clients see it, with more context."""
    kind = error.kind
    return ErrorBody(
        code=error.code,
        type=kind.type,
        message=error.message,
        details=error.details,
        context={**error.context, **context},
        recovery=Recovery(bool(kind.retry_action), kind.retry_action, kind.suggestion),
    )


def headers_of(failure: ApiError, error: BaseException) -> dict[str, str]:
    """Return the headers of an error answer: `Retry-After`, `WWW-Authenticate`, `Allow`, `Accept-Encoding`."""
    kind = failure.kind
    headers = {"Retry-After": str(kind.retry_after_s)} if kind.retry_after_s else {}
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="cuebook"'
    if kind.status == 405 and isinstance(error, HTTPException):
        headers["Allow"] = (error.headers or {}).get("allow", "")
    if kind.status == 415:
        headers["Accept-Encoding"] = "identity"  # of request bodies (RFC 9110, 12.5.3)
    return headers


_QUOTING = frozenset({"ACTION_EXECUTION_ERROR", "MEMORY_FAILED"})
"""Codes whose messages may quote values of variables; they are in the session, not in the log."""


_LOGGED_ONCE = frozenset({"DATABASE_FILE_LOST", "DATABASE_STOPPED"})
"""Codes that are logged once when they occur, not with every request that fails."""
_NO_DEFECTS = ApiError | DatabaseUnreachable | DiskFull | DiskTooSmall | FolderUnwritable | KeyUnwritable | BackupFailed
"""Errors whose stack says nothing more."""
_NO_FAILURES = frozenset({"ANALYTICS_NOT_READY"})
"""Codes above 500 with which clients are only asked to wait for work that goes on."""


def log_failure(failure: ApiError, error: BaseException, request_id: str, route: str) -> None:
    """Log an error that the client did not cause. `route` is a template, since ids in a path may be personal data."""
    if failure.kind.status >= 500 and failure.code not in _LOGGED_ONCE | _NO_FAILURES:
        message = "a turn failed; see the session's error" if failure.code in _QUOTING else failure.message
        fields = {"code": failure.code, "request_id": request_id, "route": route} | fields_of(error)
        if isinstance(error, DatabaseUnreachable):
            fields["problem"] = str(error)
        unexpected = None if isinstance(error, _NO_DEFECTS) else error
        log.error(message, **fields, exc_info=unexpected)
    elif is_debugging():
        log.debug("a request was refused", code=failure.code, request_id=request_id, route=route)


_TRANSLATED: Mapping[type[BaseException], tuple[str, str]] = {
    VariablesFull: ("REQUEST_INVALID", ""),
    InvalidMemoryRequest: ("REQUEST_INVALID", ""),
    QueryRefused: ("QUERY_INVALID", ""),
    QueryStopped: ("QUERY_STOPPED", ""),
    UnitIdExists: ("MEMORY_UNIT_EXISTS", ""),
    TooManyJobs: ("MEMORY_JOBS_FULL", ""),
    BackupRunning: ("BACKUP_RUNNING", "a backup is being written"),
    BackupFailed: ("BACKUP_FAILED", ""),
    TurnClaimed: ("SESSION_BUSY", "another server runs the next turn of the session"),
    UserErased: ("SESSION_BUSY", "the user was erased after the session began"),
    MemoryMoved: ("SERVER_BUSY", "another server changed the memory meanwhile"),
    NotWithPostgres: ("NOT_WITH_POSTGRES", ""),
    CompactionRunning: ("COMPACTION_RUNNING", "a compaction is in progress already"),
    DiskTooSmall: ("DISK_TOO_SMALL", ""),
    DiskFull: ("DISK_TOO_SMALL", ""),
    StoreBusy: ("SERVER_BUSY", "the database is busy"),
    ReadTimedOut: ("SERVER_BUSY", "the database is busy"),
    DatabaseFileLost: (
        "DATABASE_FILE_LOST",
        "the database file was deleted, moved or replaced while the server had it open; nothing is written",
    ),
    RestartNeeded: ("DATABASE_STOPPED", "the disk failed, so nothing is written until the server is restarted"),
    KeyUnwritable: ("DATABASE_UNAVAILABLE", ""),
    WriteFailed: ("DATABASE_UNAVAILABLE", "the database could not be written"),
    DatabaseUnreachable: ("DATABASE_UNAVAILABLE", "the database cannot be read or written now"),
    FolderUnwritable: ("DATABASE_ERROR", ""),
    StoreError: ("DATABASE_ERROR", "the database could not be read or written"),
    Exception: ("INTERNAL_ERROR", "internal error; see the log for this request id"),
}
"""The code and message of an exception; an empty message is that of the exception. Base classes follow their own."""


def translate(error: BaseException) -> ApiError:
    """Translate any exception of the product."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, CursorInvalid):
        return invalid_field("cursor", "it does not belong to this list")
    if isinstance(error, ReportRefused):
        details = [ErrorDetail(message=str(error), field=error.parameter or UNSET)]
        return ApiError("REPORT_INVALID", str(error), details=details)
    if isinstance(error, FilterInvalid):
        return ApiError("FILTER_INVALID", str(error), details=[ErrorDetail(message=str(error), field="filters")])
    code, message = next(
        (each for kind, each in _TRANSLATED.items() if isinstance(error, kind)), _TRANSLATED[Exception]
    )
    return ApiError(code, message or str(error))
