"""A chart is a Vega-Lite specification of what is in the table, whatever is in the table."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.analytics.charts.chart import Chart, ChartRefused, chart_of
from api.analytics.charts.vega_lite import EMPTY, SCHEMA, vega_lite
from store.analytics.query import Column, Table

FUNNEL = Chart(kind="funnel", title="How far people came", labels=("phase", "topic"), values=("reached",),
               share="share", previous="previous", share_of_previous="came", unit="sessions")  # fmt: skip
BARS = Chart(kind="bars", title="Rounds", labels=("question",), values=("rounds",))
LINES = Chart(kind="lines", title="By day", labels=("day",), values=("new", "returning"))
HEAT = Chart(kind="heat", title="Cohorts", labels=("cohort",), series="weeks_later", values=("share",), unit="%")


def table(columns: str, *rows: tuple) -> Table:
    """Parse columns from `name:TYPE`."""
    return Table(tuple(Column(*column.split(":")) for column in columns.split()), list(rows))


def points(spec: dict[str, Any], *fields: str) -> list[Any]:
    """Return some fields of the inline data, of one field its values."""
    rows = [tuple(point.get(field) for field in fields) for point in spec["data"]["values"]]
    return [row[0] for row in rows] if len(fields) == 1 else rows


def layers(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the encoding of each layer with that of all layers, by the type of its mark; of two the later one."""
    return {layer["mark"]["type"]: spec["encoding"] | layer["encoding"] for layer in spec["layer"]}


STEPS = table(
    "phase:VARCHAR topic:VARCHAR reached:BIGINT share:DOUBLE previous:BIGINT came:DOUBLE",
    ("welcome", None, 800, 1.0, None, None),
    ("intake", "about you", 600, 0.75, 800, 0.75),
    ("intake", "sleep", 640, 0.8, 600, 1.05),
    ("closing", None, 0, 0.0, 640, 0.0),
)


def test_specification_names_its_version_and_contains_its_data() -> None:
    spec = vega_lite(STEPS, FUNNEL)
    assert spec["$schema"] == SCHEMA
    assert spec["data"].keys() == {"values"}
    assert spec["title"] == {"text": ["How far people came"]}
    assert msgspec.json.decode(msgspec.json.encode(spec)) == spec


def test_a_funnel_has_its_steps_in_order_with_shares_and_losses() -> None:
    spec = vega_lite(STEPS, FUNNEL)
    assert points(spec, "label", "value", "text") == [
        ("welcome", 800, "800 · 100 %"),
        ("intake · about you", 600, "600 · 75 % · −200 (−25 %)"),
        ("intake · sleep", 640, "640 · 80 % · +30 (+5 %)"),
        ("closing", 0, "0 · 0 % · −640 (−100 %)"),
    ]
    behind, bars, texts = spec["layer"]
    assert [layer["mark"]["type"] for layer in (behind, bars, texts)] == ["bar", "bar", "text"]
    assert (behind["encoding"]["x"]["field"], bars["encoding"]["x"]["field"]) == ("previous", "value")
    assert bars["encoding"]["x"]["title"] == "reached (sessions)"
    assert spec["encoding"]["y"]["scale"]["domain"] == points(spec, "label")
    assert spec["encoding"]["y"]["title"] == "phase, topic"


def test_bars_carry_their_values() -> None:
    answer = table("question:VARCHAR rounds:DOUBLE", ("name", 1.25), ("age", 2.5), ("goal", None))
    spec = vega_lite(answer, BARS)
    assert points(spec, "label", "value", "text") == [("name", 1.25, "1.25"), ("age", 2.5, "2.5"), ("goal", None, "–")]
    assert layers(spec)["bar"]["x"]["title"] == "rounds"
    assert layers(spec)["text"]["text"] == {"field": "text"}


def test_bars_of_one_name_are_bars_of_their_own() -> None:
    answer = table("question:VARCHAR rounds:INTEGER", ("name", 1), ("name", 2))
    assert points(vega_lite(answer, BARS), "label") == ["name", "name (2)"]


def test_chart_has_confidence_intervals_and_observation_counts() -> None:
    answer = table(
        "arm:VARCHAR rate:DOUBLE low:DOUBLE high:DOUBLE n:BIGINT",
        ("plain", 0.25, 0.2, 0.3, 1400), ("warm", 0.35, None, None, 0),
    )  # fmt: skip
    chart = Chart(kind="bars", labels=("arm",), values=("rate",), unit="%", lower="low", upper="high", count="n")
    spec = vega_lite(answer, chart)
    assert points(spec, "lower", "upper", "n") == [(0.2, 0.3, 1400), (None, None, 0)]
    assert points(spec, "text") == ["25 % (n = 1,400)", "35 % (n = 0)"]
    rule = layers(spec)["rule"]
    assert (rule["x"]["field"], rule["x2"]["field"]) == ("lower", "upper")
    over_time = table("day:DATE rate:DOUBLE low:DOUBLE high:DOUBLE n:BIGINT", (date(2026, 3, 1), 0.25, 0.2, 0.3, 4))
    lines = Chart(kind="lines", labels=("day",), values=("rate",), unit="%", lower="low", upper="high", count="n")
    area = layers(vega_lite(over_time, lines))["area"]
    assert (area["y"]["field"], area["y2"]["field"]) == ("lower", "upper")


def test_reports_show_intervals_and_numbers_where_they_have_them() -> None:
    experiments, slots = chart_of("experiments"), chart_of("slots")
    assert experiments is not None
    assert slots is not None
    assert (experiments.count, experiments.lower, experiments.upper) == ("counted", "low", "high")
    assert slots.count == "asked"


def test_outcomes_are_parts_of_the_sessions_of_a_version() -> None:
    chart = chart_of("outcomes")
    assert chart is not None
    columns = "script_id:VARCHAR script_version:INTEGER outcome:VARCHAR sessions:BIGINT"
    spec = vega_lite(table(columns, ("visit", 1, "done", 4), ("visit", 1, "left", 2), ("visit", 2, "done", 1)), chart)
    assert [(each["label"], each["series"], each["value"]) for each in spec["data"]["values"]] == [
        ("visit · 1", "done", 4), ("visit · 1", "left", 2), ("visit · 2", "done", 1),
    ]  # fmt: skip


def test_a_chart_of_a_report_is_in_the_chosen_language() -> None:
    chart = chart_of("time_to_complete", "zh")
    assert chart is not None
    columns = "script_id:VARCHAR script_version:INTEGER p50_seconds:DOUBLE completed:BIGINT"
    spec = vega_lite(table(columns, *(("visit", number, 600.0, 9) for number in range(50))), chart)
    assert spec["title"] == {"text": ["完成用时"], "subtitle": ["显示了 50 行中的前 40 行。"]}
    assert layers(spec)["bar"]["x"]["title"] == "p50 (min)"
    assert layers(spec)["bar"]["y"]["title"] == "脚本 ID, 脚本版本"
    assert "没有数据" in vega_lite(table(columns), chart)["encoding"]["text"]["value"]


def test_series_are_bars_side_by_side_with_a_legend() -> None:
    answer = table(
        "arm:VARCHAR outcome:VARCHAR n:BIGINT",
        ("plain", "done", 4), ("plain", "left", 2), ("warm", "left", 1),
    )  # fmt: skip
    spec = vega_lite(answer, Chart(kind="bars", labels=("arm",), values=("n",), series="outcome"))
    assert points(spec, "label", "series", "value") == [("plain", "done", 4), ("plain", "left", 2), ("warm", "left", 1)]
    bar = layers(spec)["bar"]
    assert bar["color"]["field"] == bar["yOffset"]["field"] == "series"
    assert bar["color"]["scale"]["domain"] == ["done", "left"]


def test_parts_of_a_whole_are_one_bar_in_pieces_with_its_sum() -> None:
    answer = table("version:INTEGER done:BIGINT given_up:BIGINT", (1, 6, 2), (2, 3, None))
    chart = Chart(kind="bars", labels=("version",), values=("done", "given_up"), stacked=True, unit="sessions")
    spec = vega_lite(answer, chart)
    assert points(spec, "label", "series", "value") == [
        ("1", "done", 6), ("2", "done", 3), ("1", "given up", 2), ("2", "given up", None),
    ]  # fmt: skip
    bar = layers(spec)["bar"]
    assert (bar["x"]["stack"], bar["x"]["title"], "yOffset" in bar) == ("zero", "sessions", False)
    assert layers(spec)["text"]["text"]["aggregate"] == "sum"


def test_durations_are_in_the_unit_that_suits_the_longest() -> None:
    answer = table("question:VARCHAR p50_seconds:DOUBLE", ("a", 130.0), ("b", 5400.0))
    spec = vega_lite(answer, Chart(kind="bars", labels=("question",), values=("p50_seconds",), unit="s"))
    assert points(spec, "value", "text") == [(pytest.approx(130 / 60), "2 min 10 s"), (90, "1 h 30 min")]
    assert layers(spec)["bar"]["x"]["title"] == "p50 (min)"
    taken = table("question:VARCHAR took:INTERVAL", ("a", timedelta(hours=5)))
    assert points(vega_lite(taken, Chart(kind="bars", labels=("question",), values=("took",))), "value") == [5]


def test_lines_over_times_have_a_gap_where_a_value_is_missing() -> None:
    start = date(2026, 3, 2)
    rows = [(start + timedelta(days=day), *both) for day, both in enumerate([(10, 4), (20, None), (0, 8)])]
    spec = vega_lite(table("day:DATE new:BIGINT returning:BIGINT", *rows, (None, 1, 1)), LINES)
    days = [f"2026-03-0{day}T00:00:00+00:00" for day in (2, 3, 4)]
    values = {"new": (10, 20, 0), "returning": (4, None, 8)}
    assert points(spec, "label", "series", "value") == [
        (day, series, value) for series, column in values.items() for day, value in zip(days, column, strict=True)
    ]
    line = layers(spec)["line"]
    assert (line["x"]["type"], line["x"]["scale"], line["x"]["axis"]["format"]) == (
        "temporal",
        {"type": "utc"},
        "%Y-%m-%d",
    )
    assert line["color"]["field"] == line["strokeDash"]["field"] == "series"
    assert spec["title"]["subtitle"] == ["1 rows without day are left out."]


def test_lines_go_over_moments_numbers_and_names_too() -> None:
    moment = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    for value, kind, label in (
        (moment, "temporal", "2026-03-01T08:30:00+00:00"),
        (4, "quantitative", 4.0),
        ("2026-W01", "ordinal", "2026-W01"),
    ):  # fmt: skip
        spec = vega_lite(table("x:ANY n:INTEGER", (value, 1)), Chart(kind="lines", labels=("x",), values=("n",)))
        assert (layers(spec)["line"]["x"]["type"], points(spec, "label")) == (kind, [label])


def test_a_heat_map_has_a_cell_a_row_the_darker_the_more() -> None:
    answer = table(
        "cohort:DATE weeks_later:INTEGER share:DOUBLE",
        (date(2026, 1, 5), 10, 0.25), (date(2026, 1, 5), 2, 1.0), (date(2026, 1, 12), 2, 0.5),
    )  # fmt: skip
    spec = vega_lite(answer, HEAT)
    assert points(spec, "label", "series", "text") == [
        ("2026-01-05", 10, "25 %"), ("2026-01-05", 2, "100 %"), ("2026-01-12", 2, "50 %"),
    ]  # fmt: skip
    cells = layers(spec)["rect"]
    assert (cells["x"]["field"], cells["x"]["title"], cells["y"]["title"]) == ("series", "weeks later", "cohort")
    assert (cells["color"]["field"], cells["color"]["scale"]["domain"]) == ("value", [0, 1])


def strings(value: Any) -> list[str]:
    """Return all texts of a specification."""
    match value:
        case dict():
            return [text for each in value.values() for text in strings(each)] + list(value)
        case list() | tuple():
            return [text for each in value for text in strings(each)]
        case _:
            return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("kind", ["bars", "lines", "heat"])
@pytest.mark.parametrize("name", ["alert(1)", "a.b[0]", "datum['x']", "https://example.org/x"])
def test_no_text_becomes_an_expression_a_field_or_an_address(kind, name: str) -> None:
    """The same chart of harmless names has the same expressions and fields: only data, domains and titles differ."""
    shapes = []
    for text in ("harmless", name):
        answer = Table(
            (Column(text, "VARCHAR"), Column(f"{text}2", "INTEGER"), Column("s", "VARCHAR")), [(text, 1, text)]
        )
        spec = vega_lite(answer, Chart(kind=kind, title=text, labels=(text,), values=(f"{text}2",), series="s"))
        del spec["data"]
        assert text in strings(spec)
        shapes.append(sorted(each for each in strings(spec) if each not in {text, f"{text}2"}))
    assert shapes[0] == shapes[1]


def test_control_characters_and_reversed_writing_are_replaced() -> None:
    (label,) = points(vega_lite(table("question:VARCHAR rounds:INTEGER", ("a\x1b[2J\u202eb\x00\nc", 1)), BARS), "label")
    assert label == "a\ufffd[2J\ufffdb\ufffd c"


def test_long_names_leave_out_their_middle() -> None:
    name = "phase_" + "x" * 3_000 + "_asks"
    (label,) = points(vega_lite(table("question:VARCHAR rounds:INTEGER", (name, 1)), BARS), "label")
    assert label.startswith("phase_x")
    assert label.endswith("x_asks")
    assert len(label) < 400


def test_bars_and_series_beyond_the_limit_are_left_out_and_noted() -> None:
    answer = table("question:VARCHAR rounds:INTEGER", *((f"q{number}", number) for number in range(90)))
    spec = vega_lite(answer, BARS)
    assert points(spec, "label") == [f"q{number}" for number in range(40)]
    assert spec["title"]["subtitle"] == ["The first 40 of 90 rows are shown."]
    many = table("a:VARCHAR s:VARCHAR n:INTEGER", *(("a", f"s{number}", 1) for number in range(12)))
    spec = vega_lite(many, Chart(kind="bars", labels=("a",), values=("n",), series="s"))
    assert len(spec["data"]["values"]) == 10
    assert spec["title"]["subtitle"] == ["The first 10 of 12 series are shown."]


def test_a_table_without_rows_is_a_chart_that_says_so() -> None:
    for chart, columns in (
        (FUNNEL, "phase:VARCHAR topic:VARCHAR reached:BIGINT share:DOUBLE previous:BIGINT came:DOUBLE"),
        (BARS, "question:VARCHAR rounds:DOUBLE"),
        (LINES, "day:DATE new:BIGINT returning:BIGINT"),
        (HEAT, "cohort:DATE weeks_later:INTEGER share:DOUBLE"),
    ):
        assert vega_lite(table(columns), chart)["encoding"]["text"] == {"value": EMPTY}


FIRST = date(2026, 3, 1)
TOO_MANY = tuple((number, number, number) for number in range(2_001))


@pytest.mark.parametrize(
    ("answer", "chart", "message"),
    [
        (table("a:VARCHAR n:INTEGER", ("x", 1)), BARS, "no column `question`: it has a, n"),
        (table("question:VARCHAR rounds:VARCHAR", ("x", "many")), BARS, "`rounds` has values that are no numbers, "
         "such as 'many'"),
        (table("question:VARCHAR rounds:BOOLEAN", ("x", True)), BARS, "no numbers, such as 'true'"),
        (table("day:DATE new:INTEGER returning:INTEGER", (FIRST, 1, 1), (FIRST, 2, 1)), LINES,
         "several rows have the same `day` 2026-03-01: group by it"),
        (table("cohort:VARCHAR weeks_later:INTEGER share:DOUBLE", ("a", 1, 0.5), ("a", 1, 0.6)), HEAT,
         "the same `cohort` a and `weeks_later` 1: group by both"),
        (table("day:INTEGER new:INTEGER returning:INTEGER", *TOO_MANY), LINES, "2,000 points at most, not 2,001"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_column_and_the_reason(answer: Table, chart: Chart, message: str) -> None:
    with pytest.raises(ChartRefused) as refused:
        vega_lite(answer, chart)
    assert message in str(refused.value)


@pytest.mark.parametrize("number", [10**38, Decimal("1e30"), 1.7e308, 5e-324, float("inf"), float("nan"), -(10**30)])
def test_numbers_of_any_size_are_points_or_left_out(number) -> None:
    spec = vega_lite(table("question:VARCHAR rounds:DOUBLE", ("a", number), ("b", 1)), BARS)
    value, one = points(spec, "value")
    assert one == 1
    assert value is None or value == float(number)
    assert (value is None) == (str(number) in {"inf", "nan", "1.7e+308"})


NAMES = st.none() | st.text(max_size=40) | st.sampled_from(["a", "b"])
NUMBERS = st.none() | st.floats() | st.integers(-(2**127), 2**127) | st.decimals(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.just(datetime.min.replace(tzinfo=UTC))


@given(
    st.lists(st.tuples(NAMES, NAMES, NUMBERS), max_size=50), st.lists(st.tuples(MOMENTS, NAMES, NUMBERS), max_size=50)
)
def test_any_table_is_a_chart_or_refused_for_repeated_rows(named, timed) -> None:
    plain = table("a:VARCHAR b:VARCHAR n:DOUBLE", *named)
    charts: list[tuple[Table, Chart]] = [
        (plain, Chart(kind="bars", labels=("a",), values=("n",), unit="s")),
        (plain, Chart(kind="bars", labels=("a",), values=("n",), series="b")),
        (plain, Chart(kind="bars", labels=("a", "b"), values=("n",), stacked=True)),
        (plain, Chart(kind="heat", labels=("a",), series="b", values=("n",))),
        (
            table("a:TIMESTAMP b:VARCHAR n:DOUBLE", *timed),
            Chart(kind="lines", labels=("a",), values=("n",), series="b"),
        ),
    ]
    for answer, chart in charts:
        try:
            spec = vega_lite(answer, chart)
        except ChartRefused as refused:
            assert chart.series  # one without series takes any rows of numbers
            assert "several rows have the same" in str(refused)
            continue
        assert msgspec.json.decode(msgspec.json.encode(spec))["$schema"] == SCHEMA
        if answer.rows:
            cells = points(spec, "label", "series")
            assert len(set(cells)) == len(cells) <= 60 * 60
            assert None not in points(spec, "label")


def test_the_same_table_is_the_same_specification() -> None:
    assert msgspec.json.encode(vega_lite(STEPS, FUNNEL)) == msgspec.json.encode(vega_lite(STEPS, FUNNEL))
