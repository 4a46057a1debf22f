"""How the commands of analysts get an answer, from the record or from a snapshot, and what becomes of it."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import httpx
from msgspec import Struct

from api.analytics.answering import Answer, Question, answer
from api.analytics.charts import Chart
from api.analytics.formats.as_csv import as_csv
from api.analytics.formats.as_json import as_json
from api.analytics.formats.from_parquet import from_parquet
from api.cli.analytics.asking import ROOM_S, patiently, put
from api.cli.analytics.inline import can_show, show
from api.cli.analytics.tables import print_result
from api.cli.output import errors, fail
from api.cli.reach import reach, run
from api.schemas.analytics import Form
from api.settings import Settings
from store.analytics.file import about
from store.analytics.query import QueryLimits, enclosed
from store.errors import StoreError

_WIRE: Mapping[str, Form] = {
    "table": "parquet",
    "json": "parquet",
    "csv": "csv",
    "parquet": "parquet",
    "svg": "svg",
    "png": "png",
}
"""What is asked for to give a format: Parquet brings the types of the columns along."""


class Asked(Struct, frozen=True, kw_only=True):
    """A request of the API's."""

    method: str
    path: str
    body: Mapping[str, object] | None = None
    parameters: Mapping[str, str] = {}


def ask(
    settings: Settings, asked: Asked, form: str, output: Path | None, limits: QueryLimits, chart: Chart | None
) -> None:
    """Ask the record, through the server where one holds it, and print or write the answer."""
    wire = _WIRE[form]

    async def work() -> httpx.Response:
        async with reach(settings) as api:
            body = None if asked.body is None else {**asked.body, "format": wire}
            given = {} if asked.body is not None else {"format": wire}
            return await patiently(
                lambda: api.answer(
                    asked.method, asked.path, body, timeout_s=limits.timeout_s + ROOM_S, **asked.parameters, **given
                )
            )

    got = run(work())
    note = unquote(got.headers.get("X-Cuebook-Note", ""))
    truncated = got.headers["X-Cuebook-Truncated"] == "true"
    give(Answer(content=got.content, truncated=truncated, notes=(note,) if note else ()), form, output, chart)


def ask_snapshot(
    snapshot: Path, sql: str, form: str, output: Path | None, limits: QueryLimits, title: str, chart: Chart | None
) -> None:
    """Ask a snapshot, and print or write the answer; ends the command where the file is none."""
    question = Question(path=str(snapshot), sql=sql, limits=limits, form=_WIRE[form], title=title, chart=chart)
    try:
        with closing(enclosed(snapshot, limits)) as connection:
            about(connection)
        give(answer(question), form, output, chart)
    except StoreError as error:
        fail(str(error))


def give(got: Answer, form: str, output: Path | None, chart: Chart | None) -> None:
    """Print an answer as a table, or write the document it is."""
    if form == "table" and output is None:
        print_result(from_parquet(got.content), chart)
    elif form in {"table", "json"}:
        table = from_parquet(got.content)
        put(as_json(table) if form == "json" else as_csv(table), output)
    elif form == "png" and output is None and can_show():
        show(got.content)
    else:
        put(got.content, output)
    if got.truncated:
        errors.print("there are more rows; --rows shows more")
    for note in got.notes:
        errors.print(note, markup=False)
