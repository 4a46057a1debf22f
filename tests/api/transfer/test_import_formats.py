"""Conversations of other systems: what they become, what of them is passed over, and that the rest survives it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.transfer.formats.nanobot import read_lines
from api.transfer.import_report import DocumentInvalid, ImportReport
from runtime.context.conversation import Conversation
from runtime.state.state import decode
from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp

LINES = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}
OLD = [
    {"_type": "metadata", "created_at": "2026-02-10T10:00:00Z", "updated_at": "2026-02-10T11:30:00Z", "metadata": {}},
    {"role": "user", "content": "你好", "timestamp": "2026-02-10T10:00:01Z"},
    {"role": "assistant", "content": "你好！有什么可以帮助你的？", "timestamp": "2026-02-10T10:00:02Z"},
    {"role": "user", "content": "帮我写一个 Python 函数", "timestamp": "2026-02-10T10:30:00Z"},
    {"role": "assistant", "content": "当然！", "timestamp": "2026-02-10T10:30:01Z"},
]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
NEW = [
    {"_type": "metadata", "key": "telegram:a:b", "created_at": "2026-02-10T10:00:00", "metadata": {"title": "Tea"}}
    | {"updated_at": "2026-02-10T10:00:09", "last_consolidated": 2},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "first"},
    {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "content": "a cat", "tool_call_id": "c1", "name": "look"},
    {"role": "assistant", "content": "It is a cat."},
]


def as_lines(rows: list[Any]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, rows)) + b"\n"


async def import_document(api: ApiClient, content: bytes, headers: dict[str, str] = LINES, **query: Any) -> Any:
    answer = await api.post("/api/sessions/import", content=content, headers=headers, params=query)
    assert answer.is_success, answer.text
    found = answer.json()
    is_new = not found["dryRun"] and not found["replaced"]
    assert answer.status_code == (201 if is_new else 200)
    assert answer.headers.get("Location") == (None if found["dryRun"] else f"/api/sessions/{found['sessionId']}")
    return found


async def refused(api: ApiClient, content: bytes, headers: dict[str, str] = LINES, **query: Any) -> str:
    answer = await api.post("/api/sessions/import", content=content, headers=headers, params=query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "DOCUMENT_INVALID"), answer.text
    message: str = answer.json()["error"]["message"]
    return message


async def document_of(api: ApiClient, session: Any) -> Any:
    return await api.read(f"/api/sessions/{session['sessionId']}/export")


async def memory_of(api: ApiClient, session: Any) -> Any:
    """Return what the context of a session holds beside its messages."""
    document = await document_of(api, session)
    return decode(json.dumps(document["turns"][-1]["state"])).context


# -- nanobot ----------------------------------------------------------------------------------------------------------


async def test_old_lines_get_their_key_from_the_file(api: ApiClient) -> None:
    found = await import_document(api, as_lines(OLD), fileName="telegram_12_3.jsonl")
    assert (found["key"], found["userId"], found["format"]) == ("telegram:12_3", "telegram:12_3", "nanobot")
    assert (found["scriptId"], found["messages"], found["turns"], found["skipped"]) == ("chat", 4, 3, [])
    shown = await api.read(f"/api/sessions/{found['sessionId']}/messages")
    assert [(row["role"], row["content"], row["timestamp"]) for row in shown["data"]] == [
        ("ai" if each["role"] == "assistant" else "user", each["content"], each["timestamp"]) for each in OLD[1:]
    ]
    session = await api.read(f"/api/sessions/{found['sessionId']}")
    assert (session["createdAt"], session["updatedAt"]) == ("2026-02-10T10:00:00Z", "2026-02-10T11:30:00Z")


async def test_it_is_a_session_to_go_on_with(api: ApiClient) -> None:
    found = await import_document(api, as_lines(NEW), userId="ana")
    answer = await api.send_texts(found, "And a dog?")
    assert (answer["turn"], answer["sessionStatus"]) == (3, "active")
    assert [content for _, content in await api.transcript(found)][:2] == ["one", "first"]


@pytest.mark.parametrize(
    ("answers", "locale"),
    [
        (["你好！有什么可以帮助你的？", "OK"], "en"),
        (["你好！有什么可以帮助你的？", "当然！", "OK"], "zh"),
        (["こんにちは！何かお手伝いできますか？"], "en"),
        ([], "en"),
    ],
)
async def test_a_chinese_conversation_goes_on_in_chinese(api: ApiClient, answers: list[str], locale: str) -> None:
    exchanges = [[{"role": "user", "content": "你好"}, {"role": "assistant", "content": each}] for each in answers]
    found = await import_document(api, as_lines([OLD[0], *(each for pair in exchanges for each in pair)]))
    assert (await api.read(f"/api/sessions/{found['sessionId']}"))["locale"] == locale
    answer = await api.send_texts(found, "继续")
    assert answer["aiMessage"].isascii() == (locale == "en")


async def test_a_message_of_a_picture_alone_names_it_in_the_history(api: ApiClient) -> None:
    picture = {"role": "user", "content": "", "media": ["/pictures/cat.png"]}
    found = await import_document(api, as_lines([OLD[0], picture, {"role": "assistant", "content": "A cat."}]))
    history = await api.read(f"/api/sessions/{found['sessionId']}/history")
    assert [each["content"] for each in history] == ["[image: /pictures/cat.png]", "A cat."]


async def test_a_message_without_words_is_imported(api: ApiClient) -> None:
    session = await api.create_session("chat")
    said = [{"role": "user", "content": each} for each in ("", "Hello.")]
    await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json={"messages": said})
    exported = await api.get(f"/api/sessions/{session['sessionId']}/export", params={"format": "jsonl"})
    found = await import_document(api, exported.content, key="copy")
    assert (found["messages"], found["skipped"]) == (2, [])
    assert [content for _, content in await api.transcript(found)] == ["", "Hello."]


async def test_repeated_prompts_of_nanobot_assistants_are_left_out(api: ApiClient) -> None:
    repeated = "[Message Time: 2026-05-09 00:33:48]\n来了\n[image: /home/user/.nanobot/media/old.png]\n\nmessage(1)"
    rows = [OLD[0], {"role": "user", "content": repeated}, {"role": "assistant", "content": repeated}]
    found = await import_document(api, as_lines(rows))
    history = await api.read(f"/api/sessions/{found['sessionId']}/history")
    assert [each["content"] for each in history] == [repeated, "来了\n\nmessage(1)"]
    assert [each.partition(":")[0] for each in found["remarks"]] == ["line 3"]


async def test_a_document_that_is_sent_twice_is_one_session(api: ApiClient) -> None:
    await import_document(api, as_lines(OLD))
    answer = await api.post("/api/sessions/import", content=as_lines(OLD), headers=LINES)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "SESSION_EXISTS")
    assert len((await api.read("/api/sessions"))["data"]) == 1


async def test_every_exchange_is_a_turn_of_its_own(api: ApiClient) -> None:
    found = await import_document(api, as_lines(NEW))
    turns = (await document_of(api, found))["turns"]
    assert [[message["content"] for message in turn["messages"]] for turn in turns] == [
        [],
        ["one", "first"],
        ["look", "", "a cat", "It is a cat."],
    ]
    assert [turn["events"][0]["data"].get("what") for turn in turns[1:]] == ["append", "append"]


async def test_new_lines_keep_tools_pictures_thoughts_and_the_window(api: ApiClient) -> None:
    found = await import_document(api, as_lines(NEW), fileName="telegram_other.jsonl")
    assert found["key"] == "telegram:a:b"
    document = await document_of(api, found)
    assert document["session"]["metadata"] == {"title": "Tea"}
    said = document["turns"][-1]["messages"]
    assert said[0]["metadata"] == {"parts": NEW[3]["content"]}
    assert said[1]["metadata"] == {"tool_calls": [CALL], "reasoning_content": "hm"}
    assert (said[2]["role"], said[2]["metadata"]) == ("tool", {"tool_call_id": "c1", "name": "look"})
    assert (await memory_of(api, found)).after == 2


async def test_exported_lines_come_back_as_they_were(api: ApiClient) -> None:
    path = "/api/sessions/{}/export?format=jsonl"
    first = await import_document(api, as_lines(NEW))
    lines = (await api.get(path.format(first["sessionId"]))).content
    again = await import_document(api, lines, replace=True)
    once_more = (await api.get(path.format(again["sessionId"]))).content

    def plain(content: bytes) -> list[Any]:
        return [{name: row[name] for name in row if name != "cuebook"} for row in map(json.loads, content.splitlines())]

    assert plain(once_more) == plain(lines)
    assert plain(lines)[0]["last_consolidated"] == 2
    assert plain(lines)[3]["content"] == NEW[3]["content"]
    assert plain(lines)[4]["tool_calls"] == [CALL]


@pytest.mark.parametrize("parts", [["头", "颈"], "两处", [1, "a"]])
async def test_metadata_may_be_named_like_fields_of_a_line(api: ApiClient, parts: object) -> None:
    session = await api.create_session("chat")
    metadata = {"timestamp": 7, "role": "admin", "number": 3, "metadata": {"a": 1}, "plain": "yes", "parts": parts}
    messages = [{"role": "user", "content": "Hi", "metadata": metadata}]
    path = f"/api/sessions/{session['sessionId']}"
    assert (await api.post(f"{path}/messages/append", json={"messages": messages})).is_success
    lines = (await api.get(f"{path}/export", params={"format": "jsonl"})).content
    assert json.loads(lines.splitlines()[1])["plain"] == "yes"
    copy = await import_document(api, lines, copy=True)
    (said,) = (await document_of(api, copy))["turns"][-1]["messages"]
    assert (said["content"], said["metadata"]) == ("Hi", metadata)


@pytest.mark.gate
async def test_an_offset_that_is_none_hides_nothing(api: ApiClient) -> None:
    for offset in (999, None, 0.5, True, "999", -1):
        found = await import_document(api, as_lines([NEW[0] | {"last_consolidated": offset}, *NEW[1:]]), copy=True)
        assert await memory_of(api, found) is None, offset
        assert bool(found["remarks"]) == (offset is not None)


async def test_a_summary_is_stored_with_the_messages_it_covers(api: ApiClient) -> None:
    head = NEW[0] | {"metadata": {"_last_summary": {"text": "They spoke of one thing."}}}
    memory = await memory_of(api, await import_document(api, as_lines([head, *NEW[1:]])))
    assert (memory.after, memory.summary, memory.summary_to) == (2, "They spoke of one thing.", 2)


async def test_exported_lines_have_the_summary_of_earlier_messages(api: ApiClient) -> None:
    session = await api.create_session("chat")
    path = f"/api/sessions/{session['sessionId']}"
    for turn in (OLD[1:3], OLD[3:], NEW[1:3]):
        messages = [{name: message[name] for name in ("role", "content")} for message in turn]
        assert (await api.post(f"{path}/messages/append", json={"messages": messages})).is_success
    assert (await api.post(f"{path}/compress", json={"keep": 2})).is_success
    lines = (await api.get(f"{path}/export", params={"format": "jsonl"})).content
    assert (await memory_of(api, session)).summary == json.loads(lines.splitlines()[0])["metadata"]["_last_summary"][
        "text"
    ]
    copy = await import_document(api, lines, copy=True)
    seen = await api.read(f"{path}/history", view="context")
    assert await api.read(f"/api/sessions/{copy['sessionId']}/history", view="context") == seen
    assert [each["role"] for each in seen] == ["system", "user", "assistant"]
    masked = (await api.get(f"{path}/export", params={"format": "jsonl", "masked": True})).content
    assert json.loads(masked.splitlines()[0])["metadata"] == {}


async def test_models_see_the_last_messages_if_all_are_summarised(api: ApiClient) -> None:
    pairs = [{"role": role, "content": f"{role[0]}{number}"} for number in range(10) for role in ("user", "assistant")]
    results = [{"role": "tool", "content": f"t{number}", "tool_call_id": "c1"} for number in range(10)]
    long = [pairs[0], NEW[4], *results, pairs[1]]
    for messages, first, count in ((pairs, "u6", 8), ([*pairs[2:], *long], "u0", len(long)), (pairs[:4], "u0", 4)):
        for metadata in ({}, {"_last_summary": "They spoke."}):
            head = NEW[0] | {"metadata": metadata, "last_consolidated": len(messages)}
            found = await import_document(api, as_lines([head, *messages]), copy=True)
            seen = await api.read(f"/api/sessions/{found['sessionId']}/history", view="context")
            own = [each for each in seen if each["role"] != "system"]
            assert (own[0]["content"], len(own), found["remarks"]) == (first, count, [])
            assert (await memory_of(api, found)).summary == metadata.get("_last_summary", "")
            hides = count < len(messages)  # the others are seen as a whole, and need no summary
            assert (len(own) < len(seen)) == (hides and bool(metadata))
            exported = await api.get(f"/api/sessions/{found['sessionId']}/export", params={"format": "jsonl"})
            offset = json.loads(exported.text.splitlines()[0])["last_consolidated"]
            assert offset == (len(messages) if hides or not metadata else offset)


async def test_damaged_lines_are_reported_and_skipped(api: ApiClient) -> None:
    lines = as_lines(OLD).splitlines()
    lines[2] = lines[2][: len(lines[2]) // 2]
    lines[3:3] = [b"", b"\xff\xfe", b"[1]", b'{"role": "nobody", "content": "x"}', b'{"role": "user", "content": 7}']
    found = await import_document(api, b"\r\n".join(lines))
    assert [each["line"] for each in found["skipped"]] == [3, 5, 6, 7, 8]
    assert found["skippedCount"] == 5
    assert [content for _, content in await api.transcript(found)] == [OLD[at]["content"] for at in (1, 3, 4)]


async def test_a_damaged_first_line_costs_no_message(api: ApiClient) -> None:
    found = await import_document(api, b'{"_type": "metad' + b"\n" + as_lines(OLD[1:]), fileName="cli_direct.jsonl")
    assert (found["key"], found["messages"], found["skipped"][0]["line"]) == ("cli:direct", 4, 1)


async def test_an_empty_file_is_an_empty_session_and_garbage_is_none(api: ApiClient) -> None:
    found = await import_document(api, b"", fileName="cli_empty.jsonl")
    assert (found["key"], found["messages"], found["turns"]) == ("cli:empty", 0, 1)
    assert await refused(api, b"garbage\nmore\n", fileName="cli_bad.jsonl") == (
        "no line can be read; line 1: it is not JSON: JSON is malformed: invalid character (byte 0)"
    )
    assert len((await api.read("/api/sessions"))["data"]) == 1


async def test_bad_times_fall_back_and_the_order_stays(api: ApiClient) -> None:
    rows = [OLD[0] | {"created_at": "soon"}, *OLD[1:]]
    rows[2] = rows[2] | {"timestamp": "yesterday"}
    rows[3] = {name: rows[3][name] for name in ("role", "content")}
    found = await import_document(api, as_lines(rows))
    said = [each for turn in (await document_of(api, found))["turns"] for each in turn["messages"]]
    assert [each["created_at"] for each in said] == [OLD[at]["timestamp"] for at in (1, 1, 1, 4)]
    assert [each["content"] for each in said] == [each["content"] for each in OLD[1:]]
    assert len(found["remarks"]) == 2


async def test_metadata_that_is_none(api: ApiClient) -> None:
    for metadata in (None, [], "x"):
        found = await import_document(api, as_lines([OLD[0] | {"metadata": metadata}, *OLD[1:]]))
        assert (await document_of(api, found))["session"]["metadata"] == {}


async def test_a_key_that_is_no_text_is_reported(api: ApiClient) -> None:
    for number, key in enumerate((7, ["telegram"], {"chat": 7}, "k" * 300, True)):
        found = await import_document(api, as_lines([NEW[0] | {"key": key}, *OLD[1:]]), fileName=f"cli_{number}.jsonl")
        assert (found["key"], len(found["remarks"])) == (f"cli:{number}", 1)


async def test_a_message_without_a_role_is_skipped_with_the_reason(api: ApiClient) -> None:
    found = await import_document(api, as_lines([*OLD, {"content": "x"}, {"role": None, "content": "x"}]))
    assert [each["reason"] for each in found["skipped"]] == ["it has no role"] * 2


damage = st.one_of(
    st.tuples(st.just("cut"), st.floats(0, 0.99)),
    st.tuples(st.just("bytes"), st.binary(min_size=1, max_size=8).filter(lambda each: b"\n" not in each)),
    st.tuples(st.just("gone"), st.none()),
)


@settings(max_examples=repeats(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(hurt=st.dictionaries(st.integers(0, 40), damage, max_size=8))
def test_whatever_is_damaged_all_other_messages_survive_in_order(hurt: dict[int, tuple[str, Any]]) -> None:
    rows: list[Any] = [NEW[0]]
    rows += [{"role": "user" if at % 2 else "assistant", "content": f"message {at}"} for at in range(1, 41)]
    lines = [msgspec.json.encode(row) for row in rows]
    for at, (how, what) in hurt.items():
        match how:
            case "cut":
                lines[at] = lines[at][: int(len(lines[at]) * what)]
            case "bytes":
                lines[at] = what + lines[at]
            case "gone":
                lines[at] = b""
    account = ImportReport()
    try:
        found = read_lines(b"\n".join(lines), "cli_x.jsonl", account)
    except DocumentInvalid:
        pytest.fail("some lines were whole")
    whole = [rows[at]["content"] for at in range(1, 41) if at not in hurt]
    said = [each.content for each in found.messages]
    assert [content for content in said if content in whole] == whole
    assert set(said) <= {row["content"] for row in rows[1:]}  # a line that still can be read is taken
    assert {each.line for each in account.skipped} <= {at + 1 for at in hurt}


# -- Agently ----------------------------------------------------------------------------------------------------------

HISTORY = [{"role": ("user", "assistant")[at % 2], "content": f"said {at}"} for at in range(10)]
AGENTLY = {
    "id": "0f2a",
    "full_chat_history": HISTORY,
    "current_chat_history": HISTORY[6:],
    "memo": {"name": "Ana", "last_resize": {"type": "lite", "turn": 4, "reason": "max_keep_messages_count"}},
    "_turns": 5,
    "_last_resize_turn": 4,
    "_memo_cursor": 6,
}


@pytest.mark.parametrize(
    ("content", "headers"),
    [(json.dumps(AGENTLY).encode(), JSON), (yaml.safe_dump(AGENTLY, allow_unicode=True).encode(), YAML)],
)
async def test_history_memo_and_window_of_agently(api: ApiClient, content: bytes, headers: dict[str, str]) -> None:
    found = await import_document(api, content, headers, userId="ana")
    assert (found["format"], found["key"], found["messages"], found["turns"]) == ("agently", "0f2a", 10, 6)
    assert [content for _, content in await api.transcript(found)] == [each["content"] for each in HISTORY]
    memory = await memory_of(api, found)
    assert (memory.after, memory.memo, memory.memo_to) == (6, {"name": "Ana"}, 6)
    assert (memory.turns, memory.resized_at) == (5, 4)
    assert (memory.last_resize.type, memory.last_resize.turn) == ("lite", 4)
    path = f"/api/sessions/{found['sessionId']}"
    seen = (await api.get(f"{path}/history", params={"view": "context"})).json()
    assert [each["content"] for each in seen] == ['[Memo] {"name": "Ana"}', "said 6", "said 7", "said 8", "said 9"]
    assert (await api.get(f"{path}/context")).json()["strategy"] == "memo"
    assert (await api.send_texts(found, "And now?"))["turn"] == 6


async def test_a_conversation_by_itself_that_was_written_down(api: ApiClient) -> None:
    spoken = Conversation("c1")
    for each in HISTORY:
        spoken.append_message(each)
    found = await import_document(api, spoken.to_json().encode(), JSON, userId="ana")
    assert (found["key"], found["messages"], found["remarks"]) == ("c1", 10, [])
    assert [content for _, content in await api.transcript(found)] == [each["content"] for each in HISTORY]
    assert (await memory_of(api, found)).turns == 5
    assert (await api.get(f"/api/sessions/{found['sessionId']}/context")).json()["strategy"] == "newest"


async def test_a_record_as_content_is_imported_as_json(api: ApiClient) -> None:
    said = {"role": "assistant", "content": {"mood": "低", "scores": [1, 2]}}
    document = json.dumps(AGENTLY | {"full_chat_history": [HISTORY[0], said], "current_chat_history": [said]})
    found = await import_document(api, document.encode(), JSON, userId="ana")
    assert (found["messages"], found["skipped"]) == (2, [])
    assert [content for _, content in await api.transcript(found)] == ["said 0", '{"mood":"低","scores":[1,2]}']


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_conversation_goes_on_with_its_settings(api: ApiClient, is_own: bool) -> None:
    spoken = Conversation(settings={"session.limit.messages": 4, "session.memo.instruct": ["names"]})
    for each in ({"role": "system", "content": "Be brief."}, *HISTORY):
        spoken.append_message(each)
    spoken.resize()
    document = json.loads(spoken.to_json())
    if not is_own:
        session = {"mode": "lite", "limit": {"messages": 4}, "memo": {"instruct": ["names"]}, "record": {"mode": "all"}}
        document["settings"] = {"session": session, "plugins": {"key": "sk-recognisable"}}
    found = await import_document(api, json.dumps(document).encode(), JSON, userId="ana")
    path = f"/api/sessions/{found['sessionId']}"
    context = await api.read(f"{path}/context")
    assert (found["remarks"], context["strategy"]) == ([], "lite")
    assert context["settings"] == {
        "strategy": "lite",
        "limit": {"messages": 4},
        "memo": {"instruct": ["names"]},
    }
    seen = await api.read(f"{path}/history", view="context")
    assert [each["content"] for each in seen] == [each.content for each in spoken.current_chat_history]
    await api.send_texts(found, "And now?")
    assert len(await api.read(f"{path}/history", view="context")) <= 4


async def test_settings_that_cannot_be_read_are_reported(api: ApiClient) -> None:
    for unreadable in ({"session": {"limit": {"chars": "many"}}}, {"strategy": "window"}, {"strategy": "lite", "k": 3}):
        document = json.dumps(AGENTLY | {"settings": unreadable, "memo": {}}).encode()
        found = await import_document(api, document, JSON, copy=True)
        assert "the settings are left out" in found["remarks"][0]
        assert (await api.read(f"/api/sessions/{found['sessionId']}/context"))["strategy"] == "newest"


async def test_a_session_of_agently_within_a_document(api: ApiClient) -> None:
    content = yaml.safe_dump({"payload": {"session": AGENTLY}}).encode()
    assert "the document is not supported" in await refused(api, content, YAML)
    assert (await import_document(api, content, YAML, path="payload.session"))["messages"] == 10
    assert await refused(api, content, YAML, path="payload.sessions") == "there is nothing at payload.sessions"


async def test_what_is_no_session_of_agently(api: ApiClient) -> None:
    assert "a session is an object, this is a list" in await refused(api, b"[]", JSON)
    wrong = json.dumps(AGENTLY | {"full_chat_history": {"role": "user"}}).encode()
    assert await refused(api, wrong, JSON) == "full_chat_history is a list of messages, this is an object"
    nested = json.dumps({"session": [AGENTLY]}).encode()
    assert await refused(api, nested, JSON, path="session") == "a session is an object, this is a list"


async def test_settings_of_agently_and_their_keys_stay_behind(api: ApiClient) -> None:
    content = json.dumps(AGENTLY | {"session_settings": {"auth": "sk-recognisable"}}).encode()
    found = await import_document(api, content, JSON)
    assert "sk-recognisable" not in json.dumps(await document_of(api, found))


async def test_many_messages_in_one_exchange_become_several_turns(app: OpenApp, tmp_path: Path) -> None:
    rows = [{"role": "user", "content": "go"}, *({"role": "tool", "content": f"step {at}"} for at in range(500))]
    async with app(tmp_path) as api:
        found = await import_document(api, as_lines(rows))
        assert (found["messages"], found["turns"]) == (501, 4)
