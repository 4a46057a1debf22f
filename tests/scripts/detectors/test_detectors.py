"""What detectors see without a model: words, measures of how people feel, and the courses these take."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.detectors.estimate import CHARS_MAX, Vocabulary, estimate
from scripts.detectors.examples import run_examples
from scripts.detectors.judge import WindowMessage, holds, judge, swings
from scripts.model.detectors import Example, Line, Measure, Pattern, Rule, Sign, Trend
from scripts.model.script import Detector
from scripts.parse.read_script import Source, read_script
from tests.support.script_readers import ReadScript

VALENCE = Measure(name="valence", lexicon="valence")
AROUSAL = Measure(name="arousal", min=0, lexicon="arousal")
VOCABULARY = Vocabulary((VALENCE, AROUSAL), ())
MOOD = Detector(
    id="mood",
    look_back=12,
    min_messages=2,
    measures=(VALENCE, AROUSAL),
    patterns=(
        Pattern(id="shift", courses=(Trend(of="valence", span=2, change=0.5),)),
        Pattern(id="decline", courses=(Trend(of="valence", span=5, trend="falling", change=0.4),)),
        Pattern(id="recovery", courses=(Trend(of="valence", span=5, trend="rising", change=0.4),)),
        Pattern(id="fluctuation", courses=(Trend(of="valence", swings=3, amplitude=0.3),)),
        Pattern(id="flat", courses=(Trend(of="arousal", average_max=0.2), Trend(of="valence", range_max=0.2))),
        Pattern(id="extreme", courses=(Trend(of="valence", last_max=-0.8),)),
    ),
)


def valence(text: str) -> float | None:
    return estimate(VOCABULARY, text).values.get("valence")


def seen(*said: str) -> str | None:
    """Return what the detector sees in the last of these messages of the user's, with answers in between."""
    messages = [
        heard for text in said for heard in (WindowMessage("assistant", "嗯，go on."), WindowMessage("user", text))
    ]
    found = judge(MOOD, VOCABULARY, messages)
    return found.label if found is not None else None


# -- one message ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("我很开心", "我有点开心"),
        ("我有点难过", "我非常难过"),
        ("我开心", "我不开心"),
        ("不难过", "难过"),
        ("压力有点大", "压力特别大"),
        ("没什么压力", "压力很大"),
        ("有希望", "没什么希望"),
        ("虽然累，但是很开心", "虽然开心，但是很累"),
        ("不错", "不好"),
        ("好开心", "好难过"),
        ("I am very happy", "I am happy"),
        ("I am a bit sad", "I am very sad"),
        ("I am not sad", "I am sad"),
        ("I am happy", "I'm not happy"),
        ("tired but happy", "happy but tired"),
        ("there is hope", "there is no hope"),
        ("I don’t feel angry", "I feel angry"),
        ("All good", "Not good at all"),
    ],
)
def test_the_words_around_a_feeling_change_it(better, worse) -> None:
    high, low = valence(better), valence(worse)
    assert high is not None
    assert low is not None
    assert high > low


@pytest.mark.parametrize(
    "text", ["我今年28岁", "My name is Ana", "", "   ", "差不多28", "good morning", "你好", "hopefully?"]
)
def test_what_tells_no_feeling_has_no_value(text) -> None:
    assert valence(text) in {None, 0.05}


@pytest.mark.parametrize("text", ["不过还没吃饭", "不仅如此", "no one came", "so that is it", "goodness", "unhappyish"])
def test_what_only_looks_like_a_word_of_feeling_is_passed_over(text) -> None:
    assert valence(text) is None


def test_a_sign_of_the_detectors_own_comes_before_the_lexicon() -> None:
    vocabulary = Vocabulary(
        (VALENCE,), (Sign(words=("happy", "on cloud nine"), values={"valence": -0.4}, label="odd"),)
    )
    assert estimate(vocabulary, "I am happy").values == {"valence": -0.4}
    assert estimate(vocabulary, "I am on cloud nine").label == "odd"


def test_measure_without_an_opposite_is_damped_by_denial() -> None:
    calm, angry = (estimate(VOCABULARY, text).values["arousal"] for text in ("I am not angry", "I am angry"))
    assert 0 <= calm < angry <= 1


# -- several messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["今天很开心", "可是刚才吵了一架，特别生气"], "shift"),
        (["I feel awful", "Now I am so happy"], "shift"),
        (["心情不错", "就那样吧", "有点累", "很难过"], "decline"),
        (["Good, thanks", "so-so", "a bit worried", "really sad"], "decline"),
        (["很难过", "有点累", "就那样", "心情不错"], "recovery"),
        (["开心", "难过", "开心", "难过"], "fluctuation"),
        (["happy", "I am sad", "happy again", "sad again"], "fluctuation"),
        (["没感觉", "无所谓", "就那样"], "flat"),
        (["I feel nothing", "I don't care", "numb"], "flat"),
        (["特别难过", "我彻底绝望了"], "extreme"),
        # none of these may fire
        (["今天很开心"], None),
        (["今天很开心", "昨天也很高兴"], None),
        (["我叫小明", "28岁", "住在北京", "是老师"], None),
        (["My name is Ana", "28", "Berlin", "a teacher"], None),
        (["开心", "我叫小明"], None),
        (["有点累", "有点烦"], None),
        (["心情不错", "挺好的", "还好"], None),
        (["I am fine", "I am good", "all is well known"], None),
        (["不难过", "不错"], None),
        (["压力有点大", "没什么压力"], None),
        (["很难过", "今天星期三", "几点了"], None),
        (["not sad", "not bad"], None),
    ],
)
def test_the_course_of_feelings_over_a_conversation(said, expected) -> None:
    assert seen(*said) == expected


def test_the_pattern_that_rests_on_the_most_messages_is_taken() -> None:
    series = {"valence": [0.6, 0.2, -0.2, -0.5]}
    found = {pattern.id: holds(pattern, series) for pattern in MOOD.patterns}
    assert (found["shift"], found["decline"], found["recovery"]) == (0, 4, 0)


def test_one_jump_is_no_trend() -> None:
    course = Pattern(id="p", courses=(Trend(of="v", trend="falling", change=0.4),))
    assert holds(course, {"v": [0.5, 0.45, -0.5]}) == 0
    assert holds(course, {"v": [0.5, 0.1, -0.5]}) == 3


@pytest.mark.parametrize(
    ("values", "count"),
    [([0.5], 0), ([0, 0.5, 0], 2), ([0, 0.2, 0.4, 0.1], 2), ([0, 0.1, 0, 0.1], 0), ([1, 0, 1, 0], 3)],
)
def test_swings_are_counted_from_turn_to_turn(values, count) -> None:
    assert swings(values, 0.3) == count


# -- words ------------------------------------------------------------------------------------------------------------


def test_gravest_word_counts_if_its_score_meets_the_threshold() -> None:
    detector = Detector(
        id="d",
        rules=(
            Rule(words=("tired",), label="mild", score=0.8),
            Rule(words=("suicide",), label="grave"),
            Rule(words=("hm",), label="weak", score=0.2),
        ),
    )
    vocabulary = Vocabulary((), ())
    found = judge(detector, vocabulary, [WindowMessage("user", "tired, SUICIDE, hm")])
    assert found is not None
    assert (found.label, found.words, found.always) == ("grave", ("tired", "suicide"), True)
    assert judge(detector, vocabulary, [WindowMessage("user", "hm")]) is None


def test_examples_that_need_a_model_do_not_fail_the_detector() -> None:
    detector = Detector(
        id="d",
        define="danger",
        rules=(Rule(words=("danger",), label="named"),),
        examples=(
            Example(messages=(Line(content="danger"),), label="named"),
            Example(messages=(Line(content="I see no way"),)),
            Example(messages=(Line(content="I see no way"),), needs_model=False),
            Example(messages=(Line(content="all is quiet"),), label="named"),
            Example(messages=(Line(content="danger"),), detected=False),
        ),
    )
    outcomes = [(each.passed, each.untested) for each in run_examples(detector)]
    assert outcomes == [(True, False), (False, True), (False, False), (False, False), (False, False)]


@given(st.lists(st.text(max_size=200), min_size=1, max_size=20))
def test_any_messages_are_judged_the_same_twice_within_bounds(texts) -> None:
    messages = [WindowMessage("user", text) for text in texts]
    first = judge(MOOD, VOCABULARY, messages)
    assert judge(MOOD, VOCABULARY, messages) == first
    for text in texts:
        values = estimate(VOCABULARY, text).values
        assert -1 <= values.get("valence", 0) <= 1
        assert 0 <= values.get("arousal", 0) <= 1


def test_a_long_message_takes_no_longer_than_its_first_part() -> None:
    begun = time.process_time()
    estimate(VOCABULARY, "不是很开心 but not so sad " * 1_000_000)
    assert time.process_time() - begun < 5  # the whole of it takes twenty
    assert valence("嗯" * CHARS_MAX + "开心") is None


def test_a_detector_of_a_side_file_counts_as_the_scripts_own() -> None:
    script = """
script: s
use: [watch.yaml]
phases: [{phase: p, topics: [{topic: t, actions: [{say: "{{ mood }}", id: a}]}]}]
"""
    side = "detectors: [{detector: d, rules: [{words: tired}], do: [{set: {mood: detected.label}, id: keep}]}]"
    reading = read_script(Source(script, "s.yaml", {"watch.yaml": side}))
    assert reading.problems == ()
    assert reading.script is not None
    assert [(each.id, each.rules[0].words) for each in reading.script.detectors] == [("d", ("tired",))]


@pytest.mark.parametrize("text", ["detectors: null\n", "detectors: []\n"])
def test_a_file_without_detectors_is_reported_as_such(read: ReadScript, text) -> None:
    assert [problem.code for problem in read(text).errors] == ["NO_ACTIONS"]


def test_the_reads_of_detectors_are_checked(read: ReadScript) -> None:
    reading = read("""
        script: s
        declare: [{var: mood}]
        phases:
        - phase: p
          topics:
          - {topic: t, declare: [{var: here}], actions: [{ask: How?, id: how, output: [mood, here]}]}
        detectors:
        - detector: low
          rules: [{words: [sad]}]
          replace: "{{ mood }}: {{ here }}"
          do: [{say: "{{ nowhere }}", id: tell}]
        """)
    assert {(problem.code, problem.message) for problem in reading.problems if problem.severity != "note"} == {
        ("VARIABLE_UNDECLARED", "`here` is set in p/t"),
        ("VARIABLE_NEVER_SET", "nothing sets `nowhere`"),
    }
