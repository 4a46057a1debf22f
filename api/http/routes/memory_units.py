"""Routes for units of memory: add, list, read, pin, remove, search."""

from typing import Annotated, TypeAlias, TypeVar

import msgspec
import numpy as np
from litestar import Response, delete, get, patch, post
from litestar.openapi.spec import Example
from litestar.params import JSONBody
from numpy.typing import NDArray

from api.auth.principal import check_trust_level, memory_of
from api.errors import require_found
from api.http.request import ApiRequest, Cursor, Limit, UnitId, creating, query
from api.memory.listing import UnitFilter
from api.memory.requests import NewUnit, Query
from api.schemas.base import Id
from api.schemas.ids import in_path
from api.schemas.memory import (
    ChangedUnit,
    NewMemorySearch,
    NewUnitBody,
    NewUnits,
    Rank,
    RecalledView,
    StoredUnit,
    UnitAnswer,
    UnitList,
    UnitsAdded,
)
from runtime.memory.recall.query import decay_of_days
from store.interface.errors import FilterInvalid
from store.interface.memory_filters import Filter, parse

T = TypeVar("T")
FILTERS_CHARS_MAX = 20_000

OfMemory: TypeAlias = Annotated[Id, query("userId", "The user whose memory it is.", examples=[Example(value="ana")])]


@creating("/memory/units", "Add units", "the first unit")
async def add_units(data: JSONBody[NewUnits], request: ApiRequest) -> Response[UnitsAdded]:
    """Adds units to one collection, all or none. They are durable when the answer arrives and found by their words at
    once, by their meaning once they are embedded. Messages of sessions become units without a request. Adding an
    existing `unitId` with the same content changes nothing.
    """
    owner = memory_of(request, data.user_id)
    if any(unit.trust == "own" for unit in data.units):
        check_trust_level(request)
    units = [_new_unit(unit) for unit in data.units]
    added = await request.services.memory_system.memories.add(*owner, data.group, units)
    headers = {"Location": f"/api/memory/units/{in_path(added[0].unit_id)}?userId={in_path(data.user_id)}"}
    return Response(UnitsAdded(data=[StoredUnit.of(unit) for unit in added]), headers=headers)


@get("/memory/units", summary="List units of a memory")
async def list_units(
    request: ApiRequest,
    user_id: OfMemory,
    filters: Annotated[
        str | None,
        query(
            "filters",
            'Filters as in a search, as JSON: `{"source": "user"}`.',
            max_length=FILTERS_CHARS_MAX,
            examples=[Example(value='{"source": "user"}')],
        ),
    ] = None,
    group: Annotated[str | None, query("group", "Units of this group.")] = None,
    rank: Annotated[
        Rank | None, query("rank", "0: messages and notes; 1: summaries of groups; 2: summaries of all groups.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> UnitList:
    """Return a page of units, the oldest first."""
    owner = memory_of(request, user_id)
    which = UnitFilter(filters=_filter_of_text(filters), group=group, rank=rank)
    page = await request.services.memory_system.listing.units(*owner, which, limit, cursor)
    return UnitList(data=page.rows, next_cursor=page.next)


@get("/memory/units/{unitId:str}", summary="Read a unit")
async def get_unit(unit_id: UnitId, request: ApiRequest, user_id: OfMemory) -> UnitAnswer:
    """Return a unit with its neighbours and sources. Reading a unit is not a visit."""
    return await _unit_answer(request, user_id, unit_id)


@patch("/memory/units/{unitId:str}", summary="Pin or unpin a unit")
async def change_unit(
    unit_id: UnitId, data: JSONBody[ChangedUnit], request: ApiRequest, user_id: OfMemory
) -> UnitAnswer:
    """Pin or unpin a unit."""
    owner, memories = memory_of(request, user_id), request.services.memory_system.memories
    _require(await memories.pin(*owner, unit_id, pinned=data.never_delete), unit_id)
    return await _unit_answer(request, user_id, unit_id)


@delete("/memory/units/{unitId:str}", summary="Remove a unit")
async def delete_unit(unit_id: UnitId, request: ApiRequest, user_id: OfMemory) -> None:
    """Removes a unit and its vector; its summaries are rebuilt. A message stays in its session."""
    owner = memory_of(request, user_id)
    _require(await request.services.memory_system.memories.remove(*owner, [unit_id]), unit_id)


@post("/memory/search", status_code=200, summary="Search memory")
async def search_memory(data: JSONBody[NewMemorySearch], request: ApiRequest) -> RecalledView:
    """Searches by words and by meaning, with a text or a vector. Returned units count as visited and are forgotten
    later.
    """
    owner = memory_of(request, data.user_id)
    return await request.services.memory_system.memories.query(*owner, _query(data))


async def _unit_answer(request: ApiRequest, user_id: str, unit_id: str) -> UnitAnswer:
    unit = await request.services.memory_system.listing.unit(*memory_of(request, user_id), unit_id)
    return UnitAnswer(unit=_require(unit, unit_id))


def _require(found: T | None, unit_id: str) -> T:
    return require_found(found, "MEMORY_UNIT_NOT_FOUND", "there is no such unit in this memory", {"unitId": unit_id})


def _new_unit(unit: NewUnitBody) -> NewUnit:
    fields = msgspec.structs.asdict(unit) | {
        "metadata": unit.metadata or {},
        "unit_id": unit.unit_id or "",
        "vector": _vector(unit.vector),
        "supersedes": unit.supersedes or "",
    }
    return NewUnit(**fields)


def _query(body: NewMemorySearch) -> Query:
    fields = msgspec.structs.asdict(body) | {
        "vector": _vector(body.vector),
        "filters": None if body.filters is None else parse(body.filters),
        "group": body.group or "",
        "external": body.external or (),
        "recall_context": int(body.recall_context),
        "decay": None if body.decay is None else decay_of_days(body.decay.half_life_days, body.decay.floor),
    }
    del fields["user_id"]
    return Query(**fields)


def _vector(numbers: list[float] | None) -> NDArray[np.float32] | None:
    if numbers is None:
        return None
    with np.errstate(over="ignore"):  # a number too large for 32 bits becomes infinite, which is rejected
        return np.array(numbers, np.float64).astype(np.float32)


def _filter_of_text(text: str | None) -> Filter | None:
    """Parse the filters of a list. Raises FilterInvalid."""
    if not text:
        return None
    try:
        return parse(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise FilterInvalid(f"`filters` is not JSON: {error}") from error
