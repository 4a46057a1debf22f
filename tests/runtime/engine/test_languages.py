"""A session in another language: everything it says is translated, what it remembers is not."""

import re
import runpy
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.answers.languages import phrase
from runtime.state.program import Program
from scripts.parse.read_script import Source, read_script
from scripts.translations.localisation import Phrase, lines_of
from scripts.yaml.script_writer import native_yaml
from tests.support.effort import repeats
from tests.support.runtime_session import NewSession, ReadProgram, StartSession

ANY = runpy.run_path(str(Path(__file__).with_name("test_any_script.py")))  # random scripts, and what comes of a session

TABLE = """
strings: de
lines:
  only/talk/mood.ask: Wie geht es?
  only/talk/mood.output.mood.choices.low: schlecht
  only/talk/mood.output.mood.choices.ok: gut
  only/talk/age.ask: Wie alt?
  only/talk/pick.question: Was nun?
  only/talk/pick.choices.A: Schlafen
  only/talk/bye.say: "{{ mood }}, {{ age }}, {{ next }}"
phrases: {number: Eine Zahl bitte., choice: "Bitte eines von: {choices}."}
"""
TALK = """
script: test
locale: en
use: [de.yaml]
declare: [{var: mood, choices: [low, ok]}]
phases:
- phase: only
  topics:
  - topic: talk
    actions:
    - {ask: How are you?, id: mood, output: [mood]}
    - {ask: How old?, id: age, output: [{get: age, type: number}]}
    - {choose: next, id: pick, question: What now?, choices: [{A: Sleep}, {B: Coffee}]}
    - {say: "{{ mood }}, {{ age }}, {{ next }}.", id: bye}
"""


def program_in(locale: str) -> Program:
    reading = read_script(Source(TALK, "test.yaml", {"de.yaml": TABLE}))
    assert reading.script is not None, reading.errors
    return Program(reading.script).in_locale(locale)


@pytest.mark.parametrize("locale", ["de", "de-AT"])
async def test_a_session_speaks_the_language_of_its_table(drive: StartSession, locale) -> None:
    session = await drive(program_in(locale), saved=True)
    assert session.said == ["Wie geht es?"]
    assert [(choice.key, choice.text) for choice in session.state.wait.choices] == [("low", "schlecht"), ("ok", "gut")]
    await session.reply("blau")
    assert session.said == ["Bitte eines von: schlecht, gut."]
    await session.reply("gut")
    assert (session.said, session.values["mood"]) == (["Wie alt?"], "ok")
    await session.reply("jung")
    assert session.said == ["Eine Zahl bitte."]
    await session.reply("30")
    assert session.said == ["Was nun?"]
    assert [choice.text for choice in session.state.wait.choices] == ["Schlafen", "Coffee"]
    await session.reply("ich möchte Schlafen")
    assert session.said == ["ok, 30, A"]


async def test_a_value_is_still_a_choice_by_its_own_name(drive: StartSession) -> None:
    session = await (await drive(program_in("de"))).reply("low")
    assert session.values["mood"] == "low"
    picked = await (await drive(program_in("de"))).choose("low")
    assert picked.values["mood"] == "low"


async def test_a_language_without_a_table_hears_the_script_s_own_texts(drive: StartSession) -> None:
    session = await drive(program_in("fr"))
    assert session.said == ["How are you?"]
    assert program_in("fr").script.strings != ()


def test_runtime_texts_are_in_the_language_if_it_is_known() -> None:
    for name in get_args(Phrase):
        assert phrase("zh-Hant", name, own={}) == phrase("zh", name, own={}) != phrase("en", name, own={})
        assert phrase("sv", name, own={}) == phrase("en-GB", name, own={}) == phrase("en", name, own={})
    assert phrase("de", "choice", ("a", "b"), own={"choice": "{choices}?"}) == "a, b?"
    assert phrase("zh-CN", "choice", ("a", "b"), own={"choice": "{choices}?"}) == "a、b?"
    assert phrase("sv", "choice", ("a",), own={"choice": ""}) == phrase("en", "choice", ("a",), own={})


def with_table(script: str, mark: str) -> str:
    """Return the YAML of a table that puts a mark before every line of a script and every sentence of the runtime."""
    reading = read_script(Source(script, "any.yaml", {"globals.yaml": ANY["GLOBALS"]}))
    assert reading.script is not None
    lines = lines_of(reading.script)
    assert all(line.id for line in lines)
    phrases = {name: mark + phrase("en", name, own={}) for name in get_args(Phrase)} if mark else {}
    translations = {line.id: {"of": line.text, "text": mark + line.text} for line in lines}
    table = {"strings": "qaa", "lines": translations, "phrases": phrases}
    return str(yaml.safe_dump(table, allow_unicode=True, default_style='"', width=10**9))


def named(script: str) -> str:
    """Return the script with its ids written out."""
    reading = read_script(Source(script, "any.yaml", {"globals.yaml": ANY["GLOBALS"]}))
    assert reading.script is not None
    return native_yaml(reading.script)


async def spoken(prepare: Any, script: str, table: str, said: list[Any], seed: int) -> Any:
    files = {"globals.yaml": ANY["GLOBALS"], "de.yaml": table}
    script = re.sub(r"^use: .*$", "use: [globals.yaml, de.yaml]", script, count=1, flags=re.MULTILINE)
    reading = read_script(Source(script, "any.yaml", files))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    program = Program(reading.script).in_locale("qaa")
    session = prepare(program, seed=seed, limits=ANY["LIMITS"])
    session.state.locale = "en"
    return await ANY["lived"](session, said), session


@pytest.mark.gate
@pytest.mark.timeout(
    600
)  # shrinking a failure; cut off as a script is drawn, it would look as if drawing were unsteady
@settings(max_examples=repeats(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=ANY["scripts"]().map(named), said=ANY["inputs"], seed=st.integers(0, 9))
async def test_a_table_of_the_same_texts_changes_nothing(
    program_of: ReadProgram, prepare: NewSession, script, said, seed
) -> None:
    plain = prepare(program_of(script, ANY["GLOBALS"]), seed=seed, limits=ANY["LIMITS"])
    plain.state.locale = "en"
    account = await ANY["lived"](plain, said)
    translated, session = await spoken(prepare, script, with_table(script, ""), said, seed)
    assert translated == account
    assert session.state == plain.state


@pytest.mark.timeout(
    600
)  # shrinking a failure; cut off as a script is drawn, it would look as if drawing were unsteady
@settings(max_examples=repeats(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=ANY["scripts"]().map(named), said=ANY["inputs"], seed=st.integers(0, 9))
async def test_nothing_is_ever_said_but_what_the_table_says(prepare: NewSession, script, said, seed) -> None:
    _, session = await spoken(prepare, script, with_table(script, "§ "), said, seed)
    heard = [message.content for message in session.messages if message.role == "assistant"]
    wait = session.state.wait
    heard += [choice.text for choice in wait.choices] + [wait.suggestion] * (wait.kind == "suggestion") if wait else []
    assert all(is_of_the_table(text) for text in heard if text.strip())


def is_of_the_table(text: str) -> bool:
    """Return whether a text is translated; problems of a form name the field, by its label if it has one."""
    return text.startswith("§ ") or all(re.match(r"(\w+: )?§ ", line) for line in text.splitlines())


def test_form_errors_are_translated_except_for_field_names() -> None:
    assert is_of_the_table("p_date: § A date, please.\n§ Number 1: § Too small.")
    assert not is_of_the_table("p_date: § A date, please.\nscan: Too small.")


async def test_unknown_language_is_served_in_english(drive: StartSession) -> None:
    script = """
        script: t
        locale: sv
        repairs: [repeat]
        phases: [{phase: p, topics: [{topic: t, actions: [
          {ask: Hur gammal?, id: age, output: [{get: age, type: number}]}, {chat: Mer?, id: talk}]}]}]
    """
    session = await drive(script)
    assert session.state.locale == "sv"
    await session.reply("nja")
    assert session.said == [phrase("en", "number", own={})]
    await session.reply("repeat that", "30", "vet inte")
    assert session.said == [phrase("en", "noted", own={})]
    await session.reply("bye")
    assert session.state.status == "completed"
