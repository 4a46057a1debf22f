"""`form`: several typed fields at once, drawn by a client or filled in with plain words."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.state.events import ActionLeft
from runtime.state.inputs import FormInput, InputRefused, Reply, Start
from runtime.state.program import Program
from runtime.state.state import decode, encode
from scripts.parse.read_script import Source, read_script
from tests.support.effort import repeats
from tests.support.runtime_session import NewSession, StartSession

HEAD = """
script: test
{declare}
forms:
- form: contact
  {title}
  text: Please fill this in.
  fields: {fields}
phases:
- phase: only
  topics:
  - topic: talk
    actions:
    - {{form: contact, id: fill{more}}}
    - {{say: "{said}", id: told}}
    - {{ask: Bye?, id: bye}}
"""


def script(fields: str, said: str = "Done.", more: str = "", declare: str = "", title: str = "") -> str:
    return HEAD.format(fields=fields, said=said, more=f", {more}" if more else "", declare=declare, title=title)


TWO = "[{field: name, label: 'Your name', required: true}, {field: age, type: number, min: 0, max: 120}]"


async def fill(session: Any, **values: Any) -> Any:
    await session.turn(FormInput(values))
    return session


def drawn(session: Any) -> dict[str, Any]:
    return {field.name: field for field in session.state.wait.form.fields}


def errors(session: Any) -> dict[str, str]:
    return dict(session.state.wait.form.errors)


async def test_form_is_shown_with_rendered_texts_and_known_values(drive: StartSession) -> None:
    fields = """
    - {field: name, label: 'Name of {{ who }}', required: true, placeholder: "like {{ who }}", pattern: '\\w+'}
    - {field: age, type: number, min: 0, max: 120}
    - {field: city, define: the town, default: Paris}
    - {field: pet, choices: [cat, dog]}
    - {field: days, type: table, columns: [day, {field: hours, type: number, label: Hours, default: 8}]}
    - {field: next_age, computed: age + 1}"""
    session = await drive(
        script(
            fields, title="title: 'About {{ who }}'", declare="declare: [{var: who, value: Ana}, {var: age, value: 7}]"
        )
    )
    assert session.said == ["Please fill this in."]
    assert (session.state.wait.kind, session.state.wait.form.title) == ("form", "About Ana")
    found = drawn(session)
    assert (found["name"].label, found["name"].placeholder) == ("Name of Ana", "like Ana")
    assert (found["name"].required, found["name"].pattern) == (True, r"\w+")
    assert (found["age"].value, found["age"].min, found["age"].max) == (7, 0, 120)
    assert (found["city"].label, found["city"].value, found["pet"].type) == ("the town", "Paris", "choice")
    assert [(column.label, column.type, column.value) for column in found["days"].columns] == [
        ("day", "text", None),
        ("Hours", "number", 8),
    ]
    assert (found["next_age"].computed, found["name"].computed) == (True, False)


async def test_a_filled_form_writes_its_fields_and_what_is_computed(drive: StartSession) -> None:
    fields = """
    - {field: weight, type: number}
    - {field: height, type: number}
    - {field: bmi, computed: weight / (height * height)}
    - {field: heavy, computed: bmi > 30}"""
    session = await fill(await drive(script(fields, "{{ heavy }}")), weight="100", height=2)
    assert session.said == ["false", "Bye?"]
    assert session.values == {"weight": 100, "height": 2, "bmi": 25, "heavy": False}
    cells = session.state.topic_cells
    assert [cells[name].source for name in session.values] == ["user", "user", "script", "script"]
    assert all(cell.by == ("only", "talk", "fill") for cell in cells.values())
    message = next(message for message in session.messages if message.role == "user")
    assert message.content == "weight: 100\nheight: 2"
    assert message.metadata == {"form": {"weight": "100", "height": 2}}


async def test_wrong_fields_are_reported_and_right_ones_retained(drive: StartSession) -> None:
    session = await fill(await drive(script(TWO, "{{ name }}, {{ age }}")), name="Ana", age=300)
    assert errors(session) == {"age": "Sorry, I need a value in this range: 0 – 120."}
    assert session.said == ["age: Sorry, I need a value in this range: 0 – 120."]
    assert drawn(session)["name"].value == "Ana"
    assert (session.state.progress.round, session.values) == (1, {})
    assert (await fill(session, age=30)).said == ["Ana, 30", "Bye?"]


@pytest.mark.parametrize(
    ("field", "bad", "good", "expected"),
    [
        ("type: number", "many", "3.5", 3.5),
        ("type: number, min: 2", 1, 2, 2),
        ("type: boolean", "perhaps", True, True),
        ("type: date, max: '2020-01-01'", "2021-01-01", "2020-01-01", "2020-01-01"),
        ("type: date", "2020-13-01", " 2020-12-01 ", "2020-12-01"),
        ("choices: [red, blue]", "green", "RED", "red"),
        ("type: multichoice, choices: [red, blue]", ["red", "green"], ["blue", "red", "blue"], ["blue", "red"]),
        ("type: multichoice, choices: [red, blue]", {"red": True}, "red", ["red"]),
        ("type: multichoice, choices: [red, blue, gold], max: 2", ["red", "blue", "gold"], [], []),
        ("pattern: '[0-9]{{5}}'", "123", "12345", "12345"),
        ("max: 3", "long", " ab ", "ab"),
        ("type: file", "x" * 2001, "scan-1.pdf", "scan-1.pdf"),
        ("validate: x != 'no'", "no", "yes", "yes"),
        ("validate: [{unless: x != 'no', say: Not that.}]", "no", "yes", "yes"),
        ("type: table, columns: [a, {{field: n, type: number}}]", [{"a": "b", "n": "c"}], [{"n": "1"}, {}], [{"n": 1}]),
        ("type: table, columns: [{{field: a, required: true}}, b]", [{"b": "c"}], [{"a": 1}], [{"a": "1"}]),
        (
            "type: table, columns: [{{field: a, default: z}}, b], max: 1",
            [{"b": 1}] * 2,
            [{"b": 1}],
            [{"a": "z", "b": "1"}],
        ),
        (
            "type: table, columns: [a, {{field: n, validate: n > a}}]",
            [{"a": 2, "n": 1}],
            [{"a": 1, "n": 2}],
            [{"a": "1", "n": "2"}],
        ),
        ("type: table, columns: [a]", "b", [{"a": ""}], []),
    ],
)
async def test_every_type_is_checked(drive: StartSession, field, bad, good, expected) -> None:
    text = script("[{field: x, required: false, " + field.replace("{{", "{").replace("}}", "}") + "}]")
    session = await fill(await drive(text), x=bad)
    assert list(errors(session)) == ["x"]
    assert (await fill(session, x=good)).values == {"x": expected}


SCORES = "[{0: Not at all}, {1: Several days}, {2: Every day}]"


async def test_fields_with_labelled_numbers_add_up(drive: StartSession) -> None:
    fields = f"[{{field: a, type: number, choices: {SCORES}}}, {{field: b, type: number, choices: {SCORES}}},"
    session = await drive(script(f"{fields} {{field: sum, computed: a + b}}]"))
    shown = session.state.wait.form.fields[0]
    assert (shown.type, shown.choices, shown.labels["1"]) == ("number", ("0", "1", "2"), "Several days")
    await fill(session, a=3, b=1)
    assert errors(session) == {"a": "Sorry, please choose one of these: Not at all, Several days, Every day."}
    await session.reply("a: every day, b: several days")
    assert session.values == {"a": 2, "b": 1, "sum": 3}


async def test_words_of_the_field_come_before_the_runtimes(drive: StartSession) -> None:
    fields = "[{field: age, type: number, invalid: 'A number, {{ who }}.'}, {field: pet, choices: [cat, dog]}]"
    text = script(fields, declare="declare: [{var: who, value: Ana}]")
    session = await fill(await drive(text), age="x", pet="cow")
    assert errors(session) == {"age": "A number, Ana.", "pet": "Sorry, please choose one of these: cat, dog."}
    assert session.said == ["age: A number, Ana.\npet: Sorry, please choose one of these: cat, dog."]
    session = await fill(
        await drive(script(fields.replace("A number, {{ who }}.", "No."), more="invalid: Look again.")), age="x"
    )
    assert (session.said, errors(session)) == (["Look again."], {"age": "No."})


@pytest.mark.parametrize("empty", [{}, {"name": ""}, {"name": None}, {"name": "  "}])
async def test_a_required_field_is_needed(drive: StartSession, empty) -> None:
    session = await fill(await drive(script(TWO)), **empty)
    assert (errors(session), session.said) == ({"name": "This is needed."}, ["Still needed: Your name."])


async def test_one_of_several_needs_at_least_one(drive: StartSession) -> None:
    session = await fill(await drive(script("[{field: x, type: multichoice, choices: [a], required: true}]")), x=[])
    assert errors(session) == {"x": "This is needed."}


async def test_omitted_field_keeps_its_value_and_empty_ones_clear(drive: StartSession) -> None:
    fields = "[{field: city, default: Paris}, {field: street}, {field: pet, default: cat}]"
    declare = "declare: [{var: city, value: Rome}, {var: street, value: Long}]"
    session = await fill(await drive(script(fields, declare=declare)))
    assert session.values == {"city": "Rome", "street": "Long", "pet": "cat"}
    assert session.state.session_cells["city"].source == "default"
    session = await fill(await drive(script(fields, declare=declare)), street=None, pet="")
    assert session.values == {"city": "Rome", "street": None}


async def test_fields_are_compared_once_both_have_values(drive: StartSession) -> None:
    fields = """
    - {field: start, type: number, required: true}
    - {field: stop, type: number, required: true, validate: stop > start, invalid: It ends after it begins.}"""
    session = await fill(await drive(script(fields)), stop="2")
    assert (errors(session), session.warnings) == ({"start": "This is needed."}, [])
    assert errors(await fill(session, start=10)) == {"stop": "It ends after it begins."}
    assert (await fill(session, stop=11)).values == {"start": 10, "stop": 11}


async def test_what_the_variable_is_declared_as_counts_too(drive: StartSession) -> None:
    text = script("[{field: size}]", declare="declare: [{var: size, type: number}]")
    session = await fill(await drive(text), size="large")
    assert list(errors(session)) == ["size"]
    assert (await fill(session, size="7")).values == {"size": 7}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"nam": "Ana"}, "has no field 'nam'. Did you mean `name`?"),
        ({"older": 5}, "older is computed"),
        ({"name": "x" * 20_001}, "the field name: a text may have at most"),
        ({"name": "x" * 15_000, "note": "y" * 15_000}, "at most 20,000 characters"),
        ({"days": [{"dy": 1}]}, "has no column 'dy'. Did you mean `day`?"),
        ({"name": [[[[[[[[[[1]]]]]]]]]]}, "the field name: a value may be nested"),
    ],
)
async def test_reply_that_is_no_such_form_is_refused_at_no_cost(drive: StartSession, values, named) -> None:
    fields = (
        "[{field: name, required: true}, note, {field: days, type: table, columns: [day]}, {field: older, computed: 1}]"
    )
    session = await drive(script(fields))
    before = encode(session.state)
    with pytest.raises(InputRefused, match=r".*") as refused:
        await session.turn(FormInput(values))
    assert named in str(refused.value)
    assert encode(session.state) == before


async def test_a_form_is_taken_only_where_one_is_waited_for(drive: StartSession) -> None:
    session = await drive("- {ask: Who?, id: who}")
    with pytest.raises(InputRefused, match="waits for text, not for a form"):
        await session.turn(FormInput({}))
    with pytest.raises(InputRefused, match="waits for form, not for a choice"):
        await (await drive(script(TWO))).choose("A")


# -- plain words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("Your name: Ana, age: 30", {"name": "Ana", "age": 30}),
        ("age is thirty\nname: Ana", {"name": "Ana", "age": 30}),
        ("your name is Ana", {"name": "Ana"}),
    ],
)
async def test_a_form_can_be_filled_in_plain_words(drive: StartSession, reply, values) -> None:
    session = await (await drive(script(TWO, "{{ name }}, {{ age }}"))).reply(reply)
    assert session.values == values
    assert session.state.topic_cells["name"].source == "user"


async def test_a_part_is_accepted_and_the_rest_asked_for_by_name(drive: StartSession) -> None:
    session = await (await drive(script(TWO.replace("number,", "number, required: true,")))).reply("age: 30")
    assert (session.said, errors(session)) == (["Still needed: Your name."], {"name": "This is needed."})
    assert drawn(session)["age"].value == 30
    assert (await session.reply("Ana")).values == {"name": "Ana", "age": 30}  # the only thing that is still asked for


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("cups: 2, at 5 pm", {"cups": 2, "at": "17:00", "sure": True}),
        ("at: 5 pm, 2 cups", {"cups": 2, "at": "17:00", "sure": True}),
        ("no, my cups: 2", {"cups": 2, "at": "08:00", "sure": True}),
        ("note: I woke at 5 am, cups: 2", {"note": "I woke at 5 am", "cups": 2, "at": "08:00", "sure": True}),
    ],
)
async def test_a_part_without_a_name_is_read_as_well(drive: StartSession, reply, values) -> None:
    fields = """
    - {field: cups, type: number, required: true}
    - {field: at, type: time, default: "08:00"}
    - {field: sure, type: boolean, default: true}
    - {field: note}
    """
    session = await (await drive(script(fields))).reply(reply)
    assert session.values == values


async def test_without_names_each_takes_what_only_its_type_can_mean(drive: StartSession) -> None:
    fields = "[{field: age, type: number}, {field: sure, type: boolean}, {field: name}]"
    session = await (await drive(script(fields))).reply("30")
    assert session.values == {"age": 30}


async def test_a_reply_that_says_nothing_of_the_form_is_asked_again(drive: StartSession) -> None:
    session = await (await drive(script(TWO.replace(", required: true", "")))).reply("well")
    assert session.said == ["I could not read that. Say it like this: Your name: …, age: …"]
    assert (await session.reply("Your name: Ana")).values == {"name": "Ana"}


@pytest.mark.parametrize(
    ("field", "reply", "expected"),
    [
        ("type: multichoice, choices: [sea salt, sugar]", "x: salt and sugar", ["sea salt", "sugar"]),
        (
            "type: table, columns: [drug, {field: mg, type: number}]",
            "iron, 20; zinc, ten",
            [{"drug": "iron", "mg": 20}, {"drug": "zinc", "mg": 10}],
        ),
        ("type: file", "https://example.org/scan.pdf", "https://example.org/scan.pdf"),
        ("pattern: '[A-Z]{2}[0-9]+'", "it is AB12, I think", "AB12"),
    ],
)
async def test_every_type_is_read_from_words(drive: StartSession, field, reply, expected) -> None:
    text = script("[{field: x, required: true, " + field + "}]")
    assert (await (await drive(text)).reply(reply)).values == {"x": expected}


@pytest.mark.parametrize("reply", ["x: one, two, three", "x: iron, lots"])
async def test_rows_that_do_not_fit_are_reported(drive: StartSession, reply) -> None:
    field = "{field: x, type: table, columns: [drug, {field: mg, type: number}]}"
    session = await (await drive(script(f"[{field}]"))).reply(reply)
    assert list(errors(session)) == ["x"]


async def test_a_blank_reply_costs_no_round_and_leaves_the_errors(drive: StartSession) -> None:
    session = await fill(await drive(script(TWO)), age=300)
    before = session.state.wait
    await session.reply("  ")
    assert (session.state.wait, session.state.progress.round) == (before, 1)
    assert session.said[0].startswith("age: Sorry")


async def test_the_model_helps_with_words_that_no_parser_reads(drive: StartSession) -> None:
    replies = {"fill.extract": [{"values": {"name": "Ana", "other": 1}}]}
    session = await drive(script(TWO), replies=replies)
    assert (await session.reply("people call me Ana")).values == {"name": "Ana"}


# -- rounds, policies, repairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "said"), [("default", ["Done.", "Bye?"]), ("skip", ["Done.", "Bye?"]), ("end", [])])
async def test_script_says_how_to_continue_without_rounds_left(drive: StartSession, policy, said) -> None:
    session = await drive(script(TWO, more=f"max_rounds: 2, on_fail: {policy}"))
    await fill(await fill(session, age=30), name="")
    assert session.said == said
    assert session.happened(ActionLeft)[0].rounds == 2
    assert ("value_missing", "`name` stays unset: no valid answer within the rounds") in session.warnings
    if said:
        assert session.values == {"age": 30}


async def test_a_required_field_that_stays_cleared_takes_its_default(drive: StartSession) -> None:
    text = script("[{field: city, required: true, default: Paris}]", more="max_rounds: 1")
    session = await fill(await drive(text), city="")
    assert (session.values, session.warnings) == ({"city": "Paris"}, [])


async def test_default_without_items_is_stored_with_every_policy(drive: StartSession) -> None:
    text = script("[{field: pets, type: multichoice, choices: [dog], required: true, default: []}]")
    session = await fill(await drive(text.replace("id: fill", "id: fill, max_rounds: 1, on_fail: skip")), pets=[])
    assert (session.values, session.warnings) == ({"pets": []}, [])


async def test_what_cannot_be_worked_out_stays_unset_with_a_warning(drive: StartSession) -> None:
    fields = """
    - {field: weight, type: number}
    - {field: note}
    - {field: half, computed: weight / 2}
    - {field: more, computed: note + 1}
    - {field: date, type: date, computed: "'soon'"}"""
    session = await fill(await drive(script(fields)), note="none")
    assert session.said == ["Done.", "Bye?"]
    assert session.values == {"note": "none", "half": None, "more": None, "date": None}
    assert [code for code, _ in session.warnings] == [
        "undefined_variable",
        "value_missing",
        "expression_failed",
        "value_missing",
    ]
    assert session.warnings[1] == ("value_missing", "`half` stays unset: `weight` has no value")


async def test_a_corrected_form_value_is_computed_with_again(drive: StartSession) -> None:
    fields = "[{field: age, label: Your age, type: number, max: 120}, {field: next_age, computed: age + 1}]"
    text = script(fields) + "repairs: [correct, skip]\n"
    session = await fill(await drive(text), age=30)
    await session.reply("correction: your age: 40")
    assert session.values == {"age": 40, "next_age": 41}
    await session.reply("correction: age: 400")
    assert session.values == {"age": 40, "next_age": 41}


async def test_a_form_is_skipped_where_nothing_in_it_is_required(drive: StartSession) -> None:
    text = script(TWO) + "repairs: [skip]\n"
    session = await (await drive(text)).reply("skip")
    assert session.said == ["I do need an answer to this one.", "Please fill this in."]
    assert session.state.wait.kind == "form"
    session = await (await drive(text.replace(", required: true", ""))).reply("skip")
    assert session.said == ["Done.", "Bye?"]


async def test_interrupt_returns_to_the_form_with_its_values(drive: StartSession) -> None:
    text = (
        script(TWO.replace("number,", "number, required: true,"))
        + "interrupts: [{on: [help], do: [{say: Here I am.}]}]\n"
    )
    session = await (await drive(text)).reply("age: 30", "help")
    assert session.said == ["Here I am.", "Please fill this in."]
    assert drawn(session)["age"].value == 30
    assert (await session.reply("Ana")).values == {"name": "Ana", "age": 30}


async def test_a_form_in_a_skill_fills_the_skills_own_variables(drive: StartSession) -> None:
    text = """
    script: test
    forms: [{form: f, fields: [a, {field: b, computed: a ~ '!'}]}]
    skills: [{skill: s, returns: [b], actions: [{form: f, id: fill}]}]
    phases: [{phase: p, topics: [{topic: t, actions: [{call: s, id: c, output: {got: b}}, {ask: "{{ got }}", id: q}]}]}]
    """
    session = await fill(await drive(text), a="x")
    assert (session.said, session.values) == (["x!"], {"got": "x!"})


async def test_a_waiting_form_survives_being_saved(drive: StartSession) -> None:
    session = await fill(await drive(script(TWO)), age=300)
    assert decode(encode(session.state)) == session.state


async def test_forms_speak_chinese(drive: StartSession) -> None:
    fields = "[{field: 姓名, required: true}, {field: age, label: 年龄, type: number, required: true}]"
    session = await (await drive(script(fields, "好的，{{ 姓名 }}").replace("Please fill this in.", "请填写。"))).reply(
        "年龄：28"
    )
    assert session.said == ["还需要：姓名。"]
    assert (await session.reply("小明")).values == {"age": 28, "姓名": "小明"}


EVERY = """
script: every
default_scope: session
declare: [{var: size, type: number, value: 3}]
forms:
- form: every
  title: "{{ size }}"
  fields:
  - {field: text, required: true, max: 4}
  - {field: size, type: number, min: 0, validate: size != 7}
  - {field: sure, type: boolean, default: true}
  - {field: day, type: date, min: "2000-01-01"}
  - {field: pick, choices: [red, 蓝色], required: true}
  - {field: some, type: multichoice, choices: [a, b], min: 1}
  - {field: rows, type: table, max: 2, columns: [{field: k, required: true}, {field: n, type: number, default: 1}]}
  - {field: scan, type: file}
  - {field: total, type: number, computed: size * (rows | length) + (text | length)}
  - {field: twice, computed: total ~ text}
phases: [{phase: p, topics: [{topic: t, actions: [{repeat: {max: 3}, do: [{form: every, max_rounds: 2}]}]}]}]
"""
ENTRIES = {
    "text": st.sampled_from(["ab", "too long", "", None, 12]),
    "size": st.sampled_from([1, "2", 7, -1, "many"]),
    "sure": st.booleans() | st.sampled_from(["false", "perhaps"]),
    "day": st.sampled_from(["2026-01-31", "1999-01-01", "soon"]),
    "pick": st.sampled_from(["red", "蓝色", "RED", "green", 1]),
    "some": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3) | st.just("a"),
    "rows": st.lists(st.fixed_dictionaries({}, optional={"k": st.text(max_size=2), "n": st.sampled_from([1, "x"])})),
    "scan": st.text(max_size=5),
}
WORDS = st.sampled_from(
    ["text: ab, pick: red", "pick: 蓝色\ntext: x\nrows: a, 2; b", "red", "some: a and b", "", "size: 7", "嗯"]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(["k", "n", "o"]), parts, max_size=3),
    max_leaves=6,
)
filled = st.fixed_dictionaries({}, optional=ENTRIES) | st.dictionaries(st.sampled_from([*ENTRIES, "total", "o"]), junk)


@settings(max_examples=repeats(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(inputs=st.lists(filled | WORDS, min_size=1, max_size=8))
async def test_any_input_is_stored_as_the_fields_define_it_or_refused(prepare: NewSession, inputs) -> None:
    straight, stopped = prepare(EVERY), prepare(EVERY, saved=True)
    for session in (straight, stopped):
        await session.turn(Start())
        for values in inputs:
            if session.state.wait is None:
                break
            before = encode(session.state)
            try:
                await session.turn(Reply(values) if isinstance(values, str) else FormInput(values))
            except InputRefused:
                assert encode(session.state) == before
    assert stopped.state == straight.state
    assert [turn.events for turn in stopped.turns] == [turn.events for turn in straight.turns]
    retained = straight.values
    assert retained.get("pick") in {None, "red", "蓝色"}
    assert retained.get("sure") in {None, True, False}
    assert isinstance(retained.get("text", ""), str | None)
    assert len(retained.get("text") or "") <= 4
    assert retained["size"] is None or (retained["size"] >= 0 and retained["size"] != 7)
    assert set(retained.get("some") or []) <= {"a", "b"}
    assert all(row["k"] and isinstance(row["n"], int | float) for row in retained.get("rows") or [])


GERMAN = """
strings: de
lines:
  form:f/pets.label: Tiere
  form:f/pets.choices.cat: Katze
  form:f/pets.choices.dog: Hund
phrases: {multichoice: "Bitte aus: {choices}."}
"""


async def test_a_translated_form_keeps_the_values_of_the_script(drive: StartSession) -> None:
    field = "{field: pets, label: Pets, type: multichoice, choices: [cat, dog]}"
    text = "script: s\nuse: [de.yaml]\nlocale: en\nforms: [{form: f, fields: [" + field + "]}]\n"
    text += "phases: [{phase: p, topics: [{topic: t, actions: [{form: f, id: f}, {ask: Bye?, id: b}]}]}]\n"
    reading = read_script(Source(text, "s.yaml", {"de.yaml": GERMAN}))
    assert reading.script is not None
    session = await drive(Program(reading.script).in_locale("de"))
    assert (drawn(session)["pets"].label, drawn(session)["pets"].labels) == ("Tiere", {"cat": "Katze", "dog": "Hund"})
    assert (await session.reply("Tiere: Maus")).said == ["Tiere: Bitte aus: Katze, Hund."]
    assert (await session.reply("Tiere: Katze, Hund")).values == {"pets": ["cat", "dog"]}


COMPUTED = """
cuebook: 1
script: test
repairs: [correct]
actions:
  - {ask: How many are left?, into: {var: most, type: number}}
  - form: order
    id: order
  - say: "{{ count }}"
forms:
  - form: order
    text: Please order.
    fields:
      - {field: count, type: number, min: 1, max: LIMIT, default: DEFAULT, invalid: Not so many.}
      - field: parcels
        type: table
        columns: [{field: weight, type: number, max: LIMIT, default: DEFAULT}]
        default: []
"""


def computed(limit: str = "=most", default: str = "=most - 1") -> str:
    return COMPUTED.replace("LIMIT", limit).replace("DEFAULT", f'"{default}"')


async def test_limits_and_defaults_of_fields_are_computed(drive: StartSession) -> None:
    session = await drive(computed())
    await session.reply("5")
    count, (weight,) = drawn(session)["count"], drawn(session)["parcels"].columns
    assert (count.min, count.max, count.value, weight.max, weight.value) == (1, 5, 4, 5, 4)
    assert errors(await fill(session, count=6)) == {"count": "Not so many."}
    assert "count" not in errors(await fill(session, parcels=[{"weight": 6}]))
    assert list(errors(session)) == ["parcels"]
    assert (await fill(session, count=5, parcels=[])).said == ["5"]


async def test_a_computed_default_is_stored_if_the_field_is_left_out(drive: StartSession) -> None:
    session = await drive(computed())
    await session.reply("5")
    assert (await fill(session)).said == ["4"]
    assert ("count", "default") in [(change.name, change.source) for change in session.turns[-1].changes]


@pytest.mark.parametrize(("limit", "code"), [("=missing", "undefined_variable"), ("='x'", "expression_failed")])
async def test_a_field_with_a_limit_that_cannot_be_computed_has_none(drive: StartSession, limit, code) -> None:
    session = await drive(computed(limit))
    await session.reply("5")
    assert drawn(session)["count"].max is None
    assert code in dict(session.warnings)
    assert (await fill(session, count=900)).said == ["900"]


async def test_a_computed_default_that_its_field_refuses_is_none(drive: StartSession) -> None:
    session = await drive(computed(default="=most * 2"))
    await session.reply("5")
    assert drawn(session)["count"].value is None
    assert ("expression_failed", "line 14: `count` refuses the default 10") in session.warnings


async def test_a_correction_changes_the_limits_of_the_form(drive: StartSession) -> None:
    session = await drive(computed())
    await session.reply("5")
    await session.reply("change most to 3")
    assert (drawn(session)["count"].max, drawn(session)["count"].value) == (3, 2)
    assert errors(await fill(session, count=4)) == {"count": "Not so many."}


async def test_a_correction_of_a_field_keeps_within_its_computed_limit(drive: StartSession) -> None:
    session = await drive(computed().replace('- say: "{{ count }}"', "- {ask: What else?, into: more}"))
    await session.reply("5")
    await fill(session, count=3)
    await session.reply("change count to 9")
    assert session.said == ["Not so many.", "What else?"]
    await session.reply("change count to 5")
    assert session.values["count"] == 5


CHOSEN = """
cuebook: 1
script: test
actions:
  - {ask: "Which may it be?", into: {var: cities, type: list}}
  - form: trip
  - say: "{{ city }} {{ stops | join('+') }}"
forms:
  - form: trip
    text: Please fill this in.
    fields:
      - {field: city, CHOICES}
      - {field: stops, type: multichoice, CHOICES}
"""


async def test_choices_of_fields_are_computed(drive: StartSession) -> None:
    session = await drive(CHOSEN.replace("CHOICES", "choices: =cities"))
    await session.reply("Rome, Oslo")
    city, stops = drawn(session)["city"], drawn(session)["stops"]
    assert (city.type, city.choices, stops.type, stops.choices) == (
        "choice",
        ("Rome", "Oslo"),
        *("multichoice", city.choices),
    )
    assert set(errors(await fill(session, city="Lima", stops=["Rome", "Bern"]))) == {"city", "stops"}
    assert (await fill(session, city="Oslo", stops=["Oslo", "Rome"])).said == ["Oslo Oslo+Rome"]


async def test_fields_whose_choices_are_no_list_of_texts_are_open(drive: StartSession) -> None:
    session = await drive(CHOSEN.replace("CHOICES", "choices: =cities | length"))
    await session.reply("Rome, Oslo")
    assert (drawn(session)["city"].type, drawn(session)["city"].choices) == ("text", ())
    assert "expression_failed" in dict(session.warnings)
    assert (await fill(session, city="Lima", stops=["Bern"])).said == ["Lima Bern"]
