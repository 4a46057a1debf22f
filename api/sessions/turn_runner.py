"""One turn of a session: its request, its run with the model, clock and limits of this server, and its result."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from api.analytics.pseudonyms import id_of, salt_of
from api.errors import ApiError, refusing_field
from api.logs.turn_fields import note_turn
from api.memory.memory_system import MemorySystem
from api.memory.session_memory import SessionMemory
from api.metrics import Metrics
from api.models.model_calls import CallJournal, CallLog, Spending
from api.schemas.sessions import NewMessage
from api.sessions import row_mapping
from api.sessions.session_cache import CachedSession
from api.settings import Settings
from runtime.context.selection import Contexts
from runtime.engine.engine import FailureKind, Turn, TurnFailed, run_turn
from runtime.state.inputs import ChoiceInput, FormInput, Input, MigrationInput, Reply, TurnInput
from runtime.state.ports import Clock, Ids, Model, OnDelta
from runtime.state.state import Cell, State
from runtime.state.tool_ports import Tools
from runtime.tools.examples import EXAMPLES
from runtime.turn.context import TurnEnvironment
from scripts.expressions.values import ValueRefused, to_value
from scripts.model.context_strategies import ContextSettings, SettingsInvalid, check_settings, read_settings, strategies
from store.interface.rows import TurnRow
from store.store import Store


class Preconditions(Struct, frozen=True):
    """The conditions of a request for a turn, besides its content."""

    idempotency_key: str | None = None
    expected_turn: int | None = None
    queue: bool | None = None
    """Whether the request waits while the session is busy; None: as the setting `busy` says."""


def input_of(message: NewMessage) -> Input:
    """Convert a message to the input of a turn. Raises ApiError REQUEST_INVALID."""
    form = None if message.form is UNSET else message.form
    match message.content, message.choice, form:
        case str(content), None, None:
            return Reply(content)
        case None, str(choice), None:
            return ChoiceInput(choice)
        case None, None, dict(values):
            return FormInput(values)
        case _:
            raise ApiError("REQUEST_INVALID", "a message has exactly one of `content`, `choice` and `form`")


def values_of(raw: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """Check and return the values of a request field, none for null. Raises ApiError REQUEST_INVALID if they are too
    large or deep.
    """
    with refusing_field(name, ValueRefused):
        values = to_value(raw)
    return values if isinstance(values, dict) else {}


def context_settings_of(raw: dict[str, Any] | str | UnsetType | None) -> ContextSettings | None:
    """Parse the context settings of a session, as in scripts. Raises ApiError REQUEST_INVALID."""
    if raw is UNSET or raw is None:
        return None
    with refusing_field("context", SettingsInvalid):
        return check_settings(read_settings(raw), dict.fromkeys(strategies()))


def same_request(row: TurnRow | None, fingerprint: str | None) -> TurnRow:
    """Return the turn of a key if the same request made it. Raises ApiError IDEMPOTENCY_MISMATCH."""
    if row is None or row.fingerprint != fingerprint:
        raise ApiError("IDEMPOTENCY_MISMATCH", "this Idempotency-Key was used for another request")
    return row


def fingerprint_of(body: Struct) -> str:
    """Return a digest that is equal for equivalent requests, whatever their field order."""
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


ToolsOfTurn: TypeAlias = Callable[[CallLog], Tools]
"""A function that returns the tools of one attempt at a turn, which write their calls there."""

_CODES: dict[FailureKind, str] = {
    "tool": "TOOL_FAILED",
    "tool_interrupted": "TOOL_CALL_INTERRUPTED",
    "model": "LLM_SERVICE_ERROR",
    "memory": "MEMORY_FAILED",
    "limit": "LIMIT_EXCEEDED",
    "interrupted": "LLM_CALL_INTERRUPTED",
}


class TurnRunner(Struct, frozen=True):
    """The environment of every turn of this server."""

    store: Store
    model: Model
    settings: Settings
    clock: Clock
    ids: Ids
    spending: Spending
    metrics: Metrics
    contexts: Contexts
    memory_system: MemorySystem
    tools: ToolsOfTurn

    async def turn(
        self,
        cached: CachedSession,
        state: State,
        turn_input: TurnInput,
        *,
        started: datetime,
        live: OnDelta | None = None,
    ) -> Turn:
        """Run one turn of a session from a state, without committing it; for the script all of it happens at `started`.
        `live` receives the words of its messages as they are generated.

        Its model calls are added to those of earlier attempts.

        Raises the errors of `run_turn`.
        """
        session = cached.session
        has_globals = isinstance(
            turn_input, MigrationInput
        )  # its state contains the current ones already, with changes
        cells = None if has_globals else await self.global_cells(cached)
        has_budgets = bool(self.spending.bounds)
        meter = await self.spending.meter(session.tenant, session.user_id, started) if has_budgets else None
        calls = CallLog(self.store, session, state.turn + 1, cached.attempts, self.clock, self.ids)
        began = time.perf_counter()
        try:
            return await run_turn(
                cached.program,
                state,
                turn_input,
                TurnEnvironment(
                    model=self.model,
                    ids=self.ids,
                    limits=self.settings.limits,
                    history=cached.history,
                    journal=CallJournal(calls, self.metrics, [*calls.attempts.rows.values()], calls.attempts.spent()),
                    meter=meter,
                    live=live,
                    now=started,
                    contexts=self.contexts,
                    tools=self.tools(calls) if cached.program.tools else EXAMPLES,
                    default_zone=self.settings.timezone,
                    memory=SessionMemory(
                        self.memory_system.memories, session.tenant, session.user_id, session.session_id
                    ),
                ),
                global_cells=cells,
            )
        except Exception as error:
            self.metrics.turns(code_of(error.kind) if isinstance(error, TurnFailed) else "refused").inc()
            note_turn(error, session, state.turn + 1)
            raise
        finally:
            self.metrics.turn_seconds.observe(time.perf_counter() - began)

    async def new_session_id(self, tenant: str, idempotency_key: str | None) -> str:
        """Return the id of a session to be created. A repeated request gets the same id, so that the model calls of an
        attempt before a crash are found. The id does not confirm a guess of the key.
        """
        if idempotency_key is None:
            return self.ids()
        return id_of(await asyncio.to_thread(salt_of, self.settings.keys_in, tenant), idempotency_key)

    async def global_cells(self, cached: CachedSession) -> dict[str, Cell] | None:
        """Return the user's current global variables; None if the script has none.

        Those not written since the last turn are the session's own: it has the start of the turn as their time, the
        table the end.
        """
        if not cached.program.global_names:
            return None
        rows = await self.store.sessions.user_variables(cached.session.tenant, cached.session.user_id)
        cells = row_mapping.cells_of(rows)
        for name, cell in cached.state.global_cells.items():
            now = cells.get(name)
            if now is not None and now.last_updated <= cached.updated_at and _is_equal(now, cell):
                cells[name] = cell
        return cells


def _is_equal(one: Cell, other: Cell) -> bool:
    return (one.value, one.type, one.source) == (other.value, other.type, other.source)


def code_of(kind: FailureKind) -> str:
    """Return the API error code of a failed turn."""
    return _CODES.get(kind, "ACTION_EXECUTION_ERROR")
