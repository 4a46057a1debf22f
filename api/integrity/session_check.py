"""Checks one session turn by turn: its numbers, columns, log and states against each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Struct

from api.sessions.row_mapping import turn_position_of
from runtime.migration.state_validation import InvalidState, check
from runtime.state.events import Body
from runtime.state.program import PlaceLost, Program
from runtime.state.state import Cell, State, StateUnreadable, decode
from scripts.model.script import Scope
from store.interface.findings import Finding
from store.interface.rows import EventRow, MessageRow, VariableRow
from store.verification.session_parts import MoveRead, StartRead, TurnRead

SESSION_FINDINGS_MAX = 20
"""Maximum findings of one session; more than these usually have one cause."""
KINDS: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Body))

Programs: TypeAlias = Mapping[str, Program | None]
"""Scripts by digest; None for a missing or invalid script."""

TypedValue: TypeAlias = tuple[bytes, str]
"""A value, encoded so that 1, 1.0 and true differ, and its type."""
Layer: TypeAlias = dict[str, TypedValue]
Cells: TypeAlias = Mapping[str, Cell]
_encode = msgspec.json.Encoder(order="sorted").encode


class _TurnContents(Struct, frozen=True):
    """The decoded contents of a turn."""

    messages: list[MessageRow]
    variables: list[VariableRow]
    events: list[EventRow]


_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in get_type_hints(_TurnContents).items()}


class SessionCheck:
    """Checks one session; its turns arrive in order, in one or more parts."""

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
        """Check the next turns."""
        for row in turns:
            self._number(row)
            before = self._digest
            move = self._moves.get(row.turn)
            self._digest = self._digest if move is None else move.digest
            ran_on = [programs.get(digest) for digest in dict.fromkeys((before, self._digest))]
            contents = self._contents(row)
            if contents is not None and self._start.is_redacted:
                self._check_redacted(row, contents)
            if contents is None or None in ran_on or self._start.is_redacted:
                self._log.lose()
            else:
                known = [program for program in ran_on if program is not None]
                for what in self._log.follow(contents.events, contents.variables, known):
                    self._find("variables_differ", row.turn, what)
            if row.state is not None:
                self._check_state(row, row.state, contents, ran_on[-1])

    def end(self) -> list[Finding]:
        """Return the findings after the last turn."""
        if self._latest < 0:
            self._find("session_empty", None, "it has no turn", "session_starts")
        if self._turn != self._latest:
            self._find("turn_missing", self._turn + 1, f"the last turn is {self._turn}")
        return self._findings

    def _find(self, code: str, turn: int | None, what: str, table: str = "turns") -> None:
        if len(self._findings) < SESSION_FINDINGS_MAX:
            start = self._start
            of = {"tenant": start.tenant, "session_id": start.session_id, "user_id": start.user_id}
            self._findings.append(Finding(**of, code=code, table=table, turn=turn, what=what))

    # -- numbers and rows ---------------------------------------------------------------------------------------------

    def _number(self, row: TurnRead) -> None:
        if row.turn == self._turn:
            self._find("turn_twice", row.turn, "the turn exists twice")
        elif row.turn != self._turn + 1:
            self._find("turn_missing", self._turn + 1, f"turn {row.turn} follows turn {self._turn}")
            self._log.lose()
        if row.user_id != self._start.user_id:
            self._find("user_differs", row.turn, "the user of the turn is not that of the session")
        self._turn = row.turn

    def _contents(self, row: TurnRead) -> _TurnContents | None:
        """Check the numbers of a turn and return its contents; None if they are unreliable."""
        before, self._messages = self._messages, row.message_count
        events_before, self._event_count = self._event_count, row.event_count
        contents = self._read(row)
        if contents is None:
            return None
        self._check_numbers(row, "message", [each.seq for each in contents.messages], before, row.message_count)
        self._check_numbers(row, "event", [each.seq for each in contents.events], events_before, row.event_count)
        ids = {each.message_id for each in contents.messages}
        if len(ids) != len(contents.messages) or not self._ids.isdisjoint(ids):
            self._find("messages_misnumbered", row.turn, "two messages have the same id")
        self._ids |= ids
        return contents if self._has_all_events(row, contents) else None

    def _read(self, row: TurnRead) -> _TurnContents | None:
        read: dict[str, Any] = {}
        for name, decoder in _DECODERS.items():
            try:
                read[name] = decoder.decode(getattr(row, name))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                self._find("row_unreadable", row.turn, f"its {name} cannot be read")
        return _TurnContents(**read) if len(read) == len(_DECODERS) else None

    def _check_numbers(self, row: TurnRead, name: str, numbers: list[int], before: int, count: int) -> None:
        last = before + len(numbers)
        if numbers != list(range(before + 1, last + 1)):
            self._find(f"{name}s_misnumbered", row.turn, f"its {name}s must be numbered from {before + 1} on")
        elif count != last:
            self._find(f"{name}s_misnumbered", row.turn, f"its count of {name}s is {count}, but there are {last}")

    def _has_all_events(self, row: TurnRead, contents: _TurnContents) -> bool:
        """Return whether each message and write has its event, in order; report also unknown kinds of events."""
        expected = {
            "message": [each.seq for each in contents.messages],
            "variable": list(range(len(contents.variables))),
        }
        is_complete = True
        for kind, numbers in expected.items():
            if [each.data for each in contents.events if each.kind == kind] != [{kind: number} for number in numbers]:
                rows = "messages" if kind == "message" else "writes"
                self._find("event_of_nothing", row.turn, f"its {kind} events do not match its {rows}")
                is_complete = False
        unknown = sorted({each.kind for each in contents.events} - KINDS)
        if unknown:
            self._find("event_of_nothing", row.turn, f"there is no kind of event `{unknown[0][:60]}`")
        return is_complete

    def _check_redacted(self, row: TurnRead, contents: _TurnContents) -> None:
        """Check that a redacted session has no texts and no values."""
        if any(each.content or each.metadata for each in contents.messages):
            self._find("text_left", row.turn, "its messages have text, although the session is redacted")
        if any(each.old is not None or each.new is not None for each in contents.variables):
            self._find("text_left", row.turn, "its writes have values, although the session is redacted")

    # -- states -------------------------------------------------------------------------------------------------------

    def _check_state(self, row: TurnRead, saved: str, contents: _TurnContents | None, program: Program | None) -> None:
        try:
            state = decode(saved)
        except StateUnreadable:
            self._find("state_unreadable", row.turn, "its state cannot be read by this version of Cuebook")
            self._log.lose()
            return
        for what in _columns_differ(row, state, program):
            self._find("state_differs", row.turn, what)
        if self._start.is_redacted:
            return
        if contents is not None:
            for what in global_differences(contents.variables, state):
                self._find("variables_differ", row.turn, what)
        for what in self._log.compare(state):
            self._find("variables_differ", row.turn, what)
        if row.turn == self._latest and program is not None:
            try:
                check(program, state)
            except InvalidState:
                self._find("state_invalid", row.turn, "its script cannot continue from its state")

    # -- moves --------------------------------------------------------------------------------------------------------

    def _check_moves(self, moves: Sequence[MoveRead]) -> None:
        """Check that each migration starts from the session's script at that time, in a turn of its own."""
        digest, at = self._start.digest, 0
        for move in moves:
            if move.turn <= at:
                self._find("migration_misfit", move.turn, "it has no turn of its own", "session_migrations")
            if move.from_digest != digest:
                what = "it does not start from the script that the session ran before"
                self._find("migration_misfit", move.turn, what, "session_migrations")
            digest, at = move.digest, move.turn


def _columns_differ(row: TurnRead, state: State, program: Program | None) -> Iterator[str]:
    """Yield a text for each column of a turn that differs from its state."""
    columns: dict[str, tuple[object, object]] = {
        "number": (row.turn, state.turn),
        "status": (row.status, state.status),
        "execution status": (row.execution_status, state.execution_status),
        "count of messages": (row.message_count, state.message_seq),
        "count of events": (row.event_count, state.event_seq),
        "user": (row.user_id, state.user_id or row.user_id),
    }
    if program is not None:
        try:
            place = turn_position_of(program, state)
        except PlaceLost:
            yield "the position in its state does not exist in its script"
        else:
            columns |= {name: (getattr(row, name), of_state) for name, of_state in place.items()}
    for name, (column, column_value) in columns.items():
        if column != column_value:
            yield f"the {name.replace('_id', '').replace('_', ' ')} of the turn is not that of its state"


# -- variables, rebuilt from the log ----------------------------------------------------------------------------------


class Log:
    """The variables of one session, turn by turn, rebuilt from writes, and from scopes that were entered and left.

    It is independent of the engine, which stores the same variables in the state: both must agree after every turn.
    Those of running skills and interrupts are left out, because the log does not distinguish two calls of one skill.
    """

    def __init__(self) -> None:
        self._layers: dict[Scope, Layer] | None = {"session": {}, "phase": {}, "topic": {}}
        self._callable: frozenset[str] = frozenset()

    def lose(self) -> None:
        """Discard the variables after a gap in the log; the next state sets them again."""
        self._layers = None

    def follow(
        self, events: Sequence[EventRow], writes: Sequence[VariableRow], programs: Sequence[Program]
    ) -> Iterator[str]:
        """Apply a turn, which ran on these scripts; yield a text for each write with a wrong old value."""
        self._callable = frozenset(name for program in programs for name in _callable(program))
        for event in events:
            if event.kind == "variable":
                yield from self._write(writes[int(event.data["variable"])])
            elif event.kind in {"scope_entered", "scope_left"} and self._layers is not None:
                self._layers["topic"] = {}
                if event.data.get("scope") == "phase":
                    self._layers["phase"] = {}

    def _write(self, write: VariableRow) -> Iterator[str]:
        if self._layers is None or write.scope == "global" or self._is_of_call(write.scope, write.topic_id):
            return
        layer = self._layers[write.scope]
        old = layer.get(write.name)
        if (None if old is None else old[0]) != (None if write.old is None else _encode(write.old)):
            yield f"the {write.scope} variable `{write.name}` had another value before it was written"
        if write.new is None:
            layer.pop(write.name, None)
        else:
            layer[write.name] = _encode(write.new), write.type

    def _is_of_call(self, scope: Scope, topic_id: str | None) -> bool:
        return scope == "topic" and topic_id in self._callable

    def compare(self, state: State) -> Iterator[str]:
        """Yield the differences between a state and the log, then continue with the values of the state."""
        expected: dict[Scope, Layer] = {
            scope: _layer(cells) for scope, cells in state.layers.items() if scope != "global"
        }
        if self._layers is not None:
            for scope, layer in self._layers.items():
                # a skill and a topic may have the same name: the log cannot tell them apart
                if not self._is_of_call(scope, state.topic):
                    yield from _differences(scope, layer, expected[scope])
        self._layers = expected


def global_differences(writes: Sequence[VariableRow], state: State) -> Iterator[str]:
    """Yield the global variables whose value after a turn is not the value that the turn wrote."""
    written = {write.name: write for write in writes if write.scope == "global"}
    cells_by_scope = _layer(state.global_cells)
    for name, write in written.items():
        value = None if write.new is None else (_encode(write.new), write.type)
        if cells_by_scope.get(name) != value:
            yield f"the global variable `{name}` is not as the turn wrote it"


def _callable(program: Program) -> Iterator[str]:
    """Yield the ids in the topic column of writes that are not ids of topics."""
    yield from program.skills
    yield from program.interrupts
    yield from (watcher.id for watcher in program.script.watchers)


def _layer(cells: Cells) -> Layer:
    return {name: (_encode(cell.value), cell.type) for name, cell in cells.items() if cell.value is not None}


def _differences(scope: Scope, log: Layer, state: Layer) -> Iterator[str]:
    for name in sorted(log.keys() | state.keys()):
        if log.get(name) == state.get(name):
            continue
        if name not in state:
            yield f"the {scope} variable `{name}` was written and is not in the state"
        elif name not in log:
            yield f"the {scope} variable `{name}` is in the state and was never written"
        else:
            yield f"the {scope} variable `{name}` has another value or type in the state than was written"
