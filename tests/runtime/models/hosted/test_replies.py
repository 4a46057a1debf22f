"""What is made of the things language models write around, into and instead of the JSON they are asked for."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.models.hosted.failures import AttemptFailure
from runtime.models.hosted.reply_reader import TextStream, fill_placeholders, object_in, prose_in, read_reply, visible
from runtime.prompts.rendering import Prompts
from runtime.prompts.templates import Templates
from runtime.state.ports import DetectorQuestion, ModelRequest, Verdict
from scripts.model.variables import Output

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
PROMPTS = Prompts(Templates.load(None))

SCHEMA = {"properties": {"exit": {}, "values": {}, "text": {}}, "required": ["exit", "values", "text"]}
WHOLE = {"exit": True, "values": {"a": 1}, "text": 'Say "hi" {now}'}
JSON = json.dumps(WHOLE)


@pytest.mark.parametrize(
    "raw",
    [
        JSON,
        f"\n {JSON}\n\n",
        f"```json\n{JSON}\n```",
        f"```\n{JSON}",
        f"Sure! Here it is:\n```json\n{JSON}\n```\nAnything else?",
        f"Here it is: {JSON} I hope that helps.",
        f'<think>They want {{"exit": false}}, do they?</think>\n{JSON}',
        f'Well, {{"exit": false}} it is.\n</think>\n\n{JSON}',
        f"<|im_start|>{JSON}<|im_end|>",
        f"[{JSON}]",
        f'<tool_call>\n{{"name": "reply", "arguments": {JSON}}}\n</tool_call>',
        json.dumps({"name": "reply", "arguments": JSON}),
        json.dumps([{"type": "function", "function": {"name": "reply", "parameters": WHOLE}}]),
        json.dumps({"response": WHOLE}),
        json.dumps(WHOLE)[:-1],
        json.dumps(WHOLE)[:-1] + ",}",
        "{'exit': True, 'values': {'a': 1}, 'text': 'Say \"hi\" {now}'}",
        '{exit: true, values: {a: 1}, text: "Say \\"hi\\" {now}"}',
    ],
)
def test_text_around_a_reply_and_small_slips_are_tolerated(raw) -> None:
    assert object_in(raw, SCHEMA) == WHOLE


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "Hello!",
        "Hello {name}!",
        "{}",
        '{"foo": 1}',
        "[1, 2]",
        "null",
        '"text"',
        "<think>{",
        "{" * 5_000,
        "[" * 90_000,
    ],
)
def test_what_is_no_reply_is_none(raw) -> None:
    assert object_in(raw, SCHEMA) is None


def test_prose_is_taken_and_structures_gone_wrong_are_not() -> None:
    assert prose_in("<think>Hm.</think> Hello {name}, how are you?") == "Hello {name}, how are you?"
    assert [
        prose_in(raw)
        for raw in ('{"texd": "x"}', 'Here: ["a"', "```\nHello\n```", "{'a': 1}", 'a": 1', "null", "{“a“: 1}")
    ] == [""] * 7


@pytest.mark.parametrize(
    ("raw", "detected"),
    [
        ('{"crisis": {"score": 0.9, "label": "danger"}}', {"crisis": Verdict(0.9, "danger")}),
        ('```json\n{"Crisis": 0.9, "crisis": "80%"}\n```', {"crisis": Verdict(0.8)}),
        ('{"detected": {}, "crisis": 0.9}', {}),
    ],
)
def test_verdicts_count_also_without_the_object_around_them(raw, detected) -> None:
    question = DetectorQuestion("the user is in danger", ("danger",))
    asked = msgspec.structs.replace(request("Hi"), purpose="detect", detectors={"crisis": question})
    assert read_reply(raw, asked, PROMPTS.render(asked, context_tokens_max=8_000)).reply.detected == detected


@pytest.mark.parametrize("raw", ['{"detected": {"crisis": {"score": "high"}}}', '{"detected": [{"score": 1}]}'])
def test_verdicts_without_a_readable_score_are_unusable(raw) -> None:
    asked = msgspec.structs.replace(request("Hi"), purpose="detect", detectors={"crisis": DetectorQuestion("Risk.")})
    with pytest.raises(AttemptFailure):
        read_reply(raw, asked, PROMPTS.render(asked, context_tokens_max=8_000))


def test_values_count_also_without_the_object_around_them() -> None:
    outputs = (Output(get="age", type="number"), Output(get="name"))
    asked = msgspec.structs.replace(request("Hi"), purpose="extract", outputs=outputs)
    prompt = PROMPTS.render(asked, context_tokens_max=8_000)
    for raw in '{"age": 28}', '{"name": "extract", "arguments": {"values": {"age": 28}}}':
        assert read_reply(raw, asked, prompt).reply.values == {"age": 28}


def test_words_about_thoughts_are_no_thoughts() -> None:
    said = json.dumps({**WHOLE, "text": "I write <think>so</think> and <|im_end|> here."})
    assert object_in(said, SCHEMA) == {**WHOLE, "text": "I write <think>so</think> and  here."}
    assert visible("<think>a</think>\n<think>b</think>c") == "c"


def test_a_thought_is_not_seen_while_it_is_being_thought() -> None:
    raw = "<think>What now?</think>Hello"
    assert [visible(raw[:at]) for at in (12, 23, len(raw))] == ["", "", "Hello"]


HARMONY = "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"
TAGS = [
    *(("<think>", "</think>"), ("<Thinking>", "</Thinking>"), ("<thought>", "</thought>"), ("[THINK]", "[/THINK]")),
    *(("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷"), HARMONY),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
]


@pytest.mark.parametrize(("start", "end"), TAGS)
@pytest.mark.parametrize("said", ["Hello, Ana!", JSON])
def test_thoughts_of_every_model_family_are_left_out(start, end, said) -> None:
    raw = f"{start}They say {{hi}}.\nSo do I.{end}{said}"
    assert visible(raw) == said
    texts, final = heard(request(None), raw, list(range(len(raw))))
    assert [text for text in texts if not final.startswith(text)] == []


@pytest.mark.parametrize(
    "end", ["<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "\n</s>"]
)
def test_a_reply_ends_where_the_model_should_have_stopped(end) -> None:
    further = "" if end.endswith("</s>") else "\n<|im_start|>user\nI am Ana"
    raw = f"Hello! <s>Hi</s> there.{end}{further}"
    texts, final = heard(request(None), raw, list(range(len(raw))))
    assert final == texts[-1] == "Hello! <s>Hi</s> there."
    assert [text for text in texts if not final.startswith(text)] == []


@pytest.mark.parametrize("start", ["<think>", "<thought>"])
def test_a_thought_within_a_reply_is_left_out(start) -> None:
    thought = f"{start}Say more?{start.replace('<', '</')}"
    for raw, said in (
        (f"Hi! {thought}\nHow are you?", "Hi! \nHow are you?"),
        (f"Hi! {start[:-1]}", f"Hi! {start[:-1]}"),
    ):
        texts, final = heard(request(None), raw, list(range(len(raw))))
        assert final == said
        assert [text for text in texts if not final.startswith(text)] == []
    verdict = {"progress": "completed", "exit": False, "exit_reason": "", "understanding": 1, "has_questions": False}
    structure = json.dumps({**verdict, "values": {}, "text": f"{thought}\nHow are you?"})
    texts, final = heard(request("Hi"), structure, list(range(len(structure))))
    assert final == texts[-1] == "How are you?"
    assert [text for text in texts if not final.startswith(text)] == []


@given(st.text())
def test_anything_may_come(raw) -> None:
    object_in(raw, SCHEMA)
    assert isinstance(prose_in(raw), str)


@given(st.integers(0, len(JSON)), st.text(max_size=5))
def test_a_reply_with_something_in_the_middle_is_read_or_not(at, noise) -> None:
    found = object_in(JSON[:at] + noise + JSON[at:], SCHEMA)
    assert found is None or {"exit", "values", "text"} & {str(name).strip().casefold() for name in found}


def request(reply: str | None) -> ModelRequest:
    purpose = "chat" if reply is None else "ask"
    return ModelRequest(purpose=purpose, action_id="a", round=1, task="Talk.", locale="en", now=NOON, reply=reply)


def heard(asked: ModelRequest, raw: str, cuts: list[int]) -> tuple[list[str], str]:
    """Return what is heard of a reply that comes in pieces, and what it comes to."""
    prompt = PROMPTS.render(asked, context_tokens_max=8_000)
    texts: list[str] = []
    words = TextStream(asked, prompt, lambda reply: texts.append(reply.text), lambda: None)
    for at in [*sorted(cuts), len(raw)]:
        words.grow(raw[:at])
    try:
        return texts, read_reply(raw, asked, prompt).reply.text
    except AttemptFailure:
        return texts, ""


SAID = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.lists(
    st.sampled_from(["Hello", " ", "<", "|", ">", "<|im_end|>", "a < b", "\n", "\\", '"', "{x}", "你好", "🎈", "/"]),
    max_size=12,
).map("".join)


@given(SAID, st.lists(st.integers(0, 400), max_size=30), st.booleans())
def test_what_is_heard_of_a_structure_is_what_is_said_in_the_end(said, cuts, ascii_only) -> None:
    verdict = {"progress": "completed", "exit": False, "exit_reason": "", "understanding": 1, "has_questions": False}
    raw = json.dumps({**verdict, "values": {}, "text": said}, ensure_ascii=ascii_only)
    texts, final = heard(request("Hi"), raw, cuts)
    assert [text for text in texts if not final.startswith(text)] == []


MARKED = st.lists(
    st.sampled_from(
        ["Hi", " ", "<", '<value id="1"/>', "<value id=2 />", '<value id="9"/>', "<value", "id=", '"', ">"]
    ),
    max_size=12,
).map("".join)


@given(MARKED, st.lists(st.integers(0, 400), max_size=30))
def test_streamed_text_with_marks_equals_the_final_text(said, cuts) -> None:
    verdict = {"progress": "completed", "exit": False, "exit_reason": "", "understanding": 1, "has_questions": False}
    raw = json.dumps({**verdict, "values": {}, "text": said})
    prompt = PROMPTS.render(request("Hi"), context_tokens_max=8_000)
    prompt = msgspec.structs.replace(prompt, values={"1": "Ana <3", "2": ""})
    texts: list[str] = []
    words = TextStream(request("Hi"), prompt, lambda reply: texts.append(reply.text), lambda: None)
    for at in [*sorted(cuts), len(raw)]:
        words.grow(raw[:at])
    final = fill_placeholders(json.loads(raw)["text"], prompt.values)
    assert [text for text in texts if not final.startswith(text)] == []


@given(SAID, st.lists(st.integers(0, 60), max_size=30))
def test_what_is_heard_of_plain_words_is_what_is_said_in_the_end(said, cuts) -> None:
    texts, final = heard(request(None), said, cuts)
    assert [text for text in texts if not final.startswith(text)] == []
