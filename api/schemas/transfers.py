"""Exports and imports of sessions: the formats, and the responses about imported sessions."""

from typing import Literal, TypeAlias, get_args

from api.schemas.base import View

Format: TypeAlias = Literal["json", "yaml", "jsonl", "markdown", "txt"]
FORMATS: tuple[Format, ...] = get_args(Format)


class SessionCase(View, frozen=True, kw_only=True):
    """A session as a file with a test case."""

    file_name: str
    """A name for the file, beside the script."""
    yaml_content: str
    """The text of the file."""


class SkippedView(View, frozen=True, kw_only=True):
    """A skipped part of the document: its line, or its number in a list, from 1; and the reason."""

    line: int
    reason: str


class ImportView(View, frozen=True, kw_only=True):
    """The result of an import, or with `dryRun` its preview, and the skipped parts of the document."""

    session_id: str
    user_id: str
    key: str | None
    format: str
    script_id: str
    script_version: int
    turns: int
    messages: int
    replaced: bool
    dry_run: bool
    skipped: list[SkippedView]
    skipped_count: int
    remarks: list[str]
