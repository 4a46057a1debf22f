"""A session asks another language model than its script names."""

from pathlib import Path

import pytest
from msgspec import structs

from api.catalog.catalog import Catalog
from api.models.server_model import ModelUnknown, make_model
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.schemas.timestamps import utc_now
from api.settings import Settings
from runtime.models.cassette_file import ScriptedFileInvalid
from runtime.models.hosted.settings import ModelSettings, Secret
from runtime.state.limits import Limits
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.openai_server import Endpoint

TALK = """
cuebook: 1
script: talk
actions:
  - ai_say: Greet.
  - {ask: How are you?, into: mood, id: mood}
  - {ai_say: Answer., model: slow, id: answer}
  - {ask: Anything else?, into: more, id: more}
  - ai_say: Say goodbye.
"""


def settings_of(endpoint: Endpoint) -> Settings:
    named = {
        name: ModelSettings(model=f"{name}-1", url=endpoint.url, key=Secret("key"), attempts=1)
        for name in ("fast", "slow", "clever")
    }
    return Settings(model="fast", models=named)


def asked(endpoint: Endpoint) -> list[str]:
    return [each.model for each in endpoint.requests]


async def test_chosen_model_answers_in_place_of_all_others(app: OpenApp, endpoint: Endpoint, tmp_path: Path) -> None:
    settings = settings_of(endpoint)
    endpoint.always(content="Well.")
    async with app(tmp_path, make_model(settings)) as api:
        models = [{"name": name, "isDefault": name == "fast"} for name in ("fast", "slow", "clever")]
        assert (await api.read("/api/models"))["data"] == models
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        path = f"/api/sessions/{session['sessionId']}"
        assert (await api.read(path))["model"] is None
        chosen = await api.post(f"{path}/model?events=true", json={"model": "clever"})
        assert (chosen.status_code, chosen.json()["turn"]) == (200, 1)
        assert chosen.json()["events"][0]["data"] == {"what": "use_model", "model": "clever"}
        assert (await api.post(f"{path}/model", json={"model": "clever"})).json()["turn"] == 1  # nothing changes
        await api.send_texts(session, "Fine")
        assert asked(endpoint) == ["fast-1", "clever-1"]
        await api.post(f"{path}/rewind", json={"turn": 0})
        assert (await api.read(path))["model"] == "clever"
        fork = (await api.post(f"{path}/fork")).json()
        assert (await api.read(f"/api/sessions/{fork['sessionId']}"))["model"] == "clever"
        await api.post(f"{path}/model", json={"model": None})
        await api.send_texts(session, "Fine")
        assert asked(endpoint)[2:] == ["slow-1"]
    async with app(tmp_path, make_model(settings)) as api:
        await api.send_texts(fork, "Fine")
        assert asked(endpoint)[3:] == ["clever-1"]


async def test_unknown_models_are_refused_with_those_that_there_are(
    app: OpenApp, endpoint: Endpoint, tmp_path: Path
) -> None:
    settings = settings_of(endpoint)
    endpoint.always(content="Well.")
    async with app(tmp_path, make_model(settings)) as api:
        await api.publish_script(TALK)
        path = f"/api/sessions/{(await api.create_session('talk'))['sessionId']}/model"
        for sent, problem in (("clevre", "Did you mean `clever`?"), ("openai:x", "there is no model 'openai:x'")):
            refused = await api.post(path, json={"model": sent})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")
            assert problem in refused.json()["error"]["message"]
        assert (await api.post(path, json={"model": ""})).status_code == 400


async def test_server_without_an_endpoint_has_one_model(api: ApiClient) -> None:
    assert (await api.read("/api/models"))["data"] == [{"name": "offline", "isDefault": True}]
    session = await api.create_session("diary")
    assert (await api.post(f"/api/sessions/{session['sessionId']}/model", json={"model": "gpt"})).status_code == 400


async def test_session_is_replayed_with_the_models_that_it_asked(
    app: OpenApp, endpoint: Endpoint, tmp_path: Path
) -> None:
    settings = settings_of(endpoint)
    endpoint.always(content="Well.")
    async with app(tmp_path, make_model(settings)) as api:
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        await api.post(f"/api/sessions/{session['sessionId']}/model", json={"model": "clever"})
        await api.send_texts(session, "Fine", "No")
    store = open_store(tmp_path, read_only=True)
    try:
        source = ReplaySource(store, Catalog(store, utc_now), Limits())
        recorded = await find_session(source, "default", session["sessionId"])
        assert {turn.outcome async for turn in replay(recorded)} == {"same"}
    finally:
        await store.close()


async def test_session_changes_to_a_cassette_and_back(app: OpenApp, endpoint: Endpoint, tmp_path: Path) -> None:
    cassette = tmp_path / "calm.yaml"
    cassette.write_text("replies:\n  answer: [That is good.]\n", "utf-8")
    calm = ModelSettings(cassette=str(cassette))
    settings = settings_of(endpoint)
    endpoint.always(content="Well.")
    for each in (settings, Settings()):
        model = make_model(structs.replace(each, models={**each.models, "calm": calm}))
        async with app(tmp_path / each.model, model) as api:
            assert "calm" in [found["name"] for found in (await api.read("/api/models"))["data"]]
            await api.publish_script(TALK)
            session = await api.create_session("talk")
            path = f"/api/sessions/{session['sessionId']}/model"
            assert (await api.post(path, json={"model": "calm"})).status_code == 200
            answer = await api.send_texts(session, "Fine")
            assert "That is good." in [message["content"] for message in answer["messages"]]
            await api.post(path, json={"model": None})
            answer = await api.send_texts(session, "No")
            assert answer["status"] == "completed"


def test_cassette_is_no_fallback_and_must_exist(tmp_path: Path) -> None:
    (tmp_path / "calm.yaml").write_text("replies: {}\n", "utf-8")
    calm = ModelSettings(cassette=str(tmp_path / "calm.yaml"))
    with pytest.raises(ModelUnknown, match="'calm' is a cassette"):
        make_model(Settings(model="fast", models={"fast": ModelSettings(fallback="calm"), "calm": calm}))
    with pytest.raises(ScriptedFileInvalid):
        make_model(Settings(models={"gone": ModelSettings(cassette=str(tmp_path / "gone.yaml"))}))
