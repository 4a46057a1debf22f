"""What authors see of sessions: they migrate them without reading personal values."""

import pytest

from tests.support.api_client import ApiClient

VISIT = """
script: visit_twice
declare:
  - {var: name, type: text, pii: true}
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
      - topic: more
        actions:
          - {say: "Welcome, {{ name }}.", id: welcome}
          - {choose: pick, id: pick, question: Which one?, choices: [{A: "{{ name }}'s"}, {B: another}]}
"""
RESTARTS = VISIT.replace("id: pick", "id: pick_one")


@pytest.mark.parametrize(
    ("roles", "name"),
    [(("author",), "[name]"), (("author", "app"), "Wilhelmina"), (("author", "reader"), "Wilhelmina")],
)
async def test_migration_shows_personal_values_to_permitted_roles(
    api: ApiClient, roles: tuple[str, ...], name: str
) -> None:
    await api.publish_script(VISIT)
    session = await api.create_session("visit_twice")
    await api.send_texts(session, "Wilhelmina")
    await api.publish_script(RESTARTS)
    headers = {"Authorization": await api.create_key(*roles)}
    path = f"/api/sessions/{session['sessionId']}/migrate"
    moved = (await api.post(path, json={}, headers=headers)).json()
    assert [message["content"] for message in moved["messages"]] == [f"Welcome, {name}.", "Which one?"]
    again = (await api.post(path, json={"dryRun": True}, headers=headers)).json()
    for answer in (moved, again):
        assert answer["wait"]["choices"] == [{"key": "A", "text": f"{name}'s"}, {"key": "B", "text": "another"}]


async def test_author_cannot_read_a_session_by_choosing_its_model(api: ApiClient) -> None:
    session = await api.create_session("visit")
    path = f"/api/sessions/{session['sessionId']}/model"
    headers = {"Authorization": await api.create_key("author")}
    assert (await api.post(path, json={"model": None}, headers=headers)).status_code == 403
