"""The memory of a conversation that nobody records: what it keeps, what it finds, and what comes along."""

from datetime import UTC, datetime, timedelta

import pytest

from runtime.memory.chains import Chain, Hit, recall_of
from runtime.memory.local_memory import LocalMemory
from runtime.memory.units import MemoryUnit
from runtime.state.events import Event, Message, Remembered
from runtime.state.ports import MemoryFailed
from runtime.state.recall_types import RecallWish
from scripts.model.memory_plan import DEFAULT_PLAN, MemoryPlan

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def said(number: int, text: str, **metadata) -> Event:
    return Event(number, Message(number, f"m{number}", "user", text, "ask", metadata))


TALK = [
    said(number, text) for number, text in enumerate(["The sea", "My dog Rex", "He swims", "A train", "Rex again"], 1)
]


def remembering(*events: Event, plan: MemoryPlan = DEFAULT_PLAN) -> LocalMemory:
    return LocalMemory().after(events, NOON, plan)


async def texts(memory: LocalMemory, query: str, **wish) -> list[str]:
    return [unit.text for unit in (await memory.recall(RecallWish(query=query, now=NOON, **wish))).units]


async def test_messages_and_notes_are_stored_as_the_plan_says() -> None:
    events = [said(1, "Rex is a dog"), Event(2, Remembered("n", "a", "Rex barks", "script")), said(3, " ")]
    assert sorted(await texts(remembering(*events), "Rex")) == ["Rex barks", "Rex is a dog"]
    assert await texts(remembering(*events, plan=MemoryPlan(remember="notes")), "Rex") == ["Rex barks"]
    assert await texts(remembering(*events[:1], plan=MemoryPlan(strategy="off")), "Rex") == []


async def test_who_speaks_is_the_source() -> None:
    memory = remembering(said(1, "Rex is a dog", speaker={"role": "owner", "name": "Ms Meng"}))
    (unit,) = (await memory.recall(RecallWish(query="Rex", now=NOON))).units
    assert (unit.source, unit.trust, unit.created_at) == ("Ms Meng", "conversation", NOON)


async def test_note_about_the_same_replaces_the_earlier_one() -> None:
    first, second = (Event(n, Remembered(f"n{n}", "a", f"Goal {n}", "script", about="goal")) for n in (1, 2))
    memory = remembering(first)
    later = memory.after([second], NOON + timedelta(days=1), DEFAULT_PLAN)
    assert await texts(memory, "goal") == ["Goal 1"]
    assert await texts(later, "goal") == ["Goal 2"]
    assert later.units[0].superseded_by == "n2"


async def test_context_is_returned_neither_as_a_hit_nor_as_a_neighbour() -> None:
    memory = remembering(*TALK)
    assert (await texts(memory, "Rex", k=1, in_sight=3)) == ["My dog Rex"]
    (unit,) = (await memory.recall(RecallWish(query="dog", k=1, context=2, in_sight=4, now=NOON))).units
    assert [each.text for each in unit.around] == ["The sea", "He swims"]
    assert [each.is_before for each in unit.around] == [True, False]
    next_time = memory.in_session("2")
    assert "Rex again" in await texts(next_time, "Rex", in_sight=1)


async def test_without_an_evaluator_filters_are_refused() -> None:
    with pytest.raises(MemoryFailed, match="no filters") as refused:
        await texts(remembering(*TALK), "Rex", filters={"source": "user"})
    assert not refused.value.retryable


def test_each_neighbour_comes_with_the_hit_it_is_nearest_to() -> None:
    units = {
        n: MemoryUnit(unit_id=str(n), sequence=n, content=f"{n}", creation_time=NOON, end_time=NOON, group_id="g")
        for n in range(2, 8)
    }
    chain = Chain(group_id="g", sequences=(2, 3, 4, 5, 6, 7), hits=(Hit(5, 0.9), Hit(3, 0.5)))
    found = recall_of([chain], units, {5: {"words": 1.0}})
    assert [(unit.text, [each.text for each in unit.around]) for unit in found.units] == [
        ("5", ["6", "7"]),
        ("3", ["2", "4"]),
    ]
    assert [dict(unit.signals) for unit in found.units] == [{"words": 1.0}, {}]
