"""What expressions and texts mean: comparisons, names without a value, and values that stay data."""

from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.expressions.expressions import compile_expression, compile_template
from scripts.expressions.sandbox import MISSING, ExpressionFailed, ExpressionInvalid
from scripts.expressions.values import literal

NAMES = {"age": 28, "city": "Paris", "typed": "28", "moods": ["low", "ok"], "person": {"name": "Ann"}, "empty": ""}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc{}'\"\\ ", max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("age >= 18 and city == 'Paris'", True),
        ("age < 18 or city != 'Paris'", False),
        ("18 <= age < 30", True),
        ("18 < age < 20", False),
        ("1 < 3 > 2", True),
        ("typed == 28", True),
        ("typed > 3", True),
        ("'2' < '10'", True),
        ("'b' > 'a'", True),
        ("city == 5", False),
        ("age == none", False),
        ("none == none", True),
        ("'low' in moods", True),
        ("'sad' not in moods", True),
        ("'ari' in city", True),
        ("2 in '123'", True),
        ("'2' in [1, 2]", True),
        ("'name' in person", True),
        ("city == 'Paris' == true", False),
        ("person.name", "Ann"),
        ("person['name']", "Ann"),
        ("moods[0]", "low"),
        ("moods[-1]", "ok"),
        ("moods[7]", None),
        ("city[1:3]", "ar"),
        ("city.upper()", "PARIS"),
        ("moods|length", 2),
        ("moods + ['good']", ["low", "ok", "good"]),
        ("[3, 1, 2]|sort", [1, 2, 3]),
        ("[3, 4]|sum", 7),
        ("[{'n': 3}, {'n': 4}]|sum('n')", 7),
        ("[1, 2, 3]|select('gt', 1)|list", [2, 3]),
        ("['a', 'b']|map('upper')", ["A", "B"]),
        ("(1, 2)", [1, 2]),
        ("range(3)", [0, 1, 2]),
        ("age / 8", 3.5),
        ("age ~ ' years'", "28 years"),
        ("'yes' if age > 18 else 'no'", "yes"),
        ("'minor' if age < 18", None),
        ("age is number", True),
        ("age is gt 18", True),
        ("empty or 'nothing'", "nothing"),
    ],
)
def test_an_expression_has_a_value(evaluate, source, value) -> None:
    rendered = evaluate(source, **NAMES)
    assert (rendered.value, rendered.unset, rendered.mismatches) == (value, (), ())


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
@pytest.mark.parametrize(
    "sides", ["weight {} 5", "5 {} weight", "weight {} weight", "weight.now {} 5", "weight[0] {} 5"]
)
def test_comparison_with_an_unset_name_is_false_and_reported(evaluate, sides, sign) -> None:
    rendered = evaluate(sides.format(sign))
    assert (rendered.value, rendered.unset) == (False, ("weight",))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("weight", None),
        ("not weight", True),
        ("weight and age", None),
        ("weight or age", 28),
        ("weight + 1", None),
        ("1 - weight", None),
        ("-weight", None),
        ("weight ~ '!'", "!"),
        ("[weight, 1]", [None, 1]),
        ("{'kg': weight}", {"kg": None}),
        ("[[weight]]", [[None]]),
        ("weight|length", 0),
        ("weight|join(', ')", ""),
        ("18 < age < weight", False),
        ("vars['body weight']", None),
        ("vars['body weight'] == 5", False),
    ],
)
def test_a_name_without_a_value_never_fails_an_expression(evaluate, source, value) -> None:
    rendered = evaluate(source, **NAMES)
    assert rendered.value == value
    assert rendered.unset in {("weight",), ("body weight",)}


@pytest.mark.parametrize("source", ["weight is defined", "weight is undefined", "weight|default(70)", "weight|d(70)"])
def test_asking_whether_a_name_has_a_value_reports_nothing(evaluate, source) -> None:
    assert evaluate(source).unset == ()


@pytest.mark.parametrize(
    ("typed", "is_more"),
    [("35岁", True), ("8 hours", False), ("70%", True), ("-3 °C", None), ("3-5次", None), ("about 40", None)],
)
def test_an_amount_with_its_unit_compares_by_size_with_numbers(evaluate, typed, is_more) -> None:
    rendered = evaluate("typed > 20", typed=typed)
    assert (rendered.value, len(rendered.mismatches)) == (is_more is True, int(is_more is None))


@pytest.mark.parametrize("source", ["city < 5", "moods > 3", "true < false", "5 in age", "person >= 'a'"])
def test_what_cannot_be_compared_is_false_and_reported(evaluate, source) -> None:
    rendered = evaluate(source, **NAMES)
    assert rendered.value is False
    assert len(rendered.mismatches) == 1


@pytest.mark.parametrize(
    ("source", "text", "unset"),
    [
        ("Hello, {{ name }}.", "Hello, .", ("name",)),
        ("{{ name.first }}{{ other }}", "", ("name", "other")),
        ("{% if name %}Hello{% else %}Who?{% endif %}", "Who?", ("name",)),
        ("{% for each in name %}{{ each }}{% endfor %}-", "-", ("name",)),
        ("{{ vars['first name'] }}", "", ("first name",)),
        ("{{ 'Ms' if name }}", "", ("name",)),
    ],
)
def test_unset_name_renders_as_nothing_and_is_reported(render, source, text, unset) -> None:
    rendered = render(source)
    assert (rendered.text, rendered.unset) == (text, unset)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (3.0, "3"),
        (2.5, "2.5"),
        (["a", 1, None], "a, 1, "),
        ({"a": [1, 2]}, "a: 1, 2"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 8, 30), "2026-01-31T08:30:00"),  # noqa: DTZ001  (the clock's zone is the runtime's)
        ("{{ secret }} {% set a = 1 %} ${x} $$ & {b}", "{{ secret }} {% set a = 1 %} ${x} $$ & {b}"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        ("two\n", "two\n"),
    ],
)
def test_value_in_a_text_is_unchanged_and_not_rendered_again(render, value, text) -> None:
    rendered = render("[{{ x }}]", x=value, b="told")
    assert (rendered.text, rendered.unset) == (f"[{text}]", ())


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("age >= 18 and city == 'Paris'", {"age", "city"}),
        ("vars['用户-情绪'] == 'low'", {"用户-情绪"}),
        ("round > 2 and now < today", set()),
        ("person.name.first", {"person"}),
    ],
)
def test_the_variables_that_an_expression_reads_are_known(source, reads) -> None:
    assert compile_expression(source).reads == reads


def test_a_loop_s_own_names_are_not_read_from_the_variables() -> None:
    assert compile_template("{% for each in list %}{{ each }}{{ loop.index }}{% endfor %}").reads == {"list"}


@pytest.mark.parametrize(
    ("source", "line"),
    [("ok\nok {{ }}", 2), ("ok\n\n{% set a = 1 %}", 3), ("{{ one }}\n{{ two", 2), ("a\n{{ b|nofilter }}", 2)],
)
def test_what_is_wrong_in_a_text_has_a_line(source, line) -> None:
    with pytest.raises(ExpressionInvalid) as invalid:
        compile_template(source)
    assert invalid.value.line == line


@settings(deadline=None)
@given(JSON)
def test_any_value_can_be_said_and_stays_what_it_is(evaluate, render, value) -> None:
    assert isinstance(render("{{ x }}", x=value).text, str)
    assert evaluate("x", x=value).value == value


@settings(deadline=None)
@given(JSON)
def test_a_literal_evaluates_to_its_value(evaluate, value) -> None:
    assert evaluate(literal(value)).value == value


class _Given:
    """Names with the values of a record."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values

    def value_of(self, name: str) -> object:
        return self._values.get(name, MISSING)


@given(JSON, st.booleans(), st.integers(5, 40))
def test_a_text_with_variables_only_is_as_jinja_fills_it_in(value, is_set, chars_max) -> None:
    names = _Given({"a": value} if is_set else {})
    source, results = "It is {{ a }}, {{ b }} and {{ a }}.", []
    for text in (source, source + "{% if false %}{% endif %}"):  # a block is evaluated by Jinja
        try:
            results.append(compile_template(text).evaluate(names, chars_max))
        except ExpressionFailed as error:
            results.append(str(error))
    assert results[0] == results[1]
