"""Detectors while a session runs: they act on words, measures and a model's verdict, and never cost a turn."""

import pytest

from runtime.models.offline_model import OfflineModel
from runtime.state.events import ActionLeft, Detected, Emitted, Interrupted, Waiting
from runtime.state.inputs import ChoiceInput, FormInput, Reply, SetVariables
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from runtime.state.state import decode
from tests.support.runtime_session import NewSession, StartSession

HEAD = "script: t\n"
BODY = """
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: "How old are you?", id: age, output: [{get: age, type: number}], max_rounds: 2}
          - {ask: "Where do you live?", id: town, output: [{get: town}]}
          - {say: "Thank you.", id: thanks}
"""
CRISIS = """
detectors:
  - detector: crisis
    rules:
      - {words: [suicide, 自杀], label: danger}
      - {words: [tired], label: worn_out, score: 0.8}
    cooldown: 2
    do:
      - {emit: {event: alert, data: {label: detected.label, words: detected.words}}, id: alert}
      - {set: {mood: detected.label}, id: keep}
"""


def labels(session):
    return [body.label for body in session.happened(Detected)]


async def test_a_cooldown_counts_only_messages_of_the_user(drive: StartSession) -> None:
    session = await drive(HEAD + CRISIS + BODY.replace("max_rounds: 2", "max_rounds: 10"))
    await session.reply("so tired")
    for number in range(3):
        await session.turn(SetVariables({"visits": number}))
    await session.reply("tired")
    assert labels(session) == []


async def test_a_word_acts_without_any_model_and_the_turn_goes_on(drive: StartSession) -> None:
    session = await drive(HEAD + CRISIS + BODY)
    await session.reply("28, and I think of suicide")
    assert [(body.event, body.data) for body in session.happened(Emitted)] == [
        ("alert", {"label": "danger", "words": ["suicide"]})
    ]
    assert session.happened(Detected)[0].by == "rule"
    assert session.said == ["Where do you live?"]
    assert session.cells("session") == {"mood": "danger"}
    assert session.values["age"] == 28


async def test_what_says_nothing_sets_nothing_off(drive: StartSession) -> None:
    session = await drive(HEAD + CRISIS + BODY)
    await session.reply("28, and I am not retired")
    assert labels(session) == []
    assert session.state.watches == {}


async def test_a_cooldown_lasts_its_turns_except_for_severe_words(
    prepare: NewSession,
) -> None:
    for saved in (False, True):
        session = await prepare(HEAD + CRISIS + BODY.replace("max_rounds: 2", "max_rounds: 10"), saved=saved).start()
        heard = []
        for said in ["so tired", "tired", "tired and 自杀", "tired", "tired", "tired"]:
            await session.reply(said)
            heard.append(labels(session))
        assert heard == [["worn_out"], [], ["danger"], [], [], ["worn_out"]]


async def test_replace_keeps_the_question_and_its_rounds(drive: StartSession) -> None:
    script = HEAD + CRISIS + "    replace: 'Call 112. ({{ detected.label }})'\n" + BODY
    session = await drive(script)
    await session.reply("old")
    for _ in range(3):
        await session.reply("suicide")
        assert session.said == ["Call 112. (danger)"]
        assert [each.action_id for each in session.happened(Waiting)] == ["age"]
    assert session.state.progress.round == 1
    await session.reply("28")
    assert session.said == ["Where do you live?"]


async def test_what_a_detector_says_is_not_detected_again(drive: StartSession) -> None:
    session = await drive("""
actions: [{ask: How are you?, into: mood, id: q}, {ask: And now?, into: now_, id: r}]
detectors:
- {detector: crisis, on: both, rules: [{words: [suicide]}], do: [{say: You speak of suicide., id: told}]}
""")
    await session.reply("I think of suicide")
    assert session.said == ["You speak of suicide.", "And now?"]
    assert len(session.happened(Detected)) == 1


FORM = """
cuebook: 1
script: t
detectors: [{detector: crisis, rules: [{words: [despair]}], replace: Call 112.}]
forms:
- form: week
  text: Your week?
  fields: [{field: mood, required: true}, {field: hours, type: number, max: 24}]
actions:
- {form: week, id: fill}
- {say: "{{ mood }}", id: told, acknowledge: true}
"""


@pytest.mark.parametrize("pick", [ChoiceInput("a"), Reply("I despair")])
async def test_replace_takes_an_offered_choice_as_the_answer(drive: StartSession, pick) -> None:
    session = await drive(
        """
        cuebook: 1
        script: t
        detectors: [{detector: crisis, rules: [{words: [despair]}], replace: Call 112.}]
        actions: [{choose: How are you?, into: how, choices: [{a: I despair}, {b: Well}]}, {ask: Since when?, into: t}]
        """
    )
    await session.turn(pick)
    assert (session.said, session.values["how"]) == (["Call 112.", "Since when?"], "a")


async def test_replace_takes_a_form_as_the_answer(drive: StartSession) -> None:
    session = await drive(FORM, saved=True)
    await session.turn(FormInput({"mood": "despair", "hours": 70}))
    assert session.said[0] == "Call 112."
    assert [each.value for each in session.state.wait.form.fields] == ["despair", None]
    await session.turn(FormInput({"mood": "despair", "hours": 7}))
    assert (session.said, session.values["hours"]) == (["Call 112.", "despair"], 7)


async def test_the_labels_of_a_form_are_not_detected(drive: StartSession) -> None:
    form = """
cuebook: 1
script: t
detectors:
- {detector: crisis, rules: [{words: [knives]}], do: [{emit: alert, id: alert}]}
- detector: low
  measures: [{measure: valence, lexicon: valence}]
  patterns: [{pattern: low, all: [{of: valence, last_max: -0.1}]}]
  do: [{emit: low, id: low}]
forms:
- form: week
  fields:
  - {field: sad, label: "Did you feel sad, or fear knives?", type: number}
  - {field: days, label: Days with knives, type: table, columns: [{field: note, label: Knives}]}
actions: [{repeat: {until: false}, do: [{form: week, id: fill}]}]
"""
    session = await drive(form)
    for values, alerts in [({"sad": 0}, []), ({"days": [{"note": "knives"}]}, ["alert"]), ({"sad": 1}, [])]:
        await session.turn(FormInput(values))
        assert [body.event for body in session.happened(Emitted)] == alerts
    for reply, alerts in [
        ("did you feel sad, or fear knives?: 1", []),
        ("Days with knives: Monday", []),
        ("Days with knives: Knives!", ["alert"]),
        ("Days with knives are here", ["alert"]),
    ]:
        await session.reply(reply)
        assert [body.event for body in session.happened(Emitted)] == alerts


async def test_end_ends_the_session_at_once(drive: StartSession) -> None:
    script = HEAD + CRISIS + "      - {say: 'Help is on its way.', id: help}\n      - {end: danger, id: stop}\n" + BODY
    session = await drive(script)
    await session.reply("suicide")
    assert session.said == ["Help is on its way."]
    assert (session.state.status, session.state.end_reason) == ("completed", "danger")
    assert session.state.frames == []


@pytest.mark.parametrize("on", ["user", "assistant"])
async def test_all_detectors_act_on_a_message_that_ends_the_session(drive: StartSession, on: str) -> None:
    detectors = f"""
detectors:
  - {{detector: abuse, on: {on}, rules: [{{words: [name]}}], do: [{{end: abuse, id: stop}}]}}
  - detector: crisis
    on: {on}
    rules: [{{words: [name]}}]
    do: [{{emit: {{event: alert}}, id: alert}}, {{end: crisis, id: over}}]
"""
    session = await drive(HEAD + detectors + BODY.replace("Where do you live?", "What is your name?"))
    await session.reply("28, and my name is Ann")
    assert [body.event for body in session.happened(Emitted)] == ["alert"]
    assert (session.state.status, session.state.end_reason) == ("completed", "abuse")


async def test_interrupt_may_wait_for_a_detector_and_read_its_finding(drive: StartSession) -> None:
    script = (
        HEAD
        + CRISIS
        + """
interrupts:
  - interrupt: help
    on: {detector: crisis}
    do: [{ask: "You said {{ detected.words[0] }}. Are you safe?", id: safe, output: [{get: safe, type: boolean}]}]
"""
        + BODY
    )
    session = await drive(script)
    await session.reply("suicide")
    assert [each.interrupt for each in session.happened(Interrupted)] == ["help"]
    assert session.said == ["You said suicide. Are you safe?"]
    await session.reply("yes")
    assert session.said == ["How old are you?"]


async def test_a_chosen_answer_is_looked_at_as_well(drive: StartSession) -> None:
    session = await drive(
        HEAD
        + CRISIS
        + """
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {choose: what, id: what, question: What?, choices: [{a: "It is about suicide"}, {b: Sleep}]}
          - {ask: "More?", id: more, output: [{get: more}]}
"""
    )
    await session.turn(ChoiceInput("a"))
    assert labels(session) == ["danger"]
    assert session.said == ["More?"]


async def test_failed_action_of_a_detector_is_a_warning_and_others_run(drive: StartSession) -> None:
    script = (
        HEAD
        + "declare: [{var: level, type: number}]\n"
        + CRISIS.replace("do:\n", "do:\n      - {set: {level: '\"high\"'}, id: broken}\n")
        + BODY
    )
    session = await drive(script)
    await session.reply("suicide, 28")
    assert [code for code, _ in session.warnings] == ["detector_failed"]
    assert [body.event for body in session.happened(Emitted)] == ["alert"]


# -- what the session says --------------------------------------------------------------------------------------------

ADVICE = """
detectors:
  - detector: advice
    on: assistant
    rules: [{words: [take ibuprofen], label: advice}]
    replace: Please ask your doctor about that.
    do: [{emit: {event: withheld, data: {said: detected.message}}, id: tell}]
"""


async def test_what_the_session_must_not_say_is_never_said(drive: StartSession) -> None:
    script = (
        HEAD
        + ADVICE
        + """
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Help., id: help, output: [{get: pain}], max_rounds: 3}
repairs: [repeat]
"""
    )
    session = await drive(script, replies={"help": ["Hello.", "You should take ibuprofen.", "And then?"]})
    await session.reply("my back hurts")
    assert session.said == ["Please ask your doctor about that."]
    assert "400 mg" not in str([each.content for each in session.messages])
    assert [body.data["said"] for body in session.happened(Emitted)] == [session.said[0]]
    await session.reply("repeat")
    assert session.said == ["Please ask your doctor about that."]


async def test_a_withheld_complaint_is_not_said_again(drive: StartSession) -> None:
    invalid = "output: [{get: age, type: number, invalid: Then take ibuprofen.}]"
    session = await drive(HEAD + ADVICE + BODY.replace("output: [{get: age, type: number}]", invalid))
    await session.reply("it hurts", " ")
    assert session.said == ["Please ask your doctor about that."]
    assert session.happened(Emitted) == []


async def test_the_user_may_say_what_the_session_may_not(drive: StartSession) -> None:
    session = await drive(HEAD + ADVICE + BODY)
    await session.reply("28, I take ibuprofen")
    assert labels(session) == []


async def test_detector_may_end_the_session_even_at_its_beginning(drive: StartSession) -> None:
    script = HEAD + ADVICE.replace("do: [", "do: [{end: bad advice, id: stop, when: true}, ") + BODY
    session = await drive(script.replace("How old are you?", "Will you take ibuprofen?"))
    assert session.said == ["Please ask your doctor about that."]
    assert (session.state.status, session.state.end_reason, session.state.wait) == ("completed", "bad advice", None)


UNSAID = "You should take ibuprofen, 400 mg."
TALK = """
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_say: Comfort them., id: comfort}
          - {ai_ask: Help., id: help, output: [{get: pain}], max_rounds: 4}
"""


class Careless(OfflineModel):
    """A language model that says what it must not whenever it has to comfort, and records its requests."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    def goes_to(self, request: ModelRequest) -> str:
        return "careless"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.asked.append(request)
        if request.purpose == "detect":
            return ModelReply()
        text = UNSAID if request.purpose == "say" or request.reply == "what now" else "How are you?"
        if hear is not None:
            hear(ModelReply(text=text))
        return ModelReply(text=text, exit=False, raw=f"raw {text}")


@pytest.fixture
def careless(prepare: NewSession):
    """Return a session with such a model, and everything that was heard of it while its turns ran."""

    async def begun(detectors: str, *, saved: bool = False):
        session = prepare(HEAD + detectors + TALK, saved=saved)
        session.model = Careless()
        heard: list[object] = []
        session.live = heard.append
        return await session.start(), heard

    return begun


@pytest.mark.parametrize("saved", [False, True])
async def test_a_withheld_text_is_nowhere(careless, saved) -> None:
    """Not in what is said, heard or recorded, not in what the model is asked later, not in the state or the calls."""
    session, heard = await careless(ADVICE + "  - {detector: tone, on: both, define: harsh words}\n", saved=saved)
    await session.reply("what now", "", "and now")
    said = [each.content for each in session.messages]
    assert said[0] == said[3] == said[5] == "Please ask your doctor about that."
    for each in (heard, session.turns, session.state):
        assert "400 mg" not in str(each)
    watching = [each for each in session.model.asked if each.purpose == "detect" and each.reply == UNSAID]
    assert len(watching) == 2  # what is looked for beyond words is asked before anything is said
    assert "400 mg" not in str([each for each in session.model.asked if each not in watching])
    withheld = [call for turn in session.turns for call in turn.model_calls if call.is_withheld]
    assert [(call.request.purpose, call.reply, call.ended.reply) for call in withheld] == [
        (purpose, reply, reply)  # what looked at the text may have quoted it
        for spoken in ("say", "ask")
        for purpose, reply in ((spoken, ModelReply(exit=False)), ("detect", ModelReply()))
    ]


async def test_what_a_detector_adds_comes_right_after_the_message(careless) -> None:
    adding = ADVICE.replace("    replace: Please ask your doctor about that.\n", "")
    session, heard = await careless(adding.replace("do: [", "do: [{say: 'I am no doctor.', id: add}, "))
    assert session.said == [UNSAID, "I am no doctor.", "How are you?"]
    assert heard == []
    assert [body.data for body in session.happened(Emitted)] == [{"said": UNSAID}]


async def test_an_end_keeps_what_would_follow_from_happening(careless) -> None:
    session, _ = await careless(ADVICE.replace("do: [", "do: [{end: bad advice, id: stop}, "))
    assert session.said == ["Please ask your doctor about that."]
    assert [each.purpose for each in session.model.asked] == ["say"]
    assert (session.state.status, session.state.end_reason, session.state.wait) == ("completed", "bad advice", None)
    assert [each.action_id for each in session.happened(ActionLeft) if not each.detector] == ["comfort"]


# -- measures ---------------------------------------------------------------------------------------------------------

MOOD = """
detectors:
  - detector: mood
    min_messages: 2
    measures: [{measure: valence, lexicon: valence}]
    patterns:
      - {pattern: drop, note: look closer, all: [{of: valence, span: 2, change: 0.5}]}
    do:
      - set: {was: detected.before.valence, became: detected.now.valence}
        id: keep
"""


async def test_change_over_several_messages_needs_only_the_messages(prepare: NewSession) -> None:
    for saved in (False, True):
        session = await prepare(HEAD + MOOD + BODY.replace("max_rounds: 2", "max_rounds: 9"), saved=saved).start()
        await session.reply("I am really happy today", "the weather is as it is")
        assert labels(session) == []
        await session.reply("but now I feel so sad")
        assert [(each.label, each.by, each.note) for each in session.happened(Detected)] == [
            ("drop", "measure", "look closer")
        ]
        assert session.cells("session")["was"] > 0 > session.cells("session")["became"]


# -- with a model -----------------------------------------------------------------------------------------------------

JUDGED = """
detectors:
  - {detector: lonely, define: signs of loneliness, threshold: 0.7, do: [{emit: lonely, id: lonely}]}
  - {detector: angry, define: signs of anger, on_failure: use_previous, do: [{emit: angry, id: angry}]}
  - {detector: word, define: the word, rules: [{words: [help]}], do: [{emit: word, id: word}]}
"""


async def test_one_call_asks_the_model_for_all_that_words_did_not_tell(drive: StartSession) -> None:
    replies = {
        "lonely.detect": [{"score": 0.69, "label": "lonely"}, {"score": 0.7}],
        "angry.detect": [{"score": 0.9, "label": "rage"}],
    }
    session = await drive(HEAD + JUDGED + BODY.replace("max_rounds: 2", "max_rounds: 9"), replies=replies)
    await session.reply("help")
    assert [(each.detector, each.label, each.by) for each in session.happened(Detected)] == [
        ("angry", "rage", "model"),
        ("word", "word", "rule"),
    ]
    calls = [call.request for call in session.turns[-1].model_calls if call.request.purpose == "detect"]
    assert [sorted(call.detectors) for call in calls] == [["angry", "lonely"]]
    await session.reply("nobody calls")
    assert [each.detector for each in session.happened(Detected)] == ["lonely"]


async def test_failed_model_is_a_warning_and_the_last_verdict_may_stay(drive: StartSession) -> None:
    replies = {"angry.detect": [{"score": 0.9, "label": "rage"}, {"fail": "overloaded"}]}
    session = await drive(HEAD + JUDGED + BODY.replace("max_rounds: 2", "max_rounds: 9"), replies=replies)
    await session.reply("grr")
    await session.reply("what now")
    assert [code for code, _ in session.warnings] == ["detectors_failed"]
    assert [each.detector for each in session.happened(Detected)] == ["angry"]


@pytest.mark.parametrize("score", [float("nan"), -3.0, 1e300])
async def test_a_verdict_out_of_bounds_is_clamped(drive: StartSession, score) -> None:
    session = await drive(HEAD + JUDGED + BODY, replies={"lonely.detect": [{"score": score, "label": "x" * 1000}]})
    await session.reply("28")
    assert all(0 <= each.score <= 1 and len(each.label) <= 200 for each in session.happened(Detected))


def test_a_state_saved_before_there_were_detectors_is_still_read() -> None:
    assert decode(b'{"seed":1,"locale":"en","version":1}').watches == {}


CONTRADICTIONS = """
consciousness:
  consciousness_id: contradictions
  detection_config: {keywords: [on second thought]}
  output_config:
    trigger_actions: [{action_type: log_event, config: {event_type: contradiction_detected}}]
  safety_baseline:
    keyword_check: {enabled: true, crisis_keywords: [kill myself], crisis_action: immediate_alert}
"""


async def test_a_safety_word_emits_only_its_own_event(drive: StartSession) -> None:
    session = await drive(CONTRADICTIONS)
    emitted = []
    for said in ("I want to kill myself", "on second thought, no"):
        await session.reply(said)
        emitted.append([body.event for body in session.happened(Emitted)])
    assert emitted == [["immediate_alert"], ["contradiction_detected"]]


async def test_a_detector_sets_a_variable_that_the_phase_declares(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: t
        detectors: [{detector: d, rules: [{words: [sad]}], do: [{set: {mood: low}}]}]
        phases:
        - phase: p
          declare: [{var: mood, value: neutral}]
          topics: [{topic: t, actions: [{ask: Well?, into: reply}, {say: "So {{ mood }}.", acknowledge: true}]}]
        """
    )
    await session.reply("sad")
    assert session.said == ["So low."]
