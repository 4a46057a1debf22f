"""Routes for analysts: SQL, reports, snapshots."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, BinaryIO, TypeAlias
from urllib.parse import quote

import msgspec
from litestar import Response, get, post
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import BodyKwarg, FromPath, QueryParameter
from litestar.response import Stream

from api.analytics.execute import MEDIA_TYPES
from api.analytics.queries import QueryResult
from api.auth.principal import masks
from api.errors import ApiError, described
from api.http.disconnect import cancel_on_disconnect
from api.http.openapi_files import file_operation
from api.http.request import ApiRequest
from api.schemas.analytics import (
    MAX_AGE_DEFAULT_S,
    MAX_AGE_MAX_S,
    AnalyticsStatus,
    Form,
    ModelView,
    NewAnalyticsQuery,
    ReportList,
    ReportView,
    TableDescription,
)
from api.timestamps import utc_text
from store.analytics.describe import described_tables
from store.analytics.file import MODEL_VERSION
from store.analytics.report_list import REPORTS
from store.analytics.reporting import report_named
from store.analytics.storage import OWN, StorageVersion
from store.interface.errors import ReportRefused

_READ = ("DATABASE_ERROR", "SERVER_BUSY", "ANALYTICS_NOT_READY")
_ANSWERS = (*_READ, "QUERY_INVALID", "QUERY_STOPPED")
_CHUNK = 1 << 20
_SNAPSHOT = "application/vnd.duckdb"
_OURS = frozenset({"format", "masked", "maxAgeS"})  # parameters of the route, not of the report

_QUERIES = [
    Example(
        summary="Messages per role",
        value={"sql": "SELECT role, count(*) AS messages, avg(characters) AS length FROM messages GROUP BY role"},
    ),
    Example(summary="A report as a chart", value={"sql": "FROM activity()", "format": "svg", "title": "Activity"}),
]

Masked: TypeAlias = Annotated[
    bool,
    QueryParameter(
        name="masked",
        required=False,
        description="False: with texts, personal values and user ids; needs the role `reader`.",
    ),
]


MaxAge: TypeAlias = Annotated[
    float,
    QueryParameter(
        name="maxAgeS",
        required=False,
        ge=0,
        le=MAX_AGE_MAX_S,
        description="The greatest age of the answer in seconds; 0: refresh first.",
    ),
]


@dataclass
class _Documents(Operation):
    """Describe a response in one of several formats."""

    def __post_init__(self) -> None:
        content = {
            each.partition(";")[0]: OpenAPIMediaType(Schema(type=OpenAPIType.STRING)) for each in MEDIA_TYPES.values()
        }
        for form in ("json", "vega-lite"):
            content[MEDIA_TYPES[form]] = OpenAPIMediaType(Schema(type=OpenAPIType.OBJECT))
        if self.responses is not None:
            self.responses["200"] = OpenAPIResponse("The answer.", content=content)


@get(
    "/model",
    summary="Describe the analytics tables",
    description="Tables and columns with their meanings. They are a public interface, versioned by `modelVersion`.",
)
async def get_analytics_model() -> ModelView:
    """Return the model."""
    tables = msgspec.convert(described_tables(), list[TableDescription], from_attributes=True)
    return ModelView(model_version=MODEL_VERSION, tables=tables)


@get("/status", summary="Read the state of the analytics", responses=described("SERVER_BUSY"))
async def get_analytics_status(request: ApiRequest, masked: Masked = True) -> AnalyticsStatus:
    """Return the time of the data, and the progress of a running refresh."""
    hidden = masks(request.principal, masked)
    files = request.services.analytics.files
    making = files.making(request.tenant, masked=hidden)
    return AnalyticsStatus(
        masked=hidden,
        as_of=files.as_of(request.tenant, masked=hidden),
        turns_done=None if making is None else making.done,
        turns=None if making is None else making.total,
    )


@post(
    "/query",
    status_code=200,
    summary="Run a query",
    operation_class=_Documents,
    description="Can read the tables of the model and the reports, nothing else; bounded in time, rows and memory.",
    responses=described(*_ANSWERS),
)
async def run_query(
    data: Annotated[NewAnalyticsQuery, BodyKwarg(examples=_QUERIES)],
    request: ApiRequest,
) -> Response[bytes]:
    """Return the answer in the requested format."""
    hidden = masks(request.principal, data.masked)
    result = await cancel_on_disconnect(
        request.receive, request.services.analytics.query(request.tenant, data, masked=hidden)
    )
    return _respond(result, data.format, masked=hidden)


@get("/reports", summary="List the reports")
async def list_reports() -> ReportList:
    """Return all reports."""
    return ReportList(data=msgspec.convert(REPORTS, list[ReportView], from_attributes=True))


@get(
    "/reports/{report:str}",
    summary="Run a report",
    operation_class=_Documents,
    description="Its parameters are query parameters; `GET /api/analytics/reports` lists them.",
    responses=described(*_ANSWERS, "REPORT_NOT_FOUND", "REPORT_INVALID"),
)
async def get_report(
    report: FromPath[str],
    request: ApiRequest,
    form: Annotated[Form, QueryParameter(name="format", required=False)] = "json",
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
) -> Response[bytes]:
    """Return the report in the requested format."""
    hidden = masks(request.principal, masked)
    try:
        definition = report_named(report)
    except ReportRefused as error:
        raise ApiError("REPORT_NOT_FOUND", str(error)) from error
    work = request.services.analytics.report(
        request.tenant, definition, _parameters(request), form, masked=hidden, max_age_s=max_age_s
    )
    result = await cancel_on_disconnect(request.receive, work)
    return _respond(result, form, masked=hidden)


@get(
    "/snapshot",
    summary="Download a snapshot",
    operation_class=file_operation(_SNAPSHOT),
    description="A DuckDB file of all tables and reports, for DuckDB 2.0 unless an older version is named.",
    responses=described(*_READ, "DISK_TOO_SMALL", "QUERY_STOPPED"),
)
async def get_analytics_snapshot(
    request: ApiRequest,
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
    storage_version: Annotated[
        StorageVersion,
        QueryParameter(
            name="storageVersion",
            required=False,
            description="The oldest version of DuckDB that must read the file.",
        ),
    ] = OWN,
) -> Stream:
    """Return the file."""
    hidden = masks(request.principal, masked)
    copy = await request.services.analytics.snapshot(
        request.tenant, masked=hidden, storage_version=storage_version, max_age_s=max_age_s
    )
    headers = {
        "Content-Length": str(os.fstat(copy.fileno()).st_size),
        "Content-Disposition": 'attachment; filename="cuebook-analytics.duckdb"',
    }
    return Stream(_pieces(copy), media_type=_SNAPSHOT, headers=headers)


async def _pieces(copy: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of a file; close it at the end or when the client disconnects."""
    with copy:
        while piece := await asyncio.to_thread(copy.read, _CHUNK):
            yield piece


def _parameters(request: ApiRequest) -> dict[str, str]:
    """Return the parameters of the report. Raises ApiError if one is repeated."""
    parameters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in parameters:
            raise ApiError("REQUEST_INVALID", f"{name}: sent twice")
        parameters[name] = value
    return {name: value for name, value in parameters.items() if name not in _OURS}


def _respond(result: QueryResult, form: Form, *, masked: bool) -> Response[bytes]:
    headers = {
        "X-Cuebook-As-Of": utc_text(result.as_of),
        "X-Cuebook-Masked": str(masked).lower(),
        "X-Cuebook-Truncated": str(result.answer.truncated).lower(),
    }
    if result.answer.notes:
        headers["X-Cuebook-Note"] = quote("; ".join(result.answer.notes), safe=" ,;:()'")
    content = result.answer.content
    if form == "json":
        rest = f',"truncated":{headers["X-Cuebook-Truncated"]},"masked":{headers["X-Cuebook-Masked"]}'
        content = b"{" + content + f'{rest},"asOf":"{utc_text(result.as_of)}"}}'.encode()
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)
