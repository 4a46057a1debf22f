"""API keys in the database: their digests, owners and expiry."""

from datetime import timedelta
from pathlib import Path

import pytest

from store.interface.errors import RowRefused
from store.open_store import open_store
from store.sql import access
from store.store import Store
from tests.support.store_rows import MOMENT, key_of


async def test_a_key_is_stored_with_all_its_fields(store: Store) -> None:
    made = key_of(user_id="ana", expires_at=MOMENT + timedelta(days=1))
    await store.keys.add(made)
    assert (await store.keys.page("clinic")).rows == [made]
    assert (await store.keys.known()).live == [made]


async def test_a_record_knows_whether_it_ever_had_a_key(store: Store) -> None:
    assert not (await store.keys.known()).any_made
    await store.keys.add(key_of())
    await store.keys.revoke("clinic", "1", MOMENT)
    known = await store.keys.known()
    assert (known.live, known.any_made) == ([], True)


async def test_a_key_is_revoked_once_and_by_its_own_tenant(store: Store) -> None:
    await store.keys.add(key_of())
    await store.keys.revoke("school", "1", MOMENT)
    assert (await store.keys.known()).live == [key_of()]
    for hours in (1, 2):
        await store.keys.revoke("clinic", "1", MOMENT + timedelta(hours=hours))
    (revoked,) = (await store.keys.page("clinic")).rows
    assert revoked.revoked_at == MOMENT + timedelta(hours=1)


async def test_the_last_use_is_stored(store: Store) -> None:
    await store.keys.add(key_of())
    await store.keys.note_use("school", "1", MOMENT)
    await store.keys.note_use("clinic", "1", MOMENT + timedelta(hours=3))
    (used,) = (await store.keys.page("clinic")).rows
    assert used.last_used_at == MOMENT + timedelta(hours=3)


async def test_pages_of_keys_have_all_of_them_once(store: Store) -> None:
    for number in range(5):
        await store.keys.add(key_of(key_id=str(number), created_at=MOMENT + timedelta(seconds=number // 2)))
    found, cursor = [], None
    while True:
        page = await store.keys.page("clinic", limit=2, cursor=cursor)
        found += [row.key_id for row in page.rows]
        cursor = page.next
        if cursor is None:
            break
    assert found == ["4", "3", "2", "1", "0"]


async def test_a_tenant_has_a_bounded_number_of_keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access.KEYS, "rows_max", 2)
    for key_id in ("1", "2"):
        await store.keys.add(key_of(key_id=key_id))
    with pytest.raises(RowRefused, match="revoke some"):
        await store.keys.add(key_of(key_id="3"))
    await store.keys.add(key_of(tenant="school", key_id="3"))
    await store.keys.revoke("clinic", "1", MOMENT)
    await store.keys.add(key_of(key_id="4"))


async def test_keys_outlive_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.keys.add(key_of())
    await store.close()
    store = open_store(tmp_path)
    assert (await store.keys.known()).live == [key_of()]
    await store.close()


def test_no_digest_is_shown_in_a_log() -> None:
    assert "digest" not in repr(key_of())
