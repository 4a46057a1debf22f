"""The shape of an error answer."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

ErrorType: TypeAlias = Literal["syntax", "configuration", "runtime", "session", "system"]


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


class StreamedError(ErrorAnswer, frozen=True, rename="camel"):
    """The last event of a stream whose turn failed: the error, with the status that it has as an answer."""

    status: int = 500
