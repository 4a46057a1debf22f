"""Bodies nobody thought of: made by chance from the fields that exist and values that fit nowhere."""

import random
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.paths import LIBRARY

ODD = [
    None,
    True,
    0,
    -1,
    1.5,
    2**53,
    10**300,
    1e-300,
    "",
    " ",
    "\x00",
    "\u202e\ufeff",
    "{{ 9 ** 9 }}",
    "${x}",
    "'; --",
    "../../etc",
    "x" * 1_000,
    [],
    {},
    [[]],
    {"": {"": []}},
]
FIELDS = {
    "/api/sessions": ["userId", "scriptId", "initialVariables", "key", "metadata", "locale", "seed"],
    "/api/sessions/{}/messages": ["content", "choice", "form"],
    "/api/sessions/{}/migrate": ["version", "scriptId", "yamlContent", "files", "dryRun"],
    "/api/scripts": ["yamlContent", "scriptName", "files", "tags", "author", "description", "publish"],
    "/api/scripts/import": ["yamlContent", "scriptName", "files", "tags"],
    "/api/scripts/validate": ["yamlContent", "files"],
    "/api/memory/units": ["userId", "group", "units"],
    "/api/memory/search": ["userId", "text", "vector", "k", "filters", "group", "recallContext", "decay", "ranks"],
    "/api/memory/groups": ["userId", "group", "shortTerm", "contextLength"],
    "/api/memory/forget": ["userId", "share", "policy", "dryRun"],
}
FITTING = {
    "userId": "ana",
    "scriptId": "visit",
    "initialVariables": {"age": 3},
    "content": "hello",
    "units": [{"content": "hello"}],
    "text": "hello",
    "k": 3,
    "group": "notes",
    "ranks": [0, 1],
    "yamlContent": "script: s\nphases: [{phase: p, topics: [{topic: t, actions: [{say: hi, id: a}]}]}]\n",
}
ENTRIES = {
    "name": "Ana",
    "email": "ana@example.org",
    "born": "1990-05-03",
    "experience": "some",
    "evenings": ["Monday"],
    "guests": [{"guest": "Ben"}],
}
SHAPE = {"code", "type", "message", "details", "context", "recovery"}


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 4 and kind < 0.15:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if depth < 4 and kind < 0.35:
        names = ["age", "visits", "mood", "a b", "用户", "__class__", *map(str, range(3))]
        return {chance.choice(names): value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return chance.choice(ODD)


def body(chance: random.Random, fields: list[str]) -> Any:
    if chance.random() < 0.05:
        return value(chance)
    made = {}
    for field in fields:
        if field in FITTING and chance.random() < 0.6:
            made[field] = FITTING[field]
        elif chance.random() < 0.5:
            made[field] = value(chance)
    return made


@pytest.mark.gate
@pytest.mark.timeout(600)
async def test_any_body_is_taken_or_refused_in_the_one_shape(api: ApiClient) -> None:
    chance = random.Random(5)
    statuses = set()
    for _ in range(repeats(500)):
        session = await api.create_session("visit")
        path, fields = chance.choice(list(FIELDS.items()))
        answer = await api.post(path.format(session["sessionId"]), json=body(chance, fields))
        assert answer.status_code in {200, 201, 202, 400, 404, 409, 422}, answer.text
        statuses.add(answer.status_code)
        if not answer.is_success:
            assert answer.json().keys() == {"success", "error"}
            assert answer.json()["error"].keys() == SHAPE
        moved = answer.is_success and "migrate" in path and answer.json()["moved"]
        turn = int(answer.is_success and ("messages" in path or moved))
        assert (await api.send_texts(session, "Ana"))["turn"] == turn + 1
    assert statuses >= {200, 201, 400}


@pytest.mark.gate
async def test_any_json_as_a_form_is_taken_or_refused_in_the_one_shape(api: ApiClient) -> None:
    await api.publish_script((LIBRARY / "sign_up.yaml").read_text("utf-8"))
    chance = random.Random(6)
    statuses = set()
    for _ in range(repeats(400)):
        session = await api.create_session("sign_up")
        entries = value(chance) if chance.random() < 0.1 else {name: entry(chance, name) for name in some(chance)}
        answer = await api.send_message(session, {"form": entries})
        assert answer.status_code in {200, 400}, answer.text
        statuses.add((answer.status_code, answer.is_success and bool(answer.json()["wait"].get("form"))))
        if not answer.is_success:
            assert answer.json()["error"].keys() == SHAPE
        found = await api.read(f"/api/sessions/{session['sessionId']}")
        assert (found["executionStatus"], found["turn"]) == ("waiting_input", int(answer.is_success))
    assert statuses == {(200, True), (200, False), (400, False)}


def some(chance: random.Random) -> list[str]:
    return [name for name in [*ENTRIES, *["price", "oops"] * (chance.random() < 0.1)] if chance.random() < 0.9]


def entry(chance: random.Random, name: str) -> Any:
    return ENTRIES[name] if name in ENTRIES and chance.random() < 0.9 else value(chance)
