"""A session keeps the language it was begun in, for what it says and for what is recorded."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

SCRIPT = """
script: tea
locale: en
use: [tea.de.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: How many cups?, id: cups, output: [{get: cups, type: number}]}
          - {choose: kind, id: kind, question: Which tea?, choices: [{G: green}, {B: black}]}
          - {say: "{{ cups }} of {{ kind }}.", id: done}
"""
TABLE = """
strings: de
lines:
  p/t/cups.ask: Wie viele Tassen?
  p/t/kind.question: Welcher Tee?
  p/t/kind.choices.G: grün
  p/t/done.say: "{{ cups }} mal {{ kind }}."
phrases: {number: Eine Zahl bitte.}
"""


async def publish(api: ApiClient) -> None:
    await api.publish_script(SCRIPT, files={"tea.de.yaml": TABLE})


async def test_sessions_of_one_script_speak_several_languages(api: ApiClient) -> None:
    await publish(api)
    german, english = await api.create_session("tea", locale="de-CH"), await api.create_session("tea")
    assert (german["aiMessage"], english["aiMessage"]) == ("Wie viele Tassen?", "How many cups?")
    assert (await api.send_texts(german, "viele"))["aiMessage"] == "Eine Zahl bitte."
    asked = await api.send_texts(german, "3")
    assert asked["wait"]["choices"] == [{"key": "G", "text": "grün"}, {"key": "B", "text": "black"}]
    answer = await api.send_message(german, {"choice": "G"})
    assert answer.json()["aiMessage"] == "3 mal G."
    assert (await api.send_texts(english, "2", "black"))["aiMessage"] == "2 of B."


async def test_session_keeps_its_language_after_a_restart(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, locale="de") as api:
        await publish(api)
        session = await api.create_session("tea")
        assert session["aiMessage"] == "Wie viele Tassen?"
    async with app(tmp_path, locale="en") as api:
        assert (await api.send_texts(session, "3"))["aiMessage"] == "Welcher Tee?"
        assert (await api.create_session("tea"))["aiMessage"] == "How many cups?"
    async with app(tmp_path, session_cache_max=1) as api:
        await api.create_session("tea")
        assert (await api.send_texts(session, "1"))["aiMessage"] == "3 mal G."


async def test_the_database_says_what_language_a_session_is_in(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await publish(api)
        sessions = [await api.create_session("tea", locale="de-CH"), await api.create_session("tea")]
        seen = [await api.read(f"/api/sessions/{session['sessionId']}") for session in sessions]
    assert [session["locale"] for session in seen] == ["de-CH", "en"]


@pytest.mark.gate
@pytest.mark.parametrize("locale", ["", "german", "de_DE", "de\n", "d", 5, "de-" + "x" * 9, "de" + "-x" * 9])
async def test_what_is_no_language_tag_begins_no_session(api: ApiClient, locale: Any) -> None:
    answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "diary", "locale": locale})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "REQUEST_INVALID"
    assert "locale" in answer.json()["error"]["message"]


async def test_the_form_of_a_language_tag_is_described_in_words(api: ApiClient) -> None:
    answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "diary", "locale": "de_DE"})
    error = answer.json()["error"]
    assert error["message"] == "locale: expected a language tag such as en, de or pt-BR"
    assert [detail["message"] for detail in error["details"]] == ["expected a language tag such as en, de or pt-BR"]


async def test_a_broken_table_keeps_a_script_from_being_published(api: ApiClient) -> None:
    files = {"tea.de.yaml": TABLE.replace("{{ cups }}", "{{ cupz }}")}
    answer = await api.post("/api/scripts", json={"yamlContent": SCRIPT, "files": files})
    assert answer.status_code == 422
    (problem,) = [each for each in answer.json()["error"]["details"] if each["severity"] == "error"]
    assert (problem["code"], problem["file"], problem["line"]) == ("STRING_PLACEHOLDERS", "tea.de.yaml", 7)


async def test_session_keeps_its_language_after_a_migration(api: ApiClient) -> None:
    await publish(api)
    session = await api.create_session("tea", locale="de")
    table = TABLE.replace("Welcher Tee?", "Welche Sorte?")
    await api.publish_script(SCRIPT.replace("many cups?", "much tea?"), files={"tea.de.yaml": table})
    moved = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json={})
    assert moved.json()["verdict"] == "safe", moved.text
    assert (await api.send_texts(session, "3"))["aiMessage"] == "Welche Sorte?"
    await api.publish_script(SCRIPT.replace("ask: How", "ai_ask: How"), files={"tea.de.yaml": table})
    begun = await api.create_session("tea", locale="de")
    moved = await api.post(f"/api/sessions/{begun['sessionId']}/migrate", json={"version": 1})
    assert (moved.json()["verdict"], moved.json()["wait"]["kind"]) == ("restart_topic", "text"), moved.text
    assert (await api.send_texts(begun, "3"))["aiMessage"] == "Welcher Tee?"


async def test_answers_are_read_in_the_language_of_the_session(api: ApiClient) -> None:
    await publish(api)
    german, french = await api.create_session("tea", locale="de-AT"), await api.create_session("tea", locale="fr")
    assert (await api.send_texts(german, "dreieinhalb", "das zweite, bitte"))["aiMessage"] == "3.5 mal B."
    assert (await api.send_texts(french, "j’en veux trois", "la première"))["aiMessage"] == "3 of G."
