"""Verification reads a copy of one moment, whatever transactions are in progress then."""

from uuid import uuid4

import psycopg

from store.interface.findings import Finding
from store.store import Store
from store.verification.memory_rules import MEMORY_RULES
from store.verification.rules import RULES
from tests.support.store_rows import Conversation, memory_of, script_of, text_of, timer_of, webhook_of


async def findings(store: Store) -> list[Finding]:
    await store.verification.refresh()
    return [finding for rule in (*RULES, *MEMORY_RULES) for finding in await store.verification.broken(rule)]


async def turns_read(store: Store, talk: Conversation) -> list[int]:
    (part,) = await store.verification.parts([(talk.tenant, talk.session_id)], 0, 99, every_state=False)
    return [turn.turn for turn in part.turns]


async def converse(store: Store, talk: Conversation) -> None:
    await talk.create(store)
    await talk.say(store, deliveries=(talk.delivery(),))
    timer = timer_of(talk.tenant, talk.user_id, talk.session_id)
    await store.timers.replace(talk.tenant, talk.session_id, [timer], talk.turns - 1)
    await store.memory.change(memory_of(talk.tenant, talk.user_id, talk.session_id, "pear", talk.turns))


async def test_turns_beside_a_long_transaction_are_no_damage(stores: tuple[Store, Store], postgres_url: str) -> None:
    store = stores[0]
    early, late = Conversation(user_id="ana"), Conversation(user_id="ben")
    await store.scripts.save(script_of(), text_of())
    await store.delivery.add_webhook(webhook_of())
    await converse(store, early)
    assert await findings(store) == []
    with psycopg.connect(postgres_url) as long:
        long.execute("SELECT pg_current_xact_id()")
        await early.say(store)
        await converse(store, late)
        assert await findings(store) == []
        await late.say(store)
        assert await findings(store) == []
        await store.maintenance.delete_session(early.tenant, early.session_id)
        assert await findings(store) == []
    assert await findings(store) == []
    assert await turns_read(store, late) == [0, 1, 2]


async def test_a_target_of_a_review_whose_session_is_missing_is_damage(
    stores: tuple[Store, Store], postgres_url: str
) -> None:
    store = stores[0]
    session_id = str(uuid4())
    assert await findings(store) == []
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO review_targets VALUES ('clinic', 'review-1', 1, %s, NULL)", [session_id])
    found = [(finding.code, finding.table, finding.session_id) for finding in await findings(store)]
    assert found == [("row_orphaned", "review_targets", session_id)]
