"""Whatever is done to a memory, in whatever order, a real one and a plain model of it stay the same.

The real one is a record on disk, with the use cases over it; at any moment it is closed and opened again.
"""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from api.memory.embedding import embedding_of
from api.memory.memory_system import create_memory
from api.memory.requests import NewUnit, Query
from api.memory.row_mapping import unit_of
from api.metrics import Metrics
from api.schemas.memory_errors import InvalidMemoryRequest
from api.settings import Settings
from runtime.memory.forgetting import ForgetOptions
from runtime.memory.summaries import Summary, SummaryRequest
from scripts.model.memory_plan import MemoryPlan
from store.interface.rows import NO_TURN, EventRow, MessageRow, SessionRow, TurnRow
from store.open_store import open_store
from tests.support import memory_model as model
from tests.support.effort import repeats
from tests.support.memory_findings import memory_findings

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
OWNER = ("clinic", "ana")
COLLECTIONS = ("notes", "diary")
SESSIONS = tuple(str(UUID(int=number)) for number in (1, 2))
GROUPS = st.sampled_from([*COLLECTIONS, *SESSIONS])
WORDS = ("roof", "sister", "oslo", "boat", "winter", "bread", "violin", "garden")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(" ".join)
CONTEXT_LENGTH = 10
SESSION_CAPACITY = 3
ALL = 500  # more chains than there are units


async def tell(passage: SummaryRequest) -> Summary:
    """Return a summary that tells every word once."""
    words = [*passage.so_far.split(), *(word for unit in passage.units for word in unit.content.split())]
    return Summary(" ".join(dict.fromkeys(words)))


async def plan_of(tenant: str, digest: str) -> MemoryPlan:
    return MemoryPlan(short_term=SESSION_CAPACITY)


def session_row(session: str) -> SessionRow:
    return SessionRow(
        tenant=OWNER[0],
        session_id=session,
        user_id=OWNER[1],
        key=None,
        script_uuid=str(UUID(int=50)),
        script_id="visit",
        script_version=1,
        digest="digest",
        locale=None,
        seed=7,
        metadata={},
        created_at=NOON + timedelta(microseconds=SESSIONS.index(session)),
        idempotency_key=None,
    )


def turn_row(session: str, turn: int, messages: list[MessageRow], events: list[EventRow], at: datetime) -> TurnRow:
    return TurnRow(
        tenant=OWNER[0],
        session_id=session,
        user_id=OWNER[1],
        turn=turn,
        started_at=at,
        finished_at=at,
        status="active",
        execution_status="waiting_input",
        phase_id=None,
        topic_id=None,
        action_id=None,
        action_type=None,
        wait_kind=None,
        state=msgspec.Raw(b"{}"),
        idempotency_key=None,
        fingerprint=None,
        messages=messages,
        variables=[],
        events=events,
    )


def least_first(given: Any) -> tuple[float, int]:
    return given.score, -given.sequence


class RealMemory:
    """A memory in a folder, opened as a server opens it, without an embedder."""

    def __init__(self, folder: Path, clock: Any, ids: Any) -> None:
        self.store = open_store(folder)
        settings = Settings(data=folder, embedder="none")
        embedding = embedding_of(settings)
        memory_system = create_memory(
            self.store, settings, embedding, plan_of, lambda tenant, user_id: tell, clock, ids, Metrics()
        )
        self.memory_cache, self.memories, self.maintenance = (
            memory_system.cache,
            memory_system.memories,
            memory_system.maintenance,
        )

    async def summarise(self, group: str | None) -> None:
        async for _ in self.maintenance.summarise(OWNER, group):
            pass

    async def close(self) -> None:
        """Stop as a server does."""
        await self.memory_cache.flush()
        await self.store.close()

    async def units(self) -> dict[str, Any]:
        """Return all units, which are the same in the database and in RAM."""
        async with self.memory_cache.lock(*OWNER) as loaded:
            rows = await self.store.memory.units(*OWNER)
            assert {row.sequence: unit_of(row) for row in rows} == loaded.units
            assert {row.unit_id: row.sequence for row in rows} == loaded.sequence_of
        return {
            row.unit_id: model.Unit(
                unit_id=row.unit_id,
                sequence=row.sequence,
                content=row.content,
                source=row.source,
                group=row.group_id,
                creation_time=row.creation_time,
                rank=row.rank,
                parent=row.parent_id,
                visit_count=row.visit_count,
                last_visit=row.last_visit,
                never_delete=row.never_delete,
                level=row.level,
                tells_from=row.tells_from,
                is_stale=row.is_stale,
                superseded_by=row.superseded_by,
            )
            for row in rows
        }

    async def whole(self) -> tuple[str, int]:
        """Return the id of the memory, and how far it has grown."""
        async with self.memory_cache.lock(*OWNER) as loaded:
            return loaded.owner.memory_id, loaded.round

    async def minds(self) -> dict[str, tuple[list[str], list[str] | None]]:
        """Return for each group the units in its context and in its short-term memory, or None."""
        async with self.memory_cache.lock(*OWNER) as loaded:
            ids = {sequence: unit.unit_id for sequence, unit in loaded.units.items()}
            return {
                group: (
                    [ids[each] for each in mind.working.context],
                    None if mind.working.short_term is None else [ids[each] for each in mind.working.short_term],
                )
                for group, mind in loaded.short_terms.items()
            }


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.model = model.Model()
        self.seconds = itertools.count(1)
        self.numbers = itertools.count(100)
        self.turns = dict.fromkeys(SESSIONS, 0)
        self.messages = dict.fromkeys(SESSIONS, 0)
        self.events = dict.fromkeys(SESSIONS, 0)
        self.said: dict[str, dict[str, int]] = {session: {} for session in SESSIONS}  # messages, with their turns
        self.unheard: dict[str, list[Callable[[], None]]] = {}  # what happened since the memory was last used
        self.real = self.open()

    def open(self) -> RealMemory:
        async def open_memory() -> RealMemory:
            return RealMemory(self.folder, self.now, self.new_id)

        return self.runner.run(open_memory())

    def now(self) -> datetime:
        return NOON + timedelta(seconds=next(self.seconds))

    def new_id(self) -> str:
        return str(UUID(int=next(self.numbers)))

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something to the real memory after it has processed the messages."""
        self.hear()
        return self.runner.run(work)

    def hear(self) -> None:
        for session in sorted(self.unheard):
            self.mind(session, SESSION_CAPACITY)
            for happened in self.unheard[session]:
                happened()
        self.unheard = {}

    def mind(self, group: str, capacity: int | None = None) -> Any:
        return self.model.minds.setdefault(group, model.Mind(CONTEXT_LENGTH, capacity))

    def drawn(self, data: Any) -> str:
        return data.draw(st.sampled_from(sorted(self.model.units)))

    def teardown(self) -> None:
        assert self.runner.run(memory_findings(self.real.store)) == []
        self.runner.run(self.real.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    # -- what is put in -----------------------------------------------------------------------------------------------

    @rule(session=st.sampled_from(SESSIONS), texts=st.lists(TEXTS, min_size=1, max_size=6))
    def say(self, session: str, texts: Sequence[str]) -> None:
        at, first = self.now(), self.messages[session] + 1
        messages = [
            MessageRow(number, self.new_id(), "user", text, None, {}, at) for number, text in enumerate(texts, first)
        ]

        def heard() -> None:
            for each in messages:
                self.model.add(f"{session}:{each.seq}", each.content, "user", session, at)

        self.messages[session] += len(messages)
        self.said[session].update((f"{session}:{each.seq}", self.turns[session]) for each in messages)
        self.turn(session, messages, [], at, heard)

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 4))
    def rewind(self, session: str, count: int) -> None:
        """Rewind the last turns; the numbers of their messages are not used again."""
        if not self.turns[session]:
            return
        turn = max(self.turns[session] - 1 - count, 0)
        ids = {unit_id for unit_id, said_in in self.said[session].items() if said_in > turn}

        def heard() -> None:
            self.model.remove(ids & set(self.model.units))

        data = {"what": "rewind", "turn": turn}
        self.events[session] += 1
        self.turn(session, [], [EventRow(self.events[session], "intervention", data)], self.now(), heard)

    @rule(session=st.sampled_from(SESSIONS))
    def clear(self, session: str) -> None:
        if not self.turns[session]:
            return
        ids = set(self.said[session])

        def heard() -> None:
            self.model.remove(ids & set(self.model.units))

        self.events[session] += 1
        self.turn(session, [], [EventRow(self.events[session], "intervention", {"what": "clear"})], self.now(), heard)

    def turn(
        self,
        session: str,
        messages: list[MessageRow],
        events: list[EventRow],
        at: datetime,
        heard: Callable[[], None],
    ) -> None:
        number = self.turns[session]
        row = turn_row(session, number, messages, events, at)
        begun = None if number else session_row(session)
        self.runner.run(self.real.store.turns.commit(row, number - 1 if number else NO_TURN, begun))
        self.real.memory_cache.invalidate(*OWNER)
        self.turns[session] += 1
        self.unheard.setdefault(session, []).append(heard)

    @rule(group=st.sampled_from(COLLECTIONS), texts=st.lists(TEXTS, min_size=1, max_size=6), pinned=st.booleans())
    def add(self, group: str, texts: Sequence[str], pinned: bool) -> None:
        new = [NewUnit(content=text, never_delete=pinned) for text in texts]
        for unit in self.do(self.real.memories.add(*OWNER, group, new)):
            self.mind(group)
            self.model.add(unit.unit_id, unit.content, unit.source, group, unit.creation_time, pinned=pinned)

    @precondition(lambda self: self.model.units and not self.unheard)
    @rule(data=st.data(), text=TEXTS)
    def supersede(self, data: Any, text: str) -> None:
        old = self.drawn(data)
        if self.model.units[old].rank:
            with pytest.raises(InvalidMemoryRequest):
                self.do(self.real.memories.add(*OWNER, "notes", [NewUnit(content=text, supersedes=old)]))
            return
        (new,) = self.do(self.real.memories.add(*OWNER, "notes", [NewUnit(content=text, supersedes=old)]))
        self.mind("notes")
        self.model.add(new.unit_id, text, new.source, "notes", new.creation_time)
        self.model.supersede(old, new.unit_id)

    @rule(group=st.sampled_from(COLLECTIONS), capacity=st.integers(0, 4))
    def start_group(self, group: str, capacity: int) -> None:
        assert self.do(self.real.memories.start_group(*OWNER, group, short_term=capacity)).group_id == group
        mind = self.mind(group)
        mind.capacity = capacity or None
        mind.restore(list(mind.short_term))

    # -- what is asked ------------------------------------------------------------------------------------------------

    @rule(
        word=st.sampled_from(WORDS),
        k=st.sampled_from([1, 2, 4, ALL]),
        around=st.integers(0, 2),
        group=st.one_of(st.just(""), GROUPS),
        long_term_only=st.booleans(),
        excludes=st.booleans(),
    )
    def query(self, word: str, k: int, around: int, group: str, long_term_only: bool, excludes: bool) -> None:
        excludes = excludes and bool(group)
        query = Query(
            text=word,
            k=k,
            recall_context=around,
            group=group,
            long_term_only=long_term_only,
            exclude_context=excludes,
        )
        if excludes and group not in {*self.model.minds, *self.unheard}:
            with pytest.raises(InvalidMemoryRequest, match="there is no session or collection"):
                self.do(self.real.memories.query(*OWNER, query))
            return
        chains = self.do(self.real.memories.query(*OWNER, query)).chains
        context = self.model.minds[group].context if excludes and group in self.model.minds else []
        found = [unit_id for unit_id in self.model.with_word(word) if unit_id not in context]
        given = [each.unit_id for chain in chains for each in chain.units]
        hits = [each.unit_id for chain in chains for each in chain.units if each.score is not None]
        assert len(chains) <= k
        assert len(given) == len(set(given))
        assert not set(given) & set(context)
        assert all(self.model.units[hit].superseded_by is None and self.model.units[hit].rank == 0 for hit in hits)
        assert hits or not found
        assert not hits or any(word in unit.content.split() for unit in self.model.units.values())
        assert k < ALL or set(found) <= set(hits)  # those that stand beside them may come after them
        not_given = {*context, *(each.unit_id for each in self.model.units.values() if each.superseded_by is not None)}
        assert set(given) == {each for hit in hits for each in self.model.beside(hit, around)} - not_given
        self.model.visit(given)
        if group in self.model.minds:
            for chain in reversed(chains):
                for hit in sorted((each for each in chain.units if each.score is not None), key=least_first):
                    self.mind(group).use(hit.unit_id)

    @rule(group=GROUPS, source=GROUPS)
    def restore(self, group: str, source: str) -> None:
        self.hear()
        if source in self.model.minds and group in self.model.minds:
            self.do(self.real.memories.restore(*OWNER, group, source))
            mind = self.mind(group)
            mind.capacity = 50 if mind.capacity is None else mind.capacity
            mind.restore([each for each in self.model.order(source) if self.model.units[each].superseded_by is None])

    # -- what goes ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.units and not self.unheard)
    @rule(data=st.data(), pinned=st.booleans())
    def pin(self, data: Any, pinned: bool) -> None:
        unit_id = self.drawn(data)
        self.do(self.real.memories.pin(*OWNER, unit_id, pinned=pinned))
        self.model.pin(unit_id, pinned=pinned)

    @precondition(lambda self: self.model.units and not self.unheard)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        unit_ids = {self.drawn(data) for _ in range(data.draw(st.integers(1, 3)))}
        assert self.do(self.real.memories.remove(*OWNER, sorted(unit_ids))) == len(unit_ids)
        self.model.remove(unit_ids)

    @rule(group=GROUPS)
    def remove_group(self, group: str) -> None:
        removed = self.do(self.real.memories.remove_group(*OWNER, group))
        assert removed == (group in self.model.minds)
        if removed:
            self.model.remove_group(group, is_session=group in SESSIONS)

    @rule(share=st.sampled_from([0.1, 0.3, 1.0]))
    def forget(self, share: float) -> None:
        how = ForgetOptions(share)
        would_go = [unit.unit_id for unit in self.do(self.real.maintenance.preview_forget(OWNER, how))]
        assert would_go == self.model.would_forget(share)
        assert self.do(self.real.maintenance.forget(OWNER, how)) == len(self.model.forget(share))

    # -- what is done in between --------------------------------------------------------------------------------------

    @rule()
    def summarise(self) -> None:
        self.do(self.real.summarise(None))
        self.model.assert_all_summed_up(self.take_summaries())

    @rule(group=GROUPS)
    def summarise_group(self, group: str) -> None:
        self.do(self.real.summarise(group))
        self.take_summaries()
        self.model.assert_summed_up(group)

    def take_summaries(self) -> str:
        units = self.runner.run(self.real.units())
        memory_id, round_ = self.runner.run(self.real.whole())
        parents = {unit_id: unit.parent for unit_id, unit in units.items()}
        self.model.take_summaries([unit for unit in units.values() if unit.rank], parents, round_)
        return memory_id

    @rule()
    def restart(self) -> None:
        self.runner.run(self.real.close())
        self.real = self.open()

    # -- what stays so ------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.unheard)
    @invariant()
    def both_are_the_same(self) -> None:
        assert self.runner.run(self.real.units()) == self.model.units
        assert self.runner.run(self.real.whole())[1] == self.model.round
        assert self.runner.run(self.real.minds()) == {
            group: (mind.context, None if mind.capacity is None else mind.short_term)
            for group, mind in self.model.minds.items()
        }


@pytest.mark.gate
def test_memory_equals_a_plain_model_after_any_operations() -> None:
    run_state_machine_as_test(Machine, settings=examples(max_examples=repeats(10), stateful_step_count=20))
