"""A recorded session, turn by turn, with all that it takes to run each turn again."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import assert_never

import msgspec
from msgspec import Struct

from api.catalogue import Catalogue
from api.contexts import newest_said, said_between
from api.journal import usage_of
from api.rows import origin_of
from runtime.budgets import BudgetExceeded
from runtime.events import Intervened, Message, Recollected
from runtime.inputs import (
    Append,
    Appended,
    Chosen,
    Clear,
    Compress,
    End,
    Filled,
    Input,
    Intervention,
    Pause,
    Reply,
    Resume,
    Rewind,
    SetVariables,
    Start,
)
from runtime.models.recorded import RecordedCall
from runtime.ports import ModelReply, Purpose
from runtime.program import Program
from runtime.state import Cell, State, decode
from scripts.values import infer_type
from store.record import Record
from store.rows import CallRow, MessageRow, MigrationRow, SessionHead, SessionRow, TurnRow

PAGE = 200
NUMBER_MAX = 2**31 - 1  # of messages
_USED_UP = re.compile(str(BudgetExceeded("(\\w+)")))


class SessionUnknown(Exception):
    """There is no such session, or not this turn of it; the message says which."""


class Session(Struct, frozen=True):
    """What holds for all turns of a recorded session."""

    head: SessionHead
    moves: Mapping[int, MigrationRow]  # by turn

    def digest_at(self, turn: int) -> str:
        """The text a turn ran on."""
        later = [move for number, move in sorted(self.moves.items()) if number > turn]
        return later[0].from_digest if later else self.head.digest


class Step(Struct, frozen=True):
    """A recorded turn. `given` is what was done to the session; None where it moved, or could not begin."""

    row: TurnRow
    before: State
    after: State
    given: Input | Intervention | None
    move: MigrationRow | None
    others: Mapping[str, Cell | None]  # the user's variables that were changed elsewhere since the turn before
    calls: tuple[RecordedCall, ...]

    @property
    def budget(self) -> str:
        """The budget for language models that was used up in this turn; empty where none was."""
        warned = [str(event.data.get("message", "")) for event in self.row.events if event.kind == "warning"]
        return next((found[1] for message in warned if (found := _USED_UP.search(message))), "")

    @property
    def recalled(self) -> tuple[Recollected, ...]:
        """What was called up from memory in this turn."""
        told = [event for event in self.row.events if event.kind == "recalled"]
        return tuple(msgspec.convert({"kind": event.kind, **event.data}, Recollected) for event in told)

    @property
    def is_failure(self) -> bool:
        """Whether the session could not begin: nothing happened in this turn."""
        return not self.after.begun and self.move is None


async def find_session(record: Record, tenant: str, session_id: str) -> Session:
    """A session of the record. Raises SessionUnknown."""
    head = await record.session_head(tenant, session_id)
    if head is None:
        raise SessionUnknown(f"there is no session {session_id}")
    if head.text_dropped_at is not None:
        raise SessionUnknown(f"the text of session {session_id} was dropped, so there is nothing to replay")
    moves = await record.migrations(tenant, session_id)
    return Session(head, {move.turn: move for move in moves})


async def program_at(catalogue: Catalogue, session: Session, turn: int) -> Program:
    """The script a turn ran on, in the language of the session. Raises ApiError."""
    head = session.head
    return await catalogue.program_in(decode(bytes(head.state)).locale, head.tenant, session.digest_at(turn))


async def steps(record: Record, catalogue: Catalogue, session: Session, first: int = 0) -> AsyncIterator[Step]:
    """The turns of a session from the `first` on. Raises SessionUnknown, StateUnreadable, ApiError."""
    head = session.head
    calls = _Calls(record, session)
    before = await _state_before(record, session, first)
    for number in range(first, head.turn + 1):
        row = await turn_row(record, session, number)
        after = decode(bytes(row.state))
        program = await program_at(catalogue, session, number)
        move = session.moves.get(number)
        begun = before is not None and before.begun
        before = before or _first_state(session, row, after)
        given: Input | Intervention | None = None
        if move is None and after.begun:
            given = await _given(record, session, row, before) if begun else Start()
        others = _others(before, after, row, program) if program.global_names else {}
        yield Step(row, before, after, given, move, others, await calls.of(number))
        before = after


async def turn_row(record: Record, session: Session, number: int) -> TurnRow:
    """A turn as it is recorded. Raises SessionUnknown."""
    row = await record.turn(session.head.tenant, session.head.session_id, number)
    if row is None:
        raise SessionUnknown(f"turn {number} of session {session.head.session_id} is not in the record")
    return row


async def history_of(record: Record, session: Session, state: State, messages_max: int) -> tuple[Message, ...]:
    """The last messages of the conversation as it was in a state."""
    later = (state.message_seq + 1, NUMBER_MAX)
    head = session.head
    return await newest_said(record, head.tenant, head.session_id, messages_max, (*state.gaps, later))


async def _state_before(record: Record, session: Session, turn: int) -> State | None:
    if turn == 0:
        return None
    return decode(bytes((await turn_row(record, session, turn - 1)).state))


def _first_state(session: Session, row: TurnRow, after: State) -> State:
    """The state of a session before its first turn; what it was created with stands among the first writes."""
    given = {write.name: write.new for write in row.variables if write.source == "api"}
    return State(
        seed=session.head.seed,
        locale=after.locale,
        user_id=session.head.user_id,
        start_variables=given if after.begun else dict(after.start_variables),
        context_settings=after.context_settings,
    )


async def _given(record: Record, session: Session, row: TurnRow, before: State) -> Input | Intervention:
    """What was done to a session in a turn. Raises SessionUnknown."""
    first = row.events[0] if row.events else None
    if first is None or first.kind != "intervention":
        return _said(row.messages)
    done = msgspec.convert({"kind": first.kind, **first.data}, Intervened)
    match done.what:
        case "pause":
            return Pause()
        case "resume":
            return Resume()
        case "end":
            return End(done.reason)
        case "set_variables":
            return SetVariables({write.name: write.new for write in row.variables}, done.scope)
        case "rewind":
            return Rewind(decode(bytes((await turn_row(record, session, done.turn or 0)).state)))
        case "clear":
            return Clear()
        case "append":
            return Append(tuple(Appended(each.role, each.content, each.metadata) for each in row.messages))
        case "compress":
            head, numbers = session.head, (done.first or 0, done.last or 0)
            older = await said_between(record, head.tenant, head.session_id, *numbers, before.gaps)
            return Compress(older, done.keep or 0, done.instruct)
        case _:
            assert_never(done.what)


def _said(messages: Iterable[MessageRow]) -> Input:
    """What the user did in a turn: the message with what came along with it."""
    said = next((message for message in messages if message.role == "user"), None)
    if said is None:
        return Reply("")
    if isinstance(choice := said.metadata.get("choice"), str):
        return Chosen(choice)
    if isinstance(values := said.metadata.get("form"), dict):
        return Filled(values)
    return Reply(said.content)


# -- the user's variables ---------------------------------------------------------------------------------------------


def _others(before: State, after: State, row: TurnRow, program: Program) -> dict[str, Cell | None]:
    """What became of the user's variables elsewhere between a turn and the one before it; None: it is gone."""
    found = _cells_at_start(before, after, row, program)
    gone: dict[str, Cell | None] = dict.fromkeys(before.global_cells.keys() - found.keys())
    return gone | {name: cell for name, cell in found.items() if not _is_same(before.global_cells.get(name), cell)}


def _cells_at_start(before: State, after: State, row: TurnRow, program: Program) -> dict[str, Cell]:
    """The user's variables when a turn began: as it left them, without its own writes."""
    cells = dict(after.global_cells)
    written: set[str] = set()
    for write in row.variables:
        if write.scope != "global" or write.name in written:
            continue
        written.add(write.name)
        cells.pop(write.name, None)
        kept, declared = before.global_cells.get(write.name), program.global_names.get(write.name)
        if kept is not None and kept.value == write.old:
            cells[write.name] = kept
        elif write.old is not None and (declared is None or declared.value != write.old):
            cells[write.name] = Cell(write.old, infer_type(write.old), row.started_at, "api")
    return cells


def _is_same(one: Cell | None, other: Cell) -> bool:
    return one is not None and one.value == other.value


def with_others(cells: Mapping[str, Cell], others: Mapping[str, Cell | None]) -> dict[str, Cell]:
    """The user's variables with what was changed elsewhere."""
    kept = {name: cell for name, cell in cells.items() if name not in others}
    return kept | {name: cell for name, cell in others.items() if cell is not None}


# -- calls of the model -----------------------------------------------------------------------------------------------


class _Calls:
    """The calls that turns were taken with, read as the turns go on; what a fork was copied with, where it is from."""

    def __init__(self, record: Record, session: Session) -> None:
        self._record = record
        self._session = session
        self._taken_in = ""  # the session whose calls are read
        self._ahead: list[CallRow] = []
        self._cursor: str | None = None
        self._is_over = False

    async def of(self, turn: int) -> tuple[RecordedCall, ...]:
        """Those of one turn; of turns that are asked for in their order."""
        tenant, taken_in = self._session.head.tenant, await self._session_of(turn)
        if taken_in != self._taken_in:
            self._taken_in, self._ahead, self._cursor, self._is_over = taken_in, [], None, False
        while not self._is_over and (not self._ahead or self._ahead[-1].turn <= turn):
            page = await self._record.calls(tenant, taken_in, limit=PAGE, cursor=self._cursor)
            self._ahead += page.rows
            self._cursor, self._is_over = page.next, page.next is None
        found = [row for row in self._ahead if row.turn == turn and row.used]
        self._ahead = [row for row in self._ahead if row.turn > turn]
        return tuple(map(_recorded, sorted(found, key=lambda row: row.number)))

    async def _session_of(self, turn: int) -> str:
        """The session in which a turn was taken."""
        session: SessionRow | None = self._session.head
        found = [self._session.head.session_id]
        while session is not None and (origin := origin_of(session)) is not None and turn <= origin.turn:
            if origin.session_id in found:
                break  # no fork, but something an application noted
            found.append(origin.session_id)
            session = await self._record.session_start(session.tenant, origin.session_id)
            if session is not None and session.text_dropped_at is not None:
                raise SessionUnknown(
                    f"turn {turn} was taken in session {origin.session_id}, whose text was dropped, so there is "
                    "nothing to replay it with"
                )
        return found[-1]


def _recorded(row: CallRow) -> RecordedCall:
    reply = msgspec.json.decode(bytes(row.reply), type=ModelReply | None)
    usage = usage_of(row)
    return RecordedCall(
        digest=row.request_digest,
        purpose=msgspec.convert(row.purpose, Purpose),
        action_id=row.action_id,
        round=row.round,
        reply=reply and msgspec.structs.replace(reply, usage=usage),
        error=row.error or "",
        usage=usage,
        is_withheld=row.withheld,
    )
