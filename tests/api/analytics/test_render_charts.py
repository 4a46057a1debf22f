"""A rendered chart shows what its specification says, as SVG and as PNG, and takes nothing from outside."""

import struct
import zlib
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.charts.vega_lite import EMPTY, SCALE, SCHEMA, SPEC_BYTES_MAX, render, vega_lite
from api.analytics.execute import MEDIA_TYPES, AnswerDocument, Question
from api.analytics.process import Processes
from store.analytics.query import Column, QueryLimits, Table
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp

SVG = "{http://www.w3.org/2000/svg}"
BARS = Chart(kind="bars", title="Rounds", labels=("question",), values=("rounds",))
CHINESE = "你最近睡得怎么样？"


def bars(*rows: tuple, **changes: Any) -> dict[str, Any]:
    """Return the specification of bars of rounds by question."""
    answer = Table((Column("question", "VARCHAR"), Column("rounds", "DOUBLE")), list(rows))
    return vega_lite(answer, msgspec.structs.replace(BARS, **changes))


def svg(spec: dict[str, Any]) -> ElementTree.Element:
    return ElementTree.fromstring(render(spec, "svg"))  # noqa: S314


def texts(root: ElementTree.Element) -> set[str]:
    """Return what is written in a picture."""
    return {"".join(element.itertext()) for element in root.iter(f"{SVG}text")}


def marks(root: ElementTree.Element, role: str) -> dict[str, str]:
    """Return the paths of marks of one role by what a screen reader says of them."""
    found = (each for each in root.iter(f"{SVG}path") if each.get("aria-roledescription") == role)
    return {each.get("aria-label", ""): each.get("d", "") for each in found}


def width_of(path: str) -> float:
    """Return the width of a bar from its path `M…,…h…v…`."""
    return float(path.partition("h")[2].partition("v")[0])


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


def test_an_svg_has_titles_labels_and_values_as_text() -> None:
    shown = texts(svg(bars(("name", 1.25), ("age", 2.5), title="How often", unit="times")))
    assert {"How often", "name", "age", "1.25", "2.5", "question", "rounds (times)"} <= shown


def test_bars_are_in_proportion_and_named_for_screen_readers() -> None:
    found = marks(svg(bars(("name", 1), ("age", 4))), "bar")
    (name, long_name), (first, longer) = found, map(width_of, found.values())
    assert ("name" in name, "age" in long_name) == (True, True)
    assert longer == pytest.approx(4 * first)


def test_counts_have_no_marks_between_them() -> None:
    shown = texts(svg(bars(("a", 2), ("b", 1))))
    assert {"0", "1", "2"} <= shown
    assert not any("." in text for text in shown)


def test_steps_come_in_the_order_of_the_rows() -> None:
    columns = "phase reached share previous came"
    answer = Table(
        tuple(Column(name, "DOUBLE") for name in columns.split()),
        [("welcome", 8, 1.0, None, None), ("about you", 6, 0.75, 8, 0.75), ("closing", 3, 0.4, 6, 0.5)],
    )
    chart = Chart(kind="funnel", labels=("phase",), values=("reached",), share="share", previous="previous",
                  share_of_previous="came")  # fmt: skip
    root = svg(vega_lite(answer, chart))
    written = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert [text for text in written if text in {"welcome", "about you", "closing"}] == [
        "welcome",
        "about you",
        "closing",
    ]
    assert "6 · 75 % · −2 (−25 %)" in written


def test_lines_break_where_there_is_no_value() -> None:
    days = [date(2026, 3, 2) + timedelta(days=number) for number in range(4)]
    rows = list(zip(days, (10, 20, 0, 5), (4, None, 8, 8), strict=True))
    answer = Table((Column("day", "DATE"), Column("new", "BIGINT"), Column("returning", "BIGINT")), rows)
    root = svg(vega_lite(answer, Chart(kind="lines", title="t", labels=("day",), values=("new", "returning"))))
    paths = [path.split("M")[1:] for path in marks(root, "line mark").values()]
    assert [len(runs) for runs in paths] == [1, 2]
    assert {str(day) for day in days} <= texts(root)
    assert len(marks(root, "point")) == 7


def test_lines_break_where_a_series_has_no_row() -> None:
    rows = [(x, series, x) for x in range(5) for series in ("all", "some") if (x, series) != (2, "some")]
    answer = Table((Column("x", "BIGINT"), Column("s", "VARCHAR"), Column("n", "BIGINT")), rows)
    root = svg(vega_lite(answer, Chart(kind="lines", labels=("x",), values=("n",), series="s")))
    assert [len(path.split("M")[1:]) for path in marks(root, "line mark").values()] == [1, 2]


def test_columns_of_numbers_are_sorted_by_size() -> None:
    rows = [("a", 10, 0.25), ("a", 2, 1.0), ("b", 2, 0.5)]
    answer = Table((Column("cohort", "VARCHAR"), Column("later", "BIGINT"), Column("share", "DOUBLE")), rows)
    root = svg(vega_lite(answer, Chart(kind="heat", labels=("cohort",), series="later", values=("share",), unit="%")))
    written = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert written.index("2") < written.index("10")
    assert {"25 %", "100 %", "50 %"} <= set(written)


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\"/><image href='x'/>", "&amp;", "]]>", "${x} %s $a^2$", "url(#a)"]
)
def test_no_text_becomes_markup(name: str) -> None:
    root = svg(bars((name, 1), title=name, unit=name))
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "g", "path", "rect", "line", "text", "tspan")
    }
    assert {name, f"rounds ({name})"} <= texts(root)


def test_a_picture_refers_to_nothing_outside_itself() -> None:
    content = render(bars(("https://example.org/a.png", 1)), "svg").decode()
    assert not any(word in content for word in ("href=", "url(", "<image", "<style", "<script", "@import"))


def test_long_names_are_cut_except_for_screen_readers() -> None:
    name = "phase_" + "x" * 200 + "_asks"
    root = svg(bars((name, 1)))
    (shown,) = (text for text in texts(root) if text.startswith("phase_"))
    assert "…" in shown
    assert shown.endswith("_asks")
    assert any(name in label for label in marks(root, "bar"))


def test_an_empty_table_is_a_picture_that_says_so() -> None:
    assert EMPTY in texts(svg(bars()))


def test_a_png_is_the_picture_at_twice_its_size() -> None:
    spec = bars(("name", 1.25), ("age", 2.5))
    root = svg(spec)
    width, height, stored = pixels(render(spec, "png"))
    assert (width, height) == tuple(round(float(root.get(side, "")) * SCALE) for side in ("width", "height"))
    assert len(set(stored)) > 50  # letters and bars, no blank sheet


@pytest.mark.parametrize("form", ["svg", "png"])
def test_same_specification_gives_the_same_picture_byte_for_byte(form) -> None:
    assert render(bars(("name", 1.25)), form) == render(bars(("name", 1.25)), form)


def test_chinese_is_text_in_fonts_that_have_it() -> None:
    root = svg(bars((CHINESE, 3), title=CHINESE))
    shown = [text for text in root.iter(f"{SVG}text") if text.text == CHINESE]
    assert len(shown) == 2  # the label and the title
    assert all("Noto Sans CJK SC" in (text.get("font-family") or "") for text in shown)


def test_more_data_than_a_picture_may_have_is_refused() -> None:
    spec = bars(("a", 1))
    spec["data"]["values"][0]["label"] = "x" * SPEC_BYTES_MAX
    with pytest.raises(ChartRefused, match="4,000,000 bytes of data: group"):
        render(spec, "svg")


NAMES = st.none() | st.text(max_size=20) | st.sampled_from(["a", "b"])
NUMBERS = st.none() | st.floats() | st.integers(-(2**127), 2**127)


@settings(max_examples=repeats(20))
@given(st.lists(st.tuples(NAMES, NUMBERS), max_size=20), st.lists(st.tuples(st.datetimes(), NUMBERS), max_size=20))
def test_any_table_renders(named, timed) -> None:
    for rows, kind in ((named, "bars"), (timed, "lines")):
        answer = Table((Column("a", "ANY"), Column("n", "DOUBLE")), rows)
        try:
            spec = vega_lite(answer, Chart(kind=kind, title="t", labels=("a",), values=("n",)))
        except ChartRefused:
            assert kind == "lines"  # which two rows at one time have no place in
            continue
        root = svg(spec)
        assert "t" in texts(root)
        assert 0 < float(root.get("height", "")) < 10_000
        assert 0 < float(root.get("width", "")) < 2_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("charts") / "masked.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE sessions AS SELECT 'visit' AS script, i AS id FROM range(100) AS r(i)")
    return path


async def test_the_process_of_a_question_renders_within_its_memory(file: Path) -> None:
    processes = Processes()
    answers: dict[str, AnswerDocument] = {}
    for form in ("vega-lite", "svg", "png"):
        sql = "SELECT script, count(*) AS n FROM sessions GROUP BY script"
        question = Question(path=str(file), sql=sql, limits=QueryLimits(timeout_s=60), form=form, title="Sessions")
        answers[form] = await processes.run(question, AnswerDocument, timeout_s=120)
    processes.close()
    assert msgspec.json.decode(answers["vega-lite"].content)["$schema"] == SCHEMA
    assert b"Sessions" in answers["svg"].content
    assert pixels(answers["png"].content)[0] > 600


def test_media_types_name_the_version_of_the_specification() -> None:
    version = SCHEMA.rpartition("/")[2].removesuffix(".json")
    assert MEDIA_TYPES["vega-lite"] == f"application/vnd.vegalite.{version}+json"


async def test_an_answer_over_http_has_the_media_type_of_its_format(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.create_session("visit")
        query = {"sql": "SELECT role, count(*) AS n FROM messages GROUP BY role", "title": "Who says how much"}
        for form in ("vega-lite", "svg", "png"):
            report = await api.get("/api/analytics/reports/funnel", params={"script": "visit", "format": form})
            answer = await api.post("/api/analytics/query", json={**query, "format": form})
            assert [each.status_code for each in (report, answer)] == [200, 200]
            assert {each.headers["Content-Type"] for each in (report, answer)} == {MEDIA_TYPES[form]}
        refused = await api.post("/api/analytics/query", json={"sql": "SELECT 'a' AS a", "format": "vega-lite"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "QUERY_INVALID")
        assert "a chart needs a column with numbers" in refused.json()["error"]["message"]
        described = (await api.read("/schema/openapi.json"))["paths"]["/api/analytics/query"]["post"]["responses"][
            "200"
        ]
        assert described["content"][MEDIA_TYPES["vega-lite"]]["schema"]["type"] == "object"
