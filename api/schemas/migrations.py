"""Requests and responses about migrations of a session."""

from typing import Annotated, Literal

from msgspec import Meta

from api.schemas.base import Body, Id, ScriptText, View
from api.schemas.sessions import MessageView, Position, WaitView
from runtime.state.state import ExecutionStatus, Status


class NewVersion(Body, frozen=True, kw_only=True):
    """The target version of a migration: by default the latest published version of the script.

    A dry run may also contain a text that is not stored yet.
    """

    version: Annotated[int, Meta(ge=1)] | None = None
    script_id: Id | None = None
    yaml_content: ScriptText | None = None
    files: dict[str, ScriptText] = {}
    dry_run: bool = False


class MigrationView(View, frozen=True, kw_only=True):
    """The result of a migration, or its preview, and the position of the session afterwards.

    `moved` is whether it took place; the positions are phase/topic/action.
    """

    session_id: str
    verdict: Literal["safe", "mapped", "restart_topic", "blocked", "ended", "current"]
    why: list[str]
    moved: bool
    place: str
    new_place: str
    from_version: int
    version: int | None
    status: Status
    execution_status: ExecutionStatus
    turn: int
    position: Position
    wait: WaitView | None
    messages: list[MessageView]
