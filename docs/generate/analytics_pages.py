"""The pages of the analytics tables and of the built-in reports."""

from store.analytics.file import DescribedTable, described_tables
from store.analytics.reporting import REPORTS, Parameter, Report

_SHORT = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


def analytics_model() -> str:
    """Return the page of the tables and columns that analysts query."""
    return "\n".join(
        (
            "# The analytics model",
            "",
            "After reading this page you know the tables of queries, reports, snapshots and Parquet exports.",
            "[The first analysis](../tutorials/first-analysis.md) shows how to query them; `cuebook query --describe`",
            "prints the same list.",
            "",
            "The tables contain all that was recorded, also what [reports](reports.md) do not count: a",
            "[fork](../how-to/session-keys.md) has the turns and messages that it repeats, with their times. The",
            "condition `forked_from IS NULL` of `sessions` leaves forks out. Messages that a rewind or a clear removed",
            "have `is_taken_back`.",
            "",
            *(_table(table) for table in described_tables()),
        )
    )


def _table(table: DescribedTable) -> str:
    rows = [f"| `{each.name}` | {_SHORT.get(each.type, each.type)} | {each.means} |" for each in table.columns]
    head = f"## {table.name}\n\n{table.means}\n"
    return "\n".join((head, "| column | type | meaning |", "|---|---|---|", *rows, ""))


def reports() -> str:
    """Return the page of the built-in reports."""
    return "\n".join(
        (
            "# Reports",
            "",
            "After reading this page you know the built-in reports, their parameters (those in bold are required), and",
            "what their columns count. `cuebook report NAME --describe` prints the same.",
            "",
            "Reports do not count [forks](../how-to/session-keys.md), because these repeat the turns of another",
            "session; only `model_cost` and `model_latency` count them. Imported sessions count, and so do turns that",
            "a rewind removed from the conversation. `script_version` is the version that a session started with; of a",
            "call, the version that made it. `step` consists of the ids of the phase, topic and action. `since` and",
            "`until` are dates or times; without an offset they are in the `zone` of the report, else in UTC (in SQL",
            "always in UTC); what is at `until` does not count.",
            "",
            "| report | shows | parameters |",
            "|---|---|---|",
            *(f"| `{each.name}` | {each.title}. {each.says} | {_parameters(each)} |" for each in REPORTS),
            "",
            *(f"## `{each.name}`\n\n{each.definition}\n" for each in REPORTS),
        )
    )


def _parameters(report: Report) -> str:
    return ", ".join(_parameter(each) for each in report.parameters)


def _parameter(each: Parameter) -> str:
    name = f"**`{each.name}`**" if each.needed else f"`{each.name}`"
    choices = f" ({', '.join(each.choices)})" if each.choices else ""
    return name + choices + (f" = {each.default}" if each.default is not None else "")
