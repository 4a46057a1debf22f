"""The format of detector configurations: each becomes a detector; what has no counterpart is reported."""

import pytest

from scripts.detectors.examples import run_examples
from scripts.detectors.judge import holds
from scripts.model.actions import Emit, End, Say, Set
from scripts.model.base import without_places
from scripts.parse.conversion import convert
from scripts.parse.read_script import Source, is_script, read_script
from scripts.translations.localisation import own_locale

CONTRADICTION = """
metadata:
  name: Contradictions
  description: Notices where someone contradicts what they said before
consciousness:
  consciousness_id: contradiction_v2
  trigger_config:
    trigger_timing: after_every_message
    cooldown_rounds: 3
    context_window: {lookback_messages: 12, min_messages_required: 3}
  loading_config:
    template_path: prompts/contradiction.md
  detection_config:
    contradiction_types:
      - type: factual
        description: Two statements cannot both be true
        indicators: [I never said that, that is not what happened, they described one day as two different days at once]
        severity: high
      - type: emotional
        description: Words and feeling do not agree
        severity: low
    keywords: ["on second thought"]
    thresholds: {confidence_threshold: 0.6, odd_threshold: lots}
  output_config:
    output_format: structured
    trigger_actions:
      - {action_type: update_session_state, config: {state_key: last_contradiction}}
      - action_type: conditional_notify
        config: {condition: "{severity} >= 0.7 && label != 'x'", notification_type: look}
      - {action_type: summon_supervisor, config: {team: "night", urgent: true}}
  safety_baseline:
    keyword_check: {enabled: true, crisis_keywords: [kill], crisis_action: end_session}
    failure_handling: {fallback_strategy: use_previous, max_retries: 2}
examples:
  - description: named outright
    input:
      messages:
        - {role: client, content: Hello}
        - {role: therapist, content: "Yes?"}
        - {role: client, content: I never said that}
    expected_output: {contradiction_detected: true, contradiction_type: factual, confidence: 0.9}
  - description: only a model can tell
    input: {messages: [{role: user, content: I slept well and not at all}]}
    expected_output: {contradiction_detected: true, contradiction_type: emotional}
  - description: nothing
    input: {messages: [{role: user, content: I slept well}]}
    expected_output: {contradiction_detected: false}
"""


def read(text: str):
    reading = read_script(Source(text, "c.yaml"))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    return reading


def test_other_detectors_are_read_by_the_shape_of_their_parts() -> None:
    detector = read(CONTRADICTION).script.detectors[0]
    assert (detector.id, detector.title, detector.on) == ("contradiction_v2", "Contradictions", "both")
    assert (detector.cooldown, detector.look_back, detector.min_messages, detector.threshold) == (3, 12, 3, 0.6)
    assert detector.on_failure == "use_previous"
    rules = {rule.label: rule for rule in detector.rules}
    assert rules["factual"].words == ("I never said that", "that is not what happened")
    assert rules["factual"].severity == 0.9
    assert rules["crisis"].always is True
    assert rules["contradiction_v2"].words == ("on second thought",)
    for reported in (
        "contradicts what they said",
        "Two statements cannot",
        "factual: they described",
        "Words and feeling",
    ):
        assert reported in detector.define


def test_its_actions_act_on_what_was_detected() -> None:
    stop, keep, look, summon = read(CONTRADICTION).script.detectors[0].actions
    assert isinstance(stop, End)
    assert stop.when.source == 'detected.label == "crisis"'
    assert isinstance(keep, Set)
    assert keep.assignments["last_contradiction"].source == "detected.label"
    assert isinstance(look, Emit)
    assert (
        look.when.source == """(detected.severity >= 0.7 and detected.label != "x") and detected.label != "crisis\""""
    )
    assert isinstance(summon, Emit)
    assert summon.signal.event == "summon_supervisor"
    assert {name: value.source for name, value in summon.signal.data.items() if name in {"team", "urgent"}} == {
        "team": '"night"',
        "urgent": "true",
    }


def test_a_safety_word_with_an_action_is_nothing_else() -> None:
    _, *others = read(CONTRADICTION).script.detectors[0].actions
    assert [action.when.source.endswith('detected.label != "crisis"') for action in others] == [True] * 3
    without = CONTRADICTION.replace(", crisis_action: end_session", "")
    keep, look, summon = read(without).script.detectors[0].actions
    assert (keep.when, summon.when) == (None, None)
    assert "crisis" not in look.when.source
    about = CONTRADICTION.replace("label != 'x'", "label == 'crisis'")
    assert read(about).script.detectors[0].actions[2].when.source.count("crisis") == 1
    looked_for = CONTRADICTION.replace("type: factual", "type: crisis")
    assert read(looked_for).script.detectors[0].actions[1].when is None


def test_its_examples_run_and_those_that_need_a_model_say_so() -> None:
    outcomes = [
        (each.name, each.passed, each.untested) for each in run_examples(read(CONTRADICTION).script.detectors[0])
    ]
    assert outcomes == [
        ("named outright", True, False),
        ("only a model can tell", False, True),
        ("nothing", True, False),
    ]


def test_a_key_without_effect_is_reported_where_it_is() -> None:
    lines = CONTRADICTION.splitlines()
    reported = [problem for problem in read(CONTRADICTION).problems if problem.code == "KEY_IGNORED"]
    assert {problem.severity for problem in reported} == {"note"}
    at = {lines[problem.line - 1].strip().partition(":")[0].lstrip("{ -") for problem in reported}
    assert {"template_path", "output_format", "failure_handling", "expected_output", "thresholds"} <= at


def test_it_converts_to_a_native_file_of_the_same_detector() -> None:
    reading = read(CONTRADICTION)
    converted = convert(reading.script, reading)
    again = read(converted.text)
    assert again.problems == ()
    assert without_places(again.script).detectors == without_places(reading.script).detectors
    assert "# Not carried over: template_path: prompts/contradiction.md" in converted.text
    assert "# Not carried over: max_retries: 2" in converted.text
    once_more = convert(again.script, again)
    assert without_places(read(once_more.text).script).detectors == without_places(again.script).detectors


def test_as_a_side_file_it_is_a_detector_of_the_script() -> None:
    script = """
script: s
use: [c.yaml]
phases: [{phase: p, topics: [{topic: t, actions: [{say: "{{ last_contradiction }}", id: a}]}]}]
interrupts: [{interrupt: i, on: {detector: contradiction_v2}, do: [{say: "{{ detected.label }}", id: b}]}]
"""
    reading = read_script(Source(script, "s.yaml", {"c.yaml": CONTRADICTION}))
    assert [problem for problem in reading.problems if problem.severity != "note"] == []
    assert [each.id for each in reading.script.detectors] == ["contradiction_v2"]


def test_by_itself_it_is_a_conversation_that_it_listens_to() -> None:
    assert is_script(Source(CONTRADICTION))
    assert not is_script(Source("detectors: [{detector: d, rules: [{words: a}]}]"))
    script = read(CONTRADICTION).script
    assert (script.id, script.form, len(script.phases)) == ("contradiction_v2", "consciousness", 1)


def test_what_is_missing_or_wrong_is_reported_not_raised() -> None:
    nameless = read_script(Source("consciousness: {trigger_config: [1], detection_config: 5}", "c.yaml"))
    assert [problem.code for problem in nameless.errors] == ["REQUIRED_FIELD_MISSING"]
    odd = """
consciousness:
  consciousness_id: odd one!
  trigger_config: {cooldown_rounds: many}
  detection_config: {list: [[1, 2], {a: {keywords: [x]}}], thresholds: {confidence_threshold: 70}}
  output_config:
    trigger_actions: [{config: {}}, say_hello, {action_type: conditional_notify, config: {condition: ") ("}}]
examples: [1, {input: {}}, {messages: hello, expected: {detected: false}}]
other: 1
"""
    problems = read_script(Source(odd, "c.yaml")).problems
    assert {problem.code for problem in problems if problem.severity == "error"} == {
        "ACTION_TYPE_UNKNOWN",
        "EXPRESSION_INVALID",
        "REQUIRED_FIELD_MISSING",
    }
    assert [problem.severity for problem in problems if problem.code == "UNKNOWN_KEY"] == ["warning"]
    strict = read_script(Source(odd, "c.yaml"), "strict").problems
    assert [problem.severity for problem in strict if problem.code == "UNKNOWN_KEY"] == ["error"]


RISK = """
consciousness:
  consciousness_id: leaving
  detection_config:
    risk_factors:
      - {factor: tired, keywords: [waste of time], weight: 0.9, severity: high}
    risk_levels:
      - {level: low, range: [0, 0.5], meaning: goes on}
      - {level: high, range: [0.5, 1]}
  output_config:
    trigger_actions:
      - {action_type: update_session_state, config: {state_key: risk_score}}
      - {action_type: log_event, config: {event_type: leaving_soon, condition: "risk_score >= 0.6"}}
      - {action_type: log_event, config: {event_type: call_someone, condition: "risk_level == high and risk_detected"}}
examples:
  - input: {messages: [{role: user, content: It is a waste of time}]}
    expected_output: {dropout_risk: true}
  - input: {messages: [{role: user, content: I like it here}]}
    expected_output: {dropout_risk: false, risk_level: low}
"""


def test_scores_and_levels_are_those_of_the_detection() -> None:
    (detector,) = read_script(Source(RISK)).script.detectors
    assert [action.when.source for action in detector.actions if isinstance(action, Emit)] == [
        "detected.score >= 0.6",
        "(detected.severity >= 0.9) and true",
    ]
    assert next(each for each in detector.actions if isinstance(each, Set)).assignments["risk_score"].source == (
        "detected.score"
    )


def test_a_stored_level_is_the_word_for_it_if_there_is_one() -> None:
    text = """
consciousness:
  consciousness_id: leaving
  detection_config: {risk_levels: [{level: high, keywords: [bye]}, {level: low, keywords: [well]}]}
  output_config:
    trigger_actions:
      - {action_type: update_session_state, config: {state_key: risk_level}}
      - {action_type: update_session_state, config: {state_key: severity}}
      - {action_type: say, config: {message: "A {risk_level} risk."}}
"""
    (detector,) = read_script(Source(text)).script.detectors
    level, severity, said = detector.actions
    assert level.assignments["risk_level"].source == "detected.label"
    assert severity.assignments["severity"].source == "detected.severity"
    assert said.texts[0].source == "A {{ detected.label }} risk."


def test_levels_of_a_risk_measure_nothing() -> None:
    (detector,) = read_script(Source(RISK)).script.detectors
    assert detector.measures == ()
    assert "low: goes on" in detector.define


def test_a_truth_that_stands_first_is_the_verdict_of_an_example() -> None:
    (detector,) = read_script(Source(RISK)).script.detectors
    assert [each.detected for each in detector.examples] == [True, False]


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("{action_type: update_session_state, config: {value: 3}}", "REQUIRED_FIELD_MISSING"),
        ("{config: {message: Hello}}", "ACTION_TYPE_UNKNOWN"),
        ("{action_type: say, config: {message: Hello, then: [{action_type: end}]}}", "UNKNOWN_KEY"),
    ],
)
@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_an_action_that_would_not_be_done_is_an_error(action, code, mode) -> None:
    text = "consciousness: {consciousness_id: a, detection_config: {keywords: [b]}, output_config: {trigger_actions: ["
    reading = read_script(Source(text + action + "]}}"), mode)
    assert reading.script is None
    assert code in {problem.code for problem in reading.errors}


@pytest.mark.parametrize("place", ["trigger_actions", "actions", "on_detection"])
@pytest.mark.parametrize("inside", [True, False])
def test_actions_that_stand_elsewhere_are_an_error(place, inside) -> None:
    actions = f"{place}: [{{action_type: say, config: {{message: Hello}}}}]"
    detects = f"keywords: [b], {actions}}}" if inside else f"keywords: [b]}}, {actions}"
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, detection_config: {{{detects}}}"))
    assert [(each.code, each.severity) for each in reading.problems] == [("UNKNOWN_KEY", "error")]
    assert "trigger_actions" in reading.problems[0].fix


def test_actions_by_type_alone_are_an_error_elsewhere() -> None:
    text = (
        "consciousness: {consciousness_id: a, detection_config: {keywords: [b]}, actions: [{type: say, text: Hello}]}"
    )
    assert [each.code for each in read_script(Source(text)).problems] == ["UNKNOWN_KEY"]


def test_one_action_needs_no_list() -> None:
    action = "{action_type: say, config: {message: Hello}}"
    text = "consciousness: {consciousness_id: a, detection_config: {keywords: [b]}, output_config: {trigger_action: "
    reading = read_script(Source(text + action + "}}"))
    assert reading.script is not None, reading.errors
    assert len(reading.script.detectors[0].actions) == 1


EMOTIONS = """
consciousness:
  consciousness_id: emotions
  trigger_config: {cooldown_rounds: "1"}
  detection_config:
    min_confidence: 0.5
    emotion_dimensions: [{dimension: valence, range: [-1, 1], threshold: 0.3}]
    primary_emotions:
      - {emotion: joy, valence: 0.8, synonyms: [happy]}
      - {emotion: sadness, valence: -0.7, keywords: [sad]}
    change_patterns:
      - {pattern: sudden_drop, detection_criteria: {message_span: 2, valence_change: -0.5}}
  output_config:
    trigger_actions:
      - {action_type: notify, config: {condition: "change_detected == true && valence < 0"}}
  examples:
    - input: {messages: [{content: I am so happy}, {content: but work makes me sad}]}
      expected_output: {change_detected: true, change_pattern: sudden_drop}
"""


def test_names_of_a_detector_may_have_any_order_and_casing() -> None:
    part = """
    consciousness:
      consciousness_id: emotions
      detection_config:
        emotion_dimensions: [{threshold: 0.3, description: how good, range: [-1, 1], dimension: valence}]
        primary_emotions: [{chinese: 难过, valence: -0.7, emotion: sadness}]
        change_patterns:
          - description: a sudden fall
            clinical_significance: look closely
            detectionCriteria: {messageSpan: 2, valenceChange: -0.5}
            pattern: sudden_drop
        risk_levels: [{level: high, name: 高风险, triggers: [绝望]}]
    """
    detector = read(part).script.detectors[0]
    assert (detector.measures[0].name, detector.signs[0].label) == ("valence", "sadness")
    assert (detector.patterns[0].id, detector.patterns[0].courses[0].drop) == ("sudden_drop", 0.5)
    assert detector.rules[0].label == "high"


def test_words_of_a_measured_state_detect_nothing_alone() -> None:
    reading = read_script(Source(EMOTIONS))
    (detector,) = reading.script.detectors
    assert reading.problems == ()
    assert (detector.rules, detector.threshold, detector.cooldown) == ((), 0.5, 1)
    assert [sign.words for sign in detector.signs] == [("joy", "happy"), ("sadness", "sad")]
    assert [action.when.source for action in detector.actions] == [
        'true in [true, "true"] and detected.now.valence < 0'
    ]
    assert [each.passed for each in run_examples(detector)] == [True]


@pytest.mark.parametrize(
    "baseline",
    [
        "{crisis_keywords: [suicide, want to die]}",
        "{crisis_keywords: 'suicide, want to die'}",
        "{crisis_words: suicide、want to die}",
        "{crisis_keywords: [{severity: critical, word: suicide}, {words: [want to die]}]}",
        "{keyword_check: {enabled: true, crisis_keywords: {death: [suicide, want to die]}}}",
        "{keyword_check: {categories: {death: [suicide, want to die]}}}",
        "{crisis_detection: {enabled: true, phrases: [suicide, want to die]}}",
    ],
)
def test_crisis_words_are_watched_however_they_are_listed(baseline) -> None:
    text = f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [b]}}, safety_baseline: {baseline}}}"
    reading = read_script(Source(text))
    (detector,) = reading.script.detectors
    assert reading.problems == ()
    assert [(rule.words, rule.label, rule.always) for rule in detector.rules] == [
        (("suicide", "want to die"), "crisis", True),
        (("b",), "a", None),
    ]


@pytest.mark.parametrize(
    "baseline",
    [
        "{crisis_action: call_someone, crisis_keywords: [suicide]}",
        "{crisis_keywords: [suicide], crisis_action: call_someone}",
        "{crisis_detection: {keywords: [suicide], action: call_someone}}",
    ],
)
def test_the_action_for_crisis_words_may_stand_beside_them(baseline) -> None:
    text = f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [b]}}, safety_baseline: {baseline}}}"
    (action,) = read_script(Source(text)).script.detectors[0].actions
    assert (action.signal.event, action.when.source) == ("call_someone", 'detected.label == "crisis"')


def test_crisis_words_under_an_unknown_key_are_reported() -> None:
    baseline = "{crisis_keywords: [{word: suicide}, {term: want to die}]}"
    text = f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [b]}}, safety_baseline: {baseline}}}"
    reading = read_script(Source(text))
    assert [rule.words for rule in reading.script.detectors[0].rules] == [("suicide",), ("b",)]
    assert [(each.code, each.severity) for each in reading.problems] == [("KEY_IGNORED", "warning")]


@pytest.mark.parametrize(
    "body",
    [
        "enabled: false, detection_config: {keywords: [b]}",
        "detection_config: {signs: [{type: x, keywords: [b], enabled: false}]}",
        "detection_config: {keywords: [b]}, output_config: {trigger_actions: [{action_type: notify, disabled: true}]}",
        "detection_config: {keywords: [b]}, output_config: {trigger_actions: [{action_type: say, disabled: true}]}",
        "detection_config: {keywords: [b]}, output_config: {enabled: false, trigger_actions: [notify]}",
        "detection_config: {keywords: [b]}, trigger_config: {enabled: false}",
    ],
)
def test_a_part_that_is_switched_off_is_an_error(body) -> None:
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, {body}}}"))
    assert [each.code for each in reading.errors] == ["UNKNOWN_KEY"]


def test_crisis_words_that_are_turned_off_are_not_watched() -> None:
    baseline = "{keyword_check: {enabled: false, crisis_keywords: {death: [suicide]}}}"
    text = f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [b]}}, safety_baseline: {baseline}}}"
    reading = read_script(Source(text))
    assert [rule.words for rule in reading.script.detectors[0].rules] == [("b",)]
    assert [problem.code for problem in reading.problems] == ["KEY_IGNORED"]


def test_keywords_may_be_one_text() -> None:
    text = "consciousness: {consciousness_id: a, detection_config: {keywords: '头痛，失眠、tired out'}}"
    assert read_script(Source(text)).script.detectors[0].rules[0].words == ("头痛", "失眠", "tired out")


SCALED = """
consciousness:
  consciousness_id: a
  detection_config:
    signs: [{{type: x, keywords: [b], severity: {}}}, {{type: y, keywords: [c], severity: {}}}]
  output_config:
    trigger_actions:
      - action_type: notify
        config: {{condition: "{}"}}
"""


def test_a_change_below_zero_is_a_fall() -> None:
    patterns = read_script(Source(EMOTIONS)).script.detectors[0].patterns
    drop = next(each for each in patterns if each.id == "sudden_drop")
    assert holds(drop, {"valence": [0.6, -0.6]}) == 2
    assert holds(drop, {"valence": [-0.6, 0.6]}) == 0


def first_action(action: str):
    text = "consciousness: {consciousness_id: a, detection_config: {keywords: [b]}, output_config: {trigger_actions: ["
    reading = read_script(Source(text + action + "]}}"))
    assert reading.script is not None, reading.errors
    return reading.script.detectors[0].actions[0]


@pytest.mark.parametrize(
    ("condition", "holds_at"),
    [
        ("severity >= high", [0.9, 1.0]),
        ("severity > high", [1.0]),
        ("severity < 'high'", [0.1, 0.3, 0.6]),
        ("severity <= medium", [0.1, 0.3, 0.6]),
        ("severity > medium", [0.9, 1.0]),
        ("severity >= low", [0.1, 0.3, 0.6, 0.9, 1.0]),
        ("severity > low", [0.6, 0.9, 1.0]),
        ("severity != 'low'", [0.6, 0.9, 1.0]),
        ("severity in ['medium', 'critical']", [0.6, 1.0]),
        ("severity in (medium, critical)", [0.6, 1.0]),
        ("risk_level not in ['low', 'medium']", [0.9, 1.0]),
    ],
)
def test_degrees_in_words_compare_as_numbers(evaluate, condition, holds_at) -> None:
    when = first_action(f'{{action_type: notify, config: {{condition: "{condition}"}}}}').when
    found = [
        degree for degree in (0.1, 0.3, 0.6, 0.9, 1.0) if evaluate(when.source, detected={"severity": degree}).value
    ]
    assert found == holds_at


@pytest.mark.parametrize(
    ("severities", "condition", "read_as", "when"),
    [
        (("1", "5"), "severity >= 4", [0.2, 1.0], "detected.severity >= 0.8"),
        (
            ("1", "8"),
            "severity >= 8 && confidence > 70",
            [0.1, 0.8],
            "detected.severity >= 0.8 and detected.score > 0.7",
        ),
        (("20", "80"), "severity > 50", [0.2, 0.8], "detected.severity > 0.5"),
        (("1", "1"), "severity >= 1", [1.0, 1.0], "detected.severity >= 1"),
    ],
)
def test_whole_number_severities_share_a_scale_that_is_reported(severities, condition, read_as, when) -> None:
    text = SCALED.format(*severities, condition)
    reading = read_script(Source(text))
    (detector,) = reading.script.detectors
    assert [rule.severity for rule in detector.rules] == read_as
    assert detector.actions[0].when.source == when
    (problem,) = reading.problems
    assert (problem.code, problem.severity, problem.line) == ("CONSTRAINT_VIOLATION", "warning", 5)


@pytest.mark.parametrize(
    ("timing", "on"),
    [
        ("after_each_user_message", "user"),
        ("every_user_message", "user"),
        ("after_every_ai_response", "assistant"),
        ("each_user_and_assistant_message", "both"),
        ("after_every_message", "both"),
        ("after_ai_reply", "assistant"),
        ("每次用户发言后", "user"),
        ("助手回复前", "user"),
        ("每条消息后", "both"),
        ("助手发言后", "assistant"),
    ],
)
def test_the_timing_names_whose_messages_are_watched(timing, on) -> None:
    parts = f"trigger_config: {{trigger_timing: {timing}}}, detection_config: {{keywords: [b]}}"
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, {parts}}}"))
    assert reading.script.detectors[0].on == on


@pytest.mark.parametrize(
    "timing", ["every morning", "every 3 rounds", "every_2_user_messages", "daily", "每天早上", "每3轮"]
)
def test_a_timing_by_the_clock_or_by_rounds_is_reported(timing) -> None:
    parts = f"trigger_config: {{trigger_timing: {timing}}}, detection_config: {{keywords: [b]}}"
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, {parts}}}"))
    assert reading.script.detectors[0].on == "user"
    (problem,) = reading.problems
    assert (problem.code, problem.line) == ("KEY_IGNORED", 1)
    assert "`after_user_message`" in problem.fix


def test_words_may_be_grouped_by_their_severity() -> None:
    detection = "{keywords: {high: [die, kill], low: [sad], other: [hm]}, min_confidence: 60%}"
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, detection_config: {detection}}}"))
    (detector,) = reading.script.detectors
    assert detector.threshold == 0.6
    assert [(each.words, each.label, each.severity) for each in detector.rules] == [
        (("die", "kill"), "high", 0.9),
        (("sad",), "low", 0.3),
        (("hm",), "other", None),
    ]


def test_a_group_of_words_to_leave_out_is_reported() -> None:
    detection = "{keywords: {include: [die], exclude: [diet]}}"
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, detection_config: {detection}}}"))
    assert [each.words for each in reading.script.detectors[0].rules] == [("die",)]
    assert [(each.code, each.severity) for each in reading.problems] == [("KEY_IGNORED", "warning")]


def test_an_unknown_degree_of_severity_is_reported() -> None:
    reading = read_script(Source(SCALED.format("red", "low", "severity > 0.5")))
    assert [(each.code, each.severity) for each in reading.problems] == [("ENUM_VALUE_INVALID", "warning")]


@pytest.mark.parametrize(
    "detection",
    [
        "{keywords: {critcal: [die], low: [sad]}}",
        "{signs: [{sign: a, keywords: [die], severity: critcal}]}",
        "{patterns: [{pattern: a, description: b, severity: Critcal, detection_criteria: {times: 3}}]}",
    ],
)
def test_misspelt_severity_is_reported_with_the_right_one(detection) -> None:
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, detection_config: {detection}}}"))
    (problem,) = reading.problems
    assert (problem.code, problem.fix) == ("ENUM_VALUE_INVALID", "Did you mean `critical`?")


@pytest.mark.parametrize(
    ("word", "degree"), [("高风险", 0.9), ("very high", 1.0), ("极其严重", 1.0), ("low_risk", 0.3)]
)
def test_degrees_of_severity_have_several_words(word, degree) -> None:
    reading = read_script(Source(SCALED.format(word, "low", f"severity == '{word}'")))
    assert reading.script.detectors[0].rules[0].severity == degree
    assert reading.problems == ()


def test_a_severity_of_one_beside_shares_is_the_highest() -> None:
    reading = read_script(Source(SCALED.format("0.5", "1", "severity > 0.5")))
    assert [rule.severity for rule in reading.script.detectors[0].rules] == [0.5, 1.0]
    assert reading.problems == ()


@pytest.mark.parametrize("condition", ["severity == red", "severity in ['red', 'high']", "severity > 3"])
def test_a_severity_that_no_detection_has_is_an_error(condition) -> None:
    reading = read_script(Source(SCALED.format("low", "high", condition)))
    assert [(each.code, each.line) for each in reading.errors] == [("EXPRESSION_INVALID", 9)]


def test_a_threshold_beside_the_words_is_that_of_the_confidence() -> None:
    config = "{threshold: 0.5, types: [{type: tired, patterns: [worn out], weight: 0.6}]}"
    detector = detector_with(detection_config=config)
    assert detector.threshold == 0.5
    assert [(rule.words, rule.label, rule.score) for rule in detector.rules] == [(("worn out",), "tired", 0.6)]


def test_placeholders_in_values_and_texts_are_replaced() -> None:
    state = first_action("{action_type: update_state, config: {state_key: last, state_value: '{risk_type}'}}")
    assert state.assignments["last"].source == "detected.label"
    update = first_action("{action_type: update_state, config: {variable: last, value: '{label} of {name}'}}")
    assert update.assignments["last"].source == 'detected.label ~ " of " ~ name'
    listed = first_action("{action_type: notify, config: {tags: ['{label}', {about: '{words}'}]}}")
    assert listed.signal.data["tags"].source == '[detected.label, {"about": detected.words}]'
    notify = first_action("{action_type: notify, config: {message: 'Look: {words}', level: 3}}")
    assert (notify.signal.data["message"].source, notify.signal.data["level"].source) == (
        '"Look: " ~ detected.words',
        "3",
    )
    say = first_action("{action_type: say, config: {message: 'I heard {words}, {name}'}}")
    assert say.texts[0].source == "I heard {{ detected.words }}, {{ name }}"


@pytest.mark.parametrize("trigger", ["cooldown_seconds: 300", "cooldown_minutes: 5", "cooldown: 60s"])
def test_a_cooldown_in_time_is_reported(trigger) -> None:
    text = f"consciousness: {{consciousness_id: a, trigger_config: {{{trigger}}}, detection_config: {{keywords: [b]}}}}"
    reading = read_script(Source(text))
    assert reading.script.detectors[0].cooldown == 0
    assert [(each.code, each.severity) for each in reading.problems] == [("KEY_IGNORED", "warning")]
    assert "cooldown_rounds" in reading.problems[0].fix


def detector_with(**parts: str):
    body = ", ".join(f"{key}: {value}" for key, value in parts.items())
    reading = read_script(Source(f"consciousness: {{consciousness_id: a, {body}}}"))
    assert reading.script is not None, reading.errors
    return reading.script.detectors[0]


@pytest.mark.parametrize(
    ("config", "when"),
    [
        ("conditions: [severity > 0.5, score > 0.6]", "(detected.severity > 0.5) and (detected.score > 0.6)"),
        ("condition: {field: severity, operator: '>=', value: 0.7}", "detected.severity >= 0.7"),
        ("if: severity >= high", "detected.severity >= 0.9"),
    ],
)
def test_condition_of_a_response_may_be_written_in_several_ways(config, when) -> None:
    for action in (f"{{action_type: notify, config: {{{config}}}}}", f"{{notify: {{{config}}}}}"):
        assert first_action(action).when.source == when


def test_a_condition_must_be_a_text() -> None:
    for config, found in (
        ("{condition: {severity: high}}", ("EXPRESSION_INVALID", "error")),
        ("{min_severity: 0.7}", ("KEY_IGNORED", "warning")),
    ):
        actions = f"output_config: {{trigger_actions: [{{action: notify, config: {config}}}]}}"
        text = f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [x]}}, {actions}}}"
        assert [(each.code, each.severity) for each in read_script(Source(text)).problems] == [found]


@pytest.mark.parametrize(
    ("timing", "on"), [("before_ai_response", "user"), ("before_reply", "user"), ("after_ai_response", "assistant")]
)
def test_a_detector_that_looks_before_the_reply_watches_the_user(timing, on) -> None:
    assert detector_with(trigger_config=f"{{trigger_timing: {timing}}}", detection_config="{keywords: [x]}").on == on


@pytest.mark.parametrize("off", ["enabled: no", "enabled: false", "disabled: true"])
def test_crisis_words_that_are_switched_off_are_not_watched(off) -> None:
    safety = f"{{keyword_check: {{{off}, crisis_keywords: [die]}}}}"
    found = detector_with(detection_config="{keywords: [x]}", safety_baseline=safety)
    assert [rule.words for rule in found.rules] == [("x",)]


def test_a_detector_that_is_switched_off_is_an_error() -> None:
    text = "consciousness: {consciousness_id: a, trigger_config: {enabled: no}, detection_config: {keywords: [x]}}"
    assert [each.code for each in read_script(Source(text)).errors] == ["UNKNOWN_KEY"]


def test_protective_factors_are_no_signs() -> None:
    entries = "[{factor: family, keywords: [son]}]"
    found = detector_with(detection_config=f"{{keywords: [x], protective_factors: {entries}}}")
    assert [rule.words for rule in found.rules] == [("x",)]


@pytest.mark.parametrize(
    "text",
    [
        "consciousness: [{consciousness_id: a, detection_config: {keywords: [x]}}]",
        "consciousness_id: a\ndetection_config: {keywords: [x]}\nmetadata: {name: A}",
        "consciousness: {consciousnessId: a, detectionConfig: {keywords: [x]}}",
    ],
)
def test_a_detector_may_be_written_in_other_shapes(text) -> None:
    reading = read_script(Source(text))
    assert [(each.id, each.rules[0].words) for each in reading.script.detectors] == [("a", ("x",))]
    assert {each.code for each in reading.problems} <= {"DEPRECATED_KEY"}


def test_a_second_detector_in_a_file_is_an_error() -> None:
    reading = read_script(Source("consciousness: [{consciousness_id: a, keywords: [x]}, {consciousness_id: b}]"))
    assert [each.code for each in reading.errors] == ["TYPE_MISMATCH"]


@pytest.mark.parametrize("ends", ["range: '-1 ~ 1'", "range: [-1, 1]", "min: -1, max: 1", "range: -1 to 1"])
def test_the_ends_of_a_measure_may_be_written_in_several_ways(ends) -> None:
    found = detector_with(detection_config=f"{{dimensions: [{{dimension: mood, {ends}, threshold: 0.2}}]}}")
    assert [(each.name, each.min, each.max, each.significant) for each in found.measures] == [("mood", -1, 1, 0.2)]


@pytest.mark.parametrize(("criteria", "define"), [("mood < 3", "(mood < 3)"), ("[low, for days]", "(low; for days)")])
def test_criteria_in_words_are_for_the_model(criteria, define) -> None:
    patterns = f"[{{pattern: low, detection_criteria: {criteria}}}]"
    found = detector_with(detection_config=f"{{patterns: {patterns}}}")
    assert [(each.id, each.define) for each in found.patterns] == [("low", define)]


@pytest.mark.parametrize(
    ("message", "expected", "detected"),
    [("{message: I die}", "{detected: yes}", True), ("{user_message: I live}", "{found: no}", False)],
)
def test_an_example_may_be_one_message_and_its_result_a_word(message, expected, detected) -> None:
    examples = f"[{{input: {message}, expected_output: {expected}}}]"
    (example,) = detector_with(detection_config="{keywords: [die]}", examples=examples).examples
    assert (len(example.messages), example.detected) == (1, detected)


def test_words_without_a_label_have_that_of_the_detector() -> None:
    text = "consciousness: {consciousness_id: 情绪低落, keywords: [难过], crisis_keywords: [不想活]}"
    (detector,) = read(text).script.detectors
    assert [(rule.words, rule.label) for rule in detector.rules] == [(("难过",), "情绪低落"), (("不想活",), "crisis")]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("consciousness_id: mood\nkeywords: [难过, 想哭]", "zh"),
        ("consciousness_id: mood\nkeywords: [sad]\ndescription: 情绪低落", "zh"),
        ("consciousness_id: mood\nconsciousness_name: Low mood\nkeywords: [sad, 难过]", "en"),
        (
            "consciousness_id: mood\nconsciousness_name: 情绪\nkeywords: [难过]\n"
            "output_config: {trigger_actions: [{action_type: say, config: {text: I hear you.}}]}",
            "en",
        ),
        ("cuebook: 1\ndetectors: [{detector: mood, rules: [{words: [难过], label: 情绪}]}]", "zh"),
        (
            "technique_id: calm\ntopic: {topic_id: t, actions: [{action_type: ai_say, action_id: a, content: 慢慢来}]}",
            "zh",
        ),
    ],
)
def test_a_detector_or_technique_answers_in_its_own_language(text: str, language: str) -> None:
    assert own_locale(read(text).script) == language


def test_detector_may_be_in_camel_case_without_an_outer_key() -> None:
    text = "consciousnessId: off_topic\ndetectionConfig: {keywords: [football]}\ntriggerConfig: {cooldownRounds: 3}"
    reading = read(text)
    (detector,) = reading.script.detectors
    assert (detector.id, detector.cooldown, {each.code for each in reading.problems}) == (
        "off_topic",
        3,
        {"DEPRECATED_KEY"},
    )
    assert is_script(Source(text))


@pytest.mark.parametrize("key", ["level", "anger_level", "等级", "情绪类型"])
def test_an_example_may_expect_a_level(key: str) -> None:
    reading = read(
        "consciousness: {consciousness_id: anger, detection_config: {levels: [{level: 重度, keywords: [气死了]}]}}\n"
        f"examples: [{{messages: [{{content: 气死了}}], expected: {{detected: true, {key}: 重度}}}}]"
    )
    assert reading.problems == ()
    assert reading.script.detectors[0].examples[0].label == "重度"


def test_an_empty_group_of_words_leaves_the_others() -> None:
    reading = read(
        "consciousness: {consciousness_id: a, detection_config: {keywords: {高: [心慌], 中: [紧张], 低: [], 无: }}}"
    )
    rules = reading.script.detectors[0].rules
    assert [(rule.words, rule.label, rule.severity) for rule in rules] == [
        (("心慌",), "高", 0.9),
        (("紧张",), "中", 0.6),
    ]


@pytest.mark.parametrize(
    ("written", "code", "fix"),
    [
        ("{keywords: [心慌，害怕]}", "LIST_UNSEPARATED", "Separate the items with `, `: `[心慌, 害怕]`."),
        ("{keywords: [心慌], threshold: 很高}", "ENUM_VALUE_INVALID", "Did you mean `高`?"),
        ("{keywords: [心慌], confidence: surely}", "ENUM_VALUE_INVALID", None),
    ],
)
def test_words_in_one_item_and_degrees_in_words_are_reported(written: str, code: str, fix: str | None) -> None:
    (problem,) = read(f"consciousness: {{consciousness_id: a, detection_config: {written}}}").problems
    assert (problem.code, problem.severity) == (code, "warning")
    assert fix is None or problem.fix == fix


def test_a_misspelt_key_of_words_is_reported() -> None:
    (problem,) = read("consciousness: {consciousness_id: a, detection_config: {kewords: [心慌, 害怕]}}").problems
    assert (problem.code, problem.severity, problem.fix) == ("UNKNOWN_KEY", "warning", "Did you mean `keywords`?")


def test_reply_beside_the_words_of_a_label_is_for_it_alone() -> None:
    levels = "levels: {high: {keywords: [heavy], response: 'Call now, {name}.'}, low: {keywords: [tired]}}"
    reading = read(f"consciousness: {{consciousness_id: a, detection_config: {{{levels}}}}}")
    (action,) = reading.script.detectors[0].actions
    assert isinstance(action, Say)
    assert (action.texts[0].source, action.when.source) == ("Call now, {{ name }}.", 'detected.label == "high"')
    assert "KEY_IGNORED" not in {each.code for each in reading.problems}


@pytest.mark.parametrize(
    "kind", ["send_message", "inject_response", "show_text", "auto_reply", "safety_message", "reply"]
)
def test_a_response_with_a_text_is_said(kind: str) -> None:
    responses = f"trigger_actions: [{{action_type: {kind}, config: {{message: Breathe.}}}}]"
    reading = read(
        "consciousness: {consciousness_id: a, detection_config: {keywords: [tired]}, output_config: {"
        + responses
        + "}}"
    )
    (action,) = reading.script.detectors[0].actions
    assert isinstance(action, Say)
    assert action.texts[0].source == "Breathe."


@pytest.mark.parametrize("key", ["crisis_response", "reply", "safety_message"])
def test_a_reply_beside_crisis_words_is_said_for_them(key: str) -> None:
    baseline = f"keyword_check: {{enabled: true, crisis_keywords: [end it all], {key}: Please call 112.}}"
    reading = read(f"consciousness: {{consciousness_id: a, safety_baseline: {{{baseline}}}}}")
    (action,) = reading.script.detectors[0].actions
    assert isinstance(action, Say)
    assert (action.texts[0].source, action.when.source) == ("Please call 112.", 'detected.label == "crisis"')
    assert reading.problems == ()


@pytest.mark.parametrize(
    "part",
    [
        "detection_config: {risk_levels: [{level: high, description: acute, action: alert_team}]}",
        "detection_config: {rupture_markers: [you are wrong, whatever]}",
        "detection_config: {rupture_markers: {withdrawal: [whatever], attack: [you are wrong]}}",
        "detection_config: {phrases: ['I.*tired']}",
        "trigger_config: {trigger_conditions: [{type: message_count, value: 3}]}",
        "trigger_config: {exclude_phases: [opening]}",
        "safety_baseline: {failure_handling: {fallback_strategy: assume_risk}}",
    ],
)
def test_what_would_not_be_done_or_searched_for_is_a_warning(part: str) -> None:
    more = "" if part.startswith("detection") else ", detection_config: {keywords: [x]}"
    (problem,) = read(f"consciousness: {{consciousness_id: a, {part}{more}}}").problems
    assert (problem.severity, bool(problem.fix)) == ("warning", True)


def test_actions_may_be_listed_by_their_occasion() -> None:
    responses = "output_config: {on_detect: [{action_type: notify}, {say: Hello}]}"
    reading = read_script(
        Source(f"consciousness: {{consciousness_id: a, detection_config: {{keywords: [x]}}, {responses}}}")
    )
    assert [each.code for each in reading.errors] == ["ACTION_TYPE_UNKNOWN"]


def test_a_part_that_is_switched_on_is_as_without_the_key() -> None:
    reading = read("consciousness: {consciousness_id: a, detection_config: {keywords: [x], enabled: true}}")
    assert reading.problems == ()


@pytest.mark.parametrize(
    "part",
    [
        "safety_baseline: {keyword_check: {crisis_keywords: [x], crisis_action: end_session, crisis_response: Bye.}}",
        "detection_config: {words: [x], risk: {keywords: [y], reply: Bye.}}, output_config: {actions: [end_session]}",
        "detection_config: {keywords: [x]}, output_config: {actions: [{type: end_session, message: Bye.}]}",
    ],
)
def test_what_is_said_at_an_end_comes_before_it(part: str) -> None:
    actions = read(f"consciousness: {{consciousness_id: a, {part}}}").script.detectors[0].actions
    assert [type(each) for each in actions] == [Say, End]
    assert actions[0].texts[0].source == "Bye."
