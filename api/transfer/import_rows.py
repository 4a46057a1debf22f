"""Converts a Cuebook document to rows after checking every part of it.

A document that was edited or invented cannot become a session that no run could have produced.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, get_args

import msgspec
from msgspec.structs import asdict

from api.schemas.validation_messages import humanize_validation_error
from api.sessions.row_mapping import turn_position_of
from api.transfer.document import CallPart, MovePart, SessionDocumentFile, SessionPart, TurnPart, in_utc
from api.transfer.import_report import DocumentInvalid
from runtime.migration.state_validation import InvalidState, check
from runtime.prompts.prompt import read_prompt
from runtime.state.events import Body, Message, VariableChanged
from runtime.state.ports import ModelReply
from runtime.state.program import PlaceLost, Program
from runtime.state.state import State, StateUnreadable, decode, encode
from runtime.state.tool_ports import TOOL_PURPOSE, ToolReply
from scripts.expressions.values import Value, ValueRefused, ValueType, is_unicode, to_value
from scripts.model.base import ID_CHARS_MAX
from scripts.parse.read_script import Source, read_script
from store.interface.rows import (
    EventRow,
    MessageRow,
    MigrationRow,
    ScriptTextRow,
    SessionDocument,
    SessionRow,
    SettledCallRow,
    TurnRow,
    UserVariableRow,
    VariableRow,
)

STATE_BYTES_MAX = 4_000_000
MESSAGE_CHARS_MAX = 1_000_000

_Happened = tuple(kind for kind in get_args(Body) if kind not in {Message, VariableChanged})


class Owner(msgspec.Struct, frozen=True):
    """The owner of the imported session."""

    tenant: str
    session_id: str
    user_id: str


def programs_of(document: SessionDocumentFile) -> dict[str, Program]:
    """Load the scripts of a document by digest. Raises DocumentInvalid for one that cannot be run."""
    programs: dict[str, Program] = {}
    for number, script in enumerate(document.scripts):
        source = Source(script.text, file="", side_files=dict(script.files))
        where = f"scripts[{number}]"
        _require(source.digest == script.digest, where, "the text does not match its digest")
        reading = read_script(source, "compat")
        if reading.script is None:
            raise DocumentInvalid(f"{where}: the script cannot be run: {reading.errors[0].message}")
        _require(reading.script.form == script.form, where, f"the text is in the form {reading.script.form}")
        programs[script.digest] = Program(reading.script)
    return programs


def build_rows(document: SessionDocumentFile, owner: Owner, key: str | None, *, copied: bool) -> SessionDocument:
    """Convert a document to rows; a copy has no idempotency keys. Raises DocumentInvalid."""
    programs = programs_of(document)
    _check_moves(document, programs)
    turns = list(_turns(document, owner, programs))
    if copied:  # those requests were made to the other session
        turns = [msgspec.structs.replace(turn, idempotency_key=None, fingerprint=None) for turn in turns]
    last = decode(bytes(turns[-1].state))
    calls = [_call(number, call, owner, len(turns)) for number, call in enumerate(document.calls)]
    texts = [
        ScriptTextRow(owner.tenant, script.digest, script.text, dict(script.files), script.form)
        for script in document.scripts
    ]
    variables = [
        UserVariableRow(
            owner.tenant, owner.user_id, name, cell.value, cell.type, cell.source, _utc(name, cell.last_updated)
        )
        for name, cell in last.global_cells.items()
        if cell.value is not None
    ]
    return SessionDocument(
        session=_session(document.session, owner, key, copied),
        turns=turns,
        migrations=[_move(number, move, owner) for number, move in enumerate(document.migrations)],
        calls=calls,
        texts=texts,
        variables=variables,
    )


def _session(part: SessionPart, owner: Owner, key: str | None, copied: bool) -> SessionRow:
    _check("session.metadata", part.metadata)
    fields = asdict(part) | asdict(owner) | {"key": key, "created_at": _utc("session", part.created_at)}
    return SessionRow(**fields | ({"idempotency_key": None} if copied else {}))


def _move(number: int, part: MovePart, owner: Owner) -> MigrationRow:
    fields = asdict(part) | {"migrated_at": _utc(f"migrations[{number}]", part.migrated_at)}
    return MigrationRow(**fields, tenant=owner.tenant, session_id=owner.session_id)


# -- migrations -------------------------------------------------------------------------------------------------------


def _check_moves(document: SessionDocumentFile, programs: Mapping[str, Program]) -> None:
    """Check that each migration starts from the script that the session ran before it."""
    session, at = document.session, 0
    runs = (session.script_uuid, session.script_id, session.script_version, session.digest)
    _require(session.digest in programs, "session", "`scripts` has no script with its digest")
    for number, move in enumerate(document.migrations):
        where = f"migrations[{number}]"
        follows = at < move.turn < len(document.turns)
        _require(follows, where, "its turn does not follow that of the previous move, or does not exist")
        ran = (move.from_script_uuid, move.from_script_id, move.from_version, move.from_digest)
        _require(ran == runs, where, "it does not start from the script that the session ran before")
        _require(move.digest in programs, where, "`scripts` has no script with its digest")
        runs, at = (move.script_uuid, move.script_id, move.script_version, move.digest), move.turn


def _digests(document: SessionDocumentFile) -> Iterator[str]:
    """Yield the digest of the script of each turn."""
    moves: dict[int, MovePart] = {move.turn: move for move in document.migrations}
    digest = document.session.digest
    for number in range(len(document.turns)):
        digest = moves[number].digest if number in moves else digest
        yield digest


# -- turns ------------------------------------------------------------------------------------------------------------


def _turns(document: SessionDocumentFile, owner: Owner, programs: Mapping[str, Program]) -> Iterator[TurnRow]:
    localised: dict[tuple[str, str], Program] = {}
    messages = events = 0
    ids: set[str] = set()
    for number, (part, digest) in enumerate(zip(document.turns, _digests(document), strict=True)):
        where = f"turns[{number}]"
        _require(part.turn == number, where, f"it is turn {part.turn}; turns are numbered from 0 without gaps")
        state = _state(where, part, owner, document.session.seed)
        key = (digest, state.locale)
        program = localised[key] = localised.get(key) or programs[digest].in_locale(state.locale)
        rows = [_message(f"{where}.messages[{at}]", each) for at, each in enumerate(part.messages)]
        variables = [_variable(f"{where}.variables[{at}]", each) for at, each in enumerate(part.variables)]
        numbers = list(range(messages + 1, messages + 1 + len(rows)))
        are_numbered = [each.seq for each in rows] == numbers
        _require(are_numbered, where, f"messages must be numbered from {messages + 1} without gaps")
        new_ids = {each.message_id for each in rows}
        are_new = len(new_ids) == len(rows) and new_ids.isdisjoint(ids)
        _require(are_new, where, "two messages have the same id")
        ids |= new_ids
        happened = list(_events(where, part.events, rows, len(variables), events))
        messages, events = messages + len(rows), events + len(happened)
        counts = (state.message_seq, state.event_seq)
        _require(counts == (messages, events), where, "the state counts other messages or events than the document has")
        yield _turn(where, part, owner, program, state, messages=rows, variables=variables, events=happened)


def _state(where: str, part: TurnPart, owner: Owner, seed: int) -> State:
    _require(len(part.state) <= STATE_BYTES_MAX, where, f"the state has more than {STATE_BYTES_MAX:,} bytes")
    with _refusing(where, StateUnreadable):
        state = decode(bytes(part.state))
    is_same = (state.turn, state.seed, state.status) == (part.turn, seed, part.status)
    _require(is_same, where, "the state has another turn, seed or status")
    return msgspec.structs.replace(state, user_id=owner.user_id)


def _turn(where: str, part: TurnPart, owner: Owner, program: Program, state: State, **lists: Any) -> TurnRow:
    try:
        check(program, state)
        place = turn_position_of(program, state)
        saved = encode(state)
    except (InvalidState, PlaceLost) as error:
        raise DocumentInvalid(f"{where}: {error}") from error
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise DocumentInvalid(f"{where}: the state cannot be stored: {error}") from error
    status = state.execution_status
    _require(part.execution_status == status, where, f"by its state its execution_status is {status}")
    times = {"started_at": _utc(where, part.started_at), "finished_at": _utc(where, part.finished_at)}
    return TurnRow(**asdict(part) | asdict(owner) | place | times | lists | {"state": msgspec.Raw(saved)})


def _utc(where: str, moment: datetime) -> datetime:
    with _refusing(where, OverflowError):
        return in_utc(moment)


def _message(where: str, row: MessageRow) -> MessageRow:
    has_ids = 0 < len(row.message_id) <= ID_CHARS_MAX and len(row.action_id or "") <= ID_CHARS_MAX
    _require(has_ids, where, f"its ids must have 1 to {ID_CHARS_MAX} characters")
    is_text = len(row.content) <= MESSAGE_CHARS_MAX and is_unicode(row.content)
    _require(is_text, where, "its text is too long, or not valid Unicode")
    _require(row.created_at.tzinfo is not None, where, "its time has no time zone")
    _check(f"{where}.metadata", row.metadata)
    return msgspec.structs.replace(row, created_at=_utc(where, row.created_at), characters=msgspec.UNSET)


def _variable(where: str, row: VariableRow) -> VariableRow:
    is_valid = 0 < len(row.name) <= ID_CHARS_MAX and row.type in get_args(ValueType)
    _require(is_valid, where, "its name or type is invalid")
    _check(f"{where}.old", row.old)
    _check(f"{where}.new", row.new)
    return row


def _check(where: str, value: Value) -> None:
    with _refusing(where, ValueRefused):
        to_value(value)


def _events(
    where: str, events: Sequence[EventRow], messages: Sequence[MessageRow], changes: int, before: int
) -> Iterator[EventRow]:
    """Check and convert the events of a turn; each message and variable write must have one event, in order."""
    expected: Mapping[str, Iterator[dict[str, object]]] = {
        "message": ({"message": message.seq} for message in messages),
        "variable": ({"variable": number} for number in range(changes)),
    }
    for number, event in enumerate(events, start=before + 1):
        at = f"{where}.events[{number - before - 1}]"
        _require(event.seq == number, at, f"events must be numbered without gaps; this should be {number}")
        if event.kind in expected:
            data = next(expected[event.kind], {})
            _require(bool(data) and event.data == data, at, f"it references no {event.kind} of its turn")
        else:
            data = _event_data(at, event)
        yield EventRow(event.seq, event.kind, data)
    is_complete = not any(data for following in expected.values() for data in following)
    _require(is_complete, where, "a message or a variable has no event")


def _event_data(where: str, event: EventRow) -> dict[str, object]:
    kind = next((kind for kind in _Happened if kind.__struct_config__.tag == event.kind), None)
    if kind is None:
        raise DocumentInvalid(f"{where}: there is no kind of event {event.kind[:60]!r}")
    with _refusing(where, msgspec.ValidationError):
        body = msgspec.convert({**event.data, "kind": event.kind}, kind)
    data: dict[str, object] = msgspec.to_builtins(body)
    del data["kind"]
    return data


# -- calls ------------------------------------------------------------------------------------------------------------


def _call(number: int, call: CallPart, owner: Owner, turns: int) -> SettledCallRow:
    where = f"calls[{number}]"
    _require(call.turn < turns, where, f"there is no turn {call.turn}")
    kind: Any = ToolReply | None if call.purpose == TOOL_PURPOSE else ModelReply | None
    with _refusing(f"{where}: its reply cannot be read", msgspec.DecodeError, RecursionError):
        msgspec.json.decode(call.reply, type=kind)
    if call.prompt is not None:
        with _refusing(f"{where}: its prompt cannot be read", msgspec.DecodeError, RecursionError):
            read_prompt(call.prompt)
    times = {"started_at": _utc(where, call.started_at)}
    if call.ended_at is not None:
        times["ended_at"] = _utc(where, call.ended_at)
    return SettledCallRow(**asdict(call) | times, **asdict(owner))


# -- problems ---------------------------------------------------------------------------------------------------------


def _require(holds: bool, where: str, problem: str) -> None:
    """Raise DocumentInvalid unless something holds."""
    if not holds:
        raise DocumentInvalid(f"{where}: {problem}")


@contextmanager
def _refusing(where: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise DocumentInvalid in place of an error of these kinds."""
    try:
        yield
    except kinds as error:
        raise DocumentInvalid(f"{where}: {humanize_validation_error(str(error))}") from error
