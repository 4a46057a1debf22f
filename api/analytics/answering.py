"""From a question to the bytes of its answer: what a process of its own does for an analyst."""

from pathlib import Path

import msgspec
from msgspec import Struct

from api.analytics.charts import Chart
from api.analytics.formats.as_csv import as_csv
from api.analytics.formats.as_json import as_json
from api.analytics.formats.as_parquet import as_parquet
from api.analytics.pictures.draw import draw
from api.analytics.pictures.guess import guessed
from api.analytics.pictures.reading import NoPicture
from api.schemas.analytics import Form
from store.analytics.query import QueryLimits, query
from store.analytics.table import Table
from store.errors import QueryRefused


class Question(Struct, frozen=True, kw_only=True, tag="question"):
    """One SELECT over an analytics file, and how it is to be answered."""

    path: str
    sql: str
    limits: QueryLimits
    form: Form
    title: str = ""
    """Of a picture that no report describes."""
    chart: Chart | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """The document, and what is to be known of it."""

    content: bytes
    truncated: bool
    notes: tuple[str, ...] = ()


MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def answer(question: Question) -> Answer:
    """Ask, and put what comes into the form. Blocks.

    Raises QueryRefused, where no picture can be made of it too, QueryStopped, StoreError.
    """
    table = query(Path(question.path), question.sql, question.limits)
    if question.form == "svg" or question.form == "png":
        try:
            picture = draw(table, question.chart or guessed(table, question.title), question.form)
        except NoPicture as error:
            raise QueryRefused(str(error)) from error
        return Answer(content=picture.data, truncated=table.truncated, notes=picture.warnings)
    return Answer(content=_document(table, question.form), truncated=table.truncated)


def _document(table: Table, form: Form) -> bytes:
    if form == "csv":
        return as_csv(table)
    return as_parquet(table) if form == "parquet" else _json(table)


def _json(table: Table) -> bytes:
    """The columns and the rows as members of an object; what else is in it is put around them later."""
    columns = msgspec.json.encode([{"name": column.name, "type": column.type} for column in table.columns])
    return b'"columns":' + columns + b',"rows":' + as_json(table)
