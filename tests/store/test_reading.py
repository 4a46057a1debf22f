"""What was written is read back exactly, in pages, and only by its tenant."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import readers
from store.errors import CursorInvalid, ReadTimedOut
from store.record import Record
from store.rows import NO_TURN, SpentRow, UserMessageRow
from store.script_texts import ScriptChanges, ScriptFilter
from store.searching import SearchFilter
from store.session_list import SessionFilter

SCALARS = [
    None, True, False, 0, -1, 2**53, -(2**53), 2**64 - 1, 0.1, 1.0, -0.0, 1e300, 5e-324, 123456789.987654321,
    "", "null", "NULL", '"', "\\", "'; DROP TABLE turns; --", "\n\t\u2028", "\x00", "中文🙂", "e\u0301", "[1]", "{}",
]  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def same(left: object, right: object) -> bool:
    """Equal to the last bit and type: 1 is not 1.0, and 0.0 is not -0.0."""
    return repr(left) == repr(right)


async def round_trip(record: Record, conversation, rows, value) -> None:
    turn = await conversation.say(record, [rows.write_of("v", value, old=value)], state=["kept", value])
    read = await record.turn("clinic", conversation.session_id, turn.turn)
    assert read == msgspec.structs.replace(turn, state=read.state)
    assert same(msgspec.json.decode(read.state), ["kept", value])
    assert same((read.variables[0].old, read.variables[0].new), (value, value))
    head = await record.session_head("clinic", conversation.session_id)
    assert same(msgspec.json.decode(head.state), ["kept", value])


async def test_scalars_come_back_exactly(record, conversation, rows) -> None:
    await conversation.create(record)
    for value in SCALARS:
        await round_trip(record, conversation, rows, value)
    await round_trip(record, conversation, rows, {"all": SCALARS, "": {"nested": [[[]], {}]}})


@settings(max_examples=15, deadline=None)
@given(values=st.lists(VALUES, max_size=10))
def test_any_value_comes_back_exactly(tmp_path_factory, rows, values) -> None:
    async def all_come_back() -> None:
        record = Record.open(tmp_path_factory.mktemp("values"))
        conversation = rows.Conversation()
        await conversation.create(record)
        for value in values:
            await round_trip(record, conversation, rows, value)
        await record.close()

    asyncio.run(all_come_back())


async def test_a_whole_turn_comes_back(record, conversation) -> None:
    turn = conversation.next_turn(idempotency_key="k" * 200, status="completed", state={"a": 1})
    await record.commit(turn, NO_TURN, conversation.session(key="telegram:1", idempotency_key="c"))
    for read in (
        await record.turn("clinic", conversation.session_id, 0),
        await record.turn_by_key("clinic", conversation.session_id, "k" * 200),
    ):
        assert read == msgspec.structs.replace(turn, state=read.state)
    head = await record.session_head("clinic", conversation.session_id)
    assert (head.turn, head.completed_at, head.key, head.seed) == (0, turn.finished_at, "telegram:1", 7)
    assert await record.session_by_key("clinic", "telegram:1") == conversation.session("telegram:1", "c")
    assert await record.creation_by_key("clinic", "c") == conversation.session("telegram:1", "c")


async def test_global_values_come_back_exactly(record, conversation, rows) -> None:
    await conversation.create(record)
    kept = {f"v{index}": value for index, value in enumerate(SCALARS) if value is not None}
    await conversation.say(record, [rows.write_of(name, value, scope="global") for name, value in kept.items()])
    read = {row.name: row.value for row in await record.user_variables("clinic", "ana")}
    assert same(sorted(read.items()), sorted(kept.items()))


async def test_messages_and_events_come_in_pages(record, conversation) -> None:
    await conversation.create(record)
    for _ in range(24):
        await conversation.say(record)
    session_id = conversation.session_id
    for after in (0, 1, 2, 9, 48, 49, 50, 90):
        for limit in (1, 2, 3, 7, 1_000):
            messages = await record.messages("clinic", session_id, after_seq=after, limit=limit)
            assert [message.seq for message in messages] == list(range(after + 1, 51))[:limit]
            happened = await record.happened("clinic", session_id, after_seq=after, limit=limit)
            assert [row.turn for row in happened] == list(range(after // 3, 25))[:limit]
            for row in happened:
                assert [event.seq for event in row.events] == [3 * row.turn + step for step in (1, 2, 3)]
                assert [message.seq for message in row.messages] == [2 * row.turn + 1, 2 * row.turn + 2]
    for limit in (1, 2, 3, 50, 60):
        recent = await record.recent_messages("clinic", session_id, limit)
        assert [message.seq for message in recent] == list(range(1, 51))[-limit:]


async def test_turns_that_say_nothing_do_not_end_a_page(record, conversation) -> None:
    await conversation.create(record)
    for _ in range(5):
        silent = msgspec.structs.replace(conversation.next_turn(), messages=[], events=[])
        await record.commit(silent, silent.turn - 1)
    assert len(await record.messages("clinic", conversation.session_id, limit=2)) == 2
    assert [row.seq for row in await record.recent_messages("clinic", conversation.session_id, 1)] == [2]


async def test_the_history_of_a_variable(record, conversation, rows) -> None:
    await conversation.create(record)
    await conversation.say(record, [rows.write_of("mood", "low"), rows.write_of("age", 3)])
    await conversation.say(record)
    await conversation.say(record, [rows.write_of("mood", None, old="low")])
    session_id = conversation.session_id
    history = await record.variable_history("clinic", session_id)
    assert [(row.turn, row.name, row.old, row.new) for row in history] == [
        (1, "mood", None, "low"), (1, "age", None, 3), (3, "mood", "low", None),
    ]  # fmt: skip
    assert history[0].written_at == rows.MOMENT
    assert [row.turn for row in await record.variable_history("clinic", session_id, name="mood", after_turn=1)] == [3]


async def test_sessions_are_listed_newest_first_in_pages(record, rows) -> None:
    made = []
    for index in range(25):
        one = rows.Conversation(user_id="ana" if index % 2 else "béa")
        moment = rows.MOMENT + timedelta(seconds=index // 3)  # several in one moment: the id decides
        status = "completed" if index % 5 == 0 else "active"
        await record.commit(one.next_turn(status=status), NO_TURN, one.session(created_at=moment))
        made.append((moment, one.session_id, one.user_id, status))
    newest_first = sorted(made, reverse=True)
    for user_id, status in [(None, None), ("ana", None), (None, "completed"), ("béa", "active"), ("nobody", None)]:
        expected = [
            session_id for _, session_id, user, its in newest_first
            if user_id in (None, user) and status in (None, its)
        ]  # fmt: skip
        found, cursor = [], None
        while True:
            which = SessionFilter(user_id=user_id, status=status)
            page = await record.list_sessions("clinic", which, limit=4, cursor=cursor)
            found += [row.session_id for row in page.rows]
            cursor = page.next
            if cursor is None:
                break
        assert found == expected


async def test_a_cursor_of_another_list_is_refused(record, conversation) -> None:
    await conversation.create(record)
    with pytest.raises(CursorInvalid):
        await record.list_sessions("clinic", cursor="WyIyMDIwLTAxLTAxVDAwOjAwOjAwWiIsICJ4Il0=")


@pytest.mark.parametrize("cursor", ["", "nonsense", "e30=", "é", "WyJhIiwgImIiXQ=="])
async def test_a_made_up_cursor_is_refused(record, cursor) -> None:
    with pytest.raises(CursorInvalid):
        await record.list_sessions("clinic", cursor=cursor)
    with pytest.raises(CursorInvalid):
        await record.scripts("clinic", cursor=cursor)


async def test_scripts_are_listed_found_and_replaced(record, rows) -> None:
    later = rows.MOMENT + timedelta(days=1)
    await record.save_script(rows.script_of(), rows.text_of())
    await record.save_script(
        rows.script_of(version=2, digest="d2", status="draft", updated_at=later), rows.text_of(digest="d2", text="two")
    )
    await record.save_script(
        rows.script_of(uuid="script-2", script_id="睡眠", name="Sleep_diary", tags=[], description=None, digest="d3"),
        rows.text_of(digest="d3"),
    )

    async def listed(**filters: Any) -> list[tuple[str, int]]:
        page = await record.scripts("clinic", ScriptFilter(**filters))
        return [(row.script_uuid, row.version) for row in page.rows]

    assert await listed() == [("script-1", 2), ("script-2", 1)]
    assert await listed(status="published") == [("script-2", 1), ("script-1", 1)]
    assert await listed(search="FIRST visit") == [("script-1", 2)]
    assert await listed(search="睡") == [("script-2", 1)]
    assert await listed(search="%") == await listed(search="100%") == [("script-1", 2)]
    assert await listed(search="_") == [("script-2", 1)]
    assert await listed(tag="成人") == [("script-1", 2)]
    assert await listed(search="two") == await listed(author="Ana") == await listed(form="session") == []
    assert await listed(search="TWO", in_texts=True) == [("script-1", 2)]
    assert await listed(form="native", search="diary", in_texts=True) == [("script-2", 1)]
    first = await record.scripts("clinic", limit=1)
    second = await record.scripts("clinic", limit=1, cursor=first.next)
    assert [row.script_uuid for row in first.rows + second.rows] == ["script-1", "script-2"]
    assert second.next is None

    assert (await record.script("clinic", "script-1")).version == 2
    assert await record.script("clinic", "script-1", 1) == rows.script_of()
    assert [row.version for row in await record.script_versions("clinic", "script-1")] == [2, 1]
    assert (await record.latest_published("clinic", "intake")).version == 1
    await record.save_script(
        rows.script_of(version=2, digest="d2"), rows.text_of(digest="d2", text="never replaces a text")
    )
    assert (await record.latest_published("clinic", "intake")).version == 2
    assert (await record.script_text("clinic", "d2")).text == "two"
    assert await record.script_text("clinic", "digest") == rows.text_of()


async def test_versions_of_a_script_change_their_status_and_what_is_said_of_them(record, rows) -> None:
    for tenant, version in (("clinic", 1), ("clinic", 2), ("school", 1)):
        digest = f"d{version}"
        await record.save_script(
            rows.script_of(tenant=tenant, version=version, digest=digest), rows.text_of(tenant=tenant, digest=digest)
        )
    later = rows.MOMENT + timedelta(days=1)
    await record.set_script_statuses("clinic", "script-1", {2: "archived", 1: "draft"}, later)
    versions = await record.script_versions("clinic", "intake")
    assert [(row.version, row.status, row.updated_at) for row in versions] == [
        (2, "archived", later),
        (1, "draft", later),
    ]
    await record.describe_script("clinic", "script-1", ScriptChanges(name="Erstgespräch", tags=["a", "b"]), later)
    await record.describe_script("clinic", "script-1", ScriptChanges(author="Ana", tags=[]), later)
    for row in await record.script_versions("clinic", "script-1"):
        assert (row.name, row.tags, row.author) == ("Erstgespräch", [], "Ana")
        assert row.description == "Asks 100% of the questions"
    assert await record.script_versions("school", "script-1") == [rows.script_of(tenant="school", digest="d1")]


async def test_failures_are_kept(record, conversation, rows) -> None:
    await record.save_failure(rows.failure_of(conversation))
    assert await record.failures("clinic", conversation.session_id) == [rows.failure_of(conversation)]


READS = {
    "session_head": ("session_id",), "session_by_key": ("key",), "creation_by_key": ("key",), "list_sessions": (),
    "turn": ("session_id", "number"), "turn_by_key": ("session_id", "key"), "messages": ("session_id",),
    "recent_messages": ("session_id", "limit"), "happened": ("session_id",), "variable_history": ("session_id",),
    "user_variables": ("user_id",), "failures": ("session_id",), "scripts": (), "script": ("script_uuid",),
    "script_versions": ("script_uuid",), "latest_published": ("script_id",), "script_text": ("digest",),
    "migrations": ("session_id",), "unsettled_calls": ("session_id",), "calls": ("session_id",),
    "turns": ("session_id",),
    "spent": ("since", "until"), "deliveries": ("webhook_id",), "delivery": ("webhook_id", "delivery_id"),
    "user_history": ("user_id",), "user_session_ids": ("user_id",), "keys": (),
    "search": ("what",), "statistics": ("session_id",),
    "session_start": ("session_id",), "snapshots": ("session_id",), "user_message": ("session_id", "number"),
}  # fmt: skip
WRITES = {"close", "commit", "note_call", "save_script", "save_failure"} | {
    "save_webhook", "remove_webhook", "note_attempts", "replay_deliveries", "tidy_deliveries",
    "bring_session", "set_user_variables", "delete_session", "erase_user",
    "fork", "label",
    "add_key", "revoke_key", "note_key_use",
    "set_script_statuses", "describe_script",
}  # fmt: skip
OF_ALL = {"webhooks_of_all", "deliveries_ahead", "known_keys"}  # what the server does for all tenants alike
OF_THE_FILE = {"size", "require_compactable", "compact"}


def test_every_read_is_in_the_list_below_and_names_its_tenant() -> None:
    reads = {
        name: list(inspect.signature(method).parameters)[1]
        for name, method in inspect.getmembers(Record, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in WRITES | OF_ALL | OF_THE_FILE
    }
    assert reads == dict.fromkeys(READS, "tenant")


@pytest.mark.parametrize("read", READS)
async def test_no_tenant_reads_anothers_rows(record, conversation, rows, read) -> None:
    first = conversation.next_turn(idempotency_key="key", variables=[rows.write_of("x", 1, scope="global")])
    await record.commit(first, NO_TURN, conversation.session("key", "key"))
    await record.save_script(rows.script_of(), rows.text_of())
    await record.save_failure(rows.failure_of(conversation))
    await conversation.migrate(record)
    delivery = conversation.delivery()
    await conversation.say(record, deliveries=(delivery,))
    await conversation.ask(record, "a")
    await record.add_key(rows.key_of())
    known = {
        "session_id": conversation.session_id, "key": "key", "number": 0, "limit": 10, "user_id": "ana",
        "script_uuid": "script-1", "script_id": "intake", "digest": "digest",
        "what": SearchFilter(words=("question",)),
        "since": datetime.min.replace(tzinfo=UTC), "until": datetime.max.replace(tzinfo=UTC),
        "webhook_id": delivery.webhook_id, "delivery_id": delivery.delivery_id,
    }  # fmt: skip
    arguments = [known[name] for name in READS[read]]

    async def rows_of(tenant: str) -> list:
        found = await getattr(record, read)(tenant, *arguments)
        found = getattr(found, "rows", found)
        if isinstance(found, SpentRow):
            return [found] if found.calls else []
        if isinstance(found, UserMessageRow):
            return [found] if found.count else []
        return found if isinstance(found, list) else [row for row in [found] if row is not None]

    assert await rows_of("clinic")
    for tenant in ("school", "", "CLINIC", "clinic%", "clinic' OR '1'='1"):
        assert await rows_of(tenant) == []


async def test_no_tenant_writes_to_anothers_session(record, rows, conversation) -> None:
    await conversation.create(record)
    thief = rows.Conversation(tenant="school", session_id=conversation.session_id)
    thief.turns = 1
    with pytest.raises(Exception, match="is at turn -1"):
        await thief.say(record)
    assert (await record.session_head("clinic", conversation.session_id)).turn == 0


async def test_a_slow_read_is_stopped_and_its_reader_comes_back(tmp_path) -> None:
    record = Record.open(tmp_path, read_timeout_s=0.5)
    endless = "SELECT count(*) FROM range(1000000000000) AS a"
    for _ in range(readers.READERS + 1):
        with pytest.raises(ReadTimedOut):
            await record._readers.read(lambda cursor: cursor.execute(endless).fetchall())
    assert await record.scripts("clinic") is not None
    await record.close()
