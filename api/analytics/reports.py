"""The picture that goes with each report."""

from collections.abc import Mapping

from msgspec.structs import replace

from api.analytics.charts import Bars, Chart, Funnel, Heat, Lines
from store.analytics.reporting import report_named

_CHARTS: Mapping[str, Chart] = {
    "funnel": Funnel(
        title="",
        labels=("step",),
        value="reached",
        share="share_of_started",
        previous="previous",
        share_of_previous="share_of_previous",
        unit="sessions",
    ),
    "drop_off": Bars(title="", labels=("step",), values=("sessions",), unit="sessions"),
    "completion": Bars(
        title="",
        labels=("script_id", "script_version"),
        values=(
            "finished",
            "ended_by_action",
            "ended_by_user",
            "ended_by_application",
            "ended_by_rounds",
            "abandoned",
            "going_on",
            "paused",
            "failed",
        ),
        stacked=True,
        unit="sessions",
    ),
    "time_to_complete": Bars(title="", labels=("script_id", "script_version"), values=("p50_seconds",), unit="s"),
    "time_to_answer": Bars(title="", labels=("step", "kind"), values=("p50_seconds",), unit="s"),
    "slots": Bars(title="", labels=("name", "step"), values=("share",), unit="%"),
    "re_asked": Bars(title="", labels=("step",), values=("share",), unit="%"),
    "next_steps": Bars(title="", labels=("step", "next_step"), values=("times",)),
    "activity": Lines(title="", x="begins", values=("begun", "completed", "users"), unit=""),
    "returning_users": Lines(title="", x="begins", values=("new_users", "returning_users"), unit="users"),
    "cohorts": Heat(title="", row="cohort", column="later", value="share", unit="%"),
    "model_cost": Bars(title="", labels=("script_id", "script_version", "model", "purpose"), values=("cost",)),
    "model_latency": Bars(title="", labels=("model", "purpose"), values=("p50_ms", "p95_ms"), unit="ms"),
    "detector_hits": Bars(title="", labels=("detector", "label"), values=("hits",)),
    "experiments": Bars(title="", labels=("experiment", "arm"), values=("rate",), unit="%"),
}
"""By report; one that is not here is a list to be read. Each gets the title of its report."""


def chart_of(name: str) -> Chart | None:
    """What a picture of a report shows; None: it has none. Raises ReportRefused where there is no such report."""
    report, chart = report_named(name), _CHARTS.get(name)
    if chart is None:
        return None
    return replace(chart, title=report.title)
