"""Links and participants: their rows, their limits, and what of them is found."""

from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest

from store.interface.errors import IdTaken, RowRefused
from store.sql import access
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation, link_of, participant_of


async def test_a_link_is_read_as_it_was_stored_until_it_is_revoked(store: Store) -> None:
    link = link_of()
    await store.participants.add_link(link)
    assert await store.participants.link("our-study") == link
    assert await store.participants.revoke_link("school", "our-study", MOMENT) is False
    assert await store.participants.revoke_link("clinic", "our-study", MOMENT) is True
    assert await store.participants.revoke_link("clinic", "our-study", MOMENT) is False
    assert await store.participants.link("our-study") is None
    (row,) = (await store.participants.links("clinic")).rows
    assert row == msgspec.structs.replace(link, revoked_at=MOMENT)
    assert (await store.participants.links("school")).rows == []


async def test_the_id_of_a_link_is_used_once_over_all_tenants(store: Store) -> None:
    await store.participants.add_link(link_of())
    await store.participants.revoke_link("clinic", "our-study", MOMENT)
    for tenant in ("clinic", "school"):
        with pytest.raises(IdTaken):
            await store.participants.add_link(link_of(tenant))


async def test_a_tenant_has_a_limited_number_of_links(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access.LINKS, "rows_max", 1)
    await store.participants.add_link(link_of())
    with pytest.raises(RowRefused):
        await store.participants.add_link(link_of(link_id="another"))
    await store.participants.add_link(link_of("school", "another"))
    await store.participants.revoke_link("clinic", "our-study", MOMENT)
    await store.participants.add_link(link_of(link_id="a-third"))


async def test_a_participant_is_found_by_id_and_by_secret(store: Store) -> None:
    await store.participants.add_link(link_of())
    row = participant_of("clinic", "ana", str(uuid4()), link_id="our-study", resume_digest="d")
    await store.participants.add(row, 10, MOMENT)
    assert await store.participants.get(row.participant_id) == row
    assert await store.participants.resuming("our-study", "d") == row
    assert await store.participants.resuming("another", "d") is None
    assert await store.participants.revoke("school", row.participant_id, MOMENT) is False
    assert await store.participants.revoke("clinic", row.participant_id, MOMENT) is True
    assert await store.participants.revoke("clinic", row.participant_id, MOMENT) is False
    assert await store.participants.get(row.participant_id) is None
    assert await store.participants.resuming("our-study", "d") is None


async def test_participant_who_comes_during_a_revocation_has_no_access(store: Store) -> None:
    await store.participants.add_link(link_of())
    await store.participants.revoke_link("clinic", "our-study", MOMENT)
    late = participant_of("clinic", "ana", str(uuid4()), link_id="our-study")
    await store.participants.add(late, 10, MOMENT)
    assert await store.participants.get(late.participant_id) is None


async def test_places_are_counted_for_each_link(store: Store) -> None:
    for link in ("one", "other"):
        for number in range(2):
            row = participant_of("clinic", f"user {number}", str(uuid4()), link_id=link)
            await store.participants.add(row, 2, MOMENT)
    with pytest.raises(RowRefused):
        await store.participants.add(participant_of("clinic", "eva", str(uuid4()), link_id="one"), 2, MOMENT)
    with pytest.raises(IdTaken):
        await store.participants.add(participant_of("clinic", "user 1", str(uuid4()), link_id="one"), 9, MOMENT)
    page = await store.participants.page("clinic", link_id="one", limit=1)
    rest = await store.participants.page("clinic", link_id="one", limit=5, cursor=page.next)
    assert {row.user_id for row in page.rows + rest.rows} == {"user 0", "user 1"}


async def test_access_that_is_over_takes_no_place(store: Store) -> None:
    for number in range(3):
        later = MOMENT + number * timedelta(days=2)
        row = participant_of("clinic", "ana", str(uuid4()), created_at=later, expires_at=later + timedelta(days=1))
        await store.participants.add(row, 1, later)
    assert len((await store.participants.page("clinic")).rows) == 1


async def test_a_session_that_was_begun_takes_a_place_of_its_link(store: Store) -> None:
    talked = Conversation("clinic", "ana")
    await talked.create(store)
    for user, session in (("ana", talked.session_id), ("ben", str(uuid4()))):
        await store.participants.add(participant_of("clinic", user, session, link_id="one"), 2, MOMENT)
    later = MOMENT + timedelta(days=2)
    eva = participant_of("clinic", "eva", str(uuid4()), link_id="one", expires_at=later + timedelta(days=1))
    await store.participants.add(eva, 2, later)
    assert {row.user_id for row in (await store.participants.page("clinic")).rows} == {"ana", "eva"}
    with pytest.raises(RowRefused):
        await store.participants.add(participant_of("clinic", "zoe", str(uuid4()), link_id="one"), 2, later)
