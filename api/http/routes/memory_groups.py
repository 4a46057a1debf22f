"""Routes for sessions and collections of a memory: their units, context and short-term memory."""

from typing import Annotated, TypeVar

from litestar import Response, delete, get, post
from litestar.params import JSONBody

from api.auth.principal import memory_of
from api.errors import require_found
from api.http.request import ApiRequest, Cursor, GroupId, Limit, also, creating, query
from api.http.routes.memory_units import OfMemory
from api.schemas.ids import in_path
from api.schemas.memory import (
    ContextAnswer,
    GroupAnswer,
    GroupList,
    GroupView,
    NewGroup,
    Restored,
    Restoring,
    StoredUnit,
)

T = TypeVar("T")
CONTEXT_MAX = 1_000


_WAS_THERE = also(200, GroupAnswer, "The collection was there before.")


@creating("/memory/groups", "Begin or continue a collection", "the collection", responses=_WAS_THERE)
async def begin_group(data: JSONBody[NewGroup], request: ApiRequest) -> Response[GroupAnswer]:
    """Return the collection, created if it is missing."""
    owner = memory_of(request, data.user_id)
    started = await request.services.memory_system.memories.start_group(
        *owner, data.group or "", short_term=data.short_term, context_length=data.context_length
    )
    group = await found_group(request, data.user_id, started.group_id)
    headers = {"Location": f"/api/memory/groups/{in_path(started.group_id)}?userId={in_path(data.user_id)}"}
    return Response(GroupAnswer(group=group), status_code=201 if started.is_new else 200, headers=headers)


@get("/memory/groups", summary="List groups")
async def list_groups(request: ApiRequest, user_id: OfMemory, limit: Limit = 50, cursor: Cursor = None) -> GroupList:
    """Return a page of the groups in a memory, the oldest first."""
    page = await request.services.memory_system.listing.groups(*memory_of(request, user_id), limit, cursor)
    return GroupList(data=page.rows, next_cursor=page.next)


@get("/memory/groups/{groupId:str}", summary="Read a group")
async def get_group(group_id: GroupId, request: ApiRequest, user_id: OfMemory) -> GroupAnswer:
    """Return the number of units in a group and in its short-term memory."""
    return GroupAnswer(group=await found_group(request, user_id, group_id))


@delete("/memory/groups/{groupId:str}", summary="Delete a group")
async def delete_group(group_id: GroupId, request: ApiRequest, user_id: OfMemory) -> None:
    """Deletes the group's units, vectors and summaries; summaries of all groups are rebuilt. A session itself remains,
    and its later messages become units.
    """
    memories = request.services.memory_system.memories
    _require(await memories.remove_group(*memory_of(request, user_id), group_id), group_id)


@get("/memory/groups/{groupId:str}/context", summary="Read recent messages of a group")
async def get_group_context(
    group_id: GroupId,
    request: ApiRequest,
    user_id: OfMemory,
    length: Annotated[int | None, query("length", "The greatest number of units.", ge=1, le=CONTEXT_MAX)] = None,
) -> ContextAnswer:
    """Return the context, oldest first: the units that `excludeContext` leaves out of a search."""
    await found_group(request, user_id, group_id)
    units = await request.services.memory_system.memories.context(*memory_of(request, user_id), group_id, length)
    return ContextAnswer(units=[StoredUnit.of(unit) for unit in units])


@post("/memory/groups/{groupId:str}/restore", status_code=200, summary="Restore short-term memory")
async def restore_group(group_id: GroupId, data: JSONBody[Restoring], request: ApiRequest) -> Restored:
    """Copies another group's recent messages into this group's short-term memory."""
    await found_group(request, data.user_id, group_id)
    owner = memory_of(request, data.user_id)
    return Restored(short_term=await request.services.memory_system.memories.restore(*owner, group_id, data.source))


async def found_group(request: ApiRequest, user_id: str, group_id: str) -> GroupView:
    """Return a session or collection. Raises ApiError FORBIDDEN, MEMORY_GROUP_NOT_FOUND."""
    listing = request.services.memory_system.listing
    return _require(await listing.group(*memory_of(request, user_id), group_id), group_id)


def _require(found: T | None, group_id: str) -> T:
    message = "there is no such session or collection in this memory"
    return require_found(found, "MEMORY_GROUP_NOT_FOUND", message, {"group": group_id})
