"""A turn that calls a model is run by one server, until it is committed, has failed, or the claim expires."""

import asyncio
import time
from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from store.analytics.postgres_mirror import ALL
from store.interface.admission import Settlement
from store.interface.errors import TurnClaimed
from store.interface.retention_rows import Policy
from store.interface.rows import CallRow, SessionDocument, SettledCallRow
from store.postgres import claims
from store.postgres_store import PostgresStore
from store.sql import calls as calls_sql
from store.sql.calls import settled_calls
from store.store import Store
from store.verification.rules import RULES
from tests.support.postgres_server import expire_claims
from tests.support.store_rows import MOMENT, Conversation, answered, failure_of


async def test_another_server_is_refused_until_the_turn_is_committed(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    call = conversation.call("a")
    await one.turns.note_call(call)
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(conversation.call("b"))
    await one.turns.note_call(replace(call, ended_at=MOMENT, outcome="done"))
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(conversation.call("b"))
    await conversation.say(one, calls_used=("a",))
    await two.turns.note_call(conversation.call("b"))


async def test_expired_claim_is_taken_over_and_the_first_cannot_commit(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    await one.turns.note_call(conversation.call("a"))
    expire_claims(one)
    await two.turns.note_call(conversation.call("b"))
    late, conversation.turns = conversation.next_turn(), 1
    with pytest.raises(TurnClaimed):
        await one.turns.commit(late, 0, calls_used=("a",))
    await conversation.say(two, calls_used=("b",))
    calls = {row.call_id: row.used for row in (await two.turns.calls("clinic", conversation.session_id)).rows}
    assert calls == {"a": False, "b": True}


async def test_a_turn_that_was_committed_meanwhile_is_not_claimed(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    call = conversation.call("a")
    await conversation.say(two)
    with pytest.raises(TurnClaimed):
        await one.turns.note_call(call)
    await one.turns.note_call(conversation.call("b"))


async def test_turn_without_calls_does_not_displace_one_elsewhere(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    """Such as that of a timer: the reply that the other server waits for would be lost."""
    one, two = stores
    await conversation.create(one)
    await conversation.ask(one, "a")
    with pytest.raises(TurnClaimed):
        await two.turns.commit(conversation.next_turn(), 0)
    conversation.turns = 1
    await conversation.say(one, calls_used=("a",))
    await conversation.say(two)
    await one.turns.note_call(conversation.call("b"))
    expire_claims(one)
    await conversation.say(two)


async def test_a_failed_turn_gives_up_its_claim(stores: tuple[Store, Store], conversation: Conversation) -> None:
    one, two = stores
    await conversation.create(one)
    await one.turns.note_call(conversation.call("a"))
    await one.turns.save_failure(failure_of(conversation))
    await two.turns.note_call(conversation.call("b"))


async def test_one_of_many_that_begin_at_once_has_the_turn(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    await conversation.create(stores[0])
    for round_ in range(10):
        begun = [store.turns.note_call(conversation.call(f"{round_} {number}")) for number, store in enumerate(stores)]
        outcomes = await asyncio.gather(*begun, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {type(None), TurnClaimed}
        winner = outcomes.index(None)
        await conversation.say(stores[winner], calls_used=(f"{round_} {winner}",))


async def test_a_claim_is_prolonged_while_its_call_is_in_progress(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "PROLONG_S", 0.05)
    one, two = stores
    assert isinstance(one, PostgresStore)
    await conversation.create(one)
    await one.turns.note_call(conversation.call("a"))
    expire_claims(one)
    one._writer._prolonged_at = 0.0
    await asyncio.sleep(0.05)
    await Conversation().create(one)  # wakes the thread
    await asyncio.sleep(0.3)
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(conversation.call("b"))


async def test_call_in_progress_is_not_marked_interrupted_elsewhere(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    call = conversation.call("a")
    await one.turns.note_call(call)
    interrupted = replace(call, ended_at=MOMENT, error="interrupted; the user got an error")
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(interrupted)
    expire_claims(one)
    await two.turns.note_call(interrupted)
    with pytest.raises(TurnClaimed):
        await one.turns.note_call(conversation.call("b"))


async def test_replies_of_a_dead_server_are_used_without_a_call(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    call = conversation.call("a")
    await one.turns.note_call(call)
    await one.turns.note_call(replace(call, ended_at=MOMENT, outcome="done"))
    late = conversation.next_turn()
    with pytest.raises(TurnClaimed):
        await two.turns.commit(late, 0, calls_used=("a",))
    expire_claims(one)
    await two.turns.commit(late, 0, calls_used=("a",))
    assert [row.used for row in (await two.turns.calls("clinic", conversation.session_id)).rows] == [True]


async def test_call_that_ends_after_its_turn_moved_is_listed_once(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    late = conversation.call("a")
    await one.turns.note_call(late)
    expire_claims(one)
    for call_id in ("b", "c"):
        await two.turns.note_call(conversation.call(call_id))
        await two.turns.note_call(replace(conversation.call(call_id), ended_at=MOMENT, outcome="done"))
        await conversation.say(two, calls_used=(call_id,))
        if call_id == "b":
            await one.turns.note_call(replace(late, ended_at=MOMENT, outcome="done"))
    calls = (await two.turns.calls("clinic", conversation.session_id)).rows
    assert sorted((row.call_id, row.used, row.outcome) for row in calls) == [
        ("a", False, "done"),
        ("b", True, "done"),
        ("c", True, "done"),
    ]


async def test_a_call_that_ends_after_its_turn_is_part_of_it(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    assert isinstance(two, PostgresStore)
    (call_twice,) = (rule for rule in RULES if rule.code == "call_twice")
    await conversation.create(one)
    late = conversation.call("a")
    await one.turns.note_call(late)
    expire_claims(one)
    await conversation.ask(two, "b")
    await conversation.say(two, calls_used=("b",))
    await two.verification.refresh()
    await one.turns.note_call(replace(late, **answered() | {"cost": 0.5}))
    rows = (await two.turns.calls("clinic", conversation.session_id)).rows
    assert sorted((row.call_id, row.turn, row.used, row.outcome) for row in rows) == [
        ("a", 1, False, "done"),
        ("b", 1, True, "done"),
    ]
    assert (await two.turns.spent("clinic", MOMENT, MOMENT + timedelta(days=1))).cost == 0.75
    await two.verification.refresh()
    assert await two.verification.broken(call_twice) == []
    with two._mirror.open(ALL) as mirror:
        assert mirror.rows("SELECT sum(cost) FROM settled_calls") == [(0.75,)]


async def test_call_that_ends_during_its_commit_has_its_cost(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    await conversation.create(one)
    late = conversation.call("a")
    await one.turns.note_call(late)
    expire_claims(one)
    await conversation.ask(two, "b")
    loop, ending = asyncio.get_running_loop(), []

    def settle_slowly(journal: Iterable[CallRow], settlements: Iterable[Settlement]) -> list[SettledCallRow]:
        if not ending:  # `one` settles the late end with the same function
            end = one.turns.note_call(replace(late, **answered() | {"cost": 0.5}))
            ending.append(asyncio.run_coroutine_threadsafe(end, loop))
            time.sleep(0.3)
        return list(settled_calls(journal, settlements))

    with monkeypatch.context() as settling:
        settling.setattr(calls_sql, "settled_calls", settle_slowly)
        await conversation.say(two, calls_used=("b",))
    await asyncio.wrap_future(ending[0])
    rows = (await two.turns.calls("clinic", conversation.session_id)).rows
    assert sorted((row.call_id, row.outcome, row.cost) for row in rows) == [("a", "done", 0.5), ("b", "done", 0.25)]


async def test_late_end_that_is_noted_twice_is_stored_once(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    late = conversation.call("a")
    await one.turns.note_call(late)
    expire_claims(one)
    await conversation.ask(two, "b")
    await conversation.say(two, calls_used=("b",))
    end = replace(late, **answered() | {"cost": 0.5})
    await asyncio.gather(one.turns.note_call(end), one.turns.note_call(end), one.turns.note_call(end))
    rows = (await two.turns.calls("clinic", conversation.session_id)).rows
    assert sorted((row.call_id, row.outcome, row.cost) for row in rows) == [("a", "done", 0.5), ("b", "done", 0.25)]


async def test_a_call_that_ends_after_an_erasure_leaves_nothing(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    call = conversation.call("a")
    await two.turns.note_call(call)
    await one.maintenance.erase_user("clinic", call.user_id, "99999999-0000-4000-8000-000000000000", MOMENT)
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(replace(call, ended_at=MOMENT, outcome="done"))
    assert (await two.turns.calls("clinic", conversation.session_id)).rows == []


async def test_session_calling_a_model_elsewhere_is_not_due(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    await one.turns.note_call(conversation.call("a"))
    policies, later = [Policy(after_days=1, action="delete")], MOMENT + timedelta(days=9)
    assert await two.retention.due(policies, later) == []
    assert (await two.retention.apply("clinic", [conversation.session_id], policies, later)).deleted == []
    expire_claims(one)
    assert [each.session_id for each in await two.retention.due(policies, later)] == [conversation.session_id]


async def test_session_calling_a_model_elsewhere_is_not_replaced(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    """The turn, which was computed from the session of before, would be added to the imported one."""
    one, two = stores
    await conversation.create(one)
    imported = Conversation(session_id=conversation.session_id)
    whole = SessionDocument(session=imported.session(), turns=[imported.next_turn()])
    await conversation.ask(one, "a")
    with pytest.raises(TurnClaimed):
        await two.sessions.import_session(whole, replaces=True)
    await conversation.ask(one, "b")
    await conversation.say(one, calls_used=("a", "b"))
    await two.sessions.import_session(whole, replaces=True)
    assert await one.turns.range("clinic", conversation.session_id) == whole.turns
