"""Runs a query and encodes its result; a worker process does this."""

from pathlib import Path

import msgspec
from msgspec import Struct

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.charts.infer_chart import infer_chart
from api.analytics.charts.vega_lite import render, vega_lite
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


class AnswerDocument(Struct, frozen=True, kw_only=True):
    """The encoded result, and the limit that truncated it."""

    content: bytes
    truncated_by: Limit | None


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
        return AnswerDocument(content=_document(table, question), truncated_by=table.truncated_by)
    except ChartRefused as error:
        raise QueryRefused(str(error)) from error


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
            spec = vega_lite(table, question.chart or infer_chart(table, question.title, question.words))
            return msgspec.json.encode(spec) if form == "vega-lite" else render(spec, form)


def _json(table: Table) -> bytes:
    """Encode columns and rows as an object; a caller may add members before its last byte."""
    columns = msgspec.json.encode([{"name": column.name, "type": column.type} for column in table.columns])
    return b'{"columns":' + columns + b',"rows":' + as_json(table) + b"}"
