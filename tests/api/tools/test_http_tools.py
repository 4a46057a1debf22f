"""Tools over HTTP on a server: what a service gets, what the script sees of its failures, and what is recorded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.catalog.catalog import Catalog
from api.local_files.settings_file import load_settings
from api.models.server_model import make_model
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.settings import ToolSecret
from api.tools.http_tools import secrets_for
from runtime.models.hosted.settings import Secret
from runtime.state.limits import Limits
from runtime.state.tool_ports import ToolCallFailed
from store.open_store import open_store
from tests.api.sessions.test_model_calls import crash
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.openai_server import Endpoint
from tests.support.tool_service import ServiceAnswer, ToolService

SCRIPT = """
script: shop
tools:
  - tool: lookup_order
    http:
      method: METHOD
      url: "URL/orders/{{ order }}?language={{ language }}"
      headers: {Authorization: "Bearer {{ secret('SHOP_KEY') }}"}
    params: {order: {type: string}, language: {type: string, default: en}}
    result: {type: object, properties: {status: {type: string}}, required: [status]}
    timeout: TIMEOUT
    example: {status: an example}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {id: number, ask: Which order?, output: [{get: number, type: text}]}
          - id: look_up
            tool: lookup_order
            with: {order: =number}
            into: {status: status}
            ON_FAIL
          - {id: answer, ask: "It is {{ status }}."}
"""
SKIP = 'on_fail: {say: "{{ failure.kind }}: {{ failure.message }}"}'
KEY = "k-secret-1"


def script(service: ToolService, *, method: str = "GET", on_fail: str = SKIP, timeout: str = "5 s") -> str:
    text = SCRIPT.replace("URL", service.url).replace("METHOD", method).replace("TIMEOUT", timeout)
    return text.replace("ON_FAIL", on_fail)


@asynccontextmanager
async def shop_app(app: OpenApp, folder: Path, service: ToolService, **settings: Any) -> AsyncIterator[ApiClient]:
    given: dict[str, Any] = {
        "tools": "live",
        "tool_private_targets": [service.target],
        "tool_secrets": secrets(service.target),
    }
    async with app(folder, **(given | settings)) as api:
        yield api


def secrets(*hosts: str) -> Any:
    return {"SHOP_KEY": ToolSecret(hosts=list(hosts), value=Secret(KEY))}


def said(turn: Any) -> list[str]:
    return [message["content"] for message in turn["messages"]]


async def asked(api: ApiClient, text: str, reply: str) -> tuple[Any, Any]:
    """Start a session and send a reply; return the session and the answer."""
    await api.publish_script(text)
    session = await api.create_session("shop")
    return session, await api.send_texts(session, reply)


async def test_values_are_encoded_and_the_secret_is_in_the_header(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        session, turn = await asked(api, script(service), "a/b?c=d&é #%2e")
        assert said(turn) == ["It is sent."]
        (request,) = service.requests
        assert request.method == "GET"
        assert request.path == "/orders/a%2Fb%3Fc%3Dd%26%C3%A9%20%23%252e?language=en"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        events = await api.read(f"/api/sessions/{session['sessionId']}/events")
        calls = [each for each in events["data"] if each["kind"].startswith("tool_")]
        assert [each["kind"] for each in calls] == ["tool_call", "tool_result"]
        assert calls[1]["data"] == {"actionId": "look_up", "tool": "lookup_order", "result": {"status": "sent"}}
        recorded = await api.read(f"/api/sessions/{session['sessionId']}/calls", debug=True)
        (call,) = recorded["data"]
        assert (call["purpose"], call["model"], call["outcome"], call["used"]) == ("tool", "lookup_order", "done", True)
        assert call["reply"] == {"result": {"status": "sent"}}
        assert request.headers["idempotency-key"] == call["callId"]
        assert KEY not in str((events, recorded))


@pytest.mark.parametrize("value", [".", ".."])
async def test_value_that_names_another_resource_is_not_sent(app: OpenApp, tmp_path: Path, value: str):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        _, turn = await asked(api, script(service), value)
        assert said(turn)[0].startswith("arguments: a value in the URL is `.` or `..`")
        assert service.requests == []


async def test_post_sends_the_parameters_as_json(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        await asked(api, script(service, method="POST"), "17")
        assert service.requests[0].json == {"order": "17", "language": "en"}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("programmed", "words"),
    [
        ({"body": {}, "status": 404}, "refused: the service refused the request with status 404"),
        ({"body": {}, "status": 302}, "refused: the service redirects with status 302, which is not followed"),
        ({"body": {"state": 1}}, "result: the result does not match the declaration: `status` is missing"),
        ({"raw": "{"}, "result: the answer is not valid JSON or text"),
        ({"raw": "[" * 30_000}, "result: the answer is not valid JSON or text"),
        ({"raw": '"' + "x" * 70_000 + '"'}, "result: the answer is larger than 65,536 bytes"),
        ({"hangs": True}, "timeout: the tool did not answer in time"),
    ],
)
async def test_failure_of_the_service(app: OpenApp, tmp_path: Path, programmed: Any, words: str):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will(**programmed)
        _, turn = await asked(api, script(service, timeout="300 ms"), "17")
        assert said(turn)[0].startswith(words)
        assert len(service.requests) == 1


async def test_only_a_tool_that_reads_is_called_again_at_once(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will({}, 503)
        _, turn = await asked(api, script(service), "17")
        assert (said(turn), len(service.requests)) == (["It is sent."], 2)
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will({}, 503)
        _, turn = await asked(api, script(service, method="POST"), "17")
        assert said(turn)[0] == "error: the service failed with status 503"
        assert len(service.requests) == 1


async def test_unhandled_failure_fails_a_turn_that_may_be_sent_again(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        await api.publish_script(script(service, method="POST", on_fail=""))
        session = await api.create_session("shop")
        service.will({}, 422)
        refused = await api.send_message(session, {"content": "17"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (503, "TOOL_FAILED")
        assert error["message"] == "the tool lookup_order failed: the service refused the request with status 422"
        assert said(await api.send_texts(session, "17")) == ["It is sent."]
        first, second = service.requests
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        calls = await api.read(f"/api/sessions/{session['sessionId']}/calls")
        assert [(each["outcome"], each["used"]) for each in calls["data"]] == [("failed", False), ("done", True)]


async def with_two_calls(api: ApiClient, service: ToolService) -> Any:
    """Return a session whose reply makes two calls that change something."""
    pay = "- {id: pay, tool: lookup_order, with: {order: B}}\n          - {id: answer"
    await api.publish_script(script(service, method="POST", timeout="30 s").replace("- {id: answer", pay))
    return await api.create_session("shop")


async def pause_and_resume(api: ApiClient, session: Any) -> None:
    for change in ("pause", "resume"):
        done = await api.post(f"/api/sessions/{session['sessionId']}/{change}")
        assert done.status_code == 200, done.text


@pytest.mark.gate
@pytest.mark.parametrize(
    ("programmed", "can_retry"),
    [
        ({"status": 422}, False),
        ({"status": 302}, False),
        ({"status": 408}, True),
        ({"status": 429}, True),
        ({"status": 500}, True),
        ({"hangs": True}, True),
        ({"raw": "{"}, False),
    ],
)
async def test_error_says_whether_the_cause_may_pass(
    app: OpenApp, tmp_path: Path, programmed: Any, can_retry: bool
) -> None:
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        timeout = "300 ms" if "hangs" in programmed else "30 s"
        await api.publish_script(script(service, method="POST", on_fail="", timeout=timeout))
        session = await api.create_session("shop")
        service.will(**{"body": {}, **programmed})
        refused = await api.send_message(session, {"content": "17"})
        error = refused.json()["error"]
        assert (error["code"], error["recovery"]["canRetry"]) == ("TOOL_FAILED", can_retry)
        assert ("Retry-After" in refused.headers) is can_retry
        seen = await api.read(f"/api/sessions/{session['sessionId']}")
        assert seen["error"]["recovery"] == error["recovery"]


async def test_finished_call_is_not_made_again_by_another_attempt(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        session = await with_two_calls(api, service)
        service.will({"status": "first"})
        service.will({}, 500)
        assert (await api.send_message(session, {"content": "A"})).json()["error"]["code"] == "TOOL_FAILED"
        assert said(await api.send_texts(session, "A")) == ["It is first."]
        assert [each.json["order"] for each in service.requests] == ["A", "B", "B"]


async def test_calls_of_a_failed_turn_are_used_after_other_turns(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service:
        async with shop_app(app, tmp_path, service) as api:
            session = await with_two_calls(api, service)
            service.will({"status": "first"})
            service.will({}, 500)
            assert (await api.send_message(session, {"content": "A"})).json()["error"]["code"] == "TOOL_FAILED"
            await pause_and_resume(api, session)
        async with shop_app(app, tmp_path, service) as api:
            await pause_and_resume(api, session)
            assert said(await api.send_texts(session, "A")) == ["It is first."]
            calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"]
        assert [each.json["order"] for each in service.requests] == ["A", "B", "B"]
        assert len({each.headers["idempotency-key"] for each in service.requests}) == 2
        assert [(each["turn"], each["used"]) for each in calls] == [(5, True), (5, False), (5, True)]


@pytest.mark.database_file
async def test_an_interrupted_call_is_made_again_only_after_an_error(app: OpenApp, tmp_path: Path):
    folder = tmp_path / "data"
    async with ToolService().serving() as service:
        async with shop_app(app, folder, service) as api:
            session = await with_two_calls(api, service)
            service.will({"status": "first"})
            service.will(hangs=True)
            sending = asyncio.create_task(api.send_message(session, {"content": "A"}))
            await service.received(2)
            crashed = crash(folder)
            service.let_go()
            await sending
        async with shop_app(app, crashed, service) as api:
            await pause_and_resume(api, session)
            refused = await api.send_message(session, {"content": "A"})
            assert refused.json()["error"]["code"] == "TOOL_CALL_INTERRUPTED"
            assert len(service.requests) == 2
            await pause_and_resume(api, session)
            assert said(await api.send_texts(session, "A")) == ["It is first."]
            assert [each.json["order"] for each in service.requests] == ["A", "B", "B"]
            assert service.requests[1].headers["idempotency-key"] == service.requests[2].headers["idempotency-key"]


async def test_another_message_ends_the_calls_of_a_failed_turn(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        await api.publish_script(script(service, method="POST", on_fail=""))
        session = await api.create_session("shop")
        service.will({}, 500)
        assert (await api.send_message(session, {"content": "A"})).json()["error"]["code"] == "TOOL_FAILED"
        await pause_and_resume(api, session)
        assert said(await api.send_texts(session, "C")) == ["It is sent."]
        calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"]
        assert [(each["outcome"], each["used"]) for each in calls] == [("failed", False), ("done", True)]


async def test_change_with_an_invalid_answer_is_not_made_again(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        await api.publish_script(script(service, method="POST", on_fail=""))
        session = await api.create_session("shop")
        service.will({"state": "done"})
        for _ in range(2):
            assert (await api.send_message(session, {"content": "A"})).json()["error"]["code"] == "TOOL_FAILED"
        assert len(service.requests) == 1


async def test_address_that_is_not_listed_is_refused(app: OpenApp, tmp_path: Path):
    async with (
        ToolService().serving() as service,
        shop_app(app, tmp_path, service, tool_private_targets=[]) as api,
    ):
        _, turn = await asked(api, script(service), "17")
        assert said(turn)[0].startswith(
            "forbidden: requests to this address are not permitted; see the settings `tool_"
        )
        assert service.requests == []


@pytest.mark.parametrize(
    ("host", "url", "is_sent"),
    [
        ("shop.example", "https://shop.example/x", True),
        ("shop.example:443", "https://shop.example/x", True),
        ("Shop.example", "http://shop.example:80/x", True),
        ("shop.example", "https://shop.example:8443/x", False),
        ("shop.example:8443", "https://shop.example:8443/x", True),
        ("shop.example:8443", "https://shop.example/x", False),
        ("shop.example:443", "http://shop.example/x", False),
        ("[::1]:9000", "http://[::1]:9000/x", True),
        ("::1", "http://[::1]/x", True),
        ("::1", "http://[::1]:9000/x", False),
    ],
)
def test_a_secret_is_of_a_host_and_port(host: str, url: str, is_sent: bool) -> None:
    secret = secrets_for(httpx.URL(url), secrets(host))
    if is_sent:
        assert secret("SHOP_KEY") == KEY
    else:
        with pytest.raises(ToolCallFailed, match="may not be sent to"):
            secret("SHOP_KEY")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "forbidden: the server's settings have no `[tool_secrets.SHOP_KEY]`"),
        (secrets("shop.example"), "forbidden: the secret SHOP_KEY may not be sent to 127.0.0.1:"),
        (secrets("127.0.0.1"), "forbidden: the secret SHOP_KEY may not be sent to 127.0.0.1:"),
    ],
)
async def test_secret_goes_to_its_hosts_only(app: OpenApp, tmp_path: Path, given: Any, words: str):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service, tool_secrets=given) as api:
        _, turn = await asked(api, script(service), "17")
        assert said(turn)[0].startswith(words)
        assert service.requests == []


async def test_a_secret_whose_variable_is_not_set_is_not_sent(app: OpenApp, tmp_path: Path) -> None:
    async with ToolService().serving() as service:
        given = {"SHOP_KEY": ToolSecret(hosts=[service.target], env="NO_SUCH_VARIABLE")}
        async with shop_app(app, tmp_path, service, tool_secrets=given) as api:
            _, turn = await asked(api, script(service), "17")
            assert said(turn)[0] == "forbidden: the secret SHOP_KEY is empty; set the variable NO_SUCH_VARIABLE"


async def test_service_that_fails_is_not_called_for_a_moment(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.answer = lambda _: ServiceAnswer({}, 500)
        text = script(service, method="POST")
        for number in range(6):
            _, turn = await asked(api, text, str(number))
        assert said(turn)[0].startswith("unavailable: the service failed several times")
        assert len(service.requests) == 5


async def test_offline_model_uses_examples(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service, tools=None) as api:
        _, turn = await asked(api, script(service), "17")
        assert said(turn) == ["It is an example."]
        assert service.requests == []


async def test_calls_of_tools_are_no_calls_of_models(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        session, _ = await asked(api, script(service), "17")
        statistics = await api.read(f"/api/sessions/{session['sessionId']}/stats")
        assert statistics["models"]["calls"] == 0


async def test_recorded_session_replays_without_the_service(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will({}, 404)
        session, _ = await asked(api, script(service), "17")
        await api.send_texts(session, "bye")
    store = open_store(tmp_path)
    source = ReplaySource(store, Catalog(store, None), Limits())
    found = await find_session(source, "default", session["sessionId"])
    assert [each.outcome async for each in replay(found)] == ["same", "same", "same"]
    await store.close()


# -- called by a model ------------------------------------------------------------------------------------------------


MODEL_SCRIPT = """
cuebook: 1
script: desk
tools:
  - tool: lookup_order
    define: Finds an order.
    http: {url: "URL/orders/{{ order }}"}
    params: {order: {type: string}}
    result: {type: object, properties: {status: {type: string}}, required: [status]}
actions:
  - {id: help, chat: Help with an order., opens: user, tools: [{tool: lookup_order, into: {status: status}}]}
"""
WANTED = {"tool": "lookup_order", "arguments": [{"name": "order", "value": "17"}], "text": ""}
ANSWERED = {"tool": None, "arguments": [], "text": "It was sent."}


@asynccontextmanager
async def desk(app: OpenApp, folder: Path, service: ToolService, endpoint: Endpoint) -> AsyncIterator[ApiClient]:
    settings = load_settings(None, {"model": "openai:tiny", "model_url": endpoint.url, "model_attempts": 1}, {})
    live: dict[str, Any] = {"tools": "live", "tool_private_targets": [service.target]}
    async with app(folder, make_model(settings), **live) as api:
        await api.publish_script(MODEL_SCRIPT.replace("URL", service.url))
        yield api


async def test_model_calls_a_service_before_it_answers(app: OpenApp, tmp_path: Path, endpoint: Endpoint):
    async with ToolService().serving() as service, desk(app, tmp_path, service, endpoint) as api:
        service.will({"status": "sent"})
        session = await api.create_session("desk")
        endpoint.will(content=WANTED)
        endpoint.will(content=ANSWERED)
        assert said(await api.send_texts(session, "Where is order 17?")) == ["It was sent."]
        assert [each.path for each in service.requests] == ["/orders/17"]
        assert '{"tool": "lookup_order", "arguments": {"order": "17"}, "result": {"status": "sent"}}' in (
            endpoint.requests[1].text
        )
        calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"]
        assert sorted(each["purpose"] for each in calls) == ["chat", "chat", "tool"]
        answer = await api.read(f"/api/sessions/{session['sessionId']}")
        assert answer["variables"]["status"] == "sent"
    store = open_store(tmp_path)
    source = ReplaySource(store, Catalog(store, None), Limits())
    found = await find_session(source, "default", session["sessionId"])
    assert [each.outcome async for each in replay(found)] == ["same", "same"]
    await store.close()


async def test_another_attempt_repeats_no_call_and_no_request(app: OpenApp, tmp_path: Path, endpoint: Endpoint):
    async with ToolService().serving() as service, desk(app, tmp_path, service, endpoint) as api:
        service.will({"status": "sent"})
        session = await api.create_session("desk")
        endpoint.will(content=WANTED)
        endpoint.will(status=400, error="no")
        refused = await api.send_message(session, {"content": "Where is order 17?"})
        assert refused.json()["error"]["code"] == "LLM_SERVICE_ERROR"
        endpoint.will(content=ANSWERED)
        assert said(await api.send_texts(session, "Where is order 17?")) == ["It was sent."]
        assert (len(service.requests), len(endpoint.requests)) == (1, 3)
