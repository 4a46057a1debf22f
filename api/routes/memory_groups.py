"""Sessions and collections of a memory: what is in them, in their context and in their short-term memory."""

from typing import Annotated, Any

from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.caller import memory_of
from api.errors import ApiError, described
from api.memory.house import House
from api.memory.listing import Group
from api.memory.showing import group_view, stored_view
from api.parameters import Cursor, Limit
from api.routes.memory_units import OfMemory
from api.schemas.memory import ContextAnswer, GroupAnswer, GroupList, NewGroup, Restored, Restoring

_BODY = ("REQUEST_INVALID", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE")
_RECORD = ("DATABASE_ERROR", "SERVER_BUSY")
_KNOWN = ("REQUEST_INVALID", "MEMORY_GROUP_NOT_FOUND", *_RECORD)
_NEW = [
    Example(
        summary="A collection with a short-term memory", value={"userId": "ana", "group": "diary", "shortTerm": 50}
    ),
    Example(summary="The one that was begun last", value={"userId": "ana", "group": "LATEST"}),
]
_RESTORING = [Example(summary="What was said last time", value={"userId": "ana", "source": "LATEST"})]
CONTEXT_MAX = 1_000


@post(
    "/memory/groups",
    status_code=200,
    summary="Begin a collection, or go on with one",
    responses=described(*_BODY, *_RECORD),
)
async def begin_group(
    data: Annotated[NewGroup, BodyKwarg(examples=_NEW)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
) -> GroupAnswer:
    """The collection, made where there is none."""
    owner = memory_of(request, data.user_id)
    group_id = await house.memories.start_group(
        *owner, data.group or "", short_term=data.short_term, context_length=data.context_length
    )
    return GroupAnswer(group=group_view(await found_group(house, *owner, group_id)))


@get("/memory/groups", summary="List sessions and collections", responses=described("REQUEST_INVALID", *_RECORD))
async def list_groups(
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> GroupList:
    """A page of those that are in a memory, the oldest first."""
    page = await house.listing.groups(*memory_of(request, user_id), limit, cursor)
    return GroupList(data=[group_view(group) for group in page.groups], next_cursor=page.next)


@get("/memory/groups/{group_id:str}", summary="Look at a session or collection", responses=described(*_KNOWN))
async def get_group(
    group_id: FromPath[str],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
) -> GroupAnswer:
    """How much is in it, and in its mind."""
    return GroupAnswer(group=group_view(await found_group(house, *memory_of(request, user_id), group_id)))


@delete(
    "/memory/groups/{group_id:str}",
    summary="Forget a session or collection",
    description="Its units, their vectors and its summaries; what sums up all groups is made anew. A session itself "
    "stays, and what is said in it from then on is remembered.",
    responses=described(*_KNOWN),
)
async def delete_group(
    group_id: FromPath[str],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
) -> None:
    """Removes all of it from memory."""
    if not await house.memories.remove_group(*memory_of(request, user_id), group_id):
        raise _unknown(group_id)


@get("/memory/groups/{group_id:str}/context", summary="Read what was said last", responses=described(*_KNOWN))
async def get_group_context(
    group_id: FromPath[str],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
    length: Annotated[
        int | None, QueryParameter(name="length", ge=1, le=CONTEXT_MAX, required=False, description="How many at most.")
    ] = None,
) -> ContextAnswer:
    """What is in its context, oldest first: the units that `excludeContext` leaves out of a search."""
    owner = memory_of(request, user_id)
    await found_group(house, *owner, group_id)
    units = await house.memories.context(*owner, group_id, length)
    return ContextAnswer(units=[stored_view(unit) for unit in units])


@post(
    "/memory/groups/{group_id:str}/restore",
    status_code=200,
    summary="Bear in mind what was said before",
    description="Fills the short-term memory of a session or collection with what was said last in another.",
    responses=described(*_BODY, *_RECORD, "MEMORY_GROUP_NOT_FOUND"),
)
async def restore_group(
    group_id: FromPath[str],
    data: Annotated[Restoring, BodyKwarg(examples=_RESTORING)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
) -> Restored:
    """How many units it bears in mind then."""
    owner = memory_of(request, data.user_id)
    await found_group(house, *owner, group_id)
    return Restored(short_term=await house.memories.restore(*owner, group_id, data.source))


async def found_group(house: House, tenant: str, user_id: str, group_id: str) -> Group:
    """A session or collection. Raises ApiError MEMORY_GROUP_NOT_FOUND."""
    group = await house.listing.group(tenant, user_id, group_id)
    if group is None:
        raise _unknown(group_id)
    return group


def _unknown(group_id: str) -> ApiError:
    message = "there is no such session or collection in this memory"
    return ApiError("MEMORY_GROUP_NOT_FOUND", message, context={"group": group_id})


HANDLERS = (begin_group, list_groups, get_group, delete_group, get_group_context, restore_group)
"""For the router of memory: one path has one."""
