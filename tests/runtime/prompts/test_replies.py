"""A model's structured reply, read back as leniently as models write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runtime.prompts.reply_fields import reply_of
from runtime.state.ports import ModelReply, Verdict
from scripts.expressions.values import to_value
from scripts.model.variables import Output

WHOLE = {
    "progress": "continue_needed",
    "exit": False,
    "exit_reason": "",
    "understanding": 70,
    "has_questions": True,
    "values": {"age": 28, "mood": "low", "pets": [{"pet": "Tom", "kind": "cat"}, {"pet": "Rex", "kind": None}]},
    "text": "And how are you?",
}


def test_a_reply_that_fits_its_schema_is_read_whole(request_of, render) -> None:
    Draft202012Validator(render(request_of()).schema).validate(WHOLE)
    assert reply_of(request_of(), WHOLE) == ModelReply(
        text="And how are you?",
        values={"age": 28, "mood": "low", "pets": [{"pet": "Tom", "kind": "cat"}, {"pet": "Rex"}]},
        exit=False,
        understanding=70,
        has_questions=True,
        progress="continue_needed",
    )


@pytest.mark.parametrize("name", ["exit", "EXIT", "Exit", " exit "])
@pytest.mark.parametrize("yes", [True, "true", "True", "yes", "YES", "1", 1, "是", 1.0])
def test_an_exit_counts_in_any_spelling(request_of, name, yes) -> None:
    read = reply_of(request_of(), {name: yes, "exit reason": "done"})
    assert (read.exit, read.exit_reason) == (True, "done")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("false", False), ("no", False), (0, False), ("否", False), ("", None), (None, None), ([], None)],
)
def test_a_no_is_a_no_and_nothing_is_nothing(request_of, given, meant) -> None:
    assert reply_of(request_of(), {"exit": given}).exit is meant


@pytest.mark.parametrize(
    "data",
    [
        {"values": {"age": 28}, "exit": True},
        {"age": 28, "EXIT": "true"},
        {"AGE": 28, "exit": "yes"},
        [{"Values": {"Age": 28}, "exit": 1}],
        {"values": None, "age": 28, "exit": True},
    ],
)
def test_values_count_wherever_they_stand(request_of, data) -> None:
    read = reply_of(request_of(), data)
    assert (read.values, read.exit) == ({"age": 28}, True)


def test_text_and_verdict_are_no_values_unless_under_their_keys(request_of) -> None:
    request = request_of(outputs=(Output(get="text"), Output(get="exit")), records=())
    assert reply_of(request, {"text": "hello", "exit": True}).values == {}
    assert reply_of(request, {"text": "hello", "values": {"text": "x"}}).values == {"text": "x"}


def test_missing_empty_unknown_or_mistyped_values_are_left_out(request_of) -> None:
    values = {"age": [28], "mood": {"a": 1}, "pet": "", "kind": None, "pets": "cats", "other": 1}
    assert reply_of(request_of(), {"values": values, "admin": True}).values == {}
    retained = {"age": 0, "mood": "whatever"}  # whether it is one of the choices, the action tells
    assert reply_of(request_of(), {"values": retained}).values == retained


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("number", "28", "28"),
        ("number", True, None),
        ("boolean", 1, True),
        ("boolean", False, False),
        ("boolean", "是的", "是的"),
        ("boolean", 28, None),
        ("date", "2026-03-04", "2026-03-04"),
        ("date", 20260304, None),
        ("list", ["a", 1], ["a", 1]),
        ("list", "a, b", "a, b"),
        ("record", {"a": 1}, {"a": 1}),
        ("record", [{"name": "a", "value": 1}, {"name": "b", "value": None}], {"a": 1, "b": None}),
        ("record", [1], None),
        ("text", 28, 28),
        ("text", False, None),
        (None, "x", "x"),
        (None, 28, 28),
    ],
)
def test_a_value_is_accepted_where_it_fits_the_type(request_of, kind, given, expected) -> None:
    request = request_of("extract", outputs=(Output(get="v", type=kind),), records=())
    assert reply_of(request, {"values": {"v": given}}).values.get("v") == expected


def test_one_record_may_come_as_itself_or_as_its_fields(request_of) -> None:
    assert reply_of(request_of(), {"pets": {"pet": "Tom", "age": 3}}).values == {"pets": [{"pet": "Tom"}]}
    assert reply_of(request_of(), {"values": {"pet": "Tom", "kind": "cat"}}).values == {"pet": "Tom", "kind": "cat"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [(85, 85), ("85%", 85), ("85", 85), (84.6, 85), (250, 100), (-3, 0), ("high", None), (True, None)],
)
def test_understanding_is_a_percentage(request_of, given, meant) -> None:
    assert reply_of(request_of(), {"understanding": given}).understanding == meant


@pytest.mark.parametrize(("given", "meant"), [("OFF-TOPIC", "off_topic"), ("Completed", "completed"), ("soon", None)])
def test_progress_is_one_of_its_words(request_of, given, meant) -> None:
    assert reply_of(request_of(), {"progress": given}).progress == meant


def test_reasons_are_those_of_wanted_values(request_of) -> None:
    given = {"reasons": {"age": "not said", "mood": None, "other": "x", "pets": 3}}
    assert reply_of(request_of("extract"), given).reasons == {"age": "not said", "pets": "3"}


def test_a_meaning_is_one_of_those_asked_for(request_of) -> None:
    for said, meant in (("leave", "leave"), (" LEAVE ", "leave"), ("rob", ""), ("", ""), (None, "")):
        assert reply_of(request_of("route"), {"intent": said}).intent == meant


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"detected": {"crisis": {"score": 0.9, "label": "high"}}}, Verdict(0.9, "high")),
        ({"crisis": {"score": "0.9"}}, Verdict(0.9)),
        ({"detected": {" Crisis": {"score": 0.8}}}, Verdict(0.8)),
        ({"detected": [{"name": "CRISIS", "score": "80 %", "label": "low"}, "none"]}, Verdict(0.8, "low")),
        ({"crisis": True}, Verdict(1.0)),
        ({"detected": {"crisis": {"score": False}}}, Verdict(0.0)),
        ({"detected": {"crisis": {"score": "high"}}}, None),
        ({"detected": {"crisis": 7}}, Verdict(1.0)),
        ({"detected": {"crisis": {"label": "high"}}}, None),
        ({"detected": {"other": {"score": 1}}}, None),
        ({"detected": []}, None),
    ],
)
def test_a_detector_hears_a_score_within_its_bounds(request_of, given, seen) -> None:
    found = reply_of(request_of("detect"), given).detected
    assert found == ({} if seen is None else {"crisis": seen})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["exit", "EXIT", "values", "age", "pets", "pet", "text", "detected", "crisis", "score", "x"]
            )
            | st.text(),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(_JSON, st.sampled_from(["say", "ask", "extract", "think", "chat", "route", "detect"]))
def test_any_json_is_read_and_gives_only_the_requested_values(request_of, data, purpose) -> None:
    read = reply_of(request_of(purpose), data)
    assert read.values.keys() <= {"age", "mood", "pets", "pet", "kind"}
    assert read.detected.keys() <= {"crisis"}
    assert read.intent in {"", "leave", "help"}
    assert read.understanding is None or 0 <= read.understanding <= 100
    assert all(0 <= each.score <= 1 for each in read.detected.values())
    for value in read.values.values():
        assert to_value(value) == value


@pytest.mark.parametrize(
    ("given", "memo"),
    [
        ({"memo": [{"name": "pet", "value": "a cat"}, {"name": "gone", "value": None}]}, {"pet": "a cat"}),
        ({"memo": {"pet": "a cat", "ages": [3, 4]}}, {"pet": "a cat", "ages": [3, 4]}),
        ({"pet": "a cat"}, {"pet": "a cat"}),
        ({"memo": "a cat"}, {}),
        ({"memo": ["a cat"]}, {}),
    ],
)
def test_a_memo_is_read_from_pairs_or_from_an_object(request_of, given, memo) -> None:
    assert reply_of(request_of("memo"), given).values == memo
