"""One simulated session: each turn is taken by the engine, at the time it is in the simulation, and becomes the rows
that a server would have written.
"""

import random
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from api import rows
from api.hot import Hot
from api.running import code_of
from api.simulation.replies import Asked, reply_to
from api.simulation.stage import Stage
from api.simulation.visitors import Visitor, leaves, pause
from runtime.context.chosen import Contexts
from runtime.engine import Turn, TurnFailed, run_turn
from runtime.inputs import Chosen, Filled, Input, Reply, Start
from runtime.models.offline import OfflineModel
from runtime.run import Limits
from runtime.state import State
from scripts.strings import language
from store.rows import NO_TURN, FailureRow, SessionRow, TurnRow, UserVariableRow

FAILURES_MAX = 2  # attempts at a turn in vain, after which a visitor stays away
TOOK_MS = (2, 9)  # a turn takes so long, at least and at most
MODEL = OfflineModel()


class Rules(Struct, frozen=True):
    """What turns are run with, as a server has it set."""

    tenant: str
    limits: Limits = Limits()
    contexts: Contexts = Contexts()


class Happened(Struct, frozen=True, kw_only=True):
    """What one moment leaves for the record: a turn, an attempt at one that failed, or both."""

    at: datetime
    turn: TurnRow | None = None
    expected_turn: int = NO_TURN
    session: SessionRow | None = None
    failure: FailureRow | None = None


class Conversation:
    """A session under way. `due` is when its next turn is taken; None: it goes on no more."""

    def __init__(
        self, rules: Rules, stage: Stage, visitor: Visitor, session: SessionRow, chance: random.Random
    ) -> None:
        program = stage.program(session.digest, session.locale or "")
        state = State(seed=session.seed, locale=session.locale or "", user_id=session.user_id)
        self.due: datetime | None = session.created_at
        self._rules = rules
        self._visitor = visitor
        self._chance = chance
        self._is_remembering = stage.asks_memory(session.digest)
        self._hot = Hot(session, program, state, (), rules.contexts.messages_max(program.script, state))
        self._is_chinese = language(state.locale) == "zh"
        self._given: Input = Start()
        self._failures = 0

    async def take(self) -> Happened:
        """Takes the turn that is due, and settles when the next one is."""
        started = self.due or self._hot.updated_at
        finished = started + timedelta(microseconds=self._chance.randint(TOOK_MS[0] * 1_000, TOOK_MS[1] * 1_000))
        hot, expected = self._hot, self._hot.state.turn
        try:
            turn = await self._run(started, finished)
        except TurnFailed as failed:
            return self._failed(failed, started, finished)
        row = self._row(turn, started, finished)
        hot.follow(row, turn)
        self._keep(turn, row)
        self._failures = 0
        self._go_on(finished)
        return Happened(at=started, turn=row, expected_turn=expected, session=hot.session if row.turn == 0 else None)

    async def _run(self, started: datetime, finished: datetime) -> Turn:
        """Raises TurnFailed."""
        hot, visitor = self._hot, self._visitor
        cells = rows.cells_of(list(visitor.variables.values())) if hot.program.global_names else None
        return await run_turn(
            hot.program,
            hot.state,
            self._given,
            model=MODEL,
            clock=lambda: finished,
            ids=self._new_id,
            limits=self._rules.limits,
            global_cells=cells,
            history=hot.history,
            now=started,
            contexts=self._rules.contexts,
            memory=visitor.memory.in_session(hot.session.session_id),
        )

    def _row(self, turn: Turn, started: datetime, finished: datetime, execution_status: str = "") -> TurnRow:
        return rows.turn_row(
            self._hot.session,
            self._hot.program,
            turn,
            started_at=started,
            finished_at=finished,
            idempotency_key=None,
            fingerprint=None,
            execution_status=execution_status,
        )

    def _keep(self, turn: Turn, row: TurnRow) -> None:
        """What the turn leaves beyond its session."""
        visitor, session, finished = self._visitor, self._hot.session, row.finished_at
        for each in row.variables:
            if each.scope == "global":
                visitor.write(
                    UserVariableRow(
                        session.tenant, session.user_id, each.name, each.new, each.type, each.source, finished
                    )
                )
        if self._is_remembering:
            plan = self._hot.program.script.memory
            visitor.memory = visitor.memory.in_session(session.session_id).after(turn.events, finished, plan)

    def _failed(self, failed: TurnFailed, started: datetime, finished: datetime) -> Happened:
        """A turn that failed is tried again after a while, and a session whose first turn fails is kept."""
        hot, (phase, topic, action) = self._hot, failed.place
        failure = FailureRow(
            tenant=hot.session.tenant,
            session_id=hot.session.session_id,
            turn_attempted=hot.state.turn + 1,
            code=code_of(failed.kind),
            message=str(failed),
            phase_id=phase or None,
            topic_id=topic or None,
            action_id=action or None,
            failed_at=finished,
        )
        happened = Happened(at=started, failure=failure)
        if hot.state.turn == NO_TURN:
            unbegun = rows.unbegun(hot.state)
            row = self._row(unbegun, started, finished, "error")
            hot.follow(row, unbegun)
            happened = structs.replace(happened, turn=row, session=hot.session)
        self._failures += 1
        is_over = self._failures > FAILURES_MAX
        self.due = None if is_over else finished + timedelta(seconds=self._chance.uniform(5.0, 60.0))
        return happened

    def _go_on(self, finished: datetime) -> None:
        """What the visitor answers, and when; some leave."""
        hot, nature, chance = self._hot, self._visitor.nature, self._chance
        wait, said = hot.state.wait, hot.said_last
        self.due = None
        if hot.state.status != "active" or wait is None:
            return
        asked = Asked(hot.program, hot.state, wait, finished.date())
        if leaves(nature, wait, said, hot.state.turn, asked.retries, chance):
            return
        self._given = reply_to(asked, nature.care, chance)
        self.due = finished + pause(nature, said, _typed(self._given), is_chinese=self._is_chinese, chance=chance)

    def _new_id(self) -> str:
        return id_of(self._chance)


def id_of(chance: random.Random) -> str:
    """A random UUID, by chance."""
    return str(UUID(int=chance.getrandbits(128), version=4))


def _typed(given: Input) -> str:
    """What takes a visitor time to type."""
    match given:
        case Reply():
            return given.content
        case Filled():
            return "".join(str(value) for value in given.values.values())
        case Chosen() | Start():
            return ""
