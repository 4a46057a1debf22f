"""Keys of the API in the record: their digests, whose they are, until when they are good."""

from datetime import timedelta

import pytest

from store import keys
from store.errors import RowRefused
from store.record import Record


async def test_a_key_is_kept_with_all_that_is_known_of_it(record, rows) -> None:
    made = rows.key_of(user_id="ana", expires_at=rows.MOMENT + timedelta(days=1))
    await record.add_key(made)
    assert (await record.keys("clinic")).rows == [made]
    assert (await record.known_keys()).live == [made]


async def test_a_record_knows_whether_it_ever_had_a_key(record, rows) -> None:
    assert not (await record.known_keys()).any_made
    await record.add_key(rows.key_of())
    await record.revoke_key("clinic", "1", rows.MOMENT)
    known = await record.known_keys()
    assert (known.live, known.any_made) == ([], True)


async def test_a_key_is_revoked_once_and_by_its_own_tenant(record, rows) -> None:
    await record.add_key(rows.key_of())
    await record.revoke_key("school", "1", rows.MOMENT)
    assert (await record.known_keys()).live == [rows.key_of()]
    for hours in (1, 2):
        await record.revoke_key("clinic", "1", rows.MOMENT + timedelta(hours=hours))
    (revoked,) = (await record.keys("clinic")).rows
    assert revoked.revoked_at == rows.MOMENT + timedelta(hours=1)


async def test_the_last_use_is_kept(record, rows) -> None:
    await record.add_key(rows.key_of())
    await record.note_key_use("school", "1", rows.MOMENT)
    await record.note_key_use("clinic", "1", rows.MOMENT + timedelta(hours=3))
    (used,) = (await record.keys("clinic")).rows
    assert used.last_used_at == rows.MOMENT + timedelta(hours=3)


async def test_pages_of_keys_have_all_of_them_once(record, rows) -> None:
    for number in range(5):
        await record.add_key(rows.key_of(key_id=str(number), created_at=rows.MOMENT + timedelta(seconds=number // 2)))
    found, cursor = [], None
    while True:
        page = await record.keys("clinic", limit=2, cursor=cursor)
        found += [row.key_id for row in page.rows]
        cursor = page.next
        if cursor is None:
            break
    assert found == ["4", "3", "2", "1", "0"]


async def test_a_tenant_has_a_bounded_number_of_keys(record, rows, monkeypatch) -> None:
    monkeypatch.setattr(keys, "LIVE_MAX", 2)
    for key_id in ("1", "2"):
        await record.add_key(rows.key_of(key_id=key_id))
    with pytest.raises(RowRefused, match="revoke some"):
        await record.add_key(rows.key_of(key_id="3"))
    await record.add_key(rows.key_of(tenant="school", key_id="3"))
    await record.revoke_key("clinic", "1", rows.MOMENT)
    await record.add_key(rows.key_of(key_id="4"))


async def test_keys_outlive_a_restart(tmp_path, rows) -> None:
    record = Record.open(tmp_path)
    await record.add_key(rows.key_of())
    await record.close()
    record = Record.open(tmp_path)
    assert (await record.known_keys()).live == [rows.key_of()]
    await record.close()


def test_no_digest_is_shown_in_a_log(rows) -> None:
    assert "digest" not in repr(rows.key_of())
