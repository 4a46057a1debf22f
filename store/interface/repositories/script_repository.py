"""Versions of scripts and their texts, and drafts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.pages import Page
from store.interface.rows import DraftEntryRow, DraftRow, ScriptRow, ScriptStatus, ScriptTextRow


class ScriptRepository(Protocol):
    """Store and read scripts. Every method concerns one tenant."""

    async def save(self, script: ScriptRow, text: ScriptTextRow) -> None:
        """Add a version of a script, and its text unless it is stored. Raises IdTaken if it has this version."""

    async def set_statuses(
        self, tenant: str, script_uuid: str, statuses: Mapping[int, ScriptStatus], at: datetime
    ) -> None:
        """Set the statuses of versions of a script, all or none."""

    async def describe(self, tenant: str, script_uuid: str, changes: ScriptChanges, at: datetime) -> None:
        """Change the description of a script in all its versions."""

    async def page(
        self, tenant: str, which: ScriptFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ScriptRow]:
        """Return a page of scripts, last changed first: of each, the latest version that matches.

        Raises CursorInvalid.
        """

    async def get(self, tenant: str, script_uuid: str, version: int | None = None) -> ScriptRow | None:
        """Return one version of a script, the latest if `version` is None."""

    async def versions(self, tenant: str, script: str) -> list[ScriptRow]:
        """Return all versions of a script, named by its uuid or its author's id, the latest first."""

    async def latest_published(self, tenant: str, script: str) -> ScriptRow | None:
        """Return the latest published version of a script, named by its uuid or its author's id."""

    async def save_draft(self, draft: DraftRow, expected: int | None) -> DraftRow:
        """Add or replace the draft of a script; return it as stored, with a revision above the one before.

        Raises DraftConflict unless there is the `expected` revision (0: no draft; None: any), RowRefused if the tenant
        has too many.
        """

    async def delete_draft(self, tenant: str, script_id: str, expected: int | None = None) -> bool:
        """Delete the draft of a script; return whether there was one. Raises DraftConflict."""

    async def draft(self, tenant: str, script_id: str) -> DraftRow | None:
        """Return the draft of a script."""

    async def drafts(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[DraftEntryRow]:
        """Return a page of drafts without their texts, the last saved first. Raises CursorInvalid."""

    async def text(self, tenant: str, digest: str) -> ScriptTextRow | None:
        """Return a script's text by its digest."""
