"""Routes for the saved queries of analysts."""

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody

from api.errors import ApiError, refusing
from api.http.request import ApiRequest, Cursor, Limit, QueryId, location
from api.schemas.analytics import QueryText, SavedQuery, SavedQueryList
from store.interface.analyst_rows import SavedQueryRow
from store.interface.errors import RowRefused


@get("/queries", summary="List saved queries")
async def list_queries(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> SavedQueryList:
    """Return a page of the queries that analysts saved, the last changed first."""
    page = await request.services.store.analytics.queries(request.tenant, limit=limit, cursor=cursor)
    return SavedQueryList(data=[SavedQuery.of(row) for row in page.rows], next_cursor=page.next)


@post("/queries", status_code=201, summary="Save a query", response_headers=[location("The URL of the query.")])
async def create_query(data: JSONBody[QueryText], request: ApiRequest) -> Response[SavedQuery]:
    """Save a query by name, for all analysts of the tenant."""
    row = _row(request, request.services.ids(), data)
    with refusing("QUERIES_FULL", RowRefused):
        await request.services.store.analytics.add_query(row)
    return Response(SavedQuery.of(row), headers={"Location": f"/api/analytics/queries/{row.query_id}"})


@get("/queries/{queryId:str}", summary="Read a saved query")
async def get_query(query_id: QueryId, request: ApiRequest) -> SavedQuery:
    """Return a saved query."""
    return _found(await request.services.store.analytics.query(request.tenant, query_id), query_id)


@put("/queries/{queryId:str}", summary="Change a saved query")
async def change_query(query_id: QueryId, data: JSONBody[QueryText], request: ApiRequest) -> SavedQuery:
    """Replace the name and the text of a saved query."""
    changed = await request.services.store.analytics.change_query(_row(request, query_id, data))
    return _found(changed, query_id)


@delete("/queries/{queryId:str}", summary="Delete a saved query")
async def delete_query(query_id: QueryId, request: ApiRequest) -> None:
    """Delete a saved query."""
    if not await request.services.store.analytics.delete_query(request.tenant, query_id):
        raise _not_found(query_id)


def _row(request: ApiRequest, query_id: str, text: QueryText) -> SavedQueryRow:
    now = request.services.clock()
    return SavedQueryRow(
        tenant=request.tenant, query_id=query_id, name=text.name, sql=text.sql, created_at=now, updated_at=now
    )


def _found(row: SavedQueryRow | None, query_id: str) -> SavedQuery:
    if row is None:
        raise _not_found(query_id)
    return SavedQuery.of(row)


def _not_found(query_id: str) -> ApiError:
    return ApiError("QUERY_NOT_FOUND", f"there is no saved query {query_id}")
