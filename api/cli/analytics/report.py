"""``cuebook report``: questions with their answers ready."""

from pathlib import Path
from typing import Any

import click

from api.analytics.reports import chart_of
from api.cli.analytics.answers import Asked, ask, ask_snapshot
from api.cli.analytics.asking import (
    PATH,
    age_of,
    as_form,
    form_of,
    fresh,
    from_file,
    refuse_for_file,
    to_file,
    unmasked,
)
from api.cli.options import settings_of, with_settings
from api.cli.output import console, fail, print_json, print_table
from store.analytics.query import QueryLimits
from store.analytics.report_list import REPORTS, Parameter, Report
from store.analytics.reporting import report_named, statement
from store.errors import ReportRefused


@click.command(epilog="Example: cuebook report funnel script=intake level=topic -o funnel.svg")
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@as_form
@to_file
@click.option("--describe", "describes", is_flag=True, help="Tell what the report means and takes.")
@unmasked
@fresh
@from_file
@with_settings("data", "host", "port")
def report(
    name: str | None,
    parameters: tuple[str, ...],
    form: str,
    output: Path | None,
    describes: bool,
    unmasked: bool,
    fresh: bool,
    snapshot: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Answers a question that is asked again and again: without a name it lists them.

    Each is a table macro of the same name in SQL: cuebook query "FROM funnel('intake', level := 'topic')".
    """
    form = form_of(form, output)
    refuse_for_file(snapshot, unmasked=unmasked, fresh=fresh)
    if name is None:
        _list(form)
        return
    try:
        meant = report_named(name)
        if describes:
            _describe(meant)
            return
        given = _given(parameters)
        sql = statement(meant, given)  # so that what is wrong is told before anything is made
    except ReportRefused as error:
        fail(str(error))
    limits, chart = QueryLimits(), chart_of(name)
    if snapshot is not None:
        ask_snapshot(snapshot, sql, form, output, limits, meant.title, chart)
        return
    asked = Asked(
        method="GET",
        path=f"{PATH}/reports/{name}",
        parameters={**given, "masked": str(not unmasked).lower(), "maxAgeS": str(age_of(fresh))},
    )
    ask(settings_of(config, **flags), asked, form, output, limits, chart)


def _given(parameters: tuple[str, ...]) -> dict[str, str]:
    """Parameters as they are named. Raises ReportRefused."""
    given: dict[str, str] = {}
    for each in parameters:
        name, is_named, value = each.partition("=")
        if not is_named or name in given:
            raise ReportRefused(f"{each!r}: a parameter is NAME=VALUE, and is given once")
        given[name] = value
    return given


def _list(form: str) -> None:
    if form == "json":
        print_json(REPORTS)
    else:
        print_table(("report", "tells"), [(each.name, each.title) for each in REPORTS])


def _describe(meant: Report) -> None:
    console.print(f"{meant.title}\n{meant.says}\n", markup=False)
    print_table(
        ("parameter", "means", "default"), [(each.name, _means(each), _default(each)) for each in meant.parameters]
    )


def _means(each: Parameter) -> str:
    return f"{each.says} ({', '.join(each.choices)})" if each.choices else each.says


def _default(each: Parameter) -> str:
    return "must be given" if each.is_needed else "" if each.default is None else str(each.default)
