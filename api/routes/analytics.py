"""What analysts ask over HTTP: SQL, reports, snapshots."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, TypeAlias
from urllib.parse import quote

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import BodyKwarg, FromPath, QueryParameter
from litestar.response import Stream

from api.analytics.answering import MEDIA_TYPES
from api.analytics.asking import Analytics, Told
from api.analytics.awaiting import while_awaited
from api.caller import caller_of, masks, tenant_of
from api.errors import ApiError, described
from api.routes.documents import answering_with
from api.schemas.analytics import (
    MAX_AGE_DEFAULT_S,
    MAX_AGE_MAX_S,
    AnalyticsStatus,
    ColumnDescription,
    Form,
    ModelView,
    NewQuery,
    ParameterView,
    ReportList,
    ReportView,
    TableDescription,
)
from store.analytics.describe import described_tables
from store.analytics.file import MODEL_VERSION
from store.analytics.report_list import REPORTS, Report
from store.analytics.reporting import report_named
from store.analytics.storage import OWN, StorageVersion
from store.errors import ReportRefused

_READ = ("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY", "ANALYTICS_NOT_READY")
_ANSWERS = (*_READ, "QUERY_INVALID", "QUERY_STOPPED")
_CHUNK = 1 << 20
_SNAPSHOT = "application/vnd.duckdb"
_OURS = frozenset({"format", "masked", "maxAgeS"})  # parameters that are the route's own

_QUERIES = [
    Example(
        summary="Who says how much",
        value={"sql": "SELECT role, count(*) AS messages, avg(characters) AS length FROM messages GROUP BY role"},
    ),
    Example(
        summary="A report as a picture", value={"sql": "FROM activity()", "format": "svg", "title": "What goes on"}
    ),
]

Masked: TypeAlias = Annotated[
    bool,
    QueryParameter(
        name="masked",
        required=False,
        description="False: with what was said, personal values and users' own ids; needs the role `reader`.",
    ),
]


MaxAge: TypeAlias = Annotated[
    float,
    QueryParameter(
        name="maxAgeS",
        required=False,
        ge=0,
        le=MAX_AGE_MAX_S,
        description="How many seconds old the answer may be; 0: the record is looked at first.",
    ),
]


@dataclass
class _Documents(Operation):
    """An answer in one of several forms."""

    def __post_init__(self) -> None:
        content = {
            each.partition(";")[0]: OpenAPIMediaType(Schema(type=OpenAPIType.STRING)) for each in MEDIA_TYPES.values()
        }
        content["application/json"] = OpenAPIMediaType(Schema(type=OpenAPIType.OBJECT))
        if self.responses is not None:
            self.responses["200"] = OpenAPIResponse("The answer.", content=content)


@get(
    "/model",
    summary="The tables that can be asked",
    description="Tables and columns with their meanings. They are a public interface: `modelVersion` tells of changes.",
)
async def model() -> ModelView:
    """The model."""
    tables = [
        TableDescription(
            name=table.name,
            means=table.means,
            columns=[
                ColumnDescription(name=each.name, type=each.type, nullable=each.is_nullable, means=each.means)
                for each in table.columns
            ],
        )
        for table in described_tables()
    ]
    return ModelView(model_version=MODEL_VERSION, tables=tables)


@get("/status", summary="How far the analytics are", responses=described("REQUEST_INVALID", "SERVER_BUSY"))
async def status(
    analytics: NamedDependency[Analytics], request: Request[Any, Any, Any], masked: Masked = True
) -> AnalyticsStatus:
    """Of which moment they are, and what is being brought in."""
    hidden = masks(caller_of(request), masked)
    making = analytics.files.making(tenant_of(request), masked=hidden)
    return AnalyticsStatus(
        masked=hidden,
        as_of=analytics.files.as_of(tenant_of(request), masked=hidden),
        turns_done=None if making is None else making.done,
        turns=None if making is None else making.total,
    )


@post(
    "/query",
    status_code=200,
    summary="Ask one SELECT",
    operation_class=_Documents,
    description="Over the tables of the model and the reports, nothing else; bounded in time, rows and memory.",
    responses=described(*_ANSWERS),
)
async def ask(
    data: Annotated[NewQuery, BodyKwarg(examples=_QUERIES)],
    analytics: NamedDependency[Analytics],
    request: Request[Any, Any, Any],
) -> Response[bytes]:
    """The answer in the format that was asked for."""
    hidden = masks(caller_of(request), data.masked)
    told = await while_awaited(request.receive, analytics.query(tenant_of(request), data, masked=hidden))
    return _answered(told, data.format, masked=hidden)


@get("/reports", summary="The reports there are")
async def list_reports() -> ReportList:
    """All reports."""
    return ReportList(reports=[_view(each) for each in REPORTS])


@get(
    "/reports/{report:str}",
    summary="A report",
    operation_class=_Documents,
    description="Its parameters are query parameters; `GET /api/analytics/reports` tells them.",
    responses=described(*_ANSWERS, "REPORT_NOT_FOUND", "REPORT_INVALID"),
)
async def make_report(
    report: FromPath[str],
    analytics: NamedDependency[Analytics],
    request: Request[Any, Any, Any],
    form: Annotated[Form, QueryParameter(name="format", required=False)] = "json",
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
) -> Response[bytes]:
    """The report in the format that was asked for."""
    hidden = masks(caller_of(request), masked)
    try:
        meant = report_named(report)
    except ReportRefused as error:
        raise ApiError("REPORT_NOT_FOUND", str(error)) from error
    work = analytics.report(tenant_of(request), meant, _parameters(request), form, masked=hidden, max_age_s=max_age_s)
    told = await while_awaited(request.receive, work)
    return _answered(told, form, masked=hidden)


@get(
    "/snapshot",
    summary="A snapshot",
    operation_class=answering_with(_SNAPSHOT),
    description="A DuckDB file of all tables and reports, for DuckDB 2.0 unless an older version is named.",
    responses=described(*_READ, "DISK_TOO_SMALL", "QUERY_STOPPED"),
)
async def snapshot(
    analytics: NamedDependency[Analytics],
    request: Request[Any, Any, Any],
    masked: Masked = True,
    max_age_s: MaxAge = MAX_AGE_DEFAULT_S,
    storage_version: Annotated[
        StorageVersion,
        QueryParameter(
            name="storageVersion",
            required=False,
            description="The oldest version of DuckDB that has to read it.",
        ),
    ] = OWN,
) -> Stream:
    """The file."""
    hidden = masks(caller_of(request), masked)
    copy = await analytics.snapshot(
        tenant_of(request), masked=hidden, storage_version=storage_version, max_age_s=max_age_s
    )
    headers = {
        "Content-Length": str(os.fstat(copy.fileno()).st_size),
        "Content-Disposition": 'attachment; filename="cuebook-analytics.duckdb"',
    }
    return Stream(_pieces(copy), media_type=_SNAPSHOT, headers=headers)


async def _pieces(copy: BinaryIO) -> AsyncIterator[bytes]:
    """The bytes of a file, which is closed at their end, or when nobody wants more."""
    with copy:
        while piece := await asyncio.to_thread(copy.read, _CHUNK):
            yield piece


def _parameters(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Those of the report. Raises ApiError where one is named twice."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ApiError("REQUEST_INVALID", f"{name}: given twice")
        given[name] = value
    return {name: value for name, value in given.items() if name not in _OURS}


def _answered(told: Told, form: Form, *, masked: bool) -> Response[bytes]:
    headers = {
        "X-Cuebook-As-Of": told.as_of.isoformat(),
        "X-Cuebook-Masked": str(masked).lower(),
        "X-Cuebook-Truncated": str(told.answer.truncated).lower(),
    }
    if told.answer.notes:
        headers["X-Cuebook-Note"] = quote("; ".join(told.answer.notes), safe=" ,;:()'")
    content = told.answer.content
    if form == "json":
        rest = f',"truncated":{headers["X-Cuebook-Truncated"]},"masked":{headers["X-Cuebook-Masked"]}'
        content = b'{"success":true,' + content + f'{rest},"asOf":"{told.as_of.isoformat()}"}}'.encode()
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)


def _view(each: Report) -> ReportView:
    return ReportView(
        name=each.name,
        title=each.title,
        says=each.says,
        reads_words=each.reads_words,
        parameters=[
            ParameterView(
                name=one.name,
                kind=one.kind,
                says=one.says,
                choices=list(one.choices),
                needed=one.is_needed,
                default=one.default,
            )
            for one in each.parameters
        ],
    )


router = Router(
    "/api/analytics", route_handlers=[model, status, ask, list_reports, make_report, snapshot], tags=["Analytics"]
)
