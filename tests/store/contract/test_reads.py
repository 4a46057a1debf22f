"""What was written is read back exactly, in pages, and only by its tenant."""

import asyncio
import inspect
import operator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.duckdb.engine import READERS
from store.interface.errors import CursorInvalid, IdTaken, ReadTimedOut
from store.interface.list_rows import ScriptChanges, ScriptFilter, SearchFilter, SessionFilter
from store.interface.rows import NO_TURN, SpentRow, UserMessageRow
from store.open_store import open_store
from store.sql.repositories import Delivery, Keys, Maintenance, Reviews, Scripts, Sessions, Turns
from store.store import Store
from tests.support.duckdb_engine import engine_of
from tests.support.effort import repeats
from tests.support.store_rows import (
    MOMENT,
    Conversation,
    draft_of,
    failure_of,
    key_of,
    rating_of,
    review_of,
    script_of,
    target_of,
    text_of,
    write_of,
)

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
    """Compare to the last bit and type: 1 is not 1.0, and 0.0 is not -0.0."""
    return repr(left) == repr(right)


async def round_trip(store: Store, conversation, value) -> None:
    turn = await conversation.say(store, [write_of("v", value, old=value)], state=["kept", value])
    read = await store.turns.get("clinic", conversation.session_id, turn.turn)
    assert read == msgspec.structs.replace(turn, state=read.state)
    assert same(msgspec.json.decode(read.state), ["kept", value])
    assert same((read.variables[0].old, read.variables[0].new), (value, value))
    head = await store.sessions.head("clinic", conversation.session_id)
    assert same(msgspec.json.decode(head.state), ["kept", value])


async def test_scalars_come_back_exactly(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for value in SCALARS:
        await round_trip(store, conversation, value)
    await round_trip(store, conversation, {"all": SCALARS, "": {"nested": [[[]], {}]}})


@settings(max_examples=repeats(15), deadline=None)
@given(values=st.lists(VALUES, max_size=10))
def test_any_value_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, values) -> None:
    async def all_come_back() -> None:
        store = open_store(tmp_path_factory.mktemp("values"))
        conversation = Conversation()
        await conversation.create(store)
        for value in values:
            await round_trip(store, conversation, value)
        await store.close()

    asyncio.run(all_come_back())


async def test_a_whole_turn_comes_back(store: Store, conversation: Conversation) -> None:
    turn = conversation.next_turn(idempotency_key="k" * 200, status="completed", state={"a": 1})
    await store.turns.commit(turn, NO_TURN, conversation.session(key="telegram:1", idempotency_key="c"))
    for read in (
        await store.turns.get("clinic", conversation.session_id, 0),
        await store.turns.by_key("clinic", conversation.session_id, "k" * 200),
    ):
        assert read == msgspec.structs.replace(turn, state=read.state)
    head = await store.sessions.head("clinic", conversation.session_id)
    assert (head.turn, head.completed_at, head.key, head.seed) == (0, turn.finished_at, "telegram:1", 7)
    assert await store.sessions.by_key("clinic", "telegram:1") == conversation.session("telegram:1", "c")
    assert await store.sessions.by_creation_key("clinic", "c") == conversation.session("telegram:1", "c")


async def test_global_values_come_back_exactly(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    retained = {f"v{index}": value for index, value in enumerate(SCALARS) if value is not None}
    await conversation.say(store, [write_of(name, value, scope="global") for name, value in retained.items()])
    read = {row.name: row.value for row in await store.sessions.user_variables("clinic", "ana")}
    assert same(sorted(read.items()), sorted(retained.items()))


async def test_messages_and_events_come_in_pages(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for _ in range(24):
        await conversation.say(store)
    session_id = conversation.session_id
    for after in (0, 1, 2, 9, 48, 49, 50, 90):
        for limit in (1, 2, 3, 7, 1_000):
            messages = await store.turns.messages("clinic", session_id, after_seq=after, limit=limit)
            assert [message.seq for message in messages] == list(range(after + 1, 51))[:limit]
            happened = await store.turns.events("clinic", session_id, after_seq=after, limit=limit)
            assert [row.turn for row in happened] == list(range(after // 3, 25))[:limit]
            for row in happened:
                assert [event.seq for event in row.events] == [3 * row.turn + step for step in (1, 2, 3)]
                assert [message.seq for message in row.messages] == [2 * row.turn + 1, 2 * row.turn + 2]
    for limit in (1, 2, 3, 50, 60):
        recent = await store.turns.recent_messages("clinic", session_id, limit)
        assert [message.seq for message in recent] == list(range(1, 51))[-limit:]


async def test_turns_that_say_nothing_do_not_end_a_page(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for _ in range(5):
        silent = msgspec.structs.replace(conversation.next_turn(), messages=[], events=[])
        await store.turns.commit(silent, silent.turn - 1)
    assert len(await store.turns.messages("clinic", conversation.session_id, limit=2)) == 2
    assert [row.seq for row in await store.turns.recent_messages("clinic", conversation.session_id, 1)] == [2]


async def test_the_history_of_a_variable(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await conversation.say(store, [write_of("mood", "low"), write_of("age", 3)])
    await conversation.say(store)
    await conversation.say(store, [write_of("mood", None, old="low")])
    session_id = conversation.session_id
    history = await store.turns.variable_history("clinic", session_id)
    assert [(row.turn, row.name, row.old, row.new) for row in history] == [
        (1, "mood", None, "low"), (1, "age", None, 3), (3, "mood", "low", None),
    ]  # fmt: skip
    assert history[0].written_at == MOMENT
    assert [
        row.turn for row in await store.turns.variable_history("clinic", session_id, name="mood", after_turn=1)
    ] == [3]


async def test_sessions_are_listed_newest_first_in_pages(store: Store) -> None:
    made = []
    for index in range(25):
        one = Conversation(user_id="ana" if index % 2 else "béa")
        moment = MOMENT + timedelta(seconds=index // 3)  # several in one moment: the id decides
        status = "completed" if index % 5 == 0 else "active"
        await store.turns.commit(one.next_turn(status=status), NO_TURN, one.session(created_at=moment))
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
            page = await store.sessions.page("clinic", which, limit=4, cursor=cursor)
            found += [row.session_id for row in page.rows]
            cursor = page.next
            if cursor is None:
                break
        assert found == expected


async def test_a_cursor_of_another_list_is_refused(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    with pytest.raises(CursorInvalid):
        await store.sessions.page("clinic", cursor="WyIyMDIwLTAxLTAxVDAwOjAwOjAwWiIsICJ4Il0=")


@pytest.mark.parametrize("cursor", ["", "nonsense", "e30=", "é", "WyJhIiwgImIiXQ=="])
async def test_a_made_up_cursor_is_refused(store: Store, cursor) -> None:
    with pytest.raises(CursorInvalid):
        await store.sessions.page("clinic", cursor=cursor)
    with pytest.raises(CursorInvalid):
        await store.scripts.page("clinic", cursor=cursor)


async def test_scripts_are_listed_and_found_and_no_version_is_replaced(store: Store) -> None:
    later = MOMENT + timedelta(days=1)
    await store.scripts.save(script_of(), text_of())
    await store.scripts.save(
        script_of(version=2, digest="d2", status="draft", updated_at=later), text_of(digest="d2", text="two")
    )
    await store.scripts.save(
        script_of(uuid="script-2", script_id="睡眠", name="Sleep_diary", tags=[], description=None, digest="d3"),
        text_of(digest="d3"),
    )

    async def listed(**filters: Any) -> list[tuple[str, int]]:
        page = await store.scripts.page("clinic", ScriptFilter(**filters))
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
    first = await store.scripts.page("clinic", limit=1)
    second = await store.scripts.page("clinic", limit=1, cursor=first.next)
    assert [row.script_uuid for row in first.rows + second.rows] == ["script-1", "script-2"]
    assert second.next is None

    assert (await store.scripts.get("clinic", "script-1")).version == 2
    assert await store.scripts.get("clinic", "script-1", 1) == script_of()
    assert [row.version for row in await store.scripts.versions("clinic", "script-1")] == [2, 1]
    assert (await store.scripts.latest_published("clinic", "intake")).version == 1
    with pytest.raises(IdTaken):
        await store.scripts.save(script_of(version=2, digest="d3"), text_of(digest="d3"))
    assert (await store.scripts.get("clinic", "script-1", 2)).digest == "d2"
    await store.scripts.save(script_of(version=3, digest="d2"), text_of(digest="d2", text="never replaces a text"))
    assert (await store.scripts.latest_published("clinic", "intake")).version == 3
    assert (await store.scripts.text("clinic", "d2")).text == "two"
    assert await store.scripts.text("clinic", "digest") == text_of()


async def test_versions_of_a_script_change_status_and_description(store: Store) -> None:
    for tenant, version in (("clinic", 1), ("clinic", 2), ("school", 1)):
        digest = f"d{version}"
        await store.scripts.save(
            script_of(tenant=tenant, version=version, digest=digest), text_of(tenant=tenant, digest=digest)
        )
    later = MOMENT + timedelta(days=1)
    await store.scripts.set_statuses("clinic", "script-1", {2: "archived", 1: "draft"}, later)
    versions = await store.scripts.versions("clinic", "intake")
    assert [(row.version, row.status, row.updated_at) for row in versions] == [
        (2, "archived", later),
        (1, "draft", later),
    ]
    await store.scripts.describe("clinic", "script-1", ScriptChanges(name="Erstgespräch", tags=["a", "b"]), later)
    await store.scripts.describe("clinic", "script-1", ScriptChanges(author="Ana", tags=[]), later)
    for row in await store.scripts.versions("clinic", "script-1"):
        assert (row.name, row.tags, row.author) == ("Erstgespräch", [], "Ana")
        assert row.description == "Asks 100% of the questions"
    assert await store.scripts.versions("school", "script-1") == [script_of(tenant="school", digest="d1")]


async def test_failures_are_stored(store: Store, conversation: Conversation) -> None:
    await store.turns.save_failure(failure_of(conversation))
    assert await store.turns.failures("clinic", conversation.session_id) == []  # no session any more
    await conversation.create(store)
    await store.turns.save_failure(failure_of(conversation))
    assert await store.turns.failures("clinic", conversation.session_id) == [failure_of(conversation)]


READS = {
    "sessions.head": ("session_id",),
    "sessions.load": ("session_id",),
    "sessions.by_key": ("key",),
    "sessions.by_creation_key": ("key",),
    "sessions.page": (),
    "sessions.hand_overs": (),
    "turns.get": ("session_id", "number"),
    "turns.by_key": ("session_id", "key"),
    "turns.messages": ("session_id",),
    "turns.recent_messages": ("session_id", "limit"),
    "turns.events": ("session_id",),
    "turns.variable_history": ("session_id",),
    "sessions.user_variables": ("user_id",),
    "turns.failures": ("session_id",),
    "scripts.page": (),
    "scripts.get": ("script_uuid",),
    "scripts.versions": ("script_uuid",),
    "scripts.latest_published": ("script_id",),
    "scripts.draft": ("script_id",),
    "scripts.drafts": (),
    "scripts.text": ("digest",),
    "sessions.migrations": ("session_id",),
    "reviews.get": ("review_id",),
    "reviews.page": (),
    "reviews.targets": ("review_id", "rater"),
    "reviews.turns_of": ("session_ids", "limit"),
    "reviews.rating": ("review_id", "session_id", "turn", "rater"),
    "reviews.ratings": ("review_id",),
    "turns.unsettled_calls": ("session_id",),
    "turns.calls": ("session_id",),
    "turns.range": ("session_id",),
    "turns.spent": ("since", "until"),
    "delivery.page": ("webhook_id",),
    "delivery.get": ("webhook_id", "delivery_id"),
    "sessions.user_history": ("user_id",),
    "sessions.ids_of_user": ("user_id",),
    "keys.page": (),
    "keys.get": ("key_id",),
    "turns.search": ("what",),
    "sessions.statistics": ("session_id",),
    "sessions.start": ("session_id",),
    "turns.snapshots": ("session_id",),
    "turns.user_message": ("session_id", "number"),
}
REPOSITORIES = {
    "turns": Turns,
    "sessions": Sessions,
    "scripts": Scripts,
    "delivery": Delivery,
    "keys": Keys,
    "reviews": Reviews,
    "maintenance": Maintenance,
}
WRITES = {"turns.commit", "turns.note_call", "scripts.save", "turns.save_failure"} | {
    "delivery.add_webhook",
    "delivery.change_webhook",
    "delivery.remove_webhook",
    "delivery.note_attempts",
    "delivery.replay",
    "delivery.tidy",
    "sessions.import_session",
    "sessions.set_user_variables",
    "maintenance.delete_session",
    "maintenance.erase_user",
    "sessions.fork",
    "sessions.label",
    "keys.add",
    "keys.revoke",
    "keys.note_use",
    "scripts.set_statuses",
    "scripts.describe",
    "scripts.save_draft",
    "scripts.delete_draft",
    "reviews.add",
    "reviews.close",
    "reviews.delete",
    "reviews.rate",
}
OF_ALL = {"delivery.webhooks_of_all", "delivery.ahead", "keys.known"}  # what the server does for all tenants alike
OF_THE_FILE = {
    "maintenance.stop_copy",
    "maintenance.back_up",
    "maintenance.size",
    "maintenance.size_to_copy",
    "maintenance.require_compactable",
    "maintenance.compact",
}


def test_every_read_is_in_the_list_below_and_names_its_tenant() -> None:
    reads = {
        f"{repository}.{name}": list(inspect.signature(method).parameters)[1]
        for repository, kind in REPOSITORIES.items()
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_") and f"{repository}.{name}" not in WRITES | OF_ALL | OF_THE_FILE
    }
    assert reads == dict.fromkeys(READS, "tenant")


@pytest.mark.gate
@pytest.mark.parametrize("read", READS)
async def test_no_tenant_reads_anothers_rows(store: Store, conversation: Conversation, read) -> None:
    first = conversation.next_turn(idempotency_key="key", variables=[write_of("x", 1, scope="global")])
    await store.turns.commit(first, NO_TURN, conversation.session("key", "key"))
    await store.scripts.save(script_of(), text_of())
    await store.scripts.save_draft(draft_of(), 0)
    await store.turns.save_failure(failure_of(conversation))
    await conversation.migrate(store)
    delivery = conversation.delivery()
    await conversation.say(store, deliveries=(delivery,), hand_overs=(conversation.hand_over(),))
    await conversation.ask(store, "a")
    await store.keys.add(key_of())
    review = review_of()
    await store.reviews.add(review, [target_of(conversation.session_id)])
    await store.reviews.rate(rating_of(conversation.session_id))
    known = {
        "session_id": conversation.session_id, "key": "key", "number": 0, "limit": 10, "user_id": "ana",
        "key_id": "1", "script_uuid": "script-1", "script_id": "intake", "digest": "digest",
        "what": SearchFilter(words=("question",)),
        "since": datetime.min.replace(tzinfo=UTC), "until": datetime.max.replace(tzinfo=UTC),
        "review_id": review.review_id, "rater": "rita", "turn": None, "session_ids": [conversation.session_id],
        "webhook_id": delivery.webhook_id, "delivery_id": delivery.delivery_id,
    }  # fmt: skip
    arguments = [known[name] for name in READS[read]]

    async def rows_of(tenant: str) -> list:
        found = await operator.attrgetter(read)(store)(tenant, *arguments)
        found = getattr(found, "rows", found)
        if isinstance(found, SpentRow):
            return [found] if found.calls else []
        if isinstance(found, UserMessageRow):
            return [found] if found.count else []
        return found if isinstance(found, list) else [row for row in [found] if row is not None]

    assert await rows_of("clinic")
    for tenant in ("school", "", "CLINIC", "clinic%", "clinic' OR '1'='1"):
        assert await rows_of(tenant) == []


async def test_no_tenant_writes_to_anothers_session(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    thief = Conversation(tenant="school", session_id=conversation.session_id)
    thief.turns = 1
    with pytest.raises(Exception, match="is at turn -1"):
        await thief.say(store)
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 0


async def test_a_slow_read_is_stopped_and_its_reader_comes_back(tmp_path: Path) -> None:
    store = open_store(tmp_path, read_timeout_s=0.5)
    endless = "SELECT count(*) FROM range(1000000000000) AS a"
    for _ in range(READERS + 1):
        with pytest.raises(ReadTimedOut):
            await engine_of(store).read(lambda connection: connection.rows(endless))
    assert await store.scripts.page("clinic") is not None
    await store.close()
