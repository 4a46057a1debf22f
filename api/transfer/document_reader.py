"""Detects the format of a document and reads it."""

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from api.schemas.validation_messages import humanize_validation_error
from api.transfer.document import FORMAT, VERSION, VERSION_MIN, SessionDocumentFile
from api.transfer.formats import agently
from api.transfer.formats.nanobot import read_lines
from api.transfer.formats.yaml_text import yaml_value
from api.transfer.import_report import MASKED, DocumentInvalid, ImportReport
from api.transfer.imported_conversation import ImportedConversation

Kind: TypeAlias = Literal["json", "yaml", "jsonl"]

T = TypeVar("T")

_READABLE = "a session of Cuebook (format, version, session, turns) or of Agently (full_chat_history)"


class _Header(Struct):
    """The fields that identify the format of an object."""

    format: Any = None
    version: Any = None
    masked: Any = None


def read_document(
    content: bytes, kind: Kind, file_name: str, path: str, report: ImportReport
) -> SessionDocumentFile | ImportedConversation:
    """Read a document. `path` leads to the session within it. Raises DocumentInvalid."""
    if kind == "jsonl":
        if path:
            raise DocumentInvalid("JSON lines contain one session; `path` is not supported for them")
        return read_lines(content, file_name, report)
    if kind == "yaml":
        content = _as_json(yaml_value(_text(content)))
    header = _header(content, path)
    if isinstance(header.format, str) and not path:
        return _read_cuebook(content, header)
    value = agently.at_path(_decode(content, object), path)
    if not agently.is_session(value) and not path:
        raise DocumentInvalid(f"the document is not supported: expected {_READABLE}, or a path to it")
    return agently.read_session(value, report)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DocumentInvalid(f"the document is not UTF-8 at byte {error.start}") from error


def _as_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise DocumentInvalid(f"the document contains values that JSON cannot represent: {error}") from error


def _header(content: bytes, path: str) -> _Header:
    if not content.strip():
        raise DocumentInvalid("the document is empty")
    if not content.lstrip(b" \t\r\n").startswith(b"{") and not path:
        what = type(_decode(content, object)).__name__
        raise DocumentInvalid(f"a session is an object, this is a {what}; expected {_READABLE}")
    return _decode(content, _Header)


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise DocumentInvalid(humanize_validation_error(str(error))) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentInvalid(f"the document is not JSON: {error}") from error


def _read_cuebook(content: bytes, header: _Header) -> SessionDocumentFile:
    if header.format != FORMAT:
        raise DocumentInvalid(f"the format {str(header.format)[:60]!r} is unknown; expected {_READABLE}")
    version = header.version
    if isinstance(version, bool) or not isinstance(version, int) or version < VERSION_MIN:
        raise DocumentInvalid(f"the version of the format is unknown; this Cuebook reads {VERSION_MIN} to {VERSION}")
    if version > VERSION:
        raise DocumentInvalid(
            f"a newer Cuebook wrote the document: its format has version {version}, this one reads up to {VERSION}"
        )
    if header.masked is not None:
        raise DocumentInvalid(MASKED)
    return _decode(content, SessionDocumentFile)
