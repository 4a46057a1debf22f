"""The description of the API is valid, without two meanings of one name, and in one spelling."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from api.auth.policy import ROUTE_POLICIES
from api.http.openapi import ERRORS
from tests.support.api_client import ApiClient

CAMEL_CASE = re.compile(r"[a-z][a-zA-Z0-9]*")
CREATE_200 = {("post", "/api/sessions")}
"""Routes that create and do not answer 201: the seed's."""
NO_LISTS = {"/api/operations/budgets"}
"""Routes whose `data` is not a list of any length: it has one entry for each unit of a budget."""


@pytest.fixture
async def document(api: ApiClient) -> Any:
    return await api.read("/schema/openapi.json")


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        yield from ((method, path, operation) for method, operation in item.items() if method != "parameters")


def test_the_table_of_routes_has_no_other_spelling() -> None:
    named = {name for route in ROUTE_POLICIES for name in re.findall(r"{(.*?)}", route)}
    assert {name for name in named if not CAMEL_CASE.fullmatch(name)} == set()


async def test_the_table_of_errors_names_routes(document: Any) -> None:
    named = {name.split("_")[0] + "".join(map(str.title, name.split("_")[1:])) for name in ERRORS}
    assert named - {operation["operationId"] for _, _, operation in operations(document)} == set()


@pytest.mark.gate
async def test_the_document_is_valid(document: Any) -> None:
    errors = [
        f"{list(error.absolute_path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()
    ]
    assert errors == []


async def test_bodies_have_limits_in_lists_mappings_and_nullables(document: Any) -> None:
    def part(name: str, *path: Any) -> Any:
        found = document["components"]["schemas"][name]["properties"]
        for step in path:
            found = found[step]
        return found

    for body in ("NewSession", "KeyedSession"):
        assert part(body, "seed", "oneOf", 0) == {"type": "integer", "minimum": 0}
        assert part(body, "seed", "maximum") == 2**53
    assert part("NewScript", "tags", "oneOf", 0, "items", "maxLength") == 200
    assert part("NewScript", "files", "oneOf", 0, "additionalProperties", "minLength") == 1
    assert part("NewValues", "variables", "minProperties") == 1
    assert part("NewWebhook", "events", "items", "minLength") == 1


async def test_bodies_have_no_other_fields_and_answers_may(document: Any) -> None:
    schemas = document["components"]["schemas"]
    bodies = ("NewSession", "NewMessage", "NewLabels", "NewUnitBody", "WhichVersion")
    assert [schemas[name].get("additionalProperties") for name in bodies] == [False] * len(bodies)
    assert [schemas[name].get("additionalProperties") for name in ("TurnAnswer", "ErrorBody")] == [None, None]


async def test_body_that_may_be_absent_is_not_required(document: Any) -> None:
    bodies = {operation["operationId"]: operation.get("requestBody") for _, _, operation in operations(document)}
    optional = {name for name, body in bodies.items() if body is not None and not body["required"]}
    assert optional == {"endSession", "forkSession", "compressSession", "publishVersion", "archiveVersion"}
    assert bodies["forkSession"]["content"]["application/json"]["schema"]["$ref"].endswith("/NewFork")


async def test_answers_list_all_that_they_always_have(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for name, field in [("MessageList", "success"), ("TurnAnswer", "debugInfo"), ("ChainUnit", "count")]:
        assert field in schemas[name]["required"]
        assert "default" not in schemas[name]["properties"][field]
    assert "events" not in schemas["TurnAnswer"]["required"]


async def test_every_route_names_what_all_requests_can_meet(document: Any) -> None:
    lacking = []
    for method, path, operation in operations(document):
        named = {code for answer in operation["responses"].values() for code in answer["description"].split(", ")}
        needed = {"REQUEST_INVALID"} if path.startswith("/api/") else set()
        if method != "get":
            needed |= {"UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT", "FORBIDDEN"}
        lacking += [(method, path, code) for code in sorted(needed - named)]
    assert lacking == []


def alternatives(schema: Any) -> Iterator[list[Any]]:
    """Return every `oneOf` of a document."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and "oneOf" in schema:
        yield schema["oneOf"]
    for part in parts:
        yield from alternatives(part)


async def test_a_number_is_only_one_of_several_alternatives(document: Any) -> None:
    found = [{each.get("type") for each in several} for several in alternatives(document)]
    assert len(found) > 100
    assert [types for types in found if {"integer", "number"} <= types] == []


async def test_no_name_is_given_twice(document: Any) -> None:
    titles = Counter(schema.get("title") for schema in document["components"]["schemas"].values())
    ids = Counter(operation["operationId"] for _, _, operation in operations(document))
    assert [name for name, count in (titles + ids).items() if count > 1 or name is None] == []


async def test_all_names_are_in_camel_case(document: Any) -> None:
    fields = {
        f"{title}.{name}"
        for title, schema in document["components"]["schemas"].items()
        for name in schema.get("properties", {})
        if not CAMEL_CASE.fullmatch(name)
    }
    parameters = {
        f"{method} {path} {parameter['name']}"
        for method, path, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if parameter["in"] != "header" and not CAMEL_CASE.fullmatch(parameter["name"])
    }
    ids = {operation["operationId"] for _, _, operation in operations(document)}
    assert fields | parameters | {name for name in ids if not CAMEL_CASE.fullmatch(name)} == set()


async def test_what_is_created_says_where_it_is(document: Any) -> None:
    created = [
        (method, path, each["responses"]["201"])
        for method, path, each in operations(document)
        if "201" in each["responses"]
    ]
    assert len(created) > 8
    assert [(method, path) for method, path, answer in created if "Location" not in answer.get("headers", {})] == []
    assert not {(method, path) for method, path, _ in created} & CREATE_200
    answers = document["paths"]["/api/sessions/import"]["post"]["responses"]
    assert answers["200"]["headers"]["Location"] == answers["201"]["headers"]["Location"]
    found = document["paths"]["/api/sessions/by-key"]["post"]["responses"]["200"]
    assert "Location" not in found["headers"]  # it names its session in the body


async def test_links_to_other_pages_are_described(document: Any) -> None:
    described = [
        path
        for method, path, each in operations(document)
        if "Link" in each["responses"].get("200", {}).get("headers", {})
    ]
    assert described == ["/api/sessions/{sessionId}/messages", "/api/users/{userId}/sessions"]


async def test_headers_of_results_are_described(document: Any) -> None:
    expected = {f"X-Cuebook-{name}" for name in ("As-Of", "Masked", "Truncated", "Truncated-By")}
    for method, path in (("post", "/api/analytics/query"), ("get", "/api/analytics/reports/{report}")):
        assert set(document["paths"][path][method]["responses"]["200"]["headers"]) == expected


async def test_errors_that_pass_say_when_to_try_again(document: Any) -> None:
    responses = [each for _, _, operation in operations(document) for each in operation["responses"].values()]
    with_retry = {each["description"] for each in responses if "Retry-After" in each.get("headers", {})}
    assert any("SESSION_BUSY" in codes for codes in with_retry)
    assert any("RATE_LIMITED" in codes for codes in with_retry)
    assert not any(codes in {"REQUEST_INVALID", "SESSION_NOT_FOUND"} for codes in with_retry)


async def test_every_list_is_read_in_pages(document: Any) -> None:
    schemas = document["components"]["schemas"]
    lists = {}
    for method, path, operation in operations(document):
        schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
        properties = schemas.get(schema.get("$ref", "").rpartition("/")[2], {}).get("properties", {})
        if method == "get" and "data" in properties and path not in NO_LISTS:
            lists[path] = {"nextCursor"} & {*properties} | {each["name"] for each in operation["parameters"]}
    assert len(lists) > 25
    assert {path: names for path, names in lists.items() if not {"nextCursor", "limit", "cursor"} <= names} == {}


async def test_pages_of_a_short_list_make_the_list(api: ApiClient) -> None:
    reports = "/api/analytics/reports"
    whole = await api.read(reports)
    assert whole["nextCursor"] is None
    first = await api.read(reports, limit=5)
    assert first["data"] == whole["data"][:5]
    assert first["data"] + await api.read_all(reports, cursor=first["nextCursor"]) == whole["data"]
    assert (await api.read(reports, limit=len(whole["data"])))["nextCursor"] is None
    assert (await api.get("/api/models?cursor=rubbish")).status_code == 400


async def test_a_user_that_is_needed_is_required(document: Any) -> None:
    """A memory is somebody's: no route about one goes without its user but that of a job, which has one itself."""
    for method, path, operation in operations(document):
        if not path.startswith("/api/memory/") or path.startswith("/api/memory/jobs"):
            continue
        named = [each["required"] for each in operation.get("parameters", []) if each["name"] == "userId"]
        if not named:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["allOf"][0]["$ref"]
            schema = document["components"]["schemas"][reference.rpartition("/")[2]]
            named = ["userId" in schema["required"]]
        assert named == [True], (method, path)


async def test_details_of_errors_have_one_shape(document: Any) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["ErrorBody"]["properties"]["details"]["items"] == {"$ref": "#/components/schemas/ErrorDetail"}
    assert schemas["ErrorDetail"]["required"] == ["message"]
    assert {"message", "field", "line", "column"} <= schemas["ErrorDetail"]["properties"].keys()


async def test_readiness_is_described_both_ways(document: Any) -> None:
    answers = document["paths"]["/ready"]["get"]["responses"]
    schemas = {status: answers[status]["content"]["application/json"]["schema"] for status in ("200", "503")}
    assert schemas["200"] == schemas["503"] == {"$ref": "#/components/schemas/Readiness"}


async def test_a_stream_and_its_json_have_a_schema_each(document: Any) -> None:
    for method, path in (
        ("post", "/api/sessions"),
        ("post", "/api/sessions/{sessionId}/messages"),
        ("get", "/api/sessions/{sessionId}/events"),
    ):
        content = document["paths"][path][method]["responses"]["200"]["content"]
        assert content.keys() == {"application/json", "text/event-stream"}
        assert "$ref" in content["application/json"]["schema"]
        assert content["text/event-stream"]["schema"]["required"] == ["event", "data"]
