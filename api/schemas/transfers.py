"""What answers about imported sessions look like."""

from api.schemas.base import View


class SkippedView(View, frozen=True, kw_only=True):
    """A part of the document that was passed over: its line, or its number in a list, from 1; and why."""

    line: int
    reason: str


class ImportView(View, frozen=True, kw_only=True):
    """What was imported, or with `dryRun` would be, and what of the document was passed over."""

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
    success: bool = True
