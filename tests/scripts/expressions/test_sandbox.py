"""Hostile texts and expressions: refused before they cost anything."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts.expressions.expressions import compile_expression, compile_template
from scripts.expressions.sandbox import ExpressionFailed, ExpressionInvalid
from scripts.expressions.values import LIST_ITEMS_MAX

SECONDS_MAX = 20  # of a busy machine; the slowest takes well under one
LIST = list(range(LIST_ITEMS_MAX))
TEXT = "ab " * 6_600

NESTED = "[" * 10 + "1" + "] * 20" * 10  # few lists, with ten million million numbers in them
PADDED = "a" * 20_000

EXPRESSIONS = [
    '"a" * 10**9',
    "10**9 * [1]",
    "(1, 2) * 10**9",
    "range(10**9)",
    "range(10**30)",
    "9**9**9",
    "2.0 ** 10000",
    "10**200",
    "9" * 5_000,
    "0x" + "f" * 5_000,
    "''.__class__",
    "().__class__.__bases__",
    "''['__class__']",
    "[].append(1)",
    "'{0.__class__}'.format(1)",
    "'{a}'.format_map({})",
    "'%999999999d' % 1",
    "'a'.zfill(10**9)",
    "'a'.encode()",
    "'a'|attr('__class__')",
    "['a']|map(attribute='__class__')|list",
    "[1]|map('attr', 'real')|list",
    "'a'|center(10**9)",
    "'a'|truncate(10**9)",
    "'abc'|truncate(1)",
    "'5'|int(0, 10**9)",
    "1.5|round(10**9)",
    "'a'|replace('a', 'b' * 19000)|replace('b', 'b' * 19000)",
    "long|join('a' * 9999)",
    "long|join(d='a' * 9999)",
    "[" + "long," * 3_900 + "]|sum(start=[])",
    "[" + "long," * 3_900 + "]|sum(attribute=0)|sum(start=[])",
    "[" + "text.split()," * 1_500 + "]",
    "[" + "text|list," * 1_900 + "]",
    "[" + "[0] * 9999," * 1_800 + "]",
    "[" + "long ~ long," * 1_500 + "]",
    "1" + " in long or -1" * 1_000,
    "cycler(1)",
    "lipsum(1000)",
    "namespace()",
    "dict(a=1)",
    "self",
    "self._TemplateReference__context",
    "_meter",
    "_compare(1)",
    "now(a=1, a=2)",
    "(" * 2_000 + "1" + ")" * 2_000,
    "not " * 4_000 + "true",
    "1" + " + 1" * 4_000,
    "x" * 20_001,
    NESTED,
    f"({NESTED}) == ({NESTED})",
    f"({NESTED})|string",
    f"({NESTED}) ~ 1",
    "long|map('default', [text, [long, long]] * 400, true)",
    "[" + "([long] * 20)," * 500 + "]",
    "text|replace('ab ', '9')|int(0, 16)",
    "1e999",
]
TEMPLATES = [
    "{% set a = 1 %}",
    "{% set a %}text{% endset %}",
    "{% include 'other' %}",
    "{% import 'other' as other %}",
    "{% extends 'other' %}",
    "{% block a %}{% endblock %}",
    "{% macro again() %}{{ again() }}{% endmacro %}",
    "{% call again() %}{% endcall %}",
    "{% filter upper %}a{% endfilter %}",
    "{% with a = 1 %}{% endwith %}",
    "{% do a %}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for a in [1] %}{{ loop([1]) }}{% endfor %}",
    "{% for a in [1] %}{{ loop._iterator }}{% endfor %}",
    "{% for _a in [1] %}{% endfor %}",
    "{% for a in range(10**9) %}x{% endfor %}",
    "{% for a in long %}{% for b in long %}{% endfor %}{% endfor %}",
    "{% for a in long %}{% for b in range(60) %}{{ text }}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% if a" + " == a" * 3_000 + " %}{% endif %}{% endfor %}",
    "{% for a in long %}{% if -1 in long or -2 in long %}{% endif %}{% endfor %}",
    "{% for a in long %}{% if long ~ 1 == 1 %}{% endif %}{% endfor %}",
    "{% for a in 5 %}{% endfor %}",
    "{% for a in [1] %}" * 25 + "{% endfor %}" * 25,
    "{% if 1 %}" * 150 + "{% endif %}" * 150,
    f"{{{{ {NESTED} }}}}",
    "{% for a in range(30000) %}{% if long[:] %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if padded.strip(text ~ 'a') %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if padded|trim(text ~ 'a') %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if padded|min %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if text|wordcount %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if text.isdigit() %}{% endif %}{% endfor %}",
    "{% for a in range(30000) %}{% if 1|round(20000, 'ceil') %}{% endif %}{% endfor %}",
    "{{ 'a'.upper }}",
    "{{ text }}{{ text }}",
    "{{ long.__class__ }}",
]


def took(run) -> float:
    began = time.process_time()
    try:
        rendered = run()
    except (ExpressionInvalid, ExpressionFailed) as refused:
        assert str(refused)
    else:
        assert (rendered.value, len(rendered.failures)) == (None, 1)  # what cannot be worked out is no value
    return time.process_time() - began


@pytest.mark.gate
@pytest.mark.parametrize("source", EXPRESSIONS, ids=lambda source: source[:40])
def test_a_hostile_expression_is_refused_at_once(evaluate, source) -> None:
    assert took(lambda: evaluate(source, long=LIST, text=TEXT)) < SECONDS_MAX


@pytest.mark.gate
@pytest.mark.parametrize("source", TEMPLATES, ids=lambda source: source[:40])
def test_a_hostile_text_is_refused_at_once(render, source) -> None:
    assert took(lambda: render(source, long=LIST, text=TEXT, padded=PADDED)) < SECONDS_MAX


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for a in long %}{{ a if a < 3 }}{% endfor %}", "012"),
        ("{% for a in long %}{% for b in [1, 2] %}{% endfor %}{% endfor %}done", "done"),
        ("{{ range(5)|join(' ') }}", "0 1 2 3 4"),
        ("{{ long|sum }}", "499500"),
        ("{{ text|length }}", "19800"),
        ("{{ text.split()|unique|join }}", "ab"),
        ("{% raw %}{{ long }}{% endraw %}{# aside #}", "{{ long }}"),
    ],
)
def test_honest_work_on_the_largest_values_is_done(render, source, text) -> None:
    assert render(source, long=LIST, text=TEXT).text == text


SYMBOLS = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    *"()[]{},:.|~+-*/%<",
    "**",
    "//",
    "==",
    "!=",
    ">=",
    " ",
    "\n",
    "\\",
    "'x'",
]
WORDS = [
    "if",
    "endif",
    "for",
    "endfor",
    "in",
    "else",
    "and",
    "or",
    "not",
    "is",
    "defined",
    "none",
    "true",
    "a",
    "b",
    "1",
]
FILTERS = ["range", "join", "sum", "map", "select", "list", "length", "round", "truncate", "replace", "loop", "vars"]
FRAGMENTS = st.lists(st.sampled_from([*SYMBOLS, *WORDS, *FILTERS, "1.5", "\x00", "\ud800", "用户", "（"]), max_size=25)
SOURCES = st.one_of(st.text(max_size=60), FRAGMENTS.map(" ".join))


@settings(deadline=None)
@given(SOURCES)
@example("9" * 5_000)
@example("x(a=1, a=2)")
def test_no_expression_fails_but_with_its_own_errors(evaluate, source) -> None:
    try:
        evaluate(source, a=1, b=[{"x": 1}, "two"])
    except (ExpressionInvalid, ExpressionFailed) as error:
        assert str(error)


@settings(deadline=None)
@given(SOURCES)
@example("{{ 'a'.upper }}")
@example("{% for a in b %}" * 25 + "{% endfor %}" * 25)
def test_no_text_fails_but_with_its_own_errors(render, source) -> None:
    try:
        assert isinstance(render(source, a=1, b=[{"x": 1}, "two"]).text, str)
    except (ExpressionInvalid, ExpressionFailed) as error:
        assert str(error)


@pytest.mark.parametrize(
    "call", ["recall()", "recall('a', 3, 4)", "recall('a', j=3)", "recall(k=3)", "recall('a', query='b')"]
)
def test_a_recall_that_can_only_fail_is_reported_when_read(call: str) -> None:
    for compiled, source in ((compile_expression, call), (compile_template, f"one\n{{{{ {call} }}}}")):
        with pytest.raises(ExpressionInvalid, match="recall needs a query") as refused:
            compiled(source)
        assert refused.value.line == source.count("\n") + 1


@pytest.mark.parametrize("call", ["recall('a')", "recall(a, 3)", "recall(a ~ 'b', k=3)", "recall(query='a', k=a)"])
def test_a_recall_that_may_do_is_read(call: str) -> None:
    assert "recall" in compile_expression(call).names
