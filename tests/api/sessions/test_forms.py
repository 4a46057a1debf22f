"""Forms over HTTP: drawn by a client from `wait.form`, sent as values by field."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

SHEET = """
script: sheet
forms:
- form: contact
  title: How to reach you
  fields:
  - {field: name, label: Your name, required: true, placeholder: as in your papers}
  - {field: age, type: number, min: 0, max: 120, default: 30}
  - {field: pets, type: table, columns: [{field: kind, choices: [cat, dog]}, {field: legs, type: number, default: 4}]}
  - {field: next_age, type: number, computed: age + 1}
phases: [{phase: p, topics: [{topic: t, actions: [{form: contact, id: fill}, {ask: "Bye, {{ name }}?", id: bye}]}]}]
"""


@pytest.fixture
async def session(api: ApiClient) -> Any:
    await api.publish_script(SHEET)
    return await api.create_session("sheet")


async def test_the_wait_holds_all_that_a_client_needs_to_draw_it(session: Any) -> None:
    assert session["wait"] == {
        "kind": "form",
        "form": {
            "id": "contact",
            "title": "How to reach you",
            "fields": [
                {
                    "name": "name",
                    "label": "Your name",
                    "type": "text",
                    "required": True,
                    "value": None,
                    "placeholder": "as in your papers",
                    "computed": False,
                },
                {
                    "name": "age",
                    "label": "age",
                    "type": "number",
                    "required": False,
                    "value": 30,
                    "min": 0,
                    "max": 120,
                    "computed": False,
                },
                {
                    "name": "pets",
                    "label": "pets",
                    "type": "table",
                    "required": False,
                    "value": None,
                    "computed": False,
                    "columns": [
                        {
                            "name": "kind",
                            "label": "kind",
                            "type": "choice",
                            "required": False,
                            "value": None,
                            "choices": ["cat", "dog"],
                        },
                        {"name": "legs", "label": "legs", "type": "number", "required": False, "value": 4},
                    ],
                },
                {
                    "name": "next_age",
                    "label": "next_age",
                    "type": "number",
                    "required": False,
                    "value": None,
                    "computed": True,
                },
            ],
            "errors": {},
        },
    }
    assert (session["position"]["actionType"], session["position"]["maxRounds"]) == ("form", 3)


async def test_a_filled_form_is_taken_and_recorded(api: ApiClient, session: Any) -> None:
    filled = {"name": "Ana", "age": "41", "pets": [{"kind": "cat"}]}
    answer = (await api.send_message(session, {"form": filled})).json()
    assert (answer["aiMessage"], answer["wait"]) == ("Bye, Ana?", {"kind": "text"})
    pets = [{"kind": "cat", "legs": 4}]
    assert answer["variables"] == {"name": "Ana", "age": 41, "pets": pets, "next_age": 42}
    (said, *_) = (await api.read(f"/api/sessions/{session['sessionId']}/messages"))["data"]
    assert (said["role"], said["content"]) == ("user", "Your name: Ana\nage: 41\npets: kind: cat")
    assert said["metadata"] == {"form": filled}


async def test_what_is_wrong_comes_back_with_the_form(api: ApiClient, session: Any) -> None:
    answer = (await api.send_message(session, {"form": {"name": "", "age": 300}})).json()
    assert set(answer["wait"]["form"]["errors"]) == {"name", "age"}
    assert answer["position"]["currentRound"] == 1
    found = await api.read(f"/api/sessions/{session['sessionId']}")
    assert found["wait"] == answer["wait"]
    assert (await api.send_texts(session, "Your name: Ana"))["aiMessage"] == "Bye, Ana?"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"form": {"nam": "Ana"}}, "Did you mean `name`?"),
        ({"form": {"next_age": 1}}, "next_age"),
        ({"form": {"pets": [{"kin": "cat"}]}}, "`kind`"),
        ({"form": {f"f{n}": n for n in range(101)}}, "form"),
        ({"form": {"age": 10**300}}, "age"),
        ({"form": [1]}, "form"),
        ({"form": {}, "content": "x"}, "`form`"),
        ({"form": {}, "choice": "x"}, "`form`"),
        ({"form": None}, "`form`"),
        ({"choice": "A"}, "waits for form"),
    ],
)
async def test_a_request_that_is_no_such_form_is_refused(api: ApiClient, session: Any, body: Any, named: str) -> None:
    answer = await api.send_message(session, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")
    assert named in answer.text
    assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 0


async def test_a_form_where_a_text_is_waited_for_is_refused(api: ApiClient) -> None:
    answer = await api.send_message(await api.create_session("visit"), {"form": {"name": "Ana"}})
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        400,
        "the session waits for text, not for a form",
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"form": {"nam": "Ana"}}, "form.nam"),
        ({"form": {"next_age": 1}}, "form.next_age"),
        ({"form": {"pets": [{"kin": "cat"}]}}, "form.pets"),
        ({"choice": "A"}, "choice"),
    ],
)
async def test_a_refusal_names_the_field_of_the_message(api: ApiClient, session: Any, body: Any, field: str) -> None:
    error = (await api.send_message(session, body)).json()["error"]
    assert error["details"] == [{"message": error["message"], "field": field}]


async def test_repeated_form_counts_once_also_after_a_restart(app: OpenApp, tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "k"}
    async with app(tmp_path) as api:
        await api.publish_script(SHEET)
        session = await api.create_session("sheet")
        first = await api.send_message(session, {"form": {"age": 1, "name": "Ana"}}, headers)
    async with app(tmp_path) as api:
        again = await api.send_message(session, {"form": {"name": "Ana", "age": 1}}, headers)
        other = await api.send_message(session, {"form": {"name": "Ben", "age": 1}}, headers)
        assert (again.status_code, again.content) == (200, first.content)
        assert other.json()["error"]["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_form_waits_across_a_restart(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(SHEET)
        session = await api.create_session("sheet")
        waiting = (await api.send_message(session, {"form": {"age": 5}})).json()["wait"]
    async with app(tmp_path) as api:
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["wait"] == waiting
        answer = await api.send_message(session, {"form": {"name": "Ana"}})
        assert answer.json()["variables"] == {"name": "Ana", "age": 5, "next_age": 6}


async def test_the_description_types_the_form(api: ApiClient) -> None:
    schemas = (await api.read("/schema/openapi.json"))["components"]["schemas"]
    assert {"FormView", "FieldView", "ColumnView"} <= {name.rpartition("_")[2] for name in schemas}
