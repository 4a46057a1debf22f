"""Pictures show what is in the table, in proportion, whatever is in the table."""

import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.analytics.charts import Bars, Chart, Funnel, Heat, Lines
from api.analytics.pictures import style
from api.analytics.pictures.draw import draw
from api.analytics.pictures.raster import SCALE, without_font
from api.analytics.pictures.reading import NoPicture
from store.analytics.table import Column, Table

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {f"{SVG}{name}" for name in ("svg", "title", "desc", "rect", "path", "circle", "text")}

FUNNEL = Funnel(title="How far people came", labels=("phase", "topic"), value="reached", share="share")
BARS = Bars(title="Rounds", labels=("question",), values=("rounds",))
LINES = Lines(title="By day", x="day", values=("new", "returning"))
HEAT = Heat(title="Cohorts", row="cohort", column="weeks_later", value="share", unit="%")


def table(columns: str, *rows: tuple) -> Table:
    """Columns as `name:TYPE`."""
    return Table(tuple(Column(*column.split(":")) for column in columns.split()), list(rows))


def parsed(answer: Table, chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(draw(answer, chart, "svg").data)  # noqa: S314


def texts(root: ElementTree.Element) -> list[str]:
    """What is written in it."""
    return [
        "".join(filter(None, (element.text, *(part.tail for part in element)))) for element in root.iter(f"{SVG}text")
    ]


def marks(root: ElementTree.Element, kind: str = "rect") -> Iterator[tuple[str, ElementTree.Element]]:
    """The marks that stand for values, each with what it tells."""
    for element in root.iter(f"{SVG}{kind}"):
        told = element.find(f"{SVG}title")
        if told is not None:
            yield told.text or "", element


def lengths(root: ElementTree.Element) -> list[float]:
    return [float(bar.get("width", "")) for _, bar in marks(root)]


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and the rows of a PNG as they are stored."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return width, height, zlib.decompress(packed)


STEPS = table(
    "phase:VARCHAR topic:VARCHAR reached:BIGINT share:DOUBLE",
    ("welcome", None, 800, 1.0),
    ("intake", "about you", 600, 0.75),
    ("intake", "sleep", 640, 0.8),
    ("closing", None, 0, 0.0),
)


def test_a_funnel_has_bars_in_proportion_and_says_what_was_lost() -> None:
    root = parsed(STEPS, FUNNEL)
    widths = lengths(root)
    assert [width / widths[0] for width in widths] == pytest.approx([1, 0.75, 0.8, 0], abs=1e-3)
    shown = texts(root)
    assert {
        "How far people came",
        "welcome",
        "intake · about you",
        "800",
        "75 %",
        "−200 (−25 %)",
        "+40 (+6.7 %)",
    } <= set(shown)


def test_a_funnel_of_branches_counts_who_could_have_come() -> None:
    answer = table(
        "step:VARCHAR reached:BIGINT previous:BIGINT share:DOUBLE",
        ("start", 100, None, None), ("this way", 70, 100, 0.7), ("that way", 30, 100, 0.3), ("end", 95, 100, 0.95),
    )  # fmt: skip
    chart = Funnel(
        title="t", labels=("step",), value="reached", share=None, previous="previous", share_of_previous="share"
    )
    shown = texts(parsed(answer, chart))
    assert {"−30 (−30 %)", "−70 (−70 %)", "−5 (−5 %)"} <= set(shown)
    assert not any("+" in each for each in shown)


def test_a_funnel_without_shares_reckons_them_from_its_first_step() -> None:
    answer = table("step:VARCHAR n:BIGINT", ("a", 50), ("b", 20))
    assert "40 %" in texts(parsed(answer, Funnel(title="t", labels=("step",), value="n")))


def test_bars_are_in_proportion_and_carry_their_values() -> None:
    answer = table("question:VARCHAR rounds:DOUBLE", ("name", 1.25), ("age", 2.5), ("goal", None))
    root = parsed(answer, BARS)
    assert [told for told, _ in marks(root)] == ["name: 1.25", "age: 2.5"]
    assert lengths(root)[1] == pytest.approx(2 * lengths(root)[0], abs=0.02)
    assert {"name", "age", "goal", "1.25", "2.5", "–"} <= set(texts(root))


def test_bars_below_zero_go_to_the_other_side() -> None:
    root = parsed(table("question:VARCHAR rounds:INTEGER", ("more", 4), ("less", -2)), BARS)
    (_, more), (_, less) = marks(root)
    zero = float(more.get("x", ""))
    assert float(less.get("x", "")) + float(less.get("width", "")) == pytest.approx(zero, abs=0.02)
    assert "−2" in texts(root)


def test_series_are_bars_side_by_side_in_colours_that_a_legend_explains() -> None:
    answer = table(
        "arm:VARCHAR outcome:VARCHAR n:BIGINT",
        ("plain", "done", 4), ("plain", "left", 2), ("warm", "left", 1),
    )  # fmt: skip
    root = parsed(answer, Bars(title="Arms", labels=("arm",), values=("n",), series="outcome"))
    bars = {told: bar.get("fill") for told, bar in marks(root)}
    done, left = style.SERIES[:2]
    assert bars == {"plain, done: 4": done, "plain, left: 2": left, "warm, left: 1": left}
    assert {"done", "left"} <= set(texts(root))
    assert "–" not in texts(root)  # nothing is said of arms and outcomes that no row is about


def test_counts_have_no_marks_between_them() -> None:
    shown = texts(parsed(table("question:VARCHAR rounds:INTEGER", ("a", 14), ("b", 1)), BARS))
    assert {"0", "5", "10", "15"} <= set(shown)
    assert not any("." in text for text in shown)


def test_parts_of_a_whole_are_one_bar_in_pieces() -> None:
    answer = table("version:INTEGER done:BIGINT given_up:BIGINT", (1, 6, 2), (2, 3, None))
    chart = Bars(title="Versions", labels=("version",), values=("done", "given_up"), stacked=True)
    root = parsed(answer, chart)
    pieces = {told: (float(bar.get("x", "")), float(bar.get("width", ""))) for told, bar in marks(root)}
    start, length = pieces["1, done: 6"]
    assert pieces["1, given up: 2"] == (pytest.approx(start + length, abs=0.02), pytest.approx(length / 3, abs=0.02))
    assert pieces["2, done: 3"] == (start, pytest.approx(length / 2, abs=0.02))
    assert {"done", "given up", "6", "2", "8", "3"} <= set(texts(root))


def test_lines_go_through_their_points_and_break_where_there_is_none() -> None:
    start = date(2026, 3, 2)
    heights = [(10, 4), (20, None), (0, 8), (5, 8)]
    answer = table(
        "day:DATE new:BIGINT returning:BIGINT",
        *((start + timedelta(days=day), *both) for day, both in enumerate(heights)),
    )
    root = parsed(answer, LINES)
    dots = {told: (float(dot.get("cx", "")), float(dot.get("cy", ""))) for told, dot in marks(root, "circle")}
    assert len(dots) == 7
    low, high = dots["new, 2026-03-04: 0"], dots["new, 2026-03-03: 20"]
    assert dots["new, 2026-03-02: 10"][1] == pytest.approx((low[1] + high[1]) / 2, abs=0.02)
    assert low[0] - high[0] == pytest.approx(high[0] - dots["new, 2026-03-02: 10"][0], abs=0.02)
    drawn = [path for path in root.iter(f"{SVG}path") if path.get("stroke") == style.SERIES[1]]
    assert [path.get("d", "").count("L") for path in drawn] == [1, 1]  # in the legend, and from the third to the fourth
    assert {"2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"} <= set(texts(root))


def test_lines_go_over_numbers_and_names_too() -> None:
    by_number = table("turn:INTEGER n:INTEGER", (4, 1), (1, 2), (2, 3))
    dots = dict(marks(parsed(by_number, Lines(title="t", x="turn", values=("n",))), "circle"))
    at = [float(dots[told].get("cx", "")) for told in ("n, 1: 2", "n, 2: 3", "n, 4: 1")]
    assert at[2] - at[1] == pytest.approx(2 * (at[1] - at[0]), abs=0.03)
    by_name = table("week:VARCHAR n:INTEGER", ("2026-W01", 1), ("2026-W02", 2))
    assert "2026-W02" in texts(parsed(by_name, Lines(title="t", x="week", values=("n",))))


def test_a_heat_map_has_a_cell_a_row_the_darker_the_more() -> None:
    answer = table(
        "cohort:DATE weeks_later:INTEGER share:DOUBLE",
        (date(2026, 1, 5), 10, 0.25), (date(2026, 1, 5), 2, 1.0), (date(2026, 1, 12), 2, 0.5),
    )  # fmt: skip
    root = parsed(answer, HEAT)
    cells = dict(marks(root))
    assert set(cells) == {"2026-01-05, 10: 25 %", "2026-01-05, 2: 100 %", "2026-01-12, 2: 50 %"}
    assert cells["2026-01-05, 2: 100 %"].get("fill") == style.shade(1.0)
    assert float(cells["2026-01-05, 2: 100 %"].get("x", "")) < float(cells["2026-01-05, 10: 25 %"].get("x", ""))
    assert {"25 %", "100 %", "50 %", "2026-01-12", "2", "10"} <= set(texts(root))


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\"/><image href='x'/>", "&amp;", "]]>", "${x} %s $a^2$", "url(#a)"]
)
def test_no_text_becomes_markup(name: str) -> None:
    answer = table("question:VARCHAR rounds:INTEGER", (name, 1))
    root = parsed(answer, Bars(title=name, labels=("question",), values=("rounds",), unit=name))
    assert {element.tag for element in root.iter()} <= DRAWN
    assert texts(root)[0] == name
    assert root.get("aria-label") == name


def test_orders_to_terminals_and_turned_writing_are_taken_out() -> None:
    root = parsed(table("question:VARCHAR rounds:INTEGER", ("a\x1b[2J\u202eb\x00\nc", 1)), BARS)
    assert "a\ufffd[2J\ufffdb\ufffd c" in texts(root)


def test_a_picture_is_told_to_those_who_do_not_see_it() -> None:
    root = parsed(STEPS, FUNNEL)
    assert root.get("role") == "img"
    assert (root[0].tag, root[0].text) == (f"{SVG}title", "How far people came")
    assert "intake · about you: 600, 75 % of all, −200 (−25 %)" in (root[1].text or "")


def test_long_names_leave_out_their_middle_and_are_whole_under_the_pointer() -> None:
    name = "phase_" + "x" * 300 + "_asks"
    root = parsed(table("question:VARCHAR rounds:INTEGER", (name, 1)), BARS)
    told = [text for text in root.iter(f"{SVG}text") if len(text) and text[0].text == name]
    first, second = (text[0].tail or "" for text in told)
    assert first.startswith("phase_x")
    assert "…" in second
    assert second.endswith("_asks")


def test_more_bars_than_can_be_read_are_left_out_and_that_is_said() -> None:
    answer = table("question:VARCHAR rounds:INTEGER", *((f"q{number}", number) for number in range(90)))
    root = parsed(answer, BARS)
    assert len(lengths(root)) == 40
    assert "The first 40 of 90 are shown." in texts(root)


def test_a_table_without_rows_is_a_picture_that_says_so() -> None:
    for chart, columns in (
        (FUNNEL, "phase:VARCHAR topic:VARCHAR reached:BIGINT share:DOUBLE"),
        (BARS, "question:VARCHAR rounds:DOUBLE"),
        (LINES, "day:DATE new:BIGINT returning:BIGINT"),
        (HEAT, "cohort:DATE weeks_later:INTEGER share:DOUBLE"),
    ):
        assert "Nothing to show: the table has no rows." in texts(parsed(table(columns), chart))


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
         "several rows have the same `day` (2026-03-01)"),
        (table("cohort:VARCHAR weeks_later:INTEGER share:DOUBLE", ("a", 1, 0.5), ("a", 1, 0.6)), HEAT,
         "two rows are about a with `weeks_later` 1"),
        (table("phase:VARCHAR topic:VARCHAR reached:INTEGER share:DOUBLE", ("a", None, -1, 0.0)), FUNNEL,
         "`reached` of a is negative"),
        (table("q:VARCHAR n:INTEGER", ("a", -1)), Bars(title="t", labels=("q",), values=("n",), stacked=True),
         "parts of a whole cannot be negative, as one of a is"),
        (table("day:INTEGER new:INTEGER returning:INTEGER", *TOO_MANY), LINES, "`day` has 2,001 values"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told_precisely(answer: Table, chart: Chart, message: str) -> None:
    with pytest.raises(NoPicture) as told:
        draw(answer, chart, "svg")
    assert message in str(told.value)


def test_a_png_is_the_picture_at_twice_its_size() -> None:
    root = parsed(STEPS, FUNNEL)
    width, height, stored = pixels(draw(STEPS, FUNNEL, "png").data)
    assert (width, height) == tuple(round(float(root.get(side, "")) * SCALE) for side in ("width", "height"))
    assert len(set(stored)) > 50  # letters and bars, no blank sheet


def test_the_same_table_is_the_same_picture_byte_for_byte() -> None:
    for form in ("svg", "png"):
        assert draw(STEPS, FUNNEL, form) == draw(STEPS, FUNNEL, form)


def test_chinese_is_text_in_fonts_that_have_it() -> None:
    answer = table("question:VARCHAR rounds:INTEGER", ("你最近睡得怎么样？", 3))
    root = parsed(answer, BARS)
    shown = next(text for text in root.iter(f"{SVG}text") if text.text == "你最近睡得怎么样？")
    assert "Noto Sans CJK SC" in (shown.get("font-family") or "")


def test_what_no_font_has_is_said_beside_the_png() -> None:
    answer = table("question:VARCHAR rounds:INTEGER", ("a\u0378b", 3))
    assert draw(answer, BARS, "svg").warnings == ()
    (warning,) = draw(answer, BARS, "png").warnings
    assert warning.startswith("no font on this machine has \u0378, boxes stand for it")
    assert without_font(frozenset("Åé–Ω")) == ""


@pytest.mark.parametrize("number", [10**38, Decimal("1e30"), 1.7e308, 5e-324, float("inf"), float("nan"), -(10**30)])
def test_numbers_of_any_size_are_drawn_or_left_out(number) -> None:
    answer = table("question:VARCHAR rounds:DOUBLE", ("a", number), ("b", 1))
    widths = lengths(parsed(answer, BARS))
    assert all(0 <= width <= style.WIDTH for width in widths)


NAMES = st.none() | st.text(max_size=40) | st.sampled_from(["a", "b"])
NUMBERS = st.none() | st.floats() | st.integers(-(2**127), 2**127) | st.decimals(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.just(datetime.min.replace(tzinfo=UTC))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(NAMES, NAMES, NUMBERS), max_size=50), st.lists(st.tuples(MOMENTS, NAMES, NUMBERS), max_size=50)
)
def test_any_table_is_a_well_formed_picture_or_a_told_reason(named, timed) -> None:
    plain = table("a:VARCHAR b:VARCHAR n:DOUBLE", *named)
    charts: list[tuple[Table, Chart]] = [
        (plain, Funnel(title="t", labels=("a", "b"), value="n")),
        (plain, Bars(title="t", labels=("a",), values=("n",), unit="s")),
        (plain, Bars(title="t", labels=("a",), values=("n",), series="b")),
        (plain, Bars(title="t", labels=("a",), values=("n",), stacked=True)),
        (plain, Heat(title="t", row="a", column="b", value="n")),
        (table("a:TIMESTAMP b:VARCHAR n:DOUBLE", *timed), Lines(title="t", x="a", values=("n",), series="b", unit="%")),
    ]
    for answer, chart in charts:
        try:
            root = parsed(answer, chart)
        except NoPicture:
            continue
        assert {element.tag for element in root.iter()} <= DRAWN
        for element in root.iter():
            for key in ("x", "y", "width", "height", "cx", "cy"):
                assert -10 <= float(element.get(key, "0")) < 10_000
