"""One session of the record, turn by turn: its numbers, its columns, its log and its states against each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct

from api.rows import place_of
from api.verification.log import Log, global_differences
from runtime.events import Body
from runtime.program import PlaceLost, Program
from runtime.soundness import Unsound, check
from runtime.state import State, StateUnreadable, decode
from store.rows import EventRow, MessageRow, VariableRow
from store.verification.findings import Finding
from store.verification.reading import MoveRead, StartRead, TurnRead

SESSION_FINDINGS_MAX = 20
"""Of one session; where more is wrong, one thing is behind it."""
KINDS: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Body))

Programs: TypeAlias = Mapping[tuple[str, str], Program | None]
"""By tenant and digest; None where it cannot be run."""
T = TypeVar("T")

_messages = msgspec.json.Decoder(list[MessageRow])
_writes = msgspec.json.Decoder(list[VariableRow])
_events = msgspec.json.Decoder(list[EventRow])


class _Happened(Struct, frozen=True):
    """What a turn holds, as far as it can be read."""

    messages: list[MessageRow]
    writes: list[VariableRow]
    events: list[EventRow]


class Examination:
    """Of one session; its turns come in order, in as many parts as they are read in."""

    def __init__(self, start: StartRead, moves: Sequence[MoveRead], latest: int) -> None:
        self._findings: list[Finding] = []
        self._start = start
        self._moves = {move.turn: move for move in moves if move.turn <= latest}
        self._latest = latest
        self._log = Log()
        self._digest = start.digest
        self._turn = -1
        self._messages = self._event_count = 0
        self._ids: set[str] = set()
        self._check_moves([move for move in moves if move.turn <= latest])

    def part(self, turns: Sequence[TurnRead], programs: Programs) -> None:
        """Looks at the next turns."""
        for row in turns:
            self._number(row)
            before = self._digest
            move = self._moves.get(row.turn)
            self._digest = self._digest if move is None else move.digest
            ran_on = [programs.get((row.tenant, digest)) for digest in dict.fromkeys((before, self._digest))]
            happened = self._happened(row)
            if happened is not None and self._start.is_reduced:
                self._check_dropped(row, happened)
            if happened is None or None in ran_on or self._start.is_reduced:
                self._log.lose()
            else:
                known = [program for program in ran_on if program is not None]
                for what in self._log.follow(happened.events, happened.writes, known):
                    self._find("variables_differ", row.turn, what)
            if row.state is not None:
                self._check_state(row, row.state, happened, ran_on[-1])

    def end(self) -> list[Finding]:
        """What was found, once there are no more turns."""
        if self._turn != self._latest:
            self._find("turn_missing", self._turn + 1, f"the turns end at {self._turn}")
        return self._findings

    def _find(self, code: str, turn: int | None, what: str, table: str = "turns") -> None:
        if len(self._findings) < SESSION_FINDINGS_MAX:
            start = self._start
            self._findings.append(
                Finding(
                    code=code,
                    table=table,
                    tenant=start.tenant,
                    session_id=start.session_id,
                    user_id=start.user_id,
                    turn=turn,
                    what=what,
                )
            )

    # -- numbers and rows ---------------------------------------------------------------------------------------------

    def _number(self, row: TurnRead) -> None:
        if row.turn == self._turn:
            self._find("turn_twice", row.turn, "the turn is there twice")
        elif row.turn != self._turn + 1:
            self._find("turn_missing", self._turn + 1, f"turn {row.turn} follows on turn {self._turn}")
            self._log.lose()
        if row.user_id != self._start.user_id:
            self._find("user_differs", row.turn, "the turn is of another user than the session")
        self._turn = row.turn

    def _happened(self, row: TurnRead) -> _Happened | None:
        """What the turn holds, once its numbers are checked; None where that cannot be relied on."""
        messages = self._read(row, "messages", row.messages, _messages.decode)
        writes = self._read(row, "variables", row.variables, _writes.decode)
        events = self._read(row, "events", row.events, _events.decode)
        before, self._messages = self._messages, row.message_count
        events_before, self._event_count = self._event_count, row.event_count
        if messages is not None:
            self._check_numbers(row, "message", [each.seq for each in messages], before, row.message_count)
            ids = {each.message_id for each in messages}
            if len(ids) != len(messages) or not self._ids.isdisjoint(ids):
                self._find("messages_misnumbered", row.turn, "two messages have one id")
            self._ids |= ids
        if events is not None:
            self._check_numbers(row, "event", [each.seq for each in events], events_before, row.event_count)
        if messages is None or writes is None or events is None:
            return None
        return _Happened(messages, writes, events) if self._stands_for_all(row, messages, writes, events) else None

    def _read(self, row: TurnRead, name: str, text: str, read: Callable[[str], T]) -> T | None:
        try:
            return read(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            self._find("row_unreadable", row.turn, f"its {name} cannot be read")
            return None

    def _check_numbers(self, row: TurnRead, name: str, numbers: list[int], before: int, count: int) -> None:
        if numbers != list(range(before + 1, before + 1 + len(numbers))):
            self._find(f"{name}s_misnumbered", row.turn, f"its {name}s should be numbered from {before + 1} on")
        elif count != before + len(numbers):
            self._find(
                f"{name}s_misnumbered", row.turn, f"it counts {count} {name}s, there are {before + len(numbers)}"
            )

    def _stands_for_all(
        self, row: TurnRead, messages: list[MessageRow], writes: list[VariableRow], events: list[EventRow]
    ) -> bool:
        """Whether each message and write has its event, in order, and each event is of a kind that there is."""
        said = [each.data for each in events if each.kind == "message"]
        written = [each.data for each in events if each.kind == "variable"]
        is_whole = True
        if said != [{"message": each.seq} for each in messages]:
            self._find("event_of_nothing", row.turn, "its events of messages are not those of its messages")
            is_whole = False
        if written != [{"variable": number} for number in range(len(writes))]:
            self._find("event_of_nothing", row.turn, "its events of variables are not those of its writes")
            is_whole = False
        unknown = sorted({each.kind for each in events} - KINDS)
        if unknown:
            self._find("event_of_nothing", row.turn, f"there is no kind of event `{unknown[0][:60]}`")
        return is_whole

    def _check_dropped(self, row: TurnRead, happened: _Happened) -> None:
        """Of a session whose text was dropped no words and no values are left."""
        if any(each.content or each.metadata for each in happened.messages):
            self._find("text_left", row.turn, "its messages have words, and the text of the session was dropped")
        if any(each.old is not None or each.new is not None for each in happened.writes):
            self._find("text_left", row.turn, "its writes have values, and the text of the session was dropped")

    # -- states -------------------------------------------------------------------------------------------------------

    def _check_state(self, row: TurnRead, saved: str, happened: _Happened | None, program: Program | None) -> None:
        try:
            state = decode(saved)
        except StateUnreadable:
            self._find("state_unreadable", row.turn, "its state cannot be read by this version of Cuebook")
            self._log.lose()
            return
        for what in _columns_differ(row, state, program):
            self._find("state_differs", row.turn, what)
        if self._start.is_reduced:
            return
        if happened is not None:
            for what in global_differences(happened.writes, state):
                self._find("variables_differ", row.turn, what)
        for what in self._log.compare(state):
            self._find("variables_differ", row.turn, what)
        if row.turn == self._latest and program is not None:
            try:
                check(program, state)
            except Unsound:
                self._find("state_unsound", row.turn, "its script cannot go on from its state")

    # -- moves --------------------------------------------------------------------------------------------------------

    def _check_moves(self, moves: Sequence[MoveRead]) -> None:
        """Each move leads on from the script that the session ran before it, in a turn of its own."""
        digest, at = self._start.digest, 0
        for move in moves:
            if move.turn <= at:
                self._find("migration_misfit", move.turn, "it is of no turn of its own", "session_migrations")
            if move.from_digest != digest:
                what = "it does not lead on from the script that the session ran before"
                self._find("migration_misfit", move.turn, what, "session_migrations")
            digest, at = move.digest, move.turn


def _columns_differ(row: TurnRead, state: State, program: Program | None) -> Iterator[str]:
    """What the columns of a turn say otherwise than its state."""
    told: dict[str, tuple[object, object]] = {
        "number": (row.turn, state.turn),
        "status": (row.status, state.status),
        "execution status": (row.execution_status, state.execution_status if state.begun else "error"),
        "count of messages": (row.message_count, state.message_seq),
        "count of events": (row.event_count, state.event_seq),
        "user": (row.user_id, state.user_id or row.user_id),
    }
    if program is not None:
        try:
            place = place_of(program, state)
        except PlaceLost:
            yield "its state stands at a place that its script does not have"
        else:
            told |= {name: (getattr(row, name), getattr(place, name)) for name in place.__struct_fields__}
    for name, (column, kept) in told.items():
        if column != kept:
            yield f"the {name.replace('_id', '').replace('_', ' ')} of the turn is not that of its state"
