"""What requests and answers look like that move a session to another version of its script."""

from typing import Annotated, Literal

from msgspec import Meta

from api.schemas.base import Body, Id, ScriptText, View
from api.schemas.sessions import MessageView, Position, WaitView


class NewVersion(Body, frozen=True, kw_only=True):
    """The version a session moves to: the latest published one of its script, unless it is named.

    A dry run may also bring a text that is not kept yet.
    """

    version: Annotated[int, Meta(ge=1)] | None = None
    script_id: Id | None = None
    yaml_content: ScriptText | None = None
    files: dict[str, ScriptText] = {}
    dry_run: bool = False


class MigrationView(View, frozen=True, kw_only=True):
    """What a move came to, or would come to, and where the session then stands.

    `moved` tells whether it took place; the places are phase/topic/action.
    """

    session_id: str
    verdict: Literal["safe", "mapped", "restart_topic", "blocked", "ended", "current"]
    why: list[str]
    moved: bool
    place: str
    new_place: str
    from_version: int
    version: int | None
    turn: int
    position: Position
    wait: WaitView | None
    messages: list[MessageView]
    success: bool = True
