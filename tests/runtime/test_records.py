"""`tolist`: what belongs together is kept as a record of a list."""

import pytest

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
async def test_each_answer_is_one_record_more(prepare, saved):
    session = await prepare(FAMILY, saved=saved).start()
    await session.reply("name: Ana, age: 28", "name: Bo, age: 5")
    assert session.values["family"] == [{"name": "Ana", "age": 28}, {"name": "Bo", "age": 5}]
    assert session.said == ["Ana is 28", "Bo is 5"]


async def test_the_fields_are_no_variables_of_their_own(drive):
    session = await drive(FAMILY)
    await session.reply("name: Ana, age: 28")
    assert session.values.keys() == {"family"}


async def test_what_may_be_missing_is_left_out_of_the_record(drive):
    session = await drive(FAMILY)
    await session.reply("name: Ana", "name: Bo, age: 5")
    assert session.values["family"] == [{"name": "Ana"}, {"name": "Bo", "age": 5}]


async def test_a_model_may_find_several_records_in_one_reply(drive):
    found = [{"name": "Ana", "age": "28"}, {"name": "Bo", "age": "many"}, "junk", {}]
    session = await drive(
        FAMILY.replace("ask: Who", "ai_ask: Who"),
        replies={"who": ["Who?", {"exit": True, "values": {"family": found}}]},
    )
    await session.reply("my sister Ana, 28, and Bo")
    assert session.values["family"] == [{"name": "Ana", "age": 28}, {"name": "Bo"}]
    assert session.turns[-1].model_calls[0].request.records[0].tolist == "family"
