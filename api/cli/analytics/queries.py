"""``cuebook query`` and ``cuebook report``: run SQL or a built-in report over the database or a snapshot."""

import re
from collections.abc import Mapping
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from msgspec import Struct

from api.analytics.charts.chart import Chart, chart_of
from api.analytics.execute import AnswerDocument, Question, answer
from api.analytics.formats.parquet import from_parquet
from api.cli.analytics.options import (
    EXTRA_TIMEOUT_S,
    PATH,
    ResultOptions,
    wait_until_ready,
    with_result,
    write_document,
)
from api.cli.analytics.tables import print_result
from api.cli.backend import backend, run
from api.cli.options import with_settings
from api.cli.output import console, errors, fail, failing, print_json, print_table
from api.schemas.analytics import ROWS_DEFAULT, ROWS_MAX, TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S, Form
from api.settings import Settings
from store.analytics.file import DescribedTable, about, described_tables
from store.analytics.query import QueryLimits, connect_enclosed
from store.analytics.reporting import REPORTS, Parameter, Report, report_named, statement
from store.interface.analyst_rows import Limit
from store.interface.errors import ReportRefused, StoreError

_WIRE: Mapping[str, Form] = {"table": "parquet", **{form: form for form in get_args(Form)}}
"""The API's format for each output format. Parquet has the types of the columns, which a table needs, but not every
value: its durations are whole milliseconds, and integers above 64 bits are floats.
"""


_RESULT_MB = QueryLimits().bytes_max // 1_000_000
_TRUNCATED: Mapping[Limit, str] = {
    "rows": f"raise --rows of `cuebook query`, at most to {ROWS_MAX:,}, or select fewer",
    "bytes": f"the result has reached {_RESULT_MB} MB; select fewer columns or rows, or use `cuebook export`",
}
"""How to see the rows that a limit left out."""

_COMMENT = re.compile(r"--[^=]*\s")


class _QueryCommand(click.Command):
    """A command whose SQL may begin with a comment, which looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put a space before such a comment: unlike one, the name of an option contains none."""
        return super().parse_args(ctx, [f" {each}" if _COMMENT.match(each) else each for each in args])


@click.command(cls=_QueryCommand, epilog='Example: cuebook query "SELECT role, count(*) FROM messages GROUP BY role"')
@click.argument("sql", required=False)
@click.option("--rows", type=click.IntRange(1, ROWS_MAX), default=ROWS_DEFAULT, help="Maximum number of rows [10000].")
@click.option(
    "--timeout", type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True), default=TIMEOUT_DEFAULT_S,
    help="Time limit of the query in seconds [60].",
)  # fmt: skip
@click.option("--title", default="", help="Title of a chart.")
@click.option("--describe", "describes", is_flag=True, help="List the tables, or the columns of one table.")
@with_result
@with_settings("data")
def query(
    settings: Settings,
    result: ResultOptions,
    sql: str | None,
    rows: int,
    timeout: float,  # enforced by the database
    title: str,
    describes: bool,
) -> None:
    """Run a read-only SQL query (DuckDB) over the analytics tables.

    Use it for questions that no report answers. --describe lists the tables; reports are table macros, so
    FROM funnel('intake') works too. A query can change nothing and read nothing but the tables. It works while a server
    runs; the data is at most a minute old, or current with --fresh. Texts and personal values are left out unless
    --unmasked.
    """
    if describes:
        _describe_tables(sql, result.form)
        return
    if sql is None:
        fail('the query is missing; write e.g. cuebook query "FROM sessions"; --describe lists the tables')
    fields: dict[str, str | float] = {"sql": sql, "rowsMax": rows, "timeoutS": timeout, "title": title}
    question = _question(sql, result, title=title, limits=QueryLimits(rows_max=rows, timeout_s=timeout))
    _ask(settings, AnalyticsRequest("POST", "/query", fields, question), result)


def _describe_tables(name: str | None, form: str) -> None:
    """Print all tables, or the columns of one; end the command if no table has that name."""
    tables = described_tables()
    if form == "json":
        print_json(tables if name is None else _table_named(name, tables))
    elif name is None:
        print_table(("table", "means"), [(table.name, table.means) for table in tables])
    else:
        columns = _table_named(name, tables).columns
        print_table(("column", "type", "means"), [(each.name, each.type, each.means) for each in columns])


def _table_named(name: str | None, tables: tuple[DescribedTable, ...]) -> DescribedTable:
    found = {table.name: table for table in tables}
    if any(report.name == name for report in REPORTS):
        fail(f"{name!r} is a report; `cuebook report {name} --describe` describes it")
    if name not in found:
        close = get_close_matches(name or "", found, 1)
        fail(f"there is no table {name!r}" + (f"; did you mean {close[0]}?" if close else "; --describe lists them"))
    return found[name]


# -- report -----------------------------------------------------------------------------------------------------------


@click.command(epilog="Example: cuebook report funnel script=intake level=topic -o funnel.svg")
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--describe", "describes", is_flag=True, help="Explain the report, its columns and its parameters.")
@with_result
@with_settings("data")
def report(
    settings: Settings, result: ResultOptions, name: str | None, parameters: tuple[str, ...], describes: bool
) -> None:
    """Run a built-in report; without a name, list all reports.

    A report answers a common question, such as how many sessions complete; --describe explains it. In SQL each report
    is a table macro of the same name: cuebook query "FROM funnel('intake', level := 'topic')".
    """
    if name is None:
        _list_reports(result.form)
        return
    with failing(ReportRefused):
        chosen = report_named(name)
        if describes:
            _describe_report(chosen)
            return
        arguments = _arguments(parameters)
        sql = statement(chosen, arguments)  # reports wrong parameters before the tables are built
    question = _question(sql, result, title=chosen.title, limits=QueryLimits(rows_max=ROWS_MAX), chart=chart_of(name))
    _ask(settings, AnalyticsRequest("GET", f"/reports/{name}", arguments, question), result)


def _arguments(parameters: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE parameters. Raises ReportRefused."""
    arguments: dict[str, str] = {}
    for each in parameters:
        name, sign, value = each.partition("=")
        if not sign or name in arguments:
            raise ReportRefused(f"{each!r}: write a parameter as NAME=VALUE, and only once")
        arguments[name] = value
    return arguments


def _list_reports(form: str) -> None:
    if form == "json":
        print_json(REPORTS)
    else:
        print_table(("report", "title"), [(each.name, each.title) for each in REPORTS])


def _describe_report(chosen: Report) -> None:
    console.print(f"{chosen.title}\n{chosen.says}\n\n{chosen.definition}\n", markup=False)
    print_table(
        ("parameter", "means", "default"), [(each.name, _means(each), _default(each)) for each in chosen.parameters]
    )


def _means(each: Parameter) -> str:
    return f"{each.says} ({', '.join(each.choices)})" if each.choices else each.says


def _default(each: Parameter) -> str:
    return "required" if each.needed else "" if each.default is None else str(each.default)


# -- asking and printing ----------------------------------------------------------------------------------------------


class AnalyticsRequest(Struct, frozen=True):
    """A question as a request to the API, and as the SQL that answers it from a snapshot."""

    method: str
    path: str
    fields: Mapping[str, str | float]
    question: Question


def _question(
    sql: str, result: ResultOptions, *, title: str, limits: QueryLimits, chart: Chart | None = None
) -> Question:
    path = "" if result.snapshot is None else str(result.snapshot)
    return Question(path=path, sql=sql, limits=limits, form=_WIRE[result.form], title=title, chart=chart)


def _ask(settings: Settings, request: AnalyticsRequest, result: ResultOptions) -> None:
    """Ask the server, the database in this process, or a snapshot, and print or write the result."""
    if result.snapshot is None:
        document = run(_ask_api(settings, request, result))
    else:
        with failing(StoreError):
            with closing(connect_enclosed(result.snapshot, request.question.limits)) as connection:
                about(connection)  # refuses a file that is no snapshot
            document = answer(request.question)
    print_answer(document, result.form, result.output, request.question.chart)


async def _ask_api(settings: Settings, request: AnalyticsRequest, result: ResultOptions) -> AnswerDocument:
    fields: dict[str, Any] = {
        **request.fields,
        "masked": result.masked,
        "maxAgeS": result.max_age_s,
        "format": _WIRE[result.form],
    }
    body, query = (fields, {}) if request.method == "POST" else (None, fields)
    timeout_s = request.question.limits.timeout_s + EXTRA_TIMEOUT_S
    async with backend(settings) as api:
        response = await wait_until_ready(
            lambda: api.answer(request.method, f"{PATH}{request.path}", body, timeout_s=timeout_s, **query)
        )
    limit = response.headers.get("X-Cuebook-Truncated-By")
    return AnswerDocument(content=response.content, truncated_by=msgspec.convert(limit, Limit | None))


class _Rows(Struct):
    """The rows of an answer in JSON, as they were encoded."""

    rows: msgspec.Raw


def print_answer(document: AnswerDocument, form: str, output: Path | None, chart: Chart | None) -> None:
    """Print a result as a table, or write it as a document."""
    if form == "table":
        print_result(from_parquet(document.content), chart)
    elif form == "json":
        write_document(bytes(msgspec.json.decode(document.content, type=_Rows).rows) + b"\n", output)
    else:
        write_document(document.content, output)
    if document.truncated_by is not None:
        errors.print(f"there are more rows: {_TRUNCATED[document.truncated_by]}")
