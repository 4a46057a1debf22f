"""`tolist`: what belongs together is stored as a record of a list."""

import pytest

from tests.support.runtime_session import NewSession, StartSession

FAMILY = """
script: family
declare: [{var: family, type: list}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - repeat: {max: 2}
      id: again
      do:
      - ask: Who is in your family, and how old? (name and age)
        id: who
        output:
        - tolist: family
          fields: [{get: name}, {get: age, type: number, required: false}]
    - {foreach: family as member, id: each, do: [{say: "{{ member.name }} is {{ member.age }}", id: told}]}
    - {user_say: ok, id: ok}
"""


@pytest.mark.parametrize("saved", [False, True])
async def test_each_answer_is_one_record_more(prepare: NewSession, saved) -> None:
    session = await prepare(FAMILY, saved=saved).start()
    await session.reply("name: Ana, age: 28", "name: Bo, age: 5")
    assert session.values["family"] == [{"name": "Ana", "age": 28}, {"name": "Bo", "age": 5}]
    assert session.said == ["Ana is 28", "Bo is 5"]


async def test_the_fields_are_no_variables_of_their_own(drive: StartSession) -> None:
    session = await drive(FAMILY)
    await session.reply("name: Ana, age: 28")
    assert session.values.keys() == {"family"}


async def test_what_may_be_missing_is_left_out_of_its_record(drive: StartSession) -> None:
    session = await drive(FAMILY)
    await session.reply("name: Ana", "name: Bo, age: 5")
    assert session.values["family"] == [{"name": "Ana"}, {"name": "Bo", "age": 5}]


@pytest.mark.parametrize("asks", ["ask", "ai_ask"])
async def test_a_reply_may_repeat_the_labels_of_its_records(drive: StartSession, asks) -> None:
    session = await drive(FAMILY.replace("ask: Who", f"{asks}: Who"))
    await session.reply("name: Ana, age: 28; name: Bo; Name: Cy, age: 5")
    assert session.values["family"] == [{"name": "Ana", "age": 28}, {"name": "Bo"}, {"name": "Cy", "age": 5}]


async def test_a_model_may_find_several_records_in_one_reply(drive: StartSession) -> None:
    found = [{"name": "Ana", "age": "28"}, {"name": "Bo", "age": "many"}, "junk", {}]
    session = await drive(
        FAMILY.replace("ask: Who", "ai_ask: Who"),
        replies={"who": ["Who?", {"exit": True, "values": {"family": found}}]},
    )
    await session.reply("my sister Ana, 28, and Bo")
    assert session.values["family"] == [{"name": "Ana", "age": 28}, {"name": "Bo"}]
    assert session.turns[-1].model_calls[0].request.records[0].tolist == "family"


async def test_a_record_is_validated_with_its_own_fields(drive: StartSession) -> None:
    found = [{"first": 9, "last": 12}, {"first": 9, "last": 5}, {"first": 3}]
    session = await drive(
        """
        actions:
        - ai_ask: Which shifts?
          id: which
          into:
            add_to: shifts
            fields: [{var: first, type: number}, {var: last, type: number, validate: [{unless: last > first}]}]
        - {say: Thanks., acknowledge: true}
        """,
        replies={"which": ["Which?", {"exit": True, "values": {"shifts": found}}]},
    )
    await session.reply("nine to twelve, nine to five, from three")
    assert session.values["shifts"] == [{"first": 9, "last": 12}, {"first": 9}, {"first": 3}]


REPORTS = """
script: reports
declare: [{var: symptoms, type: list}, {var: mood, type: text}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - ai_ask: What troubles you?
      id: ask
      exit: nothing else troubles the user
      max_rounds: 6
      output:
      - tolist: symptoms
        fields: [{get: what, required: true}, {get: since, required: false}, {get: bad, type: boolean, required: false}]
    - {say: thank you, id: thanks}
    - {user_say: ok, id: ok}
"""


def _listed(*records, done=False):
    return {"exit": done, "text": "" if done else "What else?", "values": {"symptoms": list(records)}}


@pytest.mark.parametrize("saved", [False, True])
async def test_records_accumulate_over_rounds(prepare: NewSession, saved) -> None:
    replies = ["What?", _listed({"what": "cough"}), _listed({"what": "fever"}), _listed({"what": "rash"}, done=True)]
    session = await prepare(REPORTS, saved=saved, replies={"ask": replies}).start()
    await session.reply("I cough")
    await session.reply("fever too")
    asked = session.turns[-1].model_calls[0].request
    assert [output.get for output in asked.outputs] == ["what", "since", "bad"]
    assert asked.known == {"symptoms": [{"what": "cough"}]}
    await session.reply("and a rash, that is all")
    assert session.values == {"symptoms": [{"what": "cough"}, {"what": "fever"}, {"what": "rash"}]}
    assert session.said == ["thank you"]


async def test_a_record_listed_again_is_stored_once(drive: StartSession) -> None:
    cough, worse = {"what": "cough"}, {"what": "cough", "since": "May"}
    replies = ["What?", _listed(cough, cough, {"what": "fever"}), _listed(worse, {"what": "rash"}), _listed(done=True)]
    session = await drive(REPORTS, replies={"ask": replies})
    await session.reply("cough, cough, fever", "the cough since May, a rash", "no more")
    assert session.values["symptoms"] == [worse, {"what": "fever"}, {"what": "rash"}]


async def test_true_is_not_one_in_records(drive: StartSession) -> None:
    plain = REPORTS.replace("bad, type: boolean", "bad")
    replies = ["What?", _listed({"what": "rash", "bad": 1}), _listed({"what": "rash", "bad": True}, done=True)]
    session = await drive(plain, replies={"ask": replies})
    await session.reply("a rash", "a rash")
    assert session.values["symptoms"] == [{"what": "rash", "bad": 1}, {"what": "rash", "bad": True}]


def _fields(done=False, **values):
    return {"exit": done, "text": "" if done else "What else?", "values": values}


@pytest.mark.parametrize("saved", [False, True])
async def test_a_model_may_give_a_record_field_by_field(prepare: NewSession, saved) -> None:
    replies = [
        "What?",
        _fields(since="May"),
        _fields(what="cough"),
        _fields(what="fever"),
        _fields(since="Monday"),
        _fields(what="rash", since="June", done=True),
    ]
    session = await prepare(REPORTS, saved=saved, replies={"ask": replies}).start()
    await session.reply("since May", "a cough", "fever", "since Monday", "a rash since June")
    assert session.values["symptoms"] == [
        {"since": "May", "what": "cough"},
        {"what": "fever", "since": "Monday"},
        {"what": "rash", "since": "June"},
    ]


async def test_a_listed_record_completes_fields_given_before(drive: StartSession) -> None:
    replies = ["What?", _fields(since="May"), _listed({"what": "cough", "bad": True}, done=True)]
    session = await drive(REPORTS, replies={"ask": replies})
    await session.reply("since May", "the cough, badly")
    assert session.values == {"symptoms": [{"since": "May", "what": "cough", "bad": True}]}


async def test_conditions_count_the_records_of_all_rounds(drive: StartSession) -> None:
    text = REPORTS.replace("exit: nothing else troubles the user", "exit_when: symptoms | length >= 3")
    session = await drive(text, replies={"ask": ["What?", *(_fields(what=each) for each in "abc")]})
    await session.reply("a", "b")
    assert session.state.wait is not None and session.values == {}
    await session.reply("c")
    assert session.values["symptoms"] == [{"what": "a"}, {"what": "b"}, {"what": "c"}]


async def test_an_action_executed_again_appends_all_it_takes(drive: StartSession) -> None:
    again = REPORTS.replace("- ai_ask", "- repeat: {max: 2}\n      id: twice\n      do:\n      - ai_ask")
    again = again.replace("\n      id: ask\n", "\n        id: ask\n").replace("      exit:", "        exit:")
    again = again.replace("      max_rounds", "        max_rounds").replace("      output:", "        output:")
    again = again.replace("      - tolist", "        - tolist").replace("        fields", "          fields")
    visit = ["What?", _listed({"what": "cough"}), _listed({"what": "fever"}, done=True)]
    session = await drive(again, replies={"ask": [visit, visit]})
    await session.reply("cough", "fever", "cough", "fever")
    assert session.values["symptoms"] == [{"what": "cough"}, {"what": "fever"}] * 2


async def test_words_wait_where_a_trial_has_taken_records(prepare: NewSession) -> None:
    """The judgement in advance of what is said leaves no record behind."""
    heard = []
    replies = ["What?", _listed({"what": "cough"}), _listed({"what": "fever"}), _listed(done=True)]
    session = prepare(REPORTS, replies={"ask": replies})
    session.live = heard.append
    await session.start()
    await session.reply("cough", "fever")
    assert session.state.progress.values == {"symptoms": [{"what": "cough"}, {"what": "fever"}]}
    assert "".join(each.text for each in heard).count("What else?") == 2
    await session.reply("no")
    assert session.values["symptoms"] == [{"what": "cough"}, {"what": "fever"}]


async def test_another_question_goes_on_after_a_record(drive: StartSession) -> None:
    text = REPORTS.replace("fields: [{get: what, required: true}", "fields: [{get: what, required: true, type: number}")
    text = text.replace("      - tolist", "      - {get: mood, type: number, required: true}\n      - tolist")
    session = await drive(text.replace("{var: mood, type: text}", "{var: mood, type: number}"))
    await session.reply("what: 3")
    await session.reply("7")
    assert session.values == {"symptoms": [{"what": 3}], "mood": 7}


BY_NAME = FAMILY.replace("- tolist: family", "- tolist: family\n          key: name")
FOUND_BY_NAME = REPORTS.replace("- tolist: symptoms", "- tolist: symptoms\n        key: what")


@pytest.mark.parametrize("saved", [False, True])
async def test_a_record_with_the_key_of_an_earlier_one_updates_it(prepare: NewSession, saved) -> None:
    session = await prepare(BY_NAME, saved=saved).start()
    await session.reply("name: Ana, age: 28", "name: ana, age: 29")
    assert session.values["family"] == [{"name": "ana", "age": 29}]


async def test_an_update_keeps_the_fields_that_it_does_not_name(drive: StartSession) -> None:
    session = await drive(BY_NAME)
    await session.reply("name: Ana, age: 28", "name: Ana")
    assert session.values["family"] == [{"name": "Ana", "age": 28}]


@pytest.mark.parametrize("saved", [False, True])
async def test_a_model_updates_records_by_their_key_over_rounds(prepare: NewSession, saved) -> None:
    replies = [
        "What?",
        _listed({"what": "cough", "since": "Monday"}, {"what": "fever"}),
        _listed({"what": "Cough", "bad": True}),
        _listed({"what": "cough", "since": "Sunday"}, {"what": "rash"}, done=True),
    ]
    session = await prepare(FOUND_BY_NAME, saved=saved, replies={"ask": replies}).start()
    await session.reply(
        "I cough since Monday, and have a fever", "the cough is bad", "since Sunday in fact, and a rash"
    )
    assert session.values["symptoms"] == [
        {"what": "cough", "since": "Sunday", "bad": True},
        {"what": "fever"},
        {"what": "rash"},
    ]


async def test_fields_with_another_key_begin_another_record(drive: StartSession) -> None:
    replies = ["What?", _fields(what="cough", since="May"), _fields(what="fever"), _fields(since="June", done=True)]
    text = FOUND_BY_NAME.replace("{get: since, required: false}", "{get: since, required: true}")
    session = await drive(text, replies={"ask": replies})
    await session.reply("a cough since May", "and fever", "since June")
    assert session.values["symptoms"] == [{"what": "cough", "since": "May"}, {"what": "fever", "since": "June"}]


async def test_records_of_one_reply_with_the_same_key_are_one(drive: StartSession) -> None:
    replies = ["What?", _listed({"what": "cough", "since": "Monday"}, {"what": "cough", "bad": True}, done=True)]
    session = await drive(FOUND_BY_NAME, replies={"ask": replies})
    await session.reply("a cough since Monday, it is bad")
    assert session.values["symptoms"] == [{"what": "cough", "since": "Monday", "bad": True}]


async def test_a_new_record_has_the_defaults_of_its_fields(drive: StartSession) -> None:
    session = await drive("""
cuebook: 1
script: family
declare: [{var: family, type: list, value: []}]
actions:
- repeat: {until: false, max: 3}
  do:
  - ask: Who?
    into:
      add_to: family
      key: name
      fields:
      - name
      - {var: age, type: number, required: false, default: =2 + 3}
      - {var: pet, required: false, default: cat}
""")
    await session.reply("name: Ana; name: Bo, age: 6, pet: dog", "name: Bo, age: 7")
    assert session.values["family"] == [{"name": "Ana", "age": 5, "pet": "cat"}, {"name": "Bo", "age": 7, "pet": "dog"}]
