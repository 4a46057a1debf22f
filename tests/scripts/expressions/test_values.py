"""What a variable can hold, and which conversions lose nothing."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.expressions.values import (
    DEPTH_MAX,
    INTEGER_ABS_MAX,
    LIST_ITEMS_MAX,
    TEXT_CHARS_MAX,
    VALUE_NODES_MAX,
    ValueRefused,
    coerce,
    infer_type,
    is_given,
    shorten,
    to_value,
)

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=12,
)
TYPES = ["text", "number", "boolean", "date", "choice", "list", "record"]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("28", "text"),
        ("2026-01-31", "text"),
        (28, "number"),
        (0.5, "number"),
        (True, "boolean"),
        ([], "list"),
        ({}, "record"),
        (None, "null"),
    ],
)
def test_a_type_is_inferred_from_the_value(value, type_) -> None:
    assert infer_type(value) == type_


@pytest.mark.parametrize(
    ("value", "given_"), [("", False), (None, False), (0, True), (False, True), ([], True), (" ", True)]
)
def test_nothing_and_the_empty_text_are_no_answers(value, given_) -> None:
    assert is_given(value) is given_


@pytest.mark.parametrize(
    ("value", "declared", "coerced"),
    [
        (28, "text", "28"),
        (2.5, "text", "2.5"),
        ("28", "number", 28),
        (" -1.5 ", "number", -1.5),
        ("1e3", "number", 1000.0),
        ("true", "boolean", True),
        (" False ", "boolean", False),
        ("2026-01-31", "date", "2026-01-31"),
        ("2026-01-31T08:30", "date", "2026-01-31T08:30"),
        ("LOW", "choice", "low"),
        (1, "choice", "1"),
        ([1], "list", [1]),
        ({"a": 1}, "record", {"a": 1}),
        *((None, declared, None) for declared in TYPES),
    ],
)
def test_a_value_becomes_the_declared_type_where_nothing_is_lost(value, declared, coerced) -> None:
    assert coerce(value, declared, ("low", "ok", "1")) == coerced


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (True, "text"),
        ([], "text"),
        ("many", "number"),
        ("", "number"),
        ("1_000", "number"),
        ("nan", "number"),
        ("1e999", "number"),
        ("２８", "number"),
        (True, "number"),
        ("yes", "boolean"),
        (1, "boolean"),
        ("31.01.2026", "date"),
        ("2026-02-30", "date"),
        (20260131, "date"),
        ("sad", "choice"),
        (True, "choice"),
        ("a, b", "list"),
        ([], "record"),
    ],
)
def test_what_would_lose_something_is_refused_by_name(value, declared) -> None:
    with pytest.raises(ValueRefused, match="expected"):
        coerce(value, declared, ("low", "ok"))


def test_a_choice_whose_letters_fit_two_is_none_of_them() -> None:
    with pytest.raises(ValueRefused):
        coerce("LOW", "choice", ("low", "Low"))


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    "value",
    [
        "x" * (TEXT_CHARS_MAX + 1),
        [0] * (LIST_ITEMS_MAX + 1),
        {str(n): n for n in range(LIST_ITEMS_MAX + 1)},
        [[0] * 999] * (VALUE_NODES_MAX // 999 + 1),
        nested(DEPTH_MAX + 1),
        INTEGER_ABS_MAX + 1,
        -INTEGER_ABS_MAX - 1,
        math.inf,
        math.nan,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {1, 2},
        b"bytes",
        object(),
    ],
    ids=lambda value: shorten(type(value).__name__),
)
def test_what_is_out_of_bounds_is_refused(value) -> None:
    with pytest.raises(ValueRefused):
        to_value(value)


@settings(deadline=None)
@given(ANY)
def test_what_is_bounded_survives_json_and_bounding_again(value) -> None:
    try:
        retained = to_value(value)
    except ValueRefused:
        return
    assert json.loads(json.dumps(retained)) == retained
    assert to_value(retained) == retained


@settings(deadline=None)
@given(ANY, st.sampled_from(TYPES))
def test_coercing_twice_changes_nothing_more(value, declared) -> None:
    try:
        once = coerce(to_value(value), declared)
    except ValueRefused:
        return
    assert coerce(once, declared) == once


@settings(deadline=None)
@given(st.text() | st.integers(-(10**30), 10**30) | st.lists(st.text()))
def test_what_stands_in_a_message_is_one_short_line(value) -> None:
    text = shorten(value)
    assert len(text) <= 60
    assert "\n" not in text
