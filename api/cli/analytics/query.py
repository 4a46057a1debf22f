"""``cuebook query``: SQL over the analytics, also while a server runs."""

from pathlib import Path
from typing import Any

import click

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
from api.cli.analytics.describing import describe
from api.cli.options import settings_of, with_settings
from api.cli.output import fail
from api.schemas.analytics import ROWS_DEFAULT, ROWS_MAX, TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from store.analytics.query import QueryLimits


@click.command(epilog='Example: cuebook query "SELECT role, count(*) FROM messages GROUP BY role"')
@click.argument("sql", required=False)
@as_form
@to_file
@click.option("--rows", type=click.IntRange(1, ROWS_MAX), default=ROWS_DEFAULT, help="How many rows at most [10000].")
@click.option(
    "--timeout", type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True), default=TIMEOUT_DEFAULT_S,
    help="Seconds it may take [60].",
)  # fmt: skip
@click.option("--title", default="", help="Title of a picture.")
@click.option("--describe", "describes", is_flag=True, help="Tell the tables, or the columns of the one named.")
@unmasked
@fresh
@from_file
@with_settings("data", "host", "port")
def query(
    sql: str | None,
    form: str,
    output: Path | None,
    rows: int,
    timeout: float,  # of the query, which the database is told
    title: str,
    describes: bool,
    unmasked: bool,
    fresh: bool,
    snapshot: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Asks one SELECT. Nothing can be changed by it, and nothing but the tables be reached.

    --describe tells the tables; reports are table macros, so FROM funnel('intake') works too. It is answered while a
    server runs too, and is then at most a minute old, or --fresh. What was said and what is personal is left out unless
    --unmasked.
    """
    form = form_of(form, output)
    refuse_for_file(snapshot, unmasked=unmasked, fresh=fresh)
    if describes:
        describe(sql, form)
        return
    if sql is None:
        fail('say what is asked, as in: cuebook query "FROM sessions"; --describe tells the tables')
    limits = QueryLimits(rows_max=rows, timeout_s=timeout)
    if snapshot is not None:
        ask_snapshot(snapshot, sql, form, output, limits, title, None)
        return
    body = {"sql": sql, "rowsMax": rows, "timeoutS": timeout, "title": title, "masked": not unmasked}
    body |= {"maxAgeS": age_of(fresh)}
    ask(settings_of(config, **flags), Asked(method="POST", path=f"{PATH}/query", body=body), form, output, limits, None)
