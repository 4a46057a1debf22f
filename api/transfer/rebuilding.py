"""A document of Cuebook's own becomes rows again, once every part of it has been looked at.

Whoever changed it by hand, or made it up, gets no session that could not have come about.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import get_args

import msgspec

from api.rows import place_of
from api.transfer.document import CallPart, Document, MovePart, SessionPart, TurnPart, in_utc
from api.transfer.problems import DocumentInvalid
from api.wording import worded
from runtime.events import Body, Message, VariableChanged
from runtime.ports import ModelReply
from runtime.program import PlaceLost, Program
from runtime.soundness import Unsound, check
from runtime.state import Cell, State, StateUnreadable, decode, encode
from scripts.nodes import ID_CHARS_MAX
from scripts.parse import Source, read_script
from scripts.values import Value, ValueRefused, ValueType, bounded, is_unicode
from store.bringing import WholeSession
from store.rows import (
    CallRow,
    EventRow,
    MessageRow,
    MigrationRow,
    ScriptTextRow,
    SessionRow,
    TurnRow,
    UserVariableRow,
    VariableRow,
)

STATE_BYTES_MAX = 4_000_000
MESSAGE_CHARS_MAX = 1_000_000

_Happened = tuple(kind for kind in get_args(Body) if kind not in {Message, VariableChanged})


class Owner(msgspec.Struct, frozen=True):
    """Whose the session becomes."""

    tenant: str
    session_id: str
    user_id: str


def programs_of(document: Document) -> dict[str, Program]:
    """The scripts of a document, by digest. Raises DocumentInvalid for one that cannot be run."""
    programs: dict[str, Program] = {}
    for number, script in enumerate(document.scripts):
        source = Source(script.text, file="", side_files=dict(script.files))
        if source.digest != script.digest:
            raise DocumentInvalid(f"scripts[{number}]: the text is not the one that its digest is of")
        reading = read_script(source, "compat")
        if reading.script is None:
            raise DocumentInvalid(f"scripts[{number}]: the script cannot be run: {reading.errors[0].message}")
        if reading.script.form != script.form:
            raise DocumentInvalid(f"scripts[{number}]: the text is of the form {reading.script.form}")
        programs[script.digest] = Program(reading.script)
    return programs


def rebuilt(document: Document, owner: Owner, key: str | None, *, copied: bool) -> WholeSession:
    """The rows of a document; of a copy it is not known which request made it. Raises DocumentInvalid."""
    programs = programs_of(document)
    _check_moves(document, programs)
    turns = list(_turns(document, owner, programs))
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
    return WholeSession(
        session=_session(document.session, owner, key, copied),
        turns=turns,
        migrations=[_move(number, move, owner) for number, move in enumerate(document.migrations)],
        calls=calls,
        texts=texts,
        variables=variables,
    )


def _own(owner: Owner, name: str, cell: Cell) -> UserVariableRow:
    """A variable of the user's own."""
    updated = _utc(f"the variable {name}", cell.last_updated)
    return UserVariableRow(owner.tenant, owner.user_id, name, cell.value, cell.type, cell.source, updated)


def _session(part: SessionPart, owner: Owner, key: str | None, copied: bool) -> SessionRow:
    _check("session.metadata", part.metadata)
    fields = {name: getattr(part, name) for name in SessionPart.__struct_fields__}
    fields |= {"key": key, "created_at": _utc("session", part.created_at)}
    fields |= {"idempotency_key": None} if copied else {}
    return SessionRow(**fields | msgspec.structs.asdict(owner))


def _move(number: int, part: MovePart, owner: Owner) -> MigrationRow:
    fields = {name: getattr(part, name) for name in MovePart.__struct_fields__}
    fields |= {"migrated_at": _utc(f"migrations[{number}]", part.migrated_at)}
    return MigrationRow(**fields, tenant=owner.tenant, session_id=owner.session_id)


# -- moves ------------------------------------------------------------------------------------------------------------


def _check_moves(document: Document, programs: Mapping[str, Program]) -> None:
    """Each move leads on from the script that the session ran before it."""
    session, at = document.session, 0
    runs = (session.script_uuid, session.script_id, session.script_version, session.digest)
    if session.digest not in programs:
        raise DocumentInvalid("session: the script of its digest is not among `scripts`")
    for number, move in enumerate(document.migrations):
        where = f"migrations[{number}]"
        if not at < move.turn < len(document.turns):
            raise DocumentInvalid(f"{where}: its turn is not after the one before, or not there")
        if (move.from_script_uuid, move.from_script_id, move.from_version, move.from_digest) != runs:
            raise DocumentInvalid(f"{where}: it does not lead on from the script that the session ran before")
        if move.digest not in programs:
            raise DocumentInvalid(f"{where}: the script of its digest is not among `scripts`")
        runs, at = (move.script_uuid, move.script_id, move.script_version, move.digest), move.turn


def _digests(document: Document) -> Iterator[str]:
    """The text each turn ran on."""
    moves: dict[int, MovePart] = {move.turn: move for move in document.migrations}
    digest = document.session.digest
    for number in range(len(document.turns)):
        digest = moves[number].digest if number in moves else digest
        yield digest


# -- turns ------------------------------------------------------------------------------------------------------------


def _turns(document: Document, owner: Owner, programs: Mapping[str, Program]) -> Iterator[TurnRow]:
    localised: dict[tuple[str, str], Program] = {}
    messages = events = 0
    ids: set[str] = set()
    for number, (part, digest) in enumerate(zip(document.turns, _digests(document), strict=True)):
        where = f"turns[{number}]"
        if part.turn != number:
            raise DocumentInvalid(f"{where}: it is turn {part.turn}; turns are numbered from 0 without gaps")
        state = _state(where, part, owner, document.session.seed)
        key = (digest, state.locale)
        program = localised[key] = localised.get(key) or programs[digest].in_locale(state.locale)
        said = [_message(f"{where}.messages[{at}]", each) for at, each in enumerate(part.messages)]
        changed = [_variable(f"{where}.variables[{at}]", each) for at, each in enumerate(part.variables)]
        if [each.seq for each in said] != list(range(messages + 1, messages + 1 + len(said))):
            raise DocumentInvalid(f"{where}: messages are numbered from {messages + 1} on without gaps")
        new_ids = {each.message_id for each in said}
        if len(new_ids) != len(said) or not new_ids.isdisjoint(ids):
            raise DocumentInvalid(f"{where}: two messages have one id")
        ids |= new_ids
        happened = list(_events(where, part.events, said, len(changed), events))
        messages, events = messages + len(said), events + len(happened)
        if (state.message_seq, state.event_seq) != (messages, events):
            raise DocumentInvalid(f"{where}: the state counts other messages or events than there are")
        yield _turn(where, part, owner, program, state, said, changed, happened)


def _state(where: str, part: TurnPart, owner: Owner, seed: int) -> State:
    if len(part.state) > STATE_BYTES_MAX:
        raise DocumentInvalid(f"{where}: the state has more than {STATE_BYTES_MAX:,} bytes")
    try:
        state = decode(bytes(part.state))
    except StateUnreadable as error:
        raise DocumentInvalid(f"{where}: {worded(str(error))}") from error
    if (state.turn, state.seed, state.status) != (part.turn, seed, part.status):
        raise DocumentInvalid(f"{where}: the state is of another turn, seed or status")
    return msgspec.structs.replace(state, user_id=owner.user_id)


def _turn(
    where: str,
    part: TurnPart,
    owner: Owner,
    program: Program,
    state: State,
    messages: list[MessageRow],
    variables: list[VariableRow],
    events: list[EventRow],
) -> TurnRow:
    try:
        check(program, state)
        place = place_of(program, state)
        saved = encode(state)
    except (Unsound, PlaceLost) as error:
        raise DocumentInvalid(f"{where}: {error}") from error
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise DocumentInvalid(f"{where}: the state cannot be kept: {error}") from error
    status = state.execution_status if state.begun else "error"
    if part.execution_status != status:
        raise DocumentInvalid(f"{where}: its execution_status is {status} by its state")
    return TurnRow(
        tenant=owner.tenant,
        session_id=owner.session_id,
        user_id=owner.user_id,
        turn=part.turn,
        started_at=_utc(where, part.started_at),
        finished_at=_utc(where, part.finished_at),
        status=state.status,
        execution_status=status,
        **msgspec.structs.asdict(place),
        state=msgspec.Raw(saved),
        idempotency_key=part.idempotency_key,
        fingerprint=part.fingerprint,
        messages=messages,
        variables=variables,
        events=events,
    )


def _utc(where: str, moment: datetime) -> datetime:
    try:
        return in_utc(moment)
    except OverflowError as error:
        raise DocumentInvalid(f"{where}: {error}") from error


def _message(where: str, row: MessageRow) -> MessageRow:
    if not 0 < len(row.message_id) <= ID_CHARS_MAX or len(row.action_id or "") > ID_CHARS_MAX:
        raise DocumentInvalid(f"{where}: its ids have 1 to {ID_CHARS_MAX} characters")
    if len(row.content) > MESSAGE_CHARS_MAX or not is_unicode(row.content):
        raise DocumentInvalid(f"{where}: its text is too long, or not valid Unicode")
    if row.created_at.tzinfo is None:
        raise DocumentInvalid(f"{where}: its time has no time zone")
    _check(f"{where}.metadata", row.metadata)
    return msgspec.structs.replace(row, created_at=_utc(where, row.created_at), characters=msgspec.UNSET)


def _variable(where: str, row: VariableRow) -> VariableRow:
    if not 0 < len(row.name) <= ID_CHARS_MAX or row.type not in get_args(ValueType):
        raise DocumentInvalid(f"{where}: its name or its type is none")
    _check(f"{where}.old", row.old)
    _check(f"{where}.new", row.new)
    return row


def _check(where: str, value: Value) -> None:
    try:
        bounded(value)
    except ValueRefused as error:
        raise DocumentInvalid(f"{where}: {error}") from error


def _events(
    where: str, events: Sequence[EventRow], messages: Sequence[MessageRow], changes: int, before: int
) -> Iterator[EventRow]:
    """The events of a turn; the messages and variable writes they stand for are each there once, in order."""
    said, changed = iter(messages), iter(range(changes))
    data: Mapping[str, object] | None
    for number, event in enumerate(events, start=before + 1):
        at = f"{where}.events[{number - before - 1}]"
        if event.seq != number:
            raise DocumentInvalid(f"{at}: events are numbered without gaps; this should be {number}")
        if event.kind == "message":
            message = next(said, None)
            data = None if message is None else {"message": message.seq}
        elif event.kind == "variable":
            change = next(changed, None)
            data = None if change is None else {"variable": change}
        else:
            data = _happened(at, event)
        if data is None or (event.kind in {"message", "variable"} and event.data != data):
            raise DocumentInvalid(f"{at}: it stands for no {event.kind} of its turn")
        yield EventRow(event.seq, event.kind, dict(data))
    if next(said, None) is not None or next(changed, None) is not None:
        raise DocumentInvalid(f"{where}: a message or a variable has no event")


def _happened(where: str, event: EventRow) -> dict[str, object]:
    kind = next((kind for kind in _Happened if kind.__struct_config__.tag == event.kind), None)
    if kind is None:
        raise DocumentInvalid(f"{where}: there is no kind of event {event.kind[:60]!r}")
    try:
        body = msgspec.convert({**event.data, "kind": event.kind}, kind)
    except msgspec.ValidationError as error:
        raise DocumentInvalid(f"{where}: {worded(str(error))}") from error
    data: dict[str, object] = msgspec.to_builtins(body)
    del data["kind"]
    return data


# -- calls ------------------------------------------------------------------------------------------------------------


def _call(number: int, call: CallPart, owner: Owner, turns: int) -> CallRow:
    where = f"calls[{number}]"
    if call.turn >= turns:
        raise DocumentInvalid(f"{where}: there is no turn {call.turn}")
    try:
        msgspec.json.decode(call.reply, type=ModelReply | None)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DocumentInvalid(f"{where}: its reply cannot be read: {worded(str(error))}") from error
    times = {"started_at": _utc(where, call.started_at)}
    if call.ended_at is not None:
        times["ended_at"] = _utc(where, call.ended_at)
    fields = {name: getattr(call, name) for name in CallPart.__struct_fields__}
    return CallRow(**fields | times, **msgspec.structs.asdict(owner))
