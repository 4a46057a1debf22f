"""Drafts: the texts of scripts that authors work on, saved as they type, with errors or not."""

from api.errors import ApiError
from api.schemas.scripts import DraftText
from runtime.state.ports import Clock
from scripts.checks.check import is_id
from store.interface.errors import DraftConflict, RowRefused
from store.interface.rows import DraftRow
from store.sql.repositories import Scripts


class Drafts:
    """The drafts of all tenants, one for each script with unpublished changes."""

    def __init__(self, rows: Scripts, clock: Clock) -> None:
        self._rows = rows
        self._clock = clock

    async def get(self, tenant: str, draft_id: str) -> DraftRow:
        """Return the draft of a script. Raises ApiError DRAFT_NOT_FOUND."""
        draft = await self._rows.draft(tenant, draft_id)
        if draft is None:
            raise _not_found(draft_id)
        return draft

    async def save(self, tenant: str, draft_id: str, text: DraftText, expected: int | None) -> DraftRow:
        """Save the draft of a script if it has the `expected` revision (0: there is none).

        Raises ApiError DRAFT_CONFLICT, DRAFTS_FULL, REQUEST_INVALID.
        """
        if not is_id(draft_id):
            raise ApiError("REQUEST_INVALID", f"{draft_id!r} cannot be the id of a script")
        now = self._clock()
        draft = DraftRow(
            tenant=tenant,
            script_id=draft_id,
            revision=int(now.timestamp() * 1_000),
            base_version=text.base_version,
            text=text.yaml_content,
            files=text.files,
            created_at=now,
            updated_at=now,
        )
        try:
            return await self._rows.save_draft(draft, expected)
        except DraftConflict as conflict:
            raise _conflict(conflict) from conflict
        except RowRefused as refused:
            raise ApiError("DRAFTS_FULL", str(refused)) from refused

    async def delete(self, tenant: str, draft_id: str, expected: int | None) -> None:
        """Delete the draft of a script. Raises ApiError DRAFT_NOT_FOUND, DRAFT_CONFLICT."""
        try:
            found = await self._rows.delete_draft(tenant, draft_id, expected)
        except DraftConflict as conflict:
            raise _conflict(conflict) from conflict
        if not found:
            raise _not_found(draft_id)


def _not_found(draft_id: str) -> ApiError:
    return ApiError("DRAFT_NOT_FOUND", f"there is no draft of {draft_id}")


def _conflict(conflict: DraftConflict) -> ApiError:
    return ApiError("DRAFT_CONFLICT", str(conflict), context={"revision": conflict.actual})
