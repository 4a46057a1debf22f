"""Routes for analysts: SQL, reports, snapshots."""

from collections.abc import Coroutine
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIType, Schema
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Stream
from litestar.types import Receive
from msgspec.structs import replace

from api.analytics.charts.chart import chart_of
from api.analytics.execute import MEDIA_TYPES
from api.analytics.queries import QueryResult
from api.auth.principal import masks
from api.errors import ApiError, invalid_field, refusing
from api.http.error_responses import ANY_PARAMETERS, SENT_TWICE
from api.http.files import answering, download
from api.http.request import PAGE_MAX, ApiRequest, Cursor, Limit, page_of, query
from api.schemas.analytics import (
    MAX_AGE_DEFAULT_S,
    MAX_AGE_MAX_S,
    AnalyticsStatus,
    Form,
    Language,
    ModelView,
    NewAnalyticsQuery,
    QueryAnswer,
    ReportList,
    ReportView,
    TableDescription,
)
from api.schemas.timestamps import utc_text
from api.sessions.sse import while_connected
from store.analytics.file import MODEL_VERSION, described_tables
from store.analytics.reporting import REPORTS, report_named
from store.analytics.snapshots import OWN, StorageVersion
from store.interface.errors import ReportRefused

T = TypeVar("T")


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await work and return its result; cancel it if the client disconnects. Raises ApiError QUERY_STOPPED."""
    result = await while_connected(receive, work)
    if result is None:
        raise ApiError("QUERY_STOPPED", "the client disconnected")
    return result


_SNAPSHOT = "application/vnd.duckdb"
_SNAPSHOTS = {_SNAPSHOT: Schema(type=OpenAPIType.STRING, content_media_type=_SNAPSHOT)}
_OURS = frozenset({"format", "masked", "maxAgeS", "language"})  # parameters of the route, not of the report


Masked: TypeAlias = Annotated[
    bool, query("masked", "False: with texts, personal values and user ids; needs the role `reader`.")
]


TextLanguage: TypeAlias = Annotated[Language, QueryParameter(required=False, description="Of the texts.")]


MaxAge: TypeAlias = Annotated[
    float, query("maxAgeS", "The greatest age of the answer in seconds; 0: refresh first.", ge=0, le=MAX_AGE_MAX_S)
]


_DOCUMENTS = answering(
    "The answer.",
    {
        media_type.partition(";")[0]: Schema(type=OpenAPIType.STRING)
        for form, media_type in MEDIA_TYPES.items()
        if form != "json"
    }
    | {MEDIA_TYPES["vega-lite"]: Schema(type=OpenAPIType.OBJECT)},
    or_json=True,
    headers={
        "X-Cuebook-As-Of": "The time of the data.",
        "X-Cuebook-Masked": "Whether the data is masked, `true` or `false`.",
        "X-Cuebook-Truncated": "Whether there are more rows, `true` or `false`.",
        "X-Cuebook-Truncated-By": "The limit that was reached, `rows` or `bytes`, if there are more rows.",
    },
)
_TABLE = {200: ResponseSpec(QueryAnswer, generate_examples=False)}
"""A response in one of several formats."""


@get("/model", summary="Describe the analytics tables")
async def get_analytics_model() -> ModelView:
    """Tables and columns with their meanings. They are a public interface, versioned by `modelVersion`."""
    tables = msgspec.convert(described_tables(), list[TableDescription], from_attributes=True)
    return ModelView(model_version=MODEL_VERSION, tables=tables)


@get("/status", summary="Read the state of the analytics")
async def get_analytics_status(request: ApiRequest, masked: Masked = True) -> AnalyticsStatus:
    """Return the time of the data, and the progress of a running refresh."""
    hidden = masks(request.principal, masked)
    files = request.services.analytics.files
    progress = files.refresh_progress(request.tenant, masked=hidden)
    return AnalyticsStatus(
        masked=hidden,
        as_of=files.as_of(request.tenant, masked=hidden),
        turns_done=None if progress is None else progress.done,
        turns=None if progress is None else progress.total,
    )


@post("/query", status_code=200, summary="Run a query", responses=_TABLE, operation_class=_DOCUMENTS)
async def run_query(data: JSONBody[NewAnalyticsQuery], request: ApiRequest) -> Response[bytes]:
    """Can read the tables of the model and the reports, nothing else; bounded in time, rows and memory."""
    hidden = masks(request.principal, data.masked)
    result = await cancel_on_disconnect(
        request.receive, request.services.analytics.query(request.tenant, data, masked=hidden)
    )
    return _respond(result, data.format, masked=hidden)


@get("/reports", summary="List the reports")
async def list_reports(limit: Limit = PAGE_MAX, cursor: Cursor = None) -> ReportList:
    """Return a page of the reports."""
    views = [
        replace(msgspec.convert(each, ReportView, from_attributes=True), has_chart=chart_of(each.name) is not None)
        for each in REPORTS
    ]
    return page_of(ReportList, views, limit, cursor)


@get(
    "/reports/{report:str}",
    summary="Run a report",
    responses=_TABLE,
    operation_class=_DOCUMENTS,
    opt={ANY_PARAMETERS: True},
)
async def get_report(
    report: FromPath[str],
    request: ApiRequest,
    form: Annotated[Form, QueryParameter(name="format")] = "json",
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
    language: TextLanguage = "en",
) -> Response[bytes]:
    """Its parameters are query parameters; `GET /api/analytics/reports` lists them."""
    hidden = masks(request.principal, masked)
    with refusing("REPORT_NOT_FOUND", ReportRefused):
        definition = report_named(report)
    work = request.services.analytics.report(
        request.tenant, definition, _parameters(request), form, masked=hidden, max_age_s=max_age_s, language=language
    )
    result = await cancel_on_disconnect(request.receive, work)
    return _respond(result, form, masked=hidden)


@get("/snapshot", summary="Download a snapshot", operation_class=answering("The file.", _SNAPSHOTS))
async def get_analytics_snapshot(
    request: ApiRequest,
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
    storage_version: Annotated[
        StorageVersion, query("storageVersion", "The oldest version of DuckDB that must read the file.")
    ] = OWN,
) -> Stream:
    """A DuckDB file of all tables and reports, for DuckDB 2.0 unless an older version is named."""
    hidden = masks(request.principal, masked)
    copy = await request.services.analytics.snapshot(
        request.tenant, masked=hidden, storage_version=storage_version, max_age_s=max_age_s
    )
    return download(copy, "cuebook-analytics.duckdb", _SNAPSHOT)


def _parameters(request: ApiRequest) -> dict[str, str]:
    """Return the parameters of the report. Raises ApiError if one is repeated."""
    parameters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in parameters:
            raise invalid_field(name, SENT_TWICE)
        parameters[name] = value
    return {name: value for name, value in parameters.items() if name not in _OURS}


def _respond(result: QueryResult, form: Form, *, masked: bool) -> Response[bytes]:
    limit = result.answer.truncated_by
    headers = {
        "X-Cuebook-As-Of": utc_text(result.as_of),
        "X-Cuebook-Masked": str(masked).lower(),
        "X-Cuebook-Truncated": str(limit is not None).lower(),
    }
    if limit is not None:
        headers["X-Cuebook-Truncated-By"] = limit
    content = result.answer.content
    if form == "json":
        rest = f',"truncated":{headers["X-Cuebook-Truncated"]},"truncatedBy":{msgspec.json.encode(limit).decode()}'
        rest += f',"masked":{headers["X-Cuebook-Masked"]}'
        content = content[:-1] + f'{rest},"asOf":"{utc_text(result.as_of)}"}}'.encode()
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)
