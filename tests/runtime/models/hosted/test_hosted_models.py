"""Language models at an endpoint that misbehaves in every way (`openai_server.py`): what comes of it, and its price."""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.engine.engine import TurnFailed
from runtime.models.hosted.endpoint import REPLY_CHARS_MAX
from runtime.models.hosted.router import HostedModels
from runtime.models.hosted.settings import ModelSettings, Secret
from runtime.prompts.rendering import Prompts
from runtime.prompts.templates import Templates
from runtime.state.deadlines import until
from runtime.state.limits import Limits
from runtime.state.ports import GivenUp, ModelFailed, ModelReply, ModelRequest, Usage
from scripts.model.variables import Output
from tests.support.openai_server import Endpoint
from tests.support.runtime_session import NewSession

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
PLAIN = {"Content-Type": "application/json"}
JUDGED = {
    "progress": "continue_needed",
    "exit": False,
    "exit_reason": "",
    "understanding": 80,
    "has_questions": False,
    "values": {"name": "Ana"},
    "text": "Thank you, Ana. And how old are you?",
}


def say(**more: Any) -> ModelRequest:
    return ModelRequest(
        purpose="say", action_id="greet", round=0, task="Greet the user.", locale="en", now=NOON, **more
    )


def ask(**more: Any) -> ModelRequest:
    """Judge a reply and goes on asking."""
    return ModelRequest(
        purpose="ask",
        action_id="ask_name",
        round=1,
        task="Ask for the name.",
        locale="en",
        now=NOON,
        outputs=(Output(get="name"),),
        reply="I am Ana",
        replies=("I am Ana",),
        **more,
    )


def extract() -> ModelRequest:
    return ModelRequest(
        purpose="extract",
        action_id="ask_name",
        round=1,
        task="Ask for the name.",
        locale="en",
        now=NOON,
        outputs=(Output(get="name"),),
        reply="I am Ana",
    )


class Heard:
    """Hears a reply as it grows."""

    def __init__(self) -> None:
        self.replies: list[ModelReply] = []

    def __call__(self, reply: ModelReply) -> None:
        self.replies.append(reply)

    @property
    def texts(self) -> list[str]:
        return [reply.text for reply in self.replies]


@pytest.fixture
async def models(endpoint: Endpoint) -> AsyncIterator[Callable[..., HostedModels]]:
    """Return the models of a server: ``models(attempts=1)`` has one, `tiny`; ``others`` are further ones by name."""
    made: list[HostedModels] = []

    def make(clock: Any = None, others: dict[str, dict[str, Any]] | None = None, **settings: Any) -> HostedModels:
        named = {
            name: ModelSettings(**{"url": endpoint.url, "key": Secret("sk-1"), "timeout_s": 5.0} | given)
            for name, given in {"tiny": settings, **(others or {})}.items()
        }
        made.append(
            HostedModels(
                "tiny", Prompts(Templates.load(None)), named, named["tiny"], **({"clock": clock} if clock else {})
            )
        )
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def failed(models: HostedModels, request: ModelRequest) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await models.complete(request)
    assert caught.value.__cause__ is None
    return caught.value


# -- what is asked, and what is counted -------------------------------------------------------------------------------


async def test_words_alone_are_asked_for_and_said_as_they_come(endpoint: Endpoint, models) -> None:
    endpoint.will(content="  Good morning!\n")
    reply = await models(temperature=0.5, output_tokens_max=300).complete(say())
    assert (reply.text, reply.raw, reply.exit) == ("Good morning!", "  Good morning!\n", None)
    asked = endpoint.requests[0]
    assert (asked.model, asked.key, asked.body["stream"]) == ("tiny", "sk-1", False)
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.5, 300)
    assert "response_format" not in asked.body
    assert "Greet the user." in asked.body["messages"][0]["content"]


async def test_what_a_call_took_is_counted(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Good morning!")
    usage = (await models(input_price=2.0, output_price=10.0, temperature=0.5).complete(say())).usage
    assert usage.model == "tiny-0613"
    assert usage.parameters == {"temperature": 0.5, "max_tokens": 4096, "format": "text", "stream": False}
    assert (usage.input_tokens, usage.output_tokens) == (len(endpoint.requests[0].text) // 4, 3)
    assert usage.cached_tokens == usage.input_tokens // 2
    assert usage.cost == pytest.approx((usage.input_tokens * 2 + 3 * 10) / 1_000_000)
    assert len(usage.prompt_digest) == 64
    assert (usage.counted, usage.attempts, usage.failures, usage.degraded) == (True, 1, (), "")
    assert usage.latency_ms > 0


async def test_tokens_that_the_endpoint_does_not_count_are_estimated(endpoint: Endpoint, models) -> None:
    endpoint.will(times=2, content="Good morning!", usage=False)
    for hear in (None, Heard()):
        usage = (await models().complete(say(), hear)).usage
        assert (usage.counted, usage.cost) == (False, None)
        assert usage.input_tokens > 100
        assert usage.output_tokens == 4


async def test_a_reply_is_held_to_its_schema(endpoint: Endpoint, models) -> None:
    endpoint.will(content=JUDGED)
    reply = await models().complete(ask())
    assert (reply.text, reply.exit, reply.understanding) == (JUDGED["text"], False, 80)
    assert (reply.values, reply.progress) == ({"name": "Ana"}, "continue_needed")
    asked = endpoint.requests[0].body["response_format"]
    assert (asked["type"], asked["json_schema"]["strict"]) == ("json_schema", True)
    assert list(asked["json_schema"]["schema"]["properties"])[-1] == "text"


# -- words as they come -----------------------------------------------------------------------------------------------


async def test_words_are_heard_as_they_come(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Good morning, Ana! Did you sleep well?", piece_chars=3)
    heard = Heard()
    reply = await models().complete(say(), heard)
    assert reply.text == "Good morning, Ana! Did you sleep well?"
    assert len(heard.texts) > 5
    assert heard.texts[-1] == reply.text
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(heard.texts))
    assert reply.usage.first_words_ms is not None
    assert reply.usage.first_words_ms <= reply.usage.latency_ms
    assert (reply.usage.counted, reply.usage.parameters["stream"]) == (True, True)


@pytest.mark.parametrize("before", ["", "<think>Who is {Ana}?</think>\n", "```json\n", "Hm. </think>"])
async def test_text_in_a_structure_is_streamed_after_everything_else(endpoint: Endpoint, models, before) -> None:
    endpoint.will(content=before + json.dumps(JUDGED), piece_chars=1)
    heard = Heard()
    reply = await models().complete(ask(), heard)
    assert heard.texts[0] == "T"
    assert heard.texts[-1] == reply.text == JUDGED["text"]
    assert {(each.exit, each.understanding, each.values["name"], each.progress) for each in heard.replies} == {
        (False, 80, "Ana", "continue_needed")
    }


async def test_words_before_the_verdict_are_not_heard_before_the_end(endpoint: Endpoint, models) -> None:
    endpoint.will(content={"text": JUDGED["text"], **JUDGED}, piece_chars=2)
    heard = Heard()
    reply = await models().complete(ask(), heard)
    assert (reply.text, heard.texts) == (JUDGED["text"], [])


async def test_thoughts_without_a_start_are_streamed_at_most_once(endpoint: Endpoint, models) -> None:
    endpoint.always(content="They want a greeting.\n</think>\n\nHello, Ana!", piece_chars=3)
    used = models()
    first, later = Heard(), Heard()
    for hear in (first, later):
        assert (await used.complete(say(), hear)).text == "Hello, Ana!"
    assert first.texts[0] == "The"
    assert later.texts[0].startswith("H")


async def test_words_of_a_broken_stream_give_way_to_those_of_the_next(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Good morning, dear Ana!", cut=3)
    endpoint.will(content="Hello!", piece_chars=2)
    heard = Heard()
    reply = await models().complete(say(), heard)
    assert reply.text == "Hello!"
    assert "Good morning" in heard.texts[:3][-1]
    assert heard.texts[-3:] == ["He", "Hell", "Hello!"]
    assert (reply.usage.attempts, reply.usage.failures) == (2, ("cut",))


async def test_a_long_reply_is_parsed_every_20_milliseconds(endpoint: Endpoint, models) -> None:
    said = "Good_morning,Ana! " * 1_500
    endpoint.will(content=said, piece_chars=9)
    ticks = itertools.count()
    heard = Heard()
    used = models(clock=lambda: next(ticks) * 0.002, output_tokens_max=8_000)  # a piece every 2 ms
    await used.complete(say(), heard)
    assert len(heard.texts[99].replace(" ", "")) < 9 * 101
    assert heard.texts[-1] == said.strip()
    later = [text for text in heard.texts if len(text) > 2_100]
    steps = [len(after) - len(before) for before, after in itertools.pairwise(later[:-1])]
    assert min(steps) > 9 * 9
    assert max(steps) < 9 * 12


@pytest.mark.parametrize("streamed", [False, True])
async def test_values_are_said_in_the_place_of_their_marks(endpoint: Endpoint, models, streamed) -> None:
    task = 'Greet Ana <3 of <value id="1"/>.'
    spans = ((6, 12), (16, 31))
    endpoint.will(times=2, content='Hi <value id="1"/>, how is <value id=2>? <value id="7"/> <', piece_chars=1)
    heard = Heard()
    reply = await models().complete(replace(say(), task=task, task_spans=spans), heard if streamed else None)
    assert reply.text == 'Hi Ana <3, how is <value id="1"/>? <value id="7"/> <'
    assert "<value id=2>" in reply.raw
    assert [text for text in heard.texts if not reply.text.startswith(text)] == []
    assert "Hi Ana <3" in heard.texts or not streamed


# -- what is tried again ----------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("429", {"status": 429, "headers": {"Retry-After": "0"}}),
        ("429", {"status": 429, "headers": {"Retry-After": "Wed, 04 Mar 2026 12:00:00 GMT"}}),
        ("429", {"status": 429, "headers": {"Retry-After": "soon"}}),
        ("429", {"status": 429, "headers": {"Retry-After": f"Wed, 04 Mar {10**20} 12:00:00 GMT"}}),
        ("500", {"status": 500}),
        ("503", {"status": 503, "headers": {"Retry-After": "0.1"}}),
        ("408", {"status": 408}),
        ("cut", {"cut": -1}),
        ("empty", {"content": " \n"}),
        ("empty", {"content": "<think>What should I say?"}),
        ("protocol", {"body": "<html>Welcome</html>"}),
        ("protocol", {"body": "data: {garbage\n\n"}),
        ("protocol", {"body": "[1]"}),
        ("protocol", {"body": 'data: {"choices": 7}\n\n'}),
        ("timeout", {"wait_s": 60.0}),
        ("unusable", {"status": 400, "error": {"message": "Failed to generate JSON", "code": "json_validate_failed"}}),
    ],
)
async def test_what_may_pass_is_tried_again(endpoint: Endpoint, models, kind, answer, streamed) -> None:
    endpoint.will(**answer)
    endpoint.will(content="Good morning!")
    timeout_s = 2.0 if kind == "timeout" else 30.0
    reply = await models(timeout_s=timeout_s).complete(say(), Heard() if streamed else None)
    assert reply.text == "Good morning!"
    assert (reply.usage.attempts, reply.usage.failures, reply.usage.degraded) == (2, (kind,), "")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("cut", {"content": "Good morning!", "cut": 1}),
        ("cut", {"content": "Good morning!", "finish": ""}),
        ("cut", {"body": 'data: {"error": {"message": "out of memory"}}\n\n'}),
        ("timeout", {"content": "Good morning!", "pause_s": 5.0}),
    ],
)
async def test_a_stream_that_breaks_off_is_tried_again(endpoint: Endpoint, models, kind, answer) -> None:
    endpoint.will(**answer)
    endpoint.will(content="Hello!")
    reply = await models(timeout_s=2.0 if kind == "timeout" else 30.0).complete(say(), Heard())
    assert (reply.text, reply.usage.failures) == ("Hello!", (kind,))


@pytest.mark.slow
async def test_a_stream_that_flows_is_not_cut(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Good morning! " * 4, pause_s=0.3, piece_chars=4)
    reply = await models(timeout_s=1.5).complete(say(), Heard())
    assert reply.usage.latency_ms > 3_000
    assert (reply.text, reply.usage.failures) == (("Good morning! " * 4).strip(), ())
    assert len(endpoint.requests) == 1


def _thoughts(count: int, name: str, thought: str) -> str:
    piece = json.dumps({"choices": [{"index": 0, "delta": {name: thought}}]})
    said = json.dumps({"choices": [{"index": 0, "delta": {"content": "Hello!"}, "finish_reason": "stop"}]})
    return f"data: {piece}\n\n" * count + f"data: {said}\n\ndata: [DONE]\n\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "thought", "failures"),
    [("reasoning_content", "Hm.", ()), ("reasoning", "Hm.", ()), ("content", "", ("timeout",))],
)
async def test_a_model_that_thinks_aloud_is_waited_for(endpoint: Endpoint, models, name, thought, failures) -> None:
    endpoint.will(body=_thoughts(8, name, thought), pause_s=0.3)
    endpoint.will(content="Hello!")
    reply = await models(timeout_s=1.5).complete(say(), Heard())
    assert (reply.text, reply.usage.failures) == ("Hello!", failures)


@pytest.mark.parametrize("streamed", [False, True])
async def test_no_attempt_begins_after_the_deadline(endpoint: Endpoint, models, streamed) -> None:
    endpoint.always(status=500, headers={"Retry-After": "3"})
    began = asyncio.get_running_loop().time()
    async with until(began + 2.0):
        with pytest.raises(ModelFailed) as caught:
            await models(attempts=3).complete(say(), Heard() if streamed else None)
    assert (caught.value.usage.attempts, caught.value.usage.failures) == (1, ("500",))
    assert asyncio.get_running_loop().time() < began + 2.0


async def test_a_turn_out_of_time_pays_for_one_attempt(endpoint: Endpoint, models, prepare: NewSession) -> None:
    endpoint.always(content="Good morning!", wait_s=60.0)
    session = prepare("- {ai_say: Greet the user., id: greet}", limits=Limits(turn_s=3.0))
    session.model = models(timeout_s=30.0)
    with pytest.raises(TurnFailed) as caught:
        await session.start()
    assert (caught.value.kind, caught.value.retryable) == ("model", True)
    (call,) = caught.value.model_calls
    assert (call.ended.usage.attempts, call.ended.usage.failures) == (1, ("given_up",))
    assert call.ended.usage.input_tokens > 100
    assert len(endpoint.requests) == 1


async def test_it_is_not_tried_for_ever(endpoint: Endpoint, models) -> None:
    endpoint.always(status=500)
    failure = await failed(models(attempts=2), say())
    assert str(failure) == "the endpoint of model `tiny` reports an internal error (500)"
    assert (failure.retryable, failure.usage.attempts, failure.usage.failures) == (True, 2, ("500", "500"))
    assert len(endpoint.requests) == 2


async def test_call_does_not_wait_for_a_retry_after_of_an_hour(endpoint: Endpoint, models) -> None:
    endpoint.always(status=429, headers={"Retry-After": "3600"})
    failure = await failed(models(), say())
    assert "is overloaded (429)" in str(failure)
    assert len(endpoint.requests) == 1


async def test_where_nobody_listens_nothing_is_asked(endpoint: Endpoint, models) -> None:
    failure = await failed(models(attempts=1, others={}, url="http://127.0.0.1:9/v1"), say())
    assert str(failure) == "the endpoint of model `tiny` cannot be reached; see the url of the model"
    assert failure.usage.failures == ("connect",)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 401, "error": "Incorrect API key provided: sk-1"}, "refused the key (401)"),
        ({"status": 403}, "does not allow this with the key (403)"),
        ({"status": 404}, "does not know this model or address; see model and url (404)"),
        ({"status": 400, "error": "bad"}, "refused the request (400)"),
        ({"status": 422, "error": "bad temperature"}, "refused the request, which names `temperature` (422)"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}}, "refused the request (302)"),
        ({"status": 429, "error": {"message": "pay", "code": "insufficient_quota"}}, "has no quota left for this key"),
        (
            {"status": 400, "error": {"message": "long", "code": "context_length_exceeded"}},
            "does not accept a prompt of this length",
        ),
    ],
)
async def test_what_takes_the_operator_is_not_tried_again(endpoint: Endpoint, models, answer, words) -> None:
    endpoint.will(**answer)
    failure = await failed(models(), say())
    assert f"the endpoint of model `tiny` {words}" in str(failure)
    assert not failure.retryable
    assert failure.usage.attempts == len(endpoint.requests) == 1


async def test_where_a_key_is_wanted_and_none_is_set_the_words_say_so(endpoint: Endpoint, models) -> None:
    endpoint.will(status=401)
    failure = await failed(models(key=Secret("")), say())
    assert str(failure) == "the endpoint of model `tiny` requires a key, and the model has none; set it"
    assert not failure.retryable


async def test_a_filter_of_the_endpoint_ends_it(endpoint: Endpoint, models) -> None:
    endpoint.always(content="Good", finish="content_filter")
    for hear in (None, Heard()):
        with pytest.raises(ModelFailed, match="by its own content filter"):
            await models().complete(say(), hear)
    assert len(endpoint.requests) == 2


async def test_a_reply_without_end_is_not_read_to_its_end(endpoint: Endpoint, models) -> None:
    endpoint.will(times=2, content="long " * REPLY_CHARS_MAX, piece_chars=50_000)
    for hear in (None, Heard()):
        with pytest.raises(ModelFailed, match="an endless reply"):
            await models().complete(say(), hear)


async def test_reply_far_beyond_its_token_limit_is_not_read_to_its_end(endpoint: Endpoint, models) -> None:
    endpoint.will(times=2, content="long " * 1_000)
    for hear in (None, Heard()):
        with pytest.raises(ModelFailed, match="an endless reply") as caught:
            await models(output_tokens_max=10, input_price=1.0).complete(say(), hear)
        usage = caught.value.usage
        assert (usage.counted, usage.input_tokens > 100, usage.cost > 0) == (False, True, True)
    assert usage.output_tokens > 900


async def test_a_model_that_thinks_until_its_limit_is_not_asked_again(endpoint: Endpoint, models) -> None:
    endpoint.always(content="<think>On the one hand,", finish="length")
    failure = await failed(models(), say())
    assert "raise output_tokens_max" in str(failure)
    assert len(endpoint.requests) == 1


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_reply_format_is_learned_from_refusals_and_remembered(endpoint: Endpoint, models, streamed) -> None:
    endpoint.refuses |= {"json_schema", "json_object"}
    endpoint.always(content=JUDGED)
    used = models()
    reply = await used.complete(ask(), Heard() if streamed else None)
    assert reply.values == {"name": "Ana"}
    assert [asked.format for asked in endpoint.requests] == ["json_schema", "json_object", "text"]
    assert (reply.usage.attempts, reply.usage.failures) == (3, ("400", "400"))
    again = await used.complete(ask())
    assert again.usage.attempts == 1
    assert endpoint.requests[-1].format == "text"
    assert again.usage.parameters["format"] == "text"
    # without a schema the endpoint holds replies to, the model is shown it
    shown = [asked.body["messages"][0]["content"].count("JSON Schema of the answer") for asked in endpoint.requests]
    assert shown == [0, 1, 1, 1]


async def test_a_form_that_is_set_is_not_given_up(endpoint: Endpoint, models) -> None:
    endpoint.refuses.add("json_object")
    failure = await failed(models(format="json"), ask())
    assert str(failure) == "the endpoint of model `tiny` refused the request, which names `response_format` (400)"
    assert [asked.format for asked in endpoint.requests] == ["json_object"]


async def test_what_an_endpoint_does_not_know_is_left_out(endpoint: Endpoint, models) -> None:
    endpoint.refuses.add("stream_options")
    used = models()
    usage = (await used.complete(say(), Heard())).usage
    assert (usage.attempts, usage.counted) == (2, False)
    assert (await used.complete(say(), Heard())).usage.attempts == 1


async def test_the_limit_of_tokens_goes_by_the_name_the_endpoint_wants(endpoint: Endpoint, models) -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    endpoint.will(status=400, error=said)
    used = models(output_tokens_max=77)
    await used.complete(say())
    await used.complete(say())
    assert [asked.body.get("max_completion_tokens") for asked in endpoint.requests] == [None, 77, 77]


async def test_endpoint_that_refuses_all_formats_is_not_retried(endpoint: Endpoint, models) -> None:
    endpoint.always(status=400, error="response_format is not known here")
    await failed(models(), ask())
    assert len(endpoint.requests) == 3


# -- replies that are not what was asked for --------------------------------------------------------------------------


async def test_a_call_of_a_tool_is_a_reply_too(endpoint: Endpoint, models) -> None:
    endpoint.will(times=2, content=JUDGED, tool_calls=True)
    for hear in (None, Heard()):
        reply = await models().complete(ask(), hear)
        assert (reply.text, reply.values, reply.usage.degraded) == (JUDGED["text"], {"name": "Ana"}, "")


async def test_of_words_with_a_call_of_a_tool_only_the_words_are_said(endpoint: Endpoint, models) -> None:
    call = {"function": {"name": "look_up", "arguments": '{"name": "Ana"}'}}
    message = {"content": "Hello there.", "tool_calls": [call]}
    pieces = [{"content": "Hello "}, {"content": "there."}, {"content": None, "tool_calls": [call]}]
    choices = [*({"delta": each} for each in pieces), {"delta": {}, "finish_reason": "tool_calls"}]
    endpoint.will(body=json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), headers=PLAIN)
    endpoint.will(body="".join(f"data: {json.dumps({'choices': [each]})}\n\n" for each in choices))
    heard = Heard()
    for hear in (None, heard):
        assert (await models().complete(say(), hear)).text == "Hello there."
    assert heard.texts == ["Hello", "Hello there."]


async def test_tool_call_without_text_is_said_only_where_it_has_text(endpoint: Endpoint, models) -> None:
    endpoint.will(content={"text": "Hello!"}, tool_calls=True)
    assert (await models().complete(say())).text == "Hello!"
    endpoint.will(content={"name": "Ana"}, tool_calls=True)
    assert "gave no usable reply" in str(await failed(models(attempts=1), say()))


async def test_prose_instead_of_a_structure_is_said_in_that_round(endpoint: Endpoint, models) -> None:
    endpoint.will(content="Nice to meet you, Ana. How old are you?")
    reply = await models().complete(ask())
    assert (reply.text, reply.exit, reply.values) == ("Nice to meet you, Ana. How old are you?", None, {})
    assert "plain text" in reply.usage.degraded
    assert len(endpoint.requests) == 1


async def test_a_reply_without_its_verdict_is_words_alone(endpoint: Endpoint, models) -> None:
    endpoint.will(content={"text": "How old are you?"})
    reply = await models().complete(ask())
    assert (reply.text, reply.exit) == ("How old are you?", None)
    assert "verdict" in reply.usage.degraded


@pytest.mark.parametrize(
    "said", ['{"texd": "Hello"}', '{"text": 5', "[[[[[", '{"a": {"b": {"c": {"d": {"text": 1}}}}}']
)
async def test_a_structure_gone_wrong_is_never_said(endpoint: Endpoint, models, said) -> None:
    endpoint.will(times=3, content=said)
    if said == '{"text": 5':
        assert (await models().complete(ask())).text == "5"
        return
    failure = await failed(models(), ask())
    assert "gave no usable reply" in str(failure)
    assert failure.usage.failures == ("unusable",) * 3
    assert failure.usage.output_tokens > 0


async def test_of_values_that_stay_unreadable_nothing_is_taken(endpoint: Endpoint, models) -> None:
    endpoint.will(times=2, content="I would say it is Ana.")
    reply = await models(attempts=2).complete(extract())
    assert (reply.text, reply.values) == ("", {})
    assert reply.usage.failures == ("unusable", "unusable")
    assert "nothing in it could be used" in reply.usage.degraded
    endpoint.will(content="I would say it is Ana.")
    endpoint.will(content={"values": {"name": "Ana"}, "reasons": {}})
    assert (await models(attempts=2).complete(extract())).values == {"name": "Ana"}


async def test_a_reply_cut_off_at_its_limit_is_repaired_and_noted(endpoint: Endpoint, models) -> None:
    endpoint.will(content=json.dumps(JUDGED)[:-9], finish="length")
    reply = await models().complete(ask())
    assert JUDGED["text"].startswith(reply.text)  # type: ignore[attr-defined]
    assert (reply.text != "", reply.values) == (True, {"name": "Ana"})
    assert "token limit" in reply.usage.degraded


# -- several models ---------------------------------------------------------------------------------------------------


async def test_a_script_names_the_model_it_wants(endpoint: Endpoint, models) -> None:
    used = models(others={"large": {"model": "large-8b"}})
    for name in ("", "large", "openai:other"):
        await used.complete(say(model=name))
    assert [asked.model for asked in endpoint.requests] == ["tiny", "large-8b", "other"]
    assert [used.goes_to(say(model=name)) for name in ("", "large")] == ["tiny", "large"]
    failure = await failed(used, say(model="huge"))
    assert str(failure) == "this server has no model `huge`; it has `tiny`, `large`, `openai:NAME`"
    assert not failure.retryable


async def test_another_model_answers_for_one_that_fails(endpoint: Endpoint, models) -> None:
    used = models(
        fallback="large", attempts=2, input_price=1.0, others={"large": {"output_price": 1_000_000.0, "timeout_s": 4.0}}
    )
    endpoint.will(times=2, model="tiny", status=500)
    endpoint.will(model="large", content="Good morning!")
    reply = await used.complete(say())
    assert reply.text == "Good morning!"
    assert (reply.usage.model, reply.usage.attempts, reply.usage.failures) == ("large-0613", 3, ("500", "500"))
    assert reply.usage.cost == pytest.approx(3.0)


async def test_when_all_fail_the_last_one_says_why(endpoint: Endpoint, models) -> None:
    used = models(fallback="large", attempts=1, others={"large": {"fallback": "tiny", "attempts": 1}})
    endpoint.will(model="tiny", status=401)
    endpoint.will(model="large", status=500)
    failure = await failed(used, say())
    assert "`large`" in str(failure)
    assert (failure.usage.attempts, failure.usage.failures) == (2, ("401", "500"))


async def test_unreachable_endpoint_is_tried_by_one_call_later(endpoint: Endpoint, models) -> None:
    now = [0.0]
    used = models(clock=lambda: now[0], attempts=1, fallback="other", others={"other": {"timeout_s": 4.0}})
    endpoint.will(times=5, model="tiny", status=503)
    for _ in range(5):
        await used.complete(say())
    assert used.states() == {"tiny": "open", "other": "closed"}
    reply = await used.complete(say())
    assert (reply.usage.attempts, reply.usage.failures) == (1, ("resting",))
    assert [asked.model for asked in endpoint.requests].count("tiny") == 5
    now[0] = 15.0
    assert used.states()["tiny"] == "half-open"
    endpoint.will(model="tiny", status=503)
    await used.complete(say())
    assert used.states()["tiny"] == "open"
    now[0] = 30.0
    endpoint.will(model="tiny", wait_s=0.3)
    several = await asyncio.gather(*(used.complete(say()) for _ in range(3)))
    assert sorted(each.usage.failures for each in several) == [(), ("resting",), ("resting",)]
    assert used.states()["tiny"] == "closed"


async def test_an_endpoint_left_alone_keeps_its_first_failure(endpoint: Endpoint, models) -> None:
    used = models(attempts=1)
    endpoint.will(times=2, status=401)  # a refusal is no part of the row
    endpoint.will(status=503)
    endpoint.always(cut=-1)
    for _ in range(7):
        await failed(used, say())
    failure = await failed(used, say())
    assert str(failure) == (
        "the endpoint of model `tiny` failed several times in a row and is not called for a moment; "
        "the first time it reports an internal error (503)"
    )
    assert failure.retryable


async def test_an_endpoint_that_refuses_is_not_down(endpoint: Endpoint, models) -> None:
    endpoint.always(status=401)
    used = models()
    for _ in range(7):
        await failed(used, say())
    assert used.states() == {"tiny": "closed"}
    assert len(endpoint.requests) == 7


# -- connections ------------------------------------------------------------------------------------------------------


async def test_concurrent_calls_are_limited_over_as_many_connections(endpoint: Endpoint, models) -> None:
    endpoint.always(content="Good morning!", wait_s=0.2)
    used = models(concurrency=3, others={"large": {"concurrency": 3}})
    await asyncio.gather(*(used.complete(say(model=name)) for name in ("tiny", "large", "openai:x") for _ in range(6)))
    await used.complete(say(), Heard())
    assert (endpoint.busy_max, len(endpoint.requests)) == (3, 19)
    assert endpoint.connections <= 3


@pytest.mark.slow
async def test_a_request_that_waits_too_long_for_a_slot_is_refused(endpoint: Endpoint, models) -> None:
    endpoint.always(content="Good morning!", wait_s=0.2)
    used = models(concurrency=1, timeout_s=2.0, attempts=1)
    several = await asyncio.gather(*(used.complete(say()) for _ in range(12)), return_exceptions=True)
    reported = {str(each) for each in several if isinstance(each, ModelFailed)}
    assert reported == {"the endpoint of model `tiny` has too many calls waiting"}


async def test_a_call_that_is_given_up_frees_its_place(endpoint: Endpoint, models) -> None:
    endpoint.will(wait_s=5.0)
    used = models(concurrency=1)
    call = asyncio.create_task(used.complete(say()))
    await asyncio.to_thread(endpoint.wait, requests=1)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    endpoint.will(content="Good morning!")
    assert (await used.complete(say())).text == "Good morning!"


async def taken_by(call: asyncio.Task[ModelReply]) -> Usage:
    """Return what a call took that is given up now."""
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await call
    assert isinstance(caught.value.__cause__, GivenUp)
    return caught.value.__cause__.usage


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_is_given_up_has_its_price(endpoint: Endpoint, models, streamed) -> None:
    used = models(input_price=1.0, attempts=2)
    endpoint.will(status=500)
    endpoint.will(content="Good morning! " * 50, pause_s=0.01, wait_s=0.0 if streamed else 5.0)
    begun = asyncio.Event()

    def hear(reply: ModelReply) -> None:
        if len(reply.text) > 50:
            begun.set()

    call = asyncio.create_task(used.complete(say(), hear if streamed else None))
    await asyncio.to_thread(endpoint.wait, requests=2)
    if streamed:
        await begun.wait()
    usage = await taken_by(call)
    assert (usage.attempts, usage.failures, usage.counted) == (2, ("500", "given_up"), False)
    assert (usage.input_tokens > 100, usage.output_tokens > 5, usage.cost > 0) == (True, streamed, True)
    assert len(usage.prompt_digest) == 64


async def test_what_was_never_sent_has_no_price(endpoint: Endpoint, models) -> None:
    endpoint.always(wait_s=5.0)
    used = models(concurrency=1)
    first = asyncio.create_task(used.complete(say()))
    await asyncio.to_thread(endpoint.wait, requests=1)
    waits = asyncio.create_task(used.complete(say()))
    await asyncio.sleep(0)
    usages = [await taken_by(waits), await taken_by(first)]
    assert [each.attempts for each in usages] == [0, 1]
    assert usages[0].input_tokens == 0 < usages[1].input_tokens


async def test_an_attempt_that_took_too_long_has_its_price(endpoint: Endpoint, models) -> None:
    endpoint.will(wait_s=60.0)
    usage = (await failed(models(timeout_s=0.5, attempts=1), say())).usage
    assert (usage.input_tokens > 100, usage.counted, usage.failures) == (True, False, ("timeout",))


async def test_the_client_logs_nothing_of_what_people_say(
    endpoint: Endpoint, models, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("openai").setLevel(logging.DEBUG)  # as OPENAI_LOG=debug has it
    with caplog.at_level(logging.DEBUG):
        await models().complete(say())
    assert [record.name for record in caplog.records if "Greet the user" in record.getMessage()] == []
    assert not [record for record in caplog.records if record.name.startswith("openai")]


async def test_variables_for_another_endpoint_are_not_sent(
    endpoint: Endpoint, models, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/elsewhere")
    await models(key=Secret("")).complete(say())
    assert endpoint.requests[0].key == "none"
    assert "elsewhere" not in str(endpoint.requests[0])


# -- in a session -----------------------------------------------------------------------------------------------------

SCRIPT = """
- ai_ask: Find out the name of the user.
  exit: the name is known
  output: [{get: name}]
- say: Bye, {{ name }}.
"""


async def test_session_continues_with_a_reply_taken_as_text(endpoint: Endpoint, models, prepare: NewSession) -> None:
    session = prepare(SCRIPT)
    session.model = models()
    endpoint.will(content="What is your name?")
    await session.start()
    assert session.said == ["What is your name?"]
    endpoint.will(content="Pardon me?")
    await session.reply("Mumble")
    assert session.said == ["Pardon me?"]
    assert [code for code, _ in session.warnings] == ["model_degraded"]
    endpoint.will(content={**JUDGED, "exit": True, "text": ""})
    await session.reply("I am Ana")
    assert (session.said, session.warnings) == (["Bye, Ana."], [])
