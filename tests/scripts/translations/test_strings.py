"""The lines of a script and their ids, and the script in another language."""

from textwrap import dedent, indent

import pytest

from scripts.model.actions import Ask, Say
from scripts.translations.localisation import lines_of, localise, table_for
from tests.support.script_readers import ReadScript, ReadValid

HEAD = "script: s\n{head}phases:\n  - phase: p\n    topics:\n      - topic: t\n        actions:\n"
EVERYTHING = """\
- {say: [Hello., Hi.], id: greet}
- {ai_say: Explain., id: explain}
- ask: Name?
  id: name
  invalid: No name.
  output: [{get: name, invalid: A word.}, {get: mood, choices: [low, ok]}, {set: x, value: 1}]
  if_known: {confirm: "Still {{ name }}?"}
  on_fail: {say: Never mind., do: [{say: We go on., id: on}]}
- {ai_ask: Find out., id: find, exit: it is found, invalid: Not so., output: [colour]}
- {ai_think: Think., id: think}
- choose: pick
  id: pick
  question: Which?
  invalid: None of these.
  choices:
  - {each: "[1] as n", key: n, text: "No. {{ n }}"}
  - {A: Apple}
  - {key: b c, text: Beer, actions: [{say: Cheers., id: cheers}]}
- {user_say: Go on., id: go}
- {show: {image: a.png, caption: A picture}, acknowledge: Nice, id: picture}
- {if: true, id: branch, then: [{say: Yes., id: "yes"}], else: [{say: No., id: "no"}]}
- {foreach: "[1] as n", id: each, do: [{say: "{{ n }}", id: one}]}
- {repeat: {max: 2}, id: again, do: [{say: More., id: more}]}
- {set: {y: "'text'"}, id: note}
- {chat: Talk freely., id: talk}
- {form: sheet, id: fill, invalid: Not like that.}
- {scene: {ai: ""}, id: scene}
- {ask: Which ones?, id: ones, output: [{tolist: ones, fields: [{get: one, invalid: One., choices: [a]}]}]}
- {end: over, id: end}
"""
IDS = """\
greet.say greet.say.2 explain.ai_say
name.ask name.if_known name.on_fail.say on.say
name.invalid name.output.name.invalid name.output.mood.choices.low name.output.mood.choices.ok
find.ai_ask find.invalid find.output.colour.choices.red find.output.colour.choices.blue
pick.question pick.invalid pick.choices.n pick.choices.A pick.choices.b_c cheers.say
go.user_say picture.caption picture.acknowledge yes.say no.say one.say more.say talk.chat fill.invalid
ones.ask ones.output.ones.one.invalid ones.output.ones.one.choices.a
"""
FORMS = """\
forms:
  - form: sheet
    title: About you
    text: Please fill this in.
    fields:
      - {field: height, type: number, label: Height, placeholder: in cm, invalid: A number.}
      - {field: mood, type: choice, choices: [low, ok]}
      - {field: drugs, type: table, label: Drugs, columns: [{field: dose, label: Dose}]}
"""
COLOUR = "declare: [{var: colour, choices: [red, blue]}]\n"


def written(actions: str, head: str = "") -> str:
    return HEAD.format(head=head) + indent(dedent(actions), " " * 10)


def line_ids(script) -> list[str]:
    return [line.id for line in lines_of(script)]


def test_every_text_that_a_user_reads_is_a_line(script: ReadValid) -> None:
    wanted = [f"p/t/{id.replace('b_c', 'b c')}" for id in IDS.split()]
    read = script(written(EVERYTHING, COLOUR + FORMS))
    assert sorted(id for id in line_ids(read) if not id.startswith("form:")) == sorted(wanted)


def test_lines_of_forms_interrupts_and_repairs_are_named_by_them(script: ReadValid) -> None:
    more = """\
interrupts:
  - {interrupt: pain, on: {keywords: [pain]}, do: [{say: Ouch., id: ouch}]}
  - {on: {keywords: [help]}, do: [{say: Yes., id: here}]}
repairs: [{repair: cancel, say: As you wish.}, skip]
"""
    assert line_ids(script(written("- {form: sheet, id: fill}\n", FORMS + more))) == [
        "interrupt:pain/ouch.say",
        "",
        "form:sheet.title",
        "form:sheet.text",
        "form:sheet/height.label",
        "form:sheet/height.placeholder",
        "form:sheet/height.invalid",
        "form:sheet/mood.choices.low",
        "form:sheet/mood.choices.ok",
        "form:sheet/drugs.label",
        "form:sheet/drugs/dose.label",
        "repair:cancel.say",
    ]


def test_labels_of_choices_are_translated(script: ReadValid) -> None:
    asked = "- {ask: How often?, id: a, output: [{get: often, choices: [{0: Never}, {1: Always}, other]}]}\n"
    read = script(
        written(f"- {{form: sheet, id: fill}}\n{asked}", FORMS.replace("[low, ok]", "[{low: Not so well}, ok]"))
    )
    found = {line.id: line.text for line in lines_of(read) if "choices" in line.id}
    assert found == {
        "p/t/a.output.often.choices.0": "Never",
        "p/t/a.output.often.choices.1": "Always",
        "p/t/a.output.often.choices.other": "other",
        "form:sheet/mood.choices.low": "Not so well",
        "form:sheet/mood.choices.ok": "ok",
    }


def test_the_lines_of_a_detector_are_called_by_it(script: ReadValid) -> None:
    detectors = """\
detectors:
  - detector: crisis
    rules: [{words: [die]}]
    replace: Please call for help.
    do: [{if: true, id: whether, then: [{say: Stay with me., id: stay}]}, {say: Here.}]
"""
    read = script(written("- {say: Hello., id: hello}\n", detectors))
    assert line_ids(read) == ["p/t/hello.say", "detector:crisis/stay.say", "", "detector:crisis.replace"]


def test_the_lines_of_a_skill_are_called_by_it(script: ReadValid) -> None:
    skills = "skills: [{skill: relax, actions: [{say: Breathe., id: breathe}]}]\n"
    read = script(written("- {call: relax, id: call}\n", skills))
    assert line_ids(read) == ["skill:relax/breathe.say"]


def test_ids_stay_when_actions_change_places(script: ReadValid) -> None:
    actions = [f"- {{say: Number {n}., id: n{n}}}\n" for n in range(5)]
    there = {line.id: line.text for line in lines_of(script(written("".join(actions))))}
    back = {line.id: line.text for line in lines_of(script(written("".join(reversed(actions)))))}
    assert (there, len(there)) == (back, 5)


def test_text_has_no_line_id_if_its_action_has_none_of_its_own(script: ReadValid) -> None:
    assert line_ids(script(written("- say: Hello.\n- {say: Bye., id: bye}\n"))) == ["", "p/t/bye.say"]


def test_blank_texts_are_no_lines(script: ReadValid) -> None:
    assert line_ids(script(written('- {say: ["", " ", Hello.], id: greet}\n'))) == ["p/t/greet.say.3"]


def test_two_texts_never_share_a_line_id(script: ReadValid) -> None:
    actions = "- {choose: x, id: a, choices: [{b.say: One}]}\n- {say: Two., id: a.choices.b}\n"
    assert line_ids(script(written(actions))) == ["p/t/a.choices.b.say", ""]


TABLE = """\
strings: de
lines:
  p/t/greet.say: {of: Hello., text: Hallo.}
  p/t/greet.say.2: Tag.
  p/t/name.ask: ""
  p/t/name.output.mood.choices.low: schlecht
  p/t/cheers.say: {was: Hey., of: Cheers., text: Prost.}
phrases: {number: Eine Zahl.}
"""


def test_translated_script_says_the_table_and_else_the_original(script: ReadValid) -> None:
    read = script(written(EVERYTHING, COLOUR + FORMS + "use: [de.yaml]\n"), de_yaml=TABLE)
    (table,) = read.strings
    translated = localise(read, table)
    greet, _, name, *_ = translated.phases[0].topics[0].actions
    assert isinstance(greet, Say)
    assert isinstance(name, Ask)
    assert [text.source for text in greet.texts] == ["Hallo.", "Tag."]
    assert name.question.source == "Name?"
    assert name.outputs[1].labels == {"low": "schlecht"}
    assert {line.id: line.text for line in lines_of(translated)}["p/t/cheers.say"] == "Prost."
    assert (translated.locale, dict(translated.phrases)) == ("de", {"number": "Eine Zahl."})
    assert line_ids(translated) == line_ids(read)


@pytest.mark.parametrize(
    ("locale", "table"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("de-AT", "de"),
        ("pt-BR", "pt-BR"),
        ("pt-br-x", "pt-BR"),
        ("pt", None),
        ("pt-PT", None),
        ("zh-Hant-TW", "zh-Hant"),
        ("zh-TW", "zh"),
        ("zh-Hans", "zh"),
        ("fr", None),
        ("en", "en"),
        ("en-GB", None),
        ("en-GB-oed", None),
    ],
)
def test_the_table_is_the_nearest_to_the_tag(script: ReadValid, locale, table) -> None:
    files = {f"t{n}_yaml": f"strings: {tag}\n" for n, tag in enumerate(["de", "pt-BR", "zh", "zh-Hant", "en"])}
    used = "locale: en-GB\nuse: [t0.yaml, t1.yaml, t2.yaml, t3.yaml, t4.yaml]\n"
    found = table_for(script(written("- {say: Hello., id: greet}\n", used), **files), locale)
    assert (found and found.locale) == table


def problems(reading) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in reading.problems]


def test_table_in_the_scripts_own_language_may_have_only_phrases(read: ReadScript) -> None:
    text = written("- {say: Bonjour., id: greet}\n", "locale: fr\nuse: [fr.yaml]\n")
    assert problems(read(text, fr_yaml="strings: fr\nphrases: {number: Un nombre.}\n")) == []


def test_a_complete_table_has_no_problem(read: ReadScript) -> None:
    text = written('- {say: "Hello, {{ user.id }}.", id: greet}\n', "locale: en\nuse: [de.yaml]\n")
    table = 'strings: de\nlines:\n  p/t/greet.say: {of: "Hello, {{ user.id }}.", text: "Hallo, {{ user.id }}."}\n'
    assert problems(read(text, de_yaml=table)) == []


def test_a_stale_translation_may_read_what_the_old_text_read(read: ReadScript) -> None:
    text = written("- {say: Hello., id: greet}\n", "locale: en\nuse: [de.yaml]\n")
    table = 'strings: de\nlines:\n  p/t/greet.say: {of: "Hello {{ name }}.", text: "Hallo {{ name }}."}\n'
    assert [code for code, _ in problems(read(text, de_yaml=table))] == ["STRING_STALE"]


def test_many_missing_lines_do_not_bury_the_rest(read: ReadScript) -> None:
    text = written("".join(f"- {{say: Number {n}., id: n{n}}}\n" for n in range(50)), "locale: en\nuse: [de.yaml]\n")
    found = [problem for problem in read(text, de_yaml="strings: de\n").problems if problem.code == "STRING_MISSING"]
    assert len(found) == 21
    assert any("30 more lines" in problem.message and problem.file == "de.yaml" for problem in found)


def test_a_table_is_no_place_for_anything_else(read: ReadScript) -> None:
    text = written("- {say: Hello., id: greet}\n", "locale: en\nuse: [de.yaml]\n")
    table = "strings: de\nglobals: []\nlines: {p/t/greet.say: {txt: Hallo.}}\n"
    assert [code for code, _ in problems(read(text, de_yaml=table))].count("UNKNOWN_KEY") == 2
