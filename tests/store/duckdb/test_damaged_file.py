"""A truncated or bit-flipped database file is refused, or its reads fail; it never answers with less than it had."""

import contextlib
import random
import shutil
from pathlib import Path

import duckdb
import pytest

from store.duckdb.database_file import why_not_open
from store.interface.errors import StoreError
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import Conversation

CASES = repeats(10)


async def heads_of(store: Store, conversations: list[Conversation]) -> list[object]:
    return [await store.sessions.head("clinic", each.session_id) for each in conversations]


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
async def test_a_damaged_database_file_never_has_less_in_silence(tmp_path: Path, damage: str) -> None:
    whole, chance = tmp_path / "whole", random.Random(7)
    store = open_store(whole)
    conversations = [Conversation() for _ in range(4)]
    for conversation in conversations:
        await conversation.create(store)
        await conversation.say(store, state={"text": "x" * 2_000})
    heads = await heads_of(store, conversations)
    await store.close()
    content = (whole / FILE_NAME).read_bytes()
    for number in range(CASES):
        folder = tmp_path / f"{damage}-{number}"
        shutil.copytree(whole, folder)
        place = chance.randrange(len(content))
        damaged = bytearray(content[:place] if damage == "truncated" else content)
        if damage == "flipped":
            damaged[place] ^= 1 << chance.randrange(8)
        (folder / FILE_NAME).write_bytes(damaged)
        try:
            store = open_store(folder)
        except StoreError as refused:
            assert str(folder / FILE_NAME) in str(refused)
            continue
        with contextlib.suppress(StoreError):  # a read that fails is not silent
            assert await heads_of(store, conversations) == heads
        await store.close()


def test_file_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "cuebook.duckdb"
    path.touch()
    refused = why_not_open(path, duckdb.IOException(f'IO Error: Cannot open file "{path}": Read-only file system'))
    assert str(refused) == f"{path} cannot be opened: Read-only file system"
