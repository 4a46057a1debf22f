"""Finds out what a document is, and reads it."""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from api.transfer import agently
from api.transfer.conversation import Conversation
from api.transfer.document import FORMAT, VERSION, VERSION_MIN, Document
from api.transfer.nanobot import read_lines
from api.transfer.problems import MASKED, Account, DocumentInvalid
from api.transfer.yaml_text import yaml_value
from api.wording import worded

Kind: TypeAlias = Literal["json", "yaml", "jsonl"]

_READABLE = "a session of Cuebook (format, version, session, turns) or of Agently (full_chat_history)"


class _Header(Struct):
    """What says which format an object has."""

    format: Any = None
    version: Any = None
    masked: Any = None


def read_document(content: bytes, kind: Kind, file_name: str, path: str, account: Account) -> Document | Conversation:
    """What a document holds. `path` leads to the session within it. Raises DocumentInvalid."""
    if kind == "jsonl":
        if path:
            raise DocumentInvalid("JSON lines hold one session; a path leads nowhere in them")
        return read_lines(content, file_name, account)
    if kind == "yaml":
        content = _as_json(yaml_value(_text(content)))
    header = _header(content, path)
    if isinstance(header.format, str) and not path:
        return _own(content, header)
    found = agently.at_path(_decoded(content), path)
    if not agently.is_session(found) and not path:
        raise DocumentInvalid(f"this is none that can be read: there is to be {_READABLE}, or a path to it")
    return agently.read_session(found, account)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DocumentInvalid(f"it is not UTF-8 at byte {error.start}") from error


def _as_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise DocumentInvalid(f"it holds what JSON cannot: {error}") from error


def _header(content: bytes, path: str) -> _Header:
    if not content.strip():
        raise DocumentInvalid("it is empty")
    if not content.lstrip(b" \t\r\n").startswith(b"{") and not path:
        what = type(_decoded(content)).__name__
        raise DocumentInvalid(f"a session is an object, this is a {what}; there is to be {_READABLE}")
    try:
        return msgspec.json.decode(content, type=_Header)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentInvalid(f"it is no JSON: {error}") from error


def _decoded(content: bytes) -> object:
    try:
        found: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentInvalid(f"it is no JSON: {error}") from error
    return found


def _own(content: bytes, header: _Header) -> Document:
    if header.format != FORMAT:
        raise DocumentInvalid(f"the format {str(header.format)[:60]!r} is unknown; there is to be {_READABLE}")
    version = header.version
    if isinstance(version, bool) or not isinstance(version, int) or version < VERSION_MIN:
        raise DocumentInvalid(f"the format has no version that is known; this Cuebook reads {VERSION_MIN} to {VERSION}")
    if version > VERSION:
        raise DocumentInvalid(
            f"it was written by a newer Cuebook: its format has version {version}, this one reads up to {VERSION}"
        )
    if header.masked is not None:
        raise DocumentInvalid(MASKED)
    try:
        return msgspec.json.decode(content, type=Document)
    except msgspec.ValidationError as error:
        raise DocumentInvalid(worded(str(error))) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentInvalid(f"it is no JSON: {error}") from error
