"""What a chart shows of a table: the kind of chart, and which columns it is made of; the charts of reports."""

from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from api.schemas.analytics import Language
from store.analytics.reporting import REPORTS, report_named

Kind: TypeAlias = Literal["funnel", "bars", "lines", "heat"]
"""A funnel is bars in the order of steps, each with its loss; a heat map is a matrix of shaded cells."""


class Chart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a chart by the columns of its table."""

    kind: Kind
    title: str = ""
    labels: tuple[str, ...]
    """The columns that name a bar or a row of a heat map together; of lines the one column of the x-axis."""
    values: tuple[str, ...]
    """The columns with the numbers; several are series named by their columns."""
    series: str | None = None
    """The column with the series of a row, of a heat map with its column; only beside a single value column."""
    stacked: bool = False
    """Whether the series of a bar are parts of one whole."""
    unit: str = ""
    """What is counted, as it is printed. Two are converted: `%` for shares from 0 to 1, `s` for durations."""
    count: str | None = None
    """The column with the number of observations behind a value."""
    lower: str | None = None
    """The column with the lower bound of a value's confidence interval; `upper` has the upper one."""
    upper: str | None = None
    share: str | None = None
    """Of a funnel: the column with the share of all, from 0 to 1."""
    previous: str | None = None
    """Of a funnel: the column with the number that could have reached a step; `share_of_previous` has the share of them
    that did.
    """
    share_of_previous: str | None = None
    words: dict[str, str] = {}
    """What is printed in another language than English: for columns and units by their names, and the notes."""


class ChartRefused(Exception):
    """No chart can be made of a table; the message says why, and what could be."""


_REPORT_CHARTS = msgspec.json.decode(Path(__file__).with_name("report_charts.json").read_bytes(), type=dict[str, Chart])
"""Charts by report; a report without one is a list. Each chart has the title of its report."""


def chart_of(name: str, language: Language = "en") -> Chart | None:
    """Return the chart of a report, or None if it has none. Raises ReportRefused for an unknown report."""
    chart = _REPORT_CHARTS.get(report_named(name).name)
    if chart is None:
        return None
    title = report_texts(language)["reports"][name]["title"]
    return msgspec.structs.replace(chart, title=title, words=chart_words(language))


def chart_words(language: Language) -> dict[str, str]:
    """Return the `words` of charts in a language."""
    texts = report_texts(language)
    return {**texts["columns"], **texts["charts"]}


@cache
def report_texts(language: Language) -> dict[str, Any]:
    """Return the texts of reports in a language: `reports`, `columns`, `charts`, `page`.

    A report has its English texts itself, and a column without a text is shown by its name.
    """
    path = Path(__file__).parent.with_name(f"report_texts.{language}.json")
    english = {report.name: {"title": report.title, "says": report.says} for report in REPORTS}
    return {"reports": english, **msgspec.json.decode(path.read_bytes())}
