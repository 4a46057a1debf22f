"""Routes for what analysts save: queries, and dashboards of reports and queries on one page."""

import asyncio

from litestar import MediaType, Response, delete, get, put
from litestar.params import JSONBody
from litestar.response import Stream

from api.analytics.dashboards.dashboards import dashboard_view, require_query
from api.auth.principal import masks
from api.errors import refusing
from api.http.files import download
from api.http.request import (
    PAGE_MAX,
    REVISION_ETAG,
    ApiRequest,
    Cursor,
    DashboardId,
    FileName,
    IfRevision,
    Limit,
    QueryId,
    creating,
    page_of,
    respond_at,
    revision_of,
)
from api.http.routes.analytics import Masked, TextLanguage, cancel_on_disconnect
from api.schemas.analytics import (
    DashboardFileList,
    DashboardList,
    DashboardText,
    DashboardView,
    QueryText,
    SavedQuery,
    SavedQueryList,
)
from store.interface.analyst_rows import SavedQueryRow
from store.interface.errors import RowRefused


@get("/queries", summary="List saved queries")
async def list_queries(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> SavedQueryList:
    """Return a page of the queries that analysts saved, the last changed first."""
    page = await request.services.store.analytics.queries(request.tenant, limit=limit, cursor=cursor)
    return SavedQueryList(data=[SavedQuery.of(row) for row in page.rows], next_cursor=page.next)


@creating("/queries", "Save a query", "the query")
async def create_query(data: JSONBody[QueryText], request: ApiRequest) -> Response[SavedQuery]:
    """Save a query by name, for all analysts of the tenant. It is not run, but must be one SELECT."""
    await request.services.analytics.check_syntax(data.sql)
    row = _row(request, request.services.ids(), data)
    with refusing("QUERIES_FULL", RowRefused):
        await request.services.store.analytics.add_query(row)
    return Response(SavedQuery.of(row), headers={"Location": f"/api/analytics/queries/{row.query_id}"})


@get("/queries/{queryId:str}", summary="Read a saved query")
async def get_query(query_id: QueryId, request: ApiRequest) -> SavedQuery:
    """Return a saved query."""
    row = await request.services.store.analytics.query(request.tenant, query_id)
    return SavedQuery.of(require_query(row, query_id))


@put("/queries/{queryId:str}", summary="Change a saved query")
async def change_query(query_id: QueryId, data: JSONBody[QueryText], request: ApiRequest) -> SavedQuery:
    """Replace the name and the text of a saved query."""
    await request.services.analytics.check_syntax(data.sql)
    changed = await request.services.store.analytics.change_query(_row(request, query_id, data))
    return SavedQuery.of(require_query(changed, query_id))


@delete("/queries/{queryId:str}", summary="Delete a saved query")
async def delete_query(query_id: QueryId, request: ApiRequest) -> None:
    """Delete a saved query."""
    require_query(await request.services.store.analytics.delete_query(request.tenant, query_id), query_id)


def _row(request: ApiRequest, query_id: str, text: QueryText) -> SavedQueryRow:
    now = request.services.clock()
    return SavedQueryRow(
        tenant=request.tenant, query_id=query_id, name=text.name, sql=text.sql, created_at=now, updated_at=now
    )


@get("/dashboards", summary="List dashboards")
async def list_dashboards(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> DashboardList:
    """Return a page of dashboards, the last changed first."""
    page = await request.services.store.analytics.dashboards(request.tenant, limit=limit, cursor=cursor)
    return DashboardList(data=list(map(dashboard_view, page.rows)), next_cursor=page.next)


@creating("/dashboards", "Create a dashboard", "the dashboard", REVISION_ETAG)
async def create_dashboard(data: JSONBody[DashboardText], request: ApiRequest) -> Response[DashboardView]:
    """Save reports and saved queries to see them together, for all analysts of the tenant."""
    row = await request.services.dashboards.create(request.tenant, data)
    url = f"/api/analytics/dashboards/{row.dashboard_id}"
    return respond_at(row.revision, dashboard_view(row), created=url)


@get("/dashboards/{dashboardId:str}", summary="Read a dashboard", response_headers=[REVISION_ETAG])
async def get_dashboard(dashboard_id: DashboardId, request: ApiRequest) -> Response[DashboardView]:
    """Return a dashboard, without its results."""
    row = await request.services.dashboards.get(request.tenant, dashboard_id)
    return respond_at(row.revision, dashboard_view(row))


@put("/dashboards/{dashboardId:str}", summary="Change a dashboard", response_headers=[REVISION_ETAG])
async def change_dashboard(
    dashboard_id: DashboardId, data: JSONBody[DashboardText], request: ApiRequest, if_match: IfRevision = None
) -> Response[DashboardView]:
    """Replace the name, the tiles and the schedule of a dashboard."""
    row = await request.services.dashboards.change(request.tenant, dashboard_id, data, revision_of(if_match))
    return respond_at(row.revision, dashboard_view(row))


@delete("/dashboards/{dashboardId:str}", summary="Delete a dashboard")
async def delete_dashboard(dashboard_id: DashboardId, request: ApiRequest) -> None:
    """Delete a dashboard with its files."""
    await request.services.dashboards.delete(request.tenant, dashboard_id)
    await request.services.dashboard_files.forget(request.tenant, dashboard_id)


@get("/dashboards/{dashboardId:str}/page", summary="Run a dashboard", media_type=MediaType.HTML)
async def get_dashboard_page(
    dashboard_id: DashboardId, request: ApiRequest, masked: Masked = True, language: TextLanguage = "en"
) -> Response[str]:
    """Return all tiles with their charts, tables and definitions as one HTML page that needs nothing else."""
    hidden = masks(request.principal, masked)
    row = await request.services.dashboards.get(request.tenant, dashboard_id)
    work = request.services.dashboards.html(row, masked=hidden, language=language)
    html = await cancel_on_disconnect(request.receive, work)
    headers = {"Content-Disposition": 'attachment; filename="dashboard.html"'}
    return Response(html, media_type=MediaType.HTML, headers=headers)


@get("/dashboards/{dashboardId:str}/files", summary="List the files of a dashboard")
async def list_dashboard_files(
    dashboard_id: DashboardId, request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None
) -> DashboardFileList:
    """Return a page of the files that were written by the schedule, the newest first."""
    await request.services.dashboards.get(request.tenant, dashboard_id)
    files = await asyncio.to_thread(request.services.dashboard_files.list_files, request.tenant, dashboard_id)
    return page_of(DashboardFileList, files, limit, cursor)


@get(
    "/dashboards/{dashboardId:str}/files/{fileName:str}",
    summary="Download a file of a dashboard",
    media_type=MediaType.HTML,
)
async def get_dashboard_file(dashboard_id: DashboardId, file_name: FileName, request: ApiRequest) -> Stream:
    """Return a page that was written by the schedule."""
    await request.services.dashboards.get(request.tenant, dashboard_id)
    path = request.services.dashboard_files.path(request.tenant, dashboard_id, file_name)
    return download(await asyncio.to_thread(path.open, "rb"), path.name, MediaType.HTML)
