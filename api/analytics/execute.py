"""Runs a query and encodes its result; a worker process does this."""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.charts.infer_chart import infer_chart
from api.analytics.charts.vega_lite import Spec, render, vega_lite
from api.analytics.formats.json_and_csv import as_csv, as_json
from api.analytics.formats.parquet import as_parquet
from api.schemas.analytics import Form
from store.analytics.query import QueryLimits, Table, query
from store.interface.analyst_rows import Limit
from store.interface.errors import QueryRefused


class Question(Struct, frozen=True, kw_only=True, tag="question"):
    """One SELECT over an analytics file, with its limits and the format of the result."""

    path: str = ""
    sql: str
    limits: QueryLimits
    form: Form
    title: str = ""
    """Title of a chart that no report describes."""
    words: dict[str, str] = {}
    """Its words in another language than English."""
    chart: Chart | None = None
    with_chart: bool = False
    """Whether the answer has the chart of the result besides."""


class AnswerDocument(Struct, frozen=True, kw_only=True):
    """The encoded result, and the limit that truncated it."""

    content: bytes
    truncated_by: Limit | None
    chart: bytes = b""
    """Vega-Lite, if the question asks for it and the result can be drawn."""


PICTURES = frozenset({"svg", "png"})
"""Formats that vl-convert renders."""
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "vega-lite": "application/vnd.vegalite.v6+json",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def answer(question: Question) -> AnswerDocument:
    """Run the query and encode its result in the format. Blocks.

    Raises QueryRefused (also if the result cannot be drawn as a chart), QueryStopped, StoreError.
    """
    table = query(Path(question.path), question.sql, question.limits)
    try:
        content = _document(table, question)
    except ChartRefused as error:
        raise QueryRefused(str(error)) from error
    chart = b""
    if question.with_chart:
        with suppress(ChartRefused):
            chart = msgspec.json.encode(_chart(table, question))
    return AnswerDocument(content=content, truncated_by=table.truncated_by, chart=chart)


def _document(table: Table, question: Question) -> bytes:
    """Encode a table; as a chart, raises ChartRefused."""
    match question.form:
        case "json":
            return _json(table)
        case "csv":
            return as_csv(table)
        case "parquet":
            return as_parquet(table)
        case "vega-lite" | "svg" | "png" as form:
            spec = _chart(table, question)
            return msgspec.json.encode(spec) if form == "vega-lite" else render(spec, form)


def _chart(table: Table, question: Question) -> Spec:
    return vega_lite(table, question.chart or infer_chart(table, question.title, question.words))


def _json(table: Table) -> bytes:
    """Encode columns and rows as an object; a caller may add members before its last byte."""
    columns = msgspec.json.encode(
        [{"name": name, "type": column.type} for name, column in zip(table.names(), table.columns, strict=True)]
    )
    return b'{"columns":' + columns + b',"rows":' + as_json(table) + b"}"
