"""Routes for dashboards: reports and saved queries on one page."""

import asyncio

from litestar import MediaType, Response, delete, get, post, put
from litestar.params import JSONBody
from litestar.response import Stream

from api.analytics.dashboards.dashboards import dashboard_view
from api.auth.principal import masks
from api.http.files import download
from api.http.request import (
    REVISION_ETAG,
    ApiRequest,
    Cursor,
    DashboardId,
    FileName,
    IfRevision,
    Limit,
    location,
    revision_of,
)
from api.http.routes.analytics import Masked, TextLanguage, cancel_on_disconnect
from api.schemas.analytics import DashboardFileList, DashboardList, DashboardText, DashboardView
from store.interface.analyst_rows import DashboardRow

_CREATED = [location("The URL of the dashboard."), REVISION_ETAG]


@get("/dashboards", summary="List dashboards")
async def list_dashboards(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> DashboardList:
    """Return a page of dashboards, the last changed first."""
    page = await request.services.store.analytics.dashboards(request.tenant, limit=limit, cursor=cursor)
    return DashboardList(data=list(map(dashboard_view, page.rows)), next_cursor=page.next)


@post("/dashboards", status_code=201, summary="Create a dashboard", response_headers=_CREATED)
async def create_dashboard(data: JSONBody[DashboardText], request: ApiRequest) -> Response[DashboardView]:
    """Save reports and saved queries to see them together, for all analysts of the tenant."""
    row = await request.services.dashboards.create(request.tenant, data)
    return _respond(row, Location=f"/api/analytics/dashboards/{row.dashboard_id}")


@get("/dashboards/{dashboardId:str}", summary="Read a dashboard", response_headers=[REVISION_ETAG])
async def get_dashboard(dashboard_id: DashboardId, request: ApiRequest) -> Response[DashboardView]:
    """Return a dashboard, without its results."""
    return _respond(await request.services.dashboards.get(request.tenant, dashboard_id))


@put("/dashboards/{dashboardId:str}", summary="Change a dashboard", response_headers=[REVISION_ETAG])
async def change_dashboard(
    dashboard_id: DashboardId, data: JSONBody[DashboardText], request: ApiRequest, if_match: IfRevision = None
) -> Response[DashboardView]:
    """Replace the name, the tiles and the schedule of a dashboard."""
    row = await request.services.dashboards.change(request.tenant, dashboard_id, data, revision_of(if_match))
    return _respond(row)


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
async def list_dashboard_files(dashboard_id: DashboardId, request: ApiRequest) -> DashboardFileList:
    """Return the pages that were written by the schedule, the newest first."""
    await request.services.dashboards.get(request.tenant, dashboard_id)
    files = await asyncio.to_thread(request.services.dashboard_files.written, request.tenant, dashboard_id)
    return DashboardFileList(data=files)


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


def _respond(row: DashboardRow, **headers: str) -> Response[DashboardView]:
    return Response(dashboard_view(row), headers={"ETag": f'"{row.revision}"', **headers})
