"""Reads a recorded session turn by turn, with everything that a replay of each turn needs."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import assert_never

import msgspec
from msgspec import Struct

from api.catalog.catalog import Catalog
from api.models.model_calls import usage_of
from api.sessions.history import messages_between, recent_messages
from api.sessions.row_mapping import origin_of
from runtime.context.selection import Contexts
from runtime.models.recorded_turn import RecordedCall
from runtime.state import inputs
from runtime.state.events import Intervened, Message, Recollected, TimerFired
from runtime.state.inputs import Input, Intervention
from runtime.state.limits import Limits
from runtime.state.ports import ModelReply, Purpose
from runtime.state.program import Program
from runtime.state.state import Cell, State, decode
from runtime.state.tool_ports import TOOL_PURPOSE
from runtime.tools.examples import RecordedToolCall, recorded_calls
from runtime.turn.calls import BudgetExceeded
from scripts.expressions.values import infer_type
from store.interface.rows import MessageRow, MigrationRow, SessionHead, SessionRow, SettledCallRow, TurnRow
from store.store import Store

PAGE = 200
NUMBER_MAX = 2**31 - 1  # of messages
_USED_UP = re.compile(str(BudgetExceeded("(\\w+)")))


class SessionUnknown(Exception):
    """The session or the turn does not exist; the message says which."""


class ReplaySource(Struct, frozen=True):
    """The store of sessions and scripts, and the limits of a turn; budgets end where they ended in the recording.

    `timezone` is that of sessions without one.
    """

    store: Store
    catalog: Catalog
    limits: Limits
    contexts: Contexts = Contexts()
    timezone: str = "UTC"


class RecordedStep(Struct, frozen=True):
    """A recorded turn. `input` is its input; None if the session migrated or could not start."""

    row: TurnRow
    before: State
    after: State
    input: Input | Intervention | None
    move: MigrationRow | None
    others: Mapping[str, Cell | None]  # user variables that other sessions changed since the turn before
    calls: tuple[RecordedCall, ...]

    @property
    def budget(self) -> str:
        """Return the budget for language models that was used up in this turn, or an empty text."""
        warned = [str(event.data.get("message", "")) for event in self.row.events if event.kind == "warning"]
        return next((found[1] for message in warned if (found := _USED_UP.search(message))), "")

    @property
    def recalled(self) -> tuple[Recollected, ...]:
        """Return the recalls from memory in this turn."""
        recalls = [event for event in self.row.events if event.kind == "recalled"]
        return tuple(msgspec.convert({"kind": event.kind, **event.data}, Recollected) for event in recalls)

    @property
    def tool_calls(self) -> tuple[RecordedToolCall, ...]:
        """Return the calls of tools in this turn."""
        return recorded_calls([{"kind": event.kind, **event.data} for event in self.row.events])

    @property
    def is_failure(self) -> bool:
        """Return whether the session could not start, so that the turn is empty."""
        return not self.after.begun and self.move is None


class RecordedSession(Struct, frozen=True):
    """A recorded session: its row, and its migrations. Methods raise SessionUnknown, StateUnreadable, ApiError."""

    source: ReplaySource
    head: SessionHead
    moves: Mapping[int, MigrationRow]  # by turn

    async def row(self, turn: int) -> TurnRow:
        """Return the row of a turn."""
        row = await self.source.store.turns.get(self.head.tenant, self.head.session_id, turn)
        if row is None:
            raise SessionUnknown(f"turn {turn} of session {self.head.session_id} is not in the database")
        return row

    async def state(self, turn: int) -> State:
        """Return the state after a turn."""
        return decode(bytes((await self.row(turn)).state))

    async def program(self, turn: int) -> Program:
        """Return the script that a turn ran on, in the language of the session."""
        later = [move for number, move in sorted(self.moves.items()) if number > turn]
        digest = later[0].from_digest if later else self.head.digest
        return await self.source.catalog.program_in(decode(bytes(self.head.state)).locale, self.head.tenant, digest)

    async def history(self, state: State, messages_max: int) -> tuple[Message, ...]:
        """Return the last messages of the conversation as of a state."""
        hidden = (*state.gaps, (state.message_seq + 1, NUMBER_MAX))
        return await recent_messages(self.source.store, self.head.tenant, self.head.session_id, messages_max, hidden)

    async def steps(self, first: int = 0) -> AsyncIterator[RecordedStep]:
        """Iterate over the turns from `first` on."""
        calls = _Calls(self)
        before = await self.state(first - 1) if first else None
        for number in range(first, self.head.turn + 1):
            row = await self.row(number)
            after = decode(bytes(row.state))
            program = await self.program(number)
            move = self.moves.get(number)
            has_begun = before is not None and before.begun
            before = before or _first_state(self, row, after)
            turn_input: Input | Intervention | None = None
            if move is None and after.begun:
                turn_input = await _input_of(self, row, before) if has_begun else inputs.Start()
            others = _others(before, after, row, program) if program.global_names else {}
            yield RecordedStep(row, before, after, turn_input, move, others, await calls.of(number))
            before = after


async def find_session(source: ReplaySource, tenant: str, session_id: str) -> RecordedSession:
    """Return a session of the database. Raises SessionUnknown."""
    head = await source.store.sessions.head(tenant, session_id)
    if head is None:
        raise SessionUnknown(f"there is no session {session_id}")
    if head.redacted_at is not None:
        raise SessionUnknown(f"session {session_id} was redacted, so there is nothing to replay")
    moves = await source.store.sessions.migrations(tenant, session_id)
    return RecordedSession(source, head, {move.turn: move for move in moves})


def _first_state(session: RecordedSession, row: TurnRow, after: State) -> State:
    """Return the state before the first turn; its initial variables are among the first turn's writes."""
    initial = {write.name: write.new for write in row.variables if write.source == "api"}
    return State(
        seed=session.head.seed,
        locale=after.locale,
        user_id=session.head.user_id,
        start_variables=initial if after.begun else dict(after.start_variables),
        context_settings=after.context_settings,
        timezone=after.timezone,
    )


async def _input_of(session: RecordedSession, row: TurnRow, before: State) -> Input | Intervention:
    """Return the input of a turn. Raises SessionUnknown."""
    first = row.events[0] if row.events else None
    if first is not None and first.kind == "timer":
        fired = msgspec.convert({"kind": first.kind, **first.data}, TimerFired)
        is_missed = not fired.moment and not fired.is_by_hand
        return inputs.TimerDue(fired.timer_id * fired.is_by_hand, row.started_at if is_missed else None)
    if first is None or first.kind != "intervention":
        return _user_input(row.messages)
    done = msgspec.convert({"kind": first.kind, **first.data}, Intervened)
    match done.what:
        case "pause":
            return inputs.Pause()
        case "resume":
            return inputs.Resume()
        case "end":
            return inputs.End(done.reason)
        case "set_variables":
            return inputs.SetVariables({write.name: write.new for write in row.variables}, done.scope)
        case "rewind":
            return inputs.Rewind(await session.state(done.turn or 0))
        case "clear":
            return inputs.Clear()
        case "append":
            return inputs.Append(
                tuple(inputs.OutsideMessage(each.role, each.content, each.metadata) for each in row.messages)
            )
        case "take_over":
            return inputs.TakeOver(done.operator)
        case "speak":
            return inputs.Speak(done.operator, row.messages[0].content)
        case "give_back":
            return inputs.GiveBack()
        case "use_model":
            return inputs.UseModel(done.model)
        case "compress":
            head, numbers = session.head, (done.first or 0, done.last or 0)
            older = await messages_between(session.source.store, head.tenant, head.session_id, *numbers, before.gaps)
            return inputs.Compress(older, done.keep or 0, done.instruct)
        case _:
            assert_never(done.what)


def _user_input(messages: Iterable[MessageRow]) -> Input:
    """Return the user's input in a turn: a choice, a form, or a text."""
    message = next((message for message in messages if message.role == "user"), None)
    if message is None:
        return inputs.Reply("")
    if isinstance(choice := message.metadata.get("choice"), str):
        return inputs.ChoiceInput(choice)
    if isinstance(values := message.metadata.get("form"), dict):
        return inputs.FormInput(values)
    return inputs.Reply(message.content)


# -- the user's variables ---------------------------------------------------------------------------------------------


def _others(before: State, after: State, row: TurnRow, program: Program) -> dict[str, Cell | None]:
    """Return the user variables that others changed between a turn and the one before it; None: removed."""
    found = _cells_at_start(before, after, row, program)
    removed: dict[str, Cell | None] = dict.fromkeys(before.global_cells.keys() - found.keys())
    known = {name: cell.value for name, cell in before.global_cells.items()}
    return removed | {name: cell for name, cell in found.items() if name not in known or known[name] != cell.value}


def _cells_at_start(before: State, after: State, row: TurnRow, program: Program) -> dict[str, Cell]:
    """Return the user variables at the start of a turn: those at its end without its own writes."""
    cells = dict(after.global_cells)
    written: set[str] = set()
    for write in row.variables:
        if write.scope != "global" or write.name in written:
            continue
        written.add(write.name)
        cells.pop(write.name, None)
        global_cell, declared = before.global_cells.get(write.name), program.global_names.get(write.name)
        if global_cell is not None and global_cell.value == write.old:
            cells[write.name] = global_cell
        elif write.old is not None and (declared is None or declared.value != write.old):
            cells[write.name] = Cell(write.old, infer_type(write.old), row.started_at, "api")
    return cells


def with_others(cells: Mapping[str, Cell], others: Mapping[str, Cell | None]) -> dict[str, Cell]:
    """Return the user variables with the changes of others."""
    global_cell = {name: cell for name, cell in cells.items() if name not in others}
    return global_cell | {name: cell for name, cell in others.items() if cell is not None}


# -- calls of the model -----------------------------------------------------------------------------------------------


class _Calls:
    """Reads the model calls of turns in their order; those of a fork's copied turns from the original session."""

    def __init__(self, session: RecordedSession) -> None:
        self._store = session.source.store
        self._session = session
        self._session_id = ""  # the session whose calls are read
        self._ahead: list[SettledCallRow] = []
        self._cursor: str | None = None
        self._is_over = False

    async def of(self, turn: int) -> tuple[RecordedCall, ...]:
        """Return the calls of a turn; turns must be requested in their order."""
        tenant, session_id = self._session.head.tenant, await self._session_of(turn)
        if session_id != self._session_id:
            self._session_id, self._ahead, self._cursor, self._is_over = session_id, [], None, False
        while not self._is_over and (not self._ahead or self._ahead[-1].turn <= turn):
            page = await self._store.turns.calls(tenant, session_id, limit=PAGE, cursor=self._cursor)
            self._ahead += page.rows
            self._cursor, self._is_over = page.next, page.next is None
        found = [row for row in self._ahead if row.turn == turn and row.used and row.purpose != TOOL_PURPOSE]
        self._ahead = [row for row in self._ahead if row.turn > turn]
        return tuple(map(_recorded_call, sorted(found, key=lambda row: row.number)))

    async def _session_of(self, turn: int) -> str:
        """Return the session in which a turn ran: this one, or an ancestor of a fork."""
        session: SessionRow | None = self._session.head
        found = [self._session.head.session_id]
        while session is not None and (origin := origin_of(session)) is not None and turn <= origin.turn:
            if origin.session_id in found:
                break  # not a fork, but metadata that an application wrote
            found.append(origin.session_id)
            session = await self._store.sessions.start(session.tenant, origin.session_id)
            if session is not None and session.redacted_at is not None:
                raise SessionUnknown(
                    f"turn {turn} ran in session {origin.session_id}, which was redacted, so there is "
                    "nothing to replay it with"
                )
        return found[-1]


def _recorded_call(row: SettledCallRow) -> RecordedCall:
    reply = msgspec.json.decode(bytes(row.reply), type=ModelReply | None)
    usage = usage_of(row, row.prompt)
    return RecordedCall(
        number=row.number,
        digest=row.request_digest,
        purpose=msgspec.convert(row.purpose, Purpose),
        action_id=row.action_id,
        round=row.round,
        reply=reply and msgspec.structs.replace(reply, usage=usage),
        error=row.error or "",
        usage=usage,
        is_withheld=row.withheld,
    )
