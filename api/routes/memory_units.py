"""Units of memory: add, list, look at, pin, remove; and what comes to mind of a question."""

from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from litestar import Request, Response, delete, get, patch, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter
from numpy.typing import NDArray

from api.asking import values_of
from api.caller import check_vouches, memory_of
from api.errors import ApiError, described
from api.memory.asked import NewUnit, Query
from api.memory.house import House
from api.memory.listing import Which
from api.memory.showing import recalled_view, stored_view, unit_view
from api.parameters import Cursor, Limit
from api.paths import in_path
from api.schemas.base import Id
from api.schemas.memory import (
    ChangedUnit,
    NewQuery,
    NewUnitBody,
    NewUnits,
    Rank,
    RecalledView,
    UnitAnswer,
    UnitList,
    UnitsAdded,
)
from runtime.memory.recall.asking import decay_of_days
from store.errors import FilterInvalid
from store.memory.filters import Filter, parse

FILTERS_CHARS_MAX = 20_000

LOCATION = ResponseHeader(name="Location", documentation_only=True, description="Where the first of them is.")
OfMemory: TypeAlias = Annotated[
    Id | None,
    QueryParameter(
        name="userId",
        required=False,
        description="Whose memory; a key that is bound to a user need not say it.",
        examples=[Example(value="ana")],
    ),
]
_BODY = ("REQUEST_INVALID", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE")
_RECORD = ("DATABASE_ERROR", "SERVER_BUSY")
_KNOWN = ("REQUEST_INVALID", "MEMORY_UNIT_NOT_FOUND", *_RECORD)
_NEW = [
    Example(
        summary="Two units of a collection",
        value={
            "userId": "ana",
            "group": "diary",
            "units": [
                {"content": "I moved to Lisbon.", "source": "Ana", "creationTime": "2026-01-31T09:30:00Z"},
                {"content": "Ana prefers mornings.", "trust": "own", "neverDelete": True, "unitId": "prefers"},
            ],
        },
    )
]
_QUERIES = [
    Example(summary="By words and meaning", value={"userId": "ana", "text": "Where does Ana live?", "k": 3}),
    Example(
        summary="Among some, with neighbours, and why",
        value={
            "userId": "ana",
            "text": "moving",
            "filters": {"source": "Ana", "creationTime": {"$gte": "2026-01-01T00:00:00Z"}},
            "recallContext": 1,
            "explain": True,
        },
    ),
]
_CHANGES = [Example(summary="Never forgotten", value={"neverDelete": True})]


@post(
    "/memory/units",
    status_code=201,
    summary="Add to a memory",
    description="Units for one collection, all or none. They are on disk when the answer comes, and can be found: "
    "by their words at once, by their meaning as soon as the embedder has seen them. What is said in a session is "
    "remembered by itself. A `unitId` that is there already and says the same is that unit.",
    response_headers=[LOCATION],
    responses=described(*_BODY, *_RECORD, "MEMORY_UNIT_TAKEN"),
)
async def add_units(
    data: Annotated[NewUnits, BodyKwarg(examples=_NEW)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
) -> Response[UnitsAdded]:
    """Adds units."""
    tenant, user_id = memory_of(request, data.user_id)
    if any(unit.trust == "own" for unit in data.units):
        check_vouches(request)
    added = await house.memories.add(tenant, user_id, data.group, [_new_unit(unit) for unit in data.units])
    headers = {"Location": f"/api/memory/units/{in_path(added[0].unit_id)}"}
    return Response(UnitsAdded(data=[stored_view(unit) for unit in added]), headers=headers)


@get(
    "/memory/units",
    summary="List units of a memory",
    responses=described("REQUEST_INVALID", "FILTER_INVALID", *_RECORD),
)
async def list_units(
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
    filters: Annotated[
        str | None,
        QueryParameter(
            name="filters",
            required=False,
            max_length=FILTERS_CHARS_MAX,
            description='As in a search, as JSON: `{"source": "user"}`.',
            examples=[Example(value='{"source": "user"}')],
        ),
    ] = None,
    group: Annotated[
        str | None, QueryParameter(name="group", required=False, description="Of this session or collection.")
    ] = None,
    rank: Annotated[
        Rank | None,
        QueryParameter(
            name="rank", required=False, description="0: said or noted; 1: summaries of groups; 2: summaries of all."
        ),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> UnitList:
    """A page of units, the oldest first."""
    which = Which(filters=_filter_of_text(filters), group=group, rank=rank)
    page = await house.listing.units(*memory_of(request, user_id), which, limit, cursor)
    return UnitList(data=[unit_view(unit) for unit in page.units], next_cursor=page.next)


@get("/memory/units/{unit_id:str}", summary="Look at a unit", responses=described(*_KNOWN))
async def get_unit(
    unit_id: FromPath[str], house: NamedDependency[House], request: Request[Any, Any, Any], user_id: OfMemory = None
) -> UnitAnswer:
    """A unit, with its neighbours and what it sums up. Looking at one is no visit."""
    return await _shown(house, *memory_of(request, user_id), unit_id)


@patch(
    "/memory/units/{unit_id:str}",
    summary="Keep a unit from being forgotten",
    responses=described(*_BODY, *_RECORD, "MEMORY_UNIT_NOT_FOUND"),
)
async def change_unit(
    unit_id: FromPath[str],
    data: Annotated[ChangedUnit, BodyKwarg(examples=_CHANGES)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
) -> UnitAnswer:
    """Pins a unit, or lets it go again."""
    owner = memory_of(request, user_id)
    if await house.memories.pin(*owner, unit_id, pinned=data.never_delete) is None:
        raise _unknown(unit_id)
    return await _shown(house, *owner, unit_id)


@delete(
    "/memory/units/{unit_id:str}",
    summary="Remove a unit",
    description="From memory, with its vector; what sums it up is made anew. A message stays in its session.",
    responses=described(*_KNOWN),
)
async def delete_unit(
    unit_id: FromPath[str],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
) -> None:
    """Removes a unit."""
    if not await house.memories.remove(*memory_of(request, user_id), [unit_id]):
        raise _unknown(unit_id)


@post(
    "/memory/search",
    status_code=200,
    summary="Recall",
    description="What comes to mind of a text or a vector, by words and by meaning. What is returned counts as "
    "visited, and is forgotten later.",
    responses=described(*_BODY, *_RECORD, "FILTER_INVALID"),
)
async def search_memory(
    data: Annotated[NewQuery, BodyKwarg(examples=_QUERIES)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
) -> RecalledView:
    """The best chains of units."""
    owner = memory_of(request, data.user_id)
    return recalled_view(await house.memories.query(*owner, _query(data)))


async def _shown(house: House, tenant: str, user_id: str, unit_id: str) -> UnitAnswer:
    unit = await house.listing.unit(tenant, user_id, unit_id)
    if unit is None:
        raise _unknown(unit_id)
    return UnitAnswer(unit=unit_view(unit))


def _unknown(unit_id: str) -> ApiError:
    return ApiError("MEMORY_UNIT_NOT_FOUND", "there is no such unit in this memory", context={"unitId": unit_id})


def _new_unit(unit: NewUnitBody) -> NewUnit:
    return NewUnit(
        content=unit.content,
        source=unit.source,
        creation_time=unit.creation_time,
        end_time=unit.end_time,
        metadata=values_of(unit.metadata, "metadata"),
        never_delete=unit.never_delete,
        trust=unit.trust,
        unit_id=unit.unit_id or "",
        vector=_vector(unit.vector),
        supersedes=unit.supersedes or "",
    )


def _query(asked: NewQuery) -> Query:
    return Query(
        text=asked.text,
        vector=_vector(asked.vector),
        k=asked.k,
        strategy=asked.strategy,
        filters=None if asked.filters is None else parse(asked.filters),
        ranks=asked.ranks,
        min_score=asked.min_score,
        group=asked.group or "",
        short_term_only=asked.short_term_only,
        long_term_only=asked.long_term_only,
        exclude_context=asked.exclude_context,
        add_to_short_term=asked.add_to_short_term,
        recall_context=int(asked.recall_context),
        decay=None if asked.decay is None else decay_of_days(asked.decay.half_life_days, asked.decay.floor),
        as_of=asked.as_of,
        external=asked.external,
        external_only=asked.external_only,
        explain=asked.explain,
    )


def _vector(numbers: list[float] | None) -> NDArray[np.float32] | None:
    if numbers is None:
        return None
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite, and refused as that
        return np.array(numbers, np.float64).astype(np.float32)


def _filter_of_text(text: str | None) -> Filter | None:
    """Raises FilterInvalid."""
    if not text:
        return None
    try:
        return parse(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise FilterInvalid(f"`filters` is no JSON: {error}") from error


HANDLERS = (add_units, list_units, get_unit, change_unit, delete_unit, search_memory)
"""For the router of memory: one path has one."""
