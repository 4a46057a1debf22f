"""A checkpoint writes the rows since the last one and leaves the others; small row groups are merged at the end."""

from functools import partial
from pathlib import Path

import pytest

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database_file import log_of
from store.interface.private_files import make_folder
from store.open_store import open_store
from store.store import Store
from tests.support.duckdb_engine import engine_of
from tests.support.store_rows import Conversation

CHECKPOINTS = 12
_SEGMENTS = "SELECT row_group_id, block_id, block_offset FROM pragma_storage_info('numbers') WHERE persistent"


def _insert(connection: DuckDBConnection, number: int) -> None:
    connection.cursor.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER, words VARCHAR)")
    connection.cursor.execute("INSERT INTO numbers SELECT ?, md5(n::VARCHAR) FROM range(500) r(n)", [number])


async def segments(store: Store) -> set[tuple[int, int, int]]:
    """Return the row group and the place in the file of everything of the table that is in the file."""
    return set(await engine_of(store).read(lambda connection: connection.rows(_SEGMENTS)))


async def test_small_row_groups_are_merged_when_the_database_is_closed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    written: set[tuple[int, int, int]] = set()
    for number in range(CHECKPOINTS):
        await engine_of(store).write(partial(_insert, number=number))
        engine_of(store).database.cursor().execute("CHECKPOINT cuebook")
        now = await segments(store)
        assert written < now  # nothing is written a second time
        written = now
    await engine_of(store).write(partial(_insert, number=CHECKPOINTS))
    await store.close()

    store = open_store(tmp_path)
    groups = {group for group, _, _ in await segments(store)}
    assert len(groups) < CHECKPOINTS / 2
    rows = await engine_of(store).read(
        lambda connection: connection.rows("SELECT number, count(*) FROM numbers GROUP BY ALL ORDER BY ALL")
    )
    assert rows == [(number, 500) for number in range(CHECKPOINTS + 1)]
    await store.close()


@pytest.mark.parametrize("size", [1, 60, 120])
async def test_log_with_a_part_of_a_commit_does_not_stop_a_compaction(tmp_path: Path, size: int) -> None:
    store = open_store(tmp_path / "killed")
    path = engine_of(store).database.path
    log = log_of(path)
    assert not log.exists()
    await Conversation().create(store)
    # what a process leaves that is killed while it writes the first commit after a checkpoint
    copy = tmp_path / "copy" / path.name
    make_folder(copy.parent)
    copy.write_bytes(path.read_bytes())
    log_of(copy).write_bytes(log.read_bytes()[:size])
    await store.close()

    store = open_store(copy.parent)
    assert log_of(copy).exists()
    await store.maintenance.compact()
    assert not log_of(copy).exists()
    talk = Conversation()
    await talk.create(store)
    await store.close()
    store = open_store(copy.parent)
    assert (await store.sessions.start("clinic", talk.session_id)) is not None
    await store.close()
