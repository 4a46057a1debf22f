"""Runs one turn of a session: with the model, the clock, the limits and the user's variables of this server."""

import asyncio
from datetime import datetime

from msgspec import Struct

from api import rows
from api.analytics.pseudonyms import id_of, salt_of
from api.budgets import Spending
from api.hot import Hot
from api.journal import TurnJournal
from api.memory.house import House
from api.metrics import Metrics
from api.settings import Settings
from api.turn_log import noting_turn
from runtime.context.chosen import Contexts
from runtime.engine import FailureKind, Turn, TurnFailed, run_turn
from runtime.inputs import Input, Intervention, Moved
from runtime.ports import Clock, Ids, Live, Model
from runtime.state import Cell, State
from store.record import Record

_CODES: dict[FailureKind, str] = {
    "model": "LLM_SERVICE_ERROR",
    "memory": "MEMORY_FAILED",
    "limit": "LIMIT_EXCEEDED",
    "interrupted": "LLM_CALL_INTERRUPTED",
}


class Running(Struct, frozen=True):
    """What every turn of this server is run with."""

    record: Record
    model: Model
    settings: Settings
    clock: Clock
    ids: Ids
    spending: Spending
    metrics: Metrics
    contexts: Contexts
    house: House

    async def turn(
        self,
        hot: Hot,
        state: State,
        given: Input | Moved | Intervention,
        *,
        started: datetime,
        live: Live | None = None,
    ) -> Turn:
        """One turn of a session from a state, which is not kept yet; for the script all of it happens at the moment it
        `started`. `live` hears the words of its messages as they come.

        Its calls of models join those of the earlier attempts at it.

        Raises what `run_turn` raises.
        """
        session = hot.session
        has_globals = isinstance(given, Moved)  # its state was made from those of now, and changes them
        cells = None if has_globals else await self.global_cells(hot)
        journal = TurnJournal(self.record, session, state.turn + 1, hot.attempts, self.clock, self.ids, self.metrics)
        meter = await self.spending.meter(session.tenant, session.user_id, started)
        with noting_turn(session, state.turn + 1), self.metrics.timing() as timed:
            try:
                turn = await run_turn(
                    hot.program,
                    state,
                    given,
                    model=self.model,
                    clock=self.clock,
                    ids=self.ids,
                    limits=self.settings.limits,
                    global_cells=cells,
                    history=hot.history,
                    journal=journal,
                    meter=meter,
                    live=live,
                    now=started,
                    contexts=self.contexts,
                    memory=self.house.of_session(session),
                )
            except TurnFailed as failed:
                timed.outcome = code_of(failed.kind)
                raise
            timed.outcome = "done"
            return turn

    async def new_session_id(self, tenant: str, idempotency_key: str | None) -> str:
        """The id of a session to be created; the same again for a request that is sent again, because what an earlier
        attempt asked of models before a crash is found by it. It does not confirm a guess at the key.
        """
        if idempotency_key is None:
            return self.ids()
        return id_of(await asyncio.to_thread(salt_of, self.settings.data, tenant), idempotency_key)

    async def global_cells(self, hot: Hot) -> dict[str, Cell] | None:
        """The user's global variables as they are now; None where the script has none."""
        if not hot.program.global_names:
            return None
        return rows.cells_of(await self.record.user_variables(hot.session.tenant, hot.session.user_id))


def code_of(kind: FailureKind) -> str:
    """The code a client hears for a turn that failed."""
    return _CODES.get(kind, "ACTION_EXECUTION_ERROR")
