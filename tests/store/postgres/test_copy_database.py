"""A whole database is copied to PostgreSQL and back; an interrupted copy goes on, and a difference is found."""

from pathlib import Path

import duckdb
import msgspec
import psycopg
import pytest

from store import copy_database as copy_module
from store.copy_database import TABLES, copy_database
from store.interface.errors import CopyRefused, CopyUnfinished, DatabaseUnreadable
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import (
    Conversation,
    key_of,
    memory_of,
    script_of,
    text_of,
    timer_of,
    webhook_of,
    write_of,
)


def ignore(what: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


async def fill(folder: Path) -> list[Conversation]:
    store = open_store(folder)
    talks = [Conversation(user_id=f"user {number % 3}") for number in range(12)]
    for number, talk in enumerate(talks):
        await talk.create(store, key=f"key {number}")
        for turn in range(4):
            await talk.say(store, [write_of("mood", turn, scope="global"), write_of("note", "a\x00b '\\")])
    await talks[0].ask(store, "open")
    for cost in (0.0, 3.0, 1e-7):  # the databases write whole numbers in different ways
        await talks[3].ask(store, f"paid {cost}", cost=cost)
        await talks[3].say(store, calls_used=(f"paid {cost}",))
    await store.scripts.save(script_of(), text_of(text="phases: []  # 睡眠"))
    await store.keys.add(key_of())
    await store.delivery.add_webhook(webhook_of())
    await store.timers.replace(
        "clinic", talks[1].session_id, [timer_of("clinic", "user 1", talks[1].session_id)], talks[1].turns - 1
    )
    await store.memory.change(memory_of("clinic", "user 2", talks[2].session_id, "plum", 7))
    await store.close()
    return talks


async def answers_of(store: Store, talks: list[Conversation]) -> list[object]:
    found: list[object] = []
    for talk in talks:
        head = await store.sessions.head("clinic", talk.session_id)
        assert head is not None
        found += [bytes(head.state), head.turn, head.message_count]
        found += [await store.turns.messages("clinic", talk.session_id)]
        found += [{row.name: row.value for row in await store.sessions.user_variables("clinic", talk.user_id)}]
    found += [await store.memory.units("clinic", "user 2"), (await store.keys.known()).live]
    found += [(await store.scripts.text("clinic", "digest")), await store.delivery.webhooks_of_all()]
    await store.close()
    return found


@pytest.mark.gate
async def test_a_copy_answers_as_the_original(tmp_path: Path, postgres_url: str) -> None:
    talks = await fill(tmp_path / "data")
    counts = copy_database(str(tmp_path / "data"), postgres_url, ignore)
    assert (counts["turns"], counts["session_starts"], counts["settled_calls"]) == (63, 12, 3)
    assert copy_database(postgres_url, str(tmp_path / "back"), ignore) == counts
    original = await answers_of(open_store(tmp_path / "data"), talks)
    assert await answers_of(open_store(tmp_path / "back"), talks) == original
    on_postgres = open_store(tmp_path / "server", postgres_url)
    assert await answers_of(on_postgres, talks) == original
    again = open_store(tmp_path / "server", postgres_url)
    await talks[3].say(again)
    await again.close()


@pytest.mark.gate
async def test_an_interrupted_copy_goes_on(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(tmp_path / "data")
    monkeypatch.setattr("store.duckdb.table_rows.READ_ROWS", 7)
    written = []

    class Stopped(Exception):
        pass

    def stop(what: str, done: int, total: int) -> None:
        written.append((what, done, total))
        if what == "turns" and done >= 21:
            raise Stopped

    with pytest.raises(Stopped):
        copy_database(str(tmp_path / "data"), postgres_url, stop)
    seen: list[tuple[str, int, int]] = []
    counts = copy_database(str(tmp_path / "data"), postgres_url, lambda *progress: seen.append(progress))
    assert counts["turns"] == 63
    assert next(done for what, done, _ in seen if what == "turns") == 28
    assert "session_starts" not in {what for what, *_ in seen}


@pytest.mark.gate
@pytest.mark.timeout(60)
async def test_a_session_without_a_turn_is_copied(tmp_path: Path, postgres_url: str) -> None:
    talks = await fill(tmp_path / "data")
    with duckdb.connect(tmp_path / "data" / FILE_NAME) as connection:
        connection.execute("DELETE FROM turns WHERE session_id = ?", [talks[0].session_id])
    assert copy_database(str(tmp_path / "data"), postgres_url, ignore)["session_starts"] == 12


async def test_a_copy_to_itself_is_refused(tmp_path: Path) -> None:
    await open_store(tmp_path / "data").close()
    with pytest.raises(CopyRefused, match="is the one to write"):
        copy_database(str(tmp_path / "data"), f"{tmp_path}/./data/", ignore)


@pytest.mark.gate
async def test_a_target_with_other_rows_is_refused(tmp_path: Path, postgres_url: str) -> None:
    await fill(tmp_path / "data")
    copy_database(str(tmp_path / "data"), postgres_url, ignore)
    with pytest.raises(CopyRefused, match="is not empty: it has rows in script_texts"):
        copy_database(str(tmp_path / "data"), postgres_url, ignore)
    await open_store(tmp_path / "server", postgres_url).close()  # it can be used as before


async def test_a_database_with_running_servers_is_not_copied(tmp_path: Path, postgres_url: str) -> None:
    await fill(tmp_path / "from")
    copy_database(str(tmp_path / "from"), postgres_url, ignore)
    store = open_store(tmp_path / "server", postgres_url)
    assert store.shared is not None
    await store.shared.beat()
    with pytest.raises(CopyRefused, match="in use by servers: 1; stop them first"):
        copy_database(postgres_url, str(tmp_path / "back"), ignore)
    await store.shared.leave()
    await store.close()
    copy_database(postgres_url, str(tmp_path / "back"), ignore)


async def test_a_difference_is_found(tmp_path: Path, postgres_url: str) -> None:
    await fill(tmp_path / "data")

    def spoil(what: str, done: int, total: int) -> None:
        if what == "memory_vectors":
            with psycopg.connect(postgres_url) as connection:
                connection.execute("UPDATE turns SET user_id = 'other' WHERE turn = 2")

    with pytest.raises(CopyRefused, match=r"turns differs: .* has 63 rows, .* 63, with other content"):
        copy_database(str(tmp_path / "data"), postgres_url, spoil)


@pytest.mark.parametrize("last", ["turns", "compared tables"])
async def test_an_unfinished_copy_is_used_by_no_server_and_goes_on(
    tmp_path: Path, postgres_url: str, last: str
) -> None:
    await fill(tmp_path / "data")

    def stop(what: str, done: int, total: int) -> None:
        if what == last:
            raise InterruptedError

    for source, target in ((tmp_path / "data", postgres_url), (postgres_url, tmp_path / "back")):
        with pytest.raises(InterruptedError):
            copy_database(str(source), str(target), stop)
        url = postgres_url if target == postgres_url else None
        with pytest.raises(CopyUnfinished, match="run `cuebook copy` again"):
            open_store(tmp_path / "back", url)
        with pytest.raises(CopyUnfinished):
            copy_database(str(target), str(tmp_path / "other"), ignore)
        assert copy_database(str(source), str(target), ignore)["turns"] == 63
        await open_store(tmp_path / "back", url).close()


async def test_the_zero_character_within_documents_is_no_difference(tmp_path: Path, postgres_url: str) -> None:
    store = open_store(tmp_path / "data")
    talk = Conversation()
    await talk.create(store)
    await store.delivery.add_webhook(webhook_of())
    await talk.say(store, deliveries=(talk.delivery(payload=msgspec.Raw(b'{"data":[{"content":"a\\u0000b"}]}')),))
    await store.close()
    copy_database(str(tmp_path / "data"), postgres_url, ignore)


@pytest.mark.parametrize("rest", ["[secret", "me:se%zzcret@host/db", "me:secret/x@host/db", "me:x@secret@host/db"])
def test_a_malformed_address_is_refused_without_its_password(tmp_path: Path, rest: str) -> None:
    with pytest.raises(DatabaseUnreadable, match="write @ as %40") as refused:
        open_store(tmp_path, f"postgresql://{rest}")
    assert "secret" not in str(refused.value)


async def test_an_address_of_another_kind_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await open_store(tmp_path / "data").close()
    with pytest.raises(DatabaseUnreadable, match="begins with postgresql://"):
        copy_database("data", "mysql://me@host/db", ignore)
    assert not (tmp_path / "mysql:").exists()


async def test_every_table_is_copied(tmp_path: Path, postgres_url: str) -> None:
    await open_store(tmp_path / "data", postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        tables = {name for (name,) in rows.fetchall()}
    derived = {
        "migrations", "session_heads", "turn_claims", "turn_texts", "memory_versions", "changed_sessions", "servers",
        "leaders", "key_digests", "erased_users", "job_runs",
    }  # fmt: skip
    assert set(TABLES) == tables - derived, "add the table to TABLES of store/copy_database.py"
    assert copy_module.VARIABLES in TABLES
