"""The README's reference of tables and reports, made from the comments of the model and the descriptions of reports.

`make reference` writes it: `python -m api.analytics.reference README.md`.
"""

import sys
from pathlib import Path

from store.analytics.describe import DescribedTable, described_tables
from store.analytics.report_list import REPORTS, Parameter, Report

BEGIN, END = "<!-- reference of analytics: made by `make reference` -->", "<!-- end of the reference -->"
_SHORT = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


def reference() -> str:
    """Both parts, in Markdown."""
    return "\n".join((_tables(), "### Reports\n", _reports()))


def written_into(readme: str) -> str:
    """A README with the reference as it is now, between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def _tables() -> str:
    return "\n".join(_table(table) for table in described_tables())


def _table(table: DescribedTable) -> str:
    rows = [f"| `{each.name}` | {_SHORT.get(each.type, each.type)} | {each.means} |" for each in table.columns]
    head = f"<details><summary><b>{table.name}</b>: {table.means}</summary>\n"
    return "\n".join((head, "| column | type | means |", "|---|---|---|", *rows, "\n</details>\n"))


def _reports() -> str:
    lines = [f"| `{each.name}` | {each.title}. {each.says} | {_parameters(each)} |" for each in REPORTS]
    return "\n".join(("| report | tells | takes |", "|---|---|---|", *lines, ""))


def _parameters(report: Report) -> str:
    return ", ".join(_parameter(each) for each in report.parameters)


def _parameter(each: Parameter) -> str:
    name = f"**`{each.name}`**" if each.is_needed else f"`{each.name}`"
    choices = f" ({', '.join(each.choices)})" if each.choices else ""
    return name + choices + (f" = {each.default}" if each.default is not None else "")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(written_into(path.read_text("utf-8")), "utf-8")
