"""What operators and client authors ask of a server: whether it lives, is ready, and what its API looks like."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.paths import LIBRARY

ROUTES = {
    ("post", "/api/sessions"),
    ("get", "/api/sessions"),
    ("get", "/api/sessions/{sessionId}"),
    ("post", "/api/sessions/{sessionId}/messages"),
    ("get", "/api/sessions/{sessionId}/messages"),
    ("get", "/api/sessions/{sessionId}/variables"),
    ("get", "/api/sessions/{sessionId}/events"),
    ("get", "/api/users/{userId}/sessions"),
    ("post", "/api/scripts"),
    ("get", "/api/scripts"),
    ("post", "/api/scripts/import"),
    ("get", "/api/scripts/{scriptId}"),
    ("post", "/api/scripts/validate"),
    ("post", "/api/scripts/{scriptId}/validate"),
    ("post", "/api/keys"),
    ("get", "/api/keys"),
    ("delete", "/api/keys/{keyId}"),
    ("get", "/health"),
    ("get", "/ready"),
    ("get", "/metrics"),
}


async def test_health_names_the_version(api: ApiClient) -> None:
    assert await api.read("/health") == {"status": "ok", "version": version("cuebook")}


async def test_ready_names_what_was_looked_at(api: ApiClient) -> None:
    ready = await api.read("/ready")
    assert (ready["ready"], ready["checks"]["database"]) == (True, "ok")
    assert ready["checks"]["embedder"] == "not loaded"
    assert ready["checks"]["memory"] == "0 waiting"


async def test_a_record_that_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    await open_store(tmp_path).close()
    store = open_store(tmp_path, read_only=True)
    app = create_app(Settings(data=tmp_path), store, OfflineModel())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answer = await client.get("/ready")
    await store.close()
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "checks": answer.json()["checks"]}
    assert "read-only" in answer.json()["checks"]["database"]


async def test_every_answer_has_an_id_of_its_own(api: ApiClient) -> None:
    ids = {(await api.get(path)).headers["x-request-id"] for path in ("/health", "/health", "/nowhere", "/schema")}
    assert len(ids) == 4


@pytest.fixture
async def document(api: ApiClient) -> Any:
    return await api.read("/schema/openapi.json")


async def test_the_description_is_there_for_programs_and_people(api: ApiClient, document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["info"] == {"title": "Cuebook", "version": version("cuebook")}
    page = await api.get("/schema", follow_redirects=True)
    assert page.status_code == 200


async def test_every_route_is_described(document: Any) -> None:
    described = {
        (method, path) for path, item in document["paths"].items() for method in item if method != "parameters"
    }
    assert described >= ROUTES
    names = [operation["operationId"] for operation in operations(document)]
    assert len(names) == len(set(names))
    for operation in operations(document):
        assert operation["summary"]
        success = [code for code in operation["responses"] if code.startswith("2")]
        assert success
        for answer in (operation["responses"][code] for code in success if code != "204"):
            assert all("schema" in content for content in answer["content"].values()), operation["operationId"]


@pytest.mark.gate
async def test_every_body_has_an_example_that_is_accepted(api: ApiClient, document: Any) -> None:
    bodies = [
        (path, operation["requestBody"])
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in {"post", "patch"} and "requestBody" in operation
    ]
    assert len(bodies) > 10
    examples = {path: given["content"]["application/json"]["schema"]["examples"] for path, given in bodies}
    for path in ("/api/scripts", "/api/scripts/import", "/api/scripts/validate"):
        for example in examples[path]:
            answer = await api.post(path, json=example)
            assert answer.is_success, answer.text
    for example in examples["/api/webhooks"]:
        assert (await api.post("/api/webhooks", json=example | {"url": "http://127.0.0.1:9/"})).status_code == 201
    for example in examples["/api/sessions"]:
        answer = await api.post("/api/sessions", json=example | {"scriptId": "visit"})
        assert answer.is_success, answer.text
    await api.publish_script((LIBRARY / "sign_up.yaml").read_text("utf-8"))
    for example in examples["/api/sessions/{sessionId}/messages"]:
        session = await api.create_session("sign_up" if "form" in example else "visit")
        if "form" not in example:
            await api.send_texts(session, "Ana", "30")
        assert (await api.send_message(session, example)).is_success
    for example in examples["/api/sessions/{sessionId}/migrate"]:
        session = await api.create_session("visit")
        answer = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json=example)
        assert answer.is_success, answer.text
    for example in examples["/api/sessions/by-key"]:
        assert (await api.post("/api/sessions/by-key", json=example | {"scriptId": "visit"})).is_success
    for what in ("/variables", "/messages/append", "/rewind", "/fork", "/end", ""):
        for example in examples[f"/api/sessions/{{sessionId}}{what}"]:
            session = await api.create_session("visit")
            await api.send_texts(session, "Ana", "30")
            method = "PATCH" if what in {"/variables", ""} else "POST"
            answer = await api.request(method, f"/api/sessions/{session['sessionId']}{what}", json=example)
            assert answer.is_success, answer.text
    for example in examples["/api/sessions/import"]:
        assert (await api.post("/api/sessions/import", json=example, params={"userId": "ana"})).is_success
    for example in examples["/api/memory/import"]:
        answer = await api.post("/api/memory/import", json=example, params={"userId": "mia"})
        assert answer.is_success, answer.text
    for example in examples["/api/keys"]:  # the last ones: from then on a key is asked for
        assert (await api.create_key("app", **example)).startswith("Bearer")


async def test_every_reference_leads_somewhere(document: Any) -> None:
    schemas = document["components"]["schemas"]
    references = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert references
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= schemas.keys()
    for path, item in document["paths"].items():
        wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for operation in (each for method, each in item.items() if method != "parameters"):
            given = [each["name"] for each in operation.get("parameters", []) if each["in"] == "path"]
            assert set(given) == wanted
            assert all(each["required"] for each in operation.get("parameters", []) if each["in"] == "path")


async def test_errors_are_described_with_their_shape(document: Any) -> None:
    for operation in operations(document):
        for code, response in operation["responses"].items():
            if code.startswith("4"):
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}, (operation["operationId"], code)
    turn = document["paths"]["/api/sessions/{sessionId}/messages"]["post"]["responses"]
    clients = {"400", "401", "403", "404", "408", "409", "410", "412", "413", "415", "422", "429"}
    assert {"200", "500", "503"} | clients == set(turn)


def operations(document: Any) -> Iterator[Any]:
    for item in document["paths"].values():
        yield from (operation for method, operation in item.items() if method != "parameters")


def nodes(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from nodes(value)
