"""Dialects of the endpoints that people use: forms of replies, errors and refusals, each as one of them sends it."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from runtime.models.hosted.router import HostedModels
from runtime.models.hosted.settings import Secret
from runtime.state.ports import ModelFailed, ToolCall, ToolOffer
from tests.runtime.models.hosted.test_hosted_models import JUDGED, PLAIN, Heard, ask, failed, models, say
from tests.support.openai_server import Endpoint

__all__ = ["models"]  # a fixture

EVENTS = {"Content-Type": "text/event-stream"}


def whole(finish: str = "stop", *, usage: object = None, **message: Any) -> dict[str, Any]:
    """Return a reply that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"body": json.dumps({"choices": [choice], "usage": usage}), "headers": PLAIN}


def streamed(*events: dict[str, Any] | str) -> dict[str, Any]:
    """Return a streamed reply; a mapping with `error` or `choices` is an event, any other one a delta."""
    written: list[str] = []
    for event in events:
        data = event if isinstance(event, str) or {"error", "choices"} & set(event) else {"choices": [{"delta": event}]}
        written.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    end = json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return {"body": "".join([*written, f"data: {end}\n\n", "data: [DONE]\n\n"])}


def refusal(message: str, status: int = 400, **more: Any) -> dict[str, Any]:
    return {"status": status, "error": {"message": message, **more}}


# -- replies ----------------------------------------------------------------------------------------------------------


async def test_of_a_content_in_parts_the_texts_are_said(endpoint: Endpoint, models) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "They want a greeting."}]}
    parts = [{"type": "text", "text": "Good "}, {"type": "text", "text": "morning!"}]
    endpoint.will(**whole(content=[thought, *parts]))
    endpoint.will(**streamed({"content": [thought]}, {"content": parts[:1]}, {"content": "morning!"}))
    heard = Heard()
    for hear in (None, heard):
        assert (await models(attempts=1).complete(say(), hear)).text == "Good morning!"
    assert heard.texts == ["Good", "Good morning!"]


async def test_arguments_of_a_call_may_be_an_object(endpoint: Endpoint, models) -> None:
    call = {"index": 0, "function": {"name": "reply", "arguments": JUDGED}}
    endpoint.will(**whole("tool_calls", content=None, tool_calls=[call]))
    endpoint.will(**streamed({"tool_calls": [call]}))
    for hear in (None, Heard()):
        reply = await models(attempts=1).complete(ask(), hear)
        assert (reply.text, reply.values) == (JUDGED["text"], {"name": "Ana"})


LOOK_UP = ToolOffer(id="look_up", define="Finds an order.", params={"order": {"type": "string"}}, required=("order",))


def called(name: str, arguments: Any, index: int | None = None) -> dict[str, Any]:
    where = {} if index is None else {"index": index}
    return {"tool_calls": [{**where, "type": "function", "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("answer", "is_streamed"),
    [
        ({"content": json.dumps({"name": "look_up", "parameters": {"order": "4711"}})}, False),
        ({"content": json.dumps({"tool": "functions.Look_Up", "arguments": {"order": 4711}})}, False),
        (whole("tool_calls", content=None, **called("look_up", '{"order": "4711"}')), False),
        (whole("tool_calls", content=None, **called("look_up", {"order": "4711"})), False),
        (
            streamed(
                called("look_up", "", 0),
                called("", '{"order"', 0),
                called("", ': "4711"}', 0),
                called("look_up", '{"order": "12"}', 1),
            ),
            True,
        ),
    ],
)
async def test_a_call_is_understood_in_the_form_of_every_model(endpoint: Endpoint, models, answer, is_streamed) -> None:
    endpoint.will(**answer)
    request = replace(ask(), purpose="chat", outputs=(), tools=(LOOK_UP,))
    reply = await models(attempts=1).complete(request, Heard() if is_streamed else None)
    assert reply.tool_call == ToolCall("look_up", {"order": "4711"})


async def test_a_call_that_the_endpoint_refuses_is_requested_again(endpoint: Endpoint, models) -> None:
    endpoint.will(**refusal("Tool choice is none, but model called a tool", code="tool_use_failed"))
    endpoint.will(content="Good morning!")
    assert (await models().complete(say())).text == "Good morning!"


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0}, "none", {"prompt_tokens": "many"}])
async def test_tokens_that_are_not_counted_do_not_count_as_none(endpoint: Endpoint, models, usage) -> None:
    endpoint.will(**whole(content="Good morning!", usage=usage))
    reply = await models(attempts=1).complete(say())
    assert (reply.text, reply.usage.counted) == ("Good morning!", False)
    assert reply.usage.input_tokens > 100


async def test_a_reply_counts_also_if_it_is_not_streamed(endpoint: Endpoint, models) -> None:
    endpoint.will(**whole(content="Good morning!"))
    assert (await models(attempts=1).complete(say(), Heard())).text == "Good morning!"


SAID = {"choices": [{"delta": {"content": "Good morning!"}}]}


@pytest.mark.parametrize("ending", [["[DONE]"], []])
async def test_without_a_finish_reason_done_ends_a_reply(endpoint: Endpoint, models, ending) -> None:
    endpoint.will(body="".join(f"data: {data}\n\n" for data in [json.dumps(SAID), *ending]))
    endpoint.will(content="Hello!")
    reply = await models().complete(say(), Heard())
    assert (reply.text, reply.usage.failures) == (("Good morning!", ()) if ending else ("Hello!", ("cut",)))


async def test_done_alone_is_no_reply(endpoint: Endpoint, models) -> None:
    endpoint.will(body='data: {"choices": []}\n\ndata: [DONE]\n\n')
    endpoint.will(content="Hello!")
    reply = await models().complete(say(), Heard())
    assert (reply.text, reply.usage.failures) == ("Hello!", ("protocol",))


@pytest.mark.parametrize("before", ["", ": PROCESSING\n\n", "event: message\n"])
async def test_a_stream_that_was_not_requested_is_read(endpoint: Endpoint, models, before) -> None:
    counted = {"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 3}}
    sent = streamed({"content": "Good\u2028 morning"}, {"content": ", Åsa!"}, counted)
    endpoint.will(body=before + sent["body"], headers=EVENTS)
    reply = await models(attempts=1).complete(say())
    assert (reply.text, endpoint.requests[0].body["stream"]) == ("Good\u2028 morning, Åsa!", False)
    assert (reply.usage.input_tokens, reply.usage.counted) == (40, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (streamed({"error": {"message": "Rate limit exceeded", "code": 429}})["body"], "is overloaded (429)"),
        (f"data: {json.dumps(SAID)}\n\n", "broke off its reply"),
        ("data: {garbage\n\n", "does not answer with chat completions; see the url of the model"),
    ],
)
async def test_a_stream_that_was_not_requested_may_fail(endpoint: Endpoint, models, body, words) -> None:
    endpoint.will(body=body, headers=EVENTS)
    assert str(await failed(models(attempts=1), say())) == f"the endpoint of model `tiny` {words}"


async def test_an_emoji_in_two_pieces_is_one_character(endpoint: Endpoint, models) -> None:
    endpoint.will(**streamed({"content": "Hi \ud83d"}, {"content": "\ude00 A\ud83dna"}))
    heard = Heard()
    reply = await models().complete(say(), heard)
    assert (reply.text, reply.raw) == ("Hi 😀 A\ufffdna",) * 2
    assert [text for text in heard.texts if not reply.text.startswith(text)] == []
    endpoint.will(content=json.dumps(JUDGED).replace("Thank", r"\ud83d Thank"))
    assert (await models().complete(ask())).text == f"\ufffd {JUDGED['text']}"


async def test_an_empty_answer_in_a_conversation_is_requested_again(endpoint: Endpoint, models) -> None:
    request = replace(ask(), purpose="chat", outputs=(), exit="the user says goodbye")
    empty = {"exit": False, "exit_reason": "", "text": " "}
    endpoint.will(content=empty)
    endpoint.will(content=empty | {"text": "How are you?"})
    reply = await models().complete(request, Heard())
    assert (reply.text, reply.usage.failures) == ("How are you?", ("unusable",))
    endpoint.will(content=empty | {"exit": True})
    assert (await models(attempts=1).complete(request)).exit is True


async def test_a_finished_reply_counts_although_its_connection_breaks(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Good morning!", piece_chars=13, cut=2)
    reply = await models(attempts=1).complete(say(), Heard())
    assert (reply.text, reply.usage.counted) == ("Good morning!", False)


# -- errors -----------------------------------------------------------------------------------------------------------

CONTEXT = "does not accept a prompt of this length; lower context_tokens_max or output_tokens_max of the model"
LIMIT = "does not give replies of this length; lower output_tokens_max of the model"
UNKNOWN = "does not know this model or address; see model and url"
FILTER = "stopped the reply by its own content filter"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal("This model's maximum context length is 4096 tokens. However, you requested 5096."), CONTEXT),
        (
            refusal("'max_tokens' or 'max_completion_tokens' is too large: 9. The maximum context length is 4."),
            CONTEXT,
        ),
        (refusal("the request exceeds the available context size", type="exceed_context_size_error"), CONTEXT),
        (refusal("max_tokens is too large: 4096. This model supports at most 2048.", param="max_tokens"), LIMIT),
        (refusal("Invalid max_tokens value, the valid range of max_tokens is [1, 2048]"), LIMIT),
        (refusal("API key not valid. Please pass a valid API key."), "refused the key"),
        (refusal("The response was filtered", code="content_filter"), FILTER),
        (refusal("Content Exists Risk"), FILTER),
        (refusal("Model Not Exist"), UNKNOWN),
        (refusal("tiny is not a valid model ID"), UNKNOWN),
        (refusal("Method Not Allowed", status=405), f"{UNKNOWN} (405)"),
        ({"body": json.dumps({"error": "Unexpected endpoint or method. (POST /x)"}), "headers": PLAIN}, UNKNOWN),
    ],
)
async def test_a_refusal_names_what_to_change(endpoint: Endpoint, models, answer, words) -> None:
    endpoint.will(**answer)
    failure = await failed(models(), say())
    assert str(failure) == f"the endpoint of model `tiny` {words}"
    assert failure.usage.attempts == 1


@pytest.mark.parametrize("kind", ["whole", "stream"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"message": "Rate limit exceeded", "code": 429}, "is overloaded (429)"),
        ({"message": "No auth credentials found", "code": "401"}, "refused the key (401)"),
        ({"message": "This model's maximum context length is 4096 tokens", "code": 400}, CONTEXT),
        ({"message": "You exceeded your quota", "code": "insufficient_quota"}, "has no quota left for this key"),
        ("the runner has stopped", "broke off its reply"),
    ],
)
async def test_an_error_with_status_200_is_reported(endpoint: Endpoint, models, kind, error, words) -> None:
    body = {"error": error}
    endpoint.will(**(streamed(body) if kind == "stream" else {"body": json.dumps(body), "headers": PLAIN}))
    with pytest.raises(Exception, match="the endpoint of model") as caught:
        await models(attempts=1).complete(say(), Heard() if kind == "stream" else None)
    assert str(caught.value) == f"the endpoint of model `tiny` {words}"


async def test_a_reply_that_ends_with_an_error_is_requested_again(endpoint: Endpoint, models) -> None:
    endpoint.will(**whole("error", content="Good mor"))
    endpoint.will(content="Good morning!")
    assert (await models().complete(say())).text == "Good morning!"


async def test_a_wait_in_milliseconds_is_a_wait(endpoint: Endpoint, models) -> None:
    endpoint.always(status=429, headers={"retry-after-ms": "3600000"})
    await failed(models(), say())
    assert len(endpoint.requests) == 1


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        refusal("System role not supported"),
        refusal("Jinja Exception: System role not supported", status=500),
        refusal("Conversation roles must alternate user/assistant/user/assistant/..."),
        refusal("Unsupported value: 'messages[0].role' does not support 'system'", param="messages[0].role"),
        refusal("Developer instruction is not enabled for models/gemma-3"),
    ],
)
async def test_without_a_system_role_the_user_message_has_all(endpoint: Endpoint, models, answer) -> None:
    endpoint.will(**answer)
    used: HostedModels = models()
    first = await used.complete(say())
    await used.complete(say())
    both, *others = [asked.body["messages"] for asked in endpoint.requests]
    assert [message["role"] for message in both] == ["system", "user"]
    merged = [{"role": "user", "content": f"{both[0]['content']}\n\n{both[1]['content']}"}]
    assert others == [merged, merged]
    assert json.loads(first.usage.prompt)["messages"] == merged


@pytest.mark.parametrize(
    "message",
    [
        "Unknown name \"additionalProperties\" at 'generation_config.response_schema': Cannot find field.",
        "invalid JSON schema in format",
        "Failed to initialize samplers: failed to parse grammar",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
async def test_a_schema_that_is_refused_in_other_words_is_left_out(endpoint: Endpoint, models, message, status) -> None:
    endpoint.will(**refusal(message, status))
    endpoint.will(content=JUDGED)
    assert (await models().complete(ask())).values == {"name": "Ana"}
    assert [asked.format for asked in endpoint.requests] == ["json_schema", "json_object"]


async def test_where_streams_are_refused_the_reply_comes_as_a_whole(endpoint: Endpoint, models) -> None:
    endpoint.will(**refusal("Your organization must be verified to stream this model.", param="stream"))
    endpoint.always(content="Good morning!")
    used = models()
    for _ in range(2):
        assert (await used.complete(say(), Heard())).text == "Good morning!"
    assert [asked.body["stream"] for asked in endpoint.requests] == [True, False, False]
    assert ["stream_options" in asked.body for asked in endpoint.requests] == [True, False, False]


# -- further fields of requests ---------------------------------------------------------------------------------------

FURTHER = {
    "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": False},
    "provider": {"order": ["groq"], "key": "Sk-1"},
    "seed": 7,
    "top_p": 0.5,
}


@pytest.mark.parametrize("hear", [None, Heard()])
async def test_further_fields_are_sent_and_stored_without_secrets(endpoint: Endpoint, models, hear) -> None:
    endpoint.will(content=JUDGED)
    reply = await models(attempts=1, temperature=0.2, extra_body=FURTHER).complete(ask(), hear)
    body = endpoint.requests[0].body
    assert {name: body[name] for name in FURTHER} == FURTHER
    assert {"model", "messages", "stream", "response_format", "max_tokens", "temperature"} < body.keys()
    assert reply.usage.parameters["temperature"] == 0.2
    assert reply.usage.parameters["extra_body"] == {**FURTHER, "provider": {"order": ["groq"], "key": "***"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal("Unrecognized request argument supplied: reasoning_effort"), ", which names `reasoning_effort` (400)"),
        (refusal("Extra inputs are not permitted", 422, param="chat_template_kwargs.x"), ", which names `chat_tem"),
        (refusal("The provider of this model exceeds its limits", 500), ""),
        (refusal("Requests with reasoning_efforts are refused"), " (400)"),
    ],
)
async def test_a_further_field_that_is_refused_is_named(endpoint: Endpoint, models, answer, words) -> None:
    endpoint.will(**answer)
    failure = await failed(models(attempts=1, extra_body=FURTHER), say())
    what = "refused the request" if words else "reports an internal error (500)"
    assert str(failure).startswith(f"the endpoint of model `tiny` {what}{words}")


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "/", "?api-version=2024-10-21", "/?api-version=2024-10-21"])
async def test_the_query_of_an_address_stays_its_query(endpoint: Endpoint, models, ending) -> None:
    endpoint.will(content="Good morning!")
    await models(attempts=1, url=endpoint.url + ending).complete(say())
    (path,) = endpoint.paths
    assert (urlsplit(path).path, urlsplit(path).query) == ("/v1/chat/completions", ending.partition("?")[2])


async def test_a_model_on_this_machine_is_called_without_a_proxy(
    endpoint: Endpoint, models, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    endpoint.will(times=2, content="Good morning!")
    for url in (endpoint.url, endpoint.url.replace("127.0.0.1", "localhost")):
        assert (await models(attempts=1, url=url).complete(say())).text == "Good morning!"
    with pytest.raises(ModelFailed, match="cannot be reached"):
        await models(attempts=1, url="http://models.invalid/v1", key=Secret("")).complete(say())
