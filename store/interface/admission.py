"""The rules for whether a turn may be committed, which are the same for every database."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from store.interface.errors import KeyTaken, RowRefused, StoreError, TurnConflict
from store.interface.hand_over_rows import HandOverRow
from store.interface.rows import (
    NO_TURN,
    CallRow,
    EventRow,
    MessageRow,
    MigrationRow,
    SessionDocument,
    SessionRow,
    TurnRow,
    encode,
    is_uuid,
)
from store.interface.timer_rows import TimerRow
from store.interface.webhook_rows import DeliveryRow

SessionId: TypeAlias = tuple[str, str]
"""Tenant and session id. The tenant is part of the key, so that no tenant can access another's sessions by their id."""
UniqueKey: TypeAlias = tuple[str, str, str]
"""Tenant, name of the field (`key` or `idempotency_key`) and value, unique among the sessions of the tenant."""


class Head(NamedTuple):
    """The latest turn number of a session, and its counts of messages and events."""

    turn: int
    messages: int
    events: int

    def after(self, turn: TurnRow) -> "Head":
        """Return the head after this turn."""
        return Head(turn.turn, self.messages + len(turn.messages), self.events + len(turn.events))


NO_HEAD = Head(NO_TURN, 0, 0)


class ProposedTurn(NamedTuple):
    """A turn to commit, with the rows that are committed together with it."""

    turn: TurnRow
    expected_turn: int
    session: SessionRow | None = None
    migration: MigrationRow | None = None
    calls_used: tuple[str, ...] | None = None  # if set, the session's journal is settled: the turn used these calls
    calls_withheld: tuple[str, ...] = ()  # the texts of these calls are not stored
    calls_unsettled: tuple[str, ...] = ()  # these calls stay in the journal, for a later turn
    prompts: Mapping[str, str] = {}  # those to store, by the ids of their calls
    deliveries: tuple[DeliveryRow, ...] = ()  # the events for webhooks
    timers: tuple[TimerRow, ...] | None = None  # those of the session after the turn; None: it never has any
    hand_overs: tuple[HandOverRow, ...] | None = None  # at most one, of the session after the turn; None: as before

    @property
    def session_id(self) -> SessionId:
        """The tenant and the id of the turn's session."""
        return self.turn.tenant, self.turn.session_id


class Settlement(msgspec.Struct, frozen=True):
    """A committed turn that settles the calls in its session's journal.

    `used` are the ids of the calls that the turn used, `withheld` of those whose text was not sent to the user. The
    texts of withheld calls, and of calls that were not used, are not stored. `unsettled` are the ids of the calls that
    stay in the journal. `prompts` are stored with the calls of these ids.
    """

    tenant: str
    session_id: str
    turn: int
    used: tuple[str, ...]
    withheld: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    prompts: Mapping[str, str] = {}


class StoredTurn(TurnRow, frozen=True):
    """A turn with the columns that the store adds."""

    message_count: int
    event_count: int
    commit_number: int | None
    """The number of its commit. Turns of one import have a number of their own below zero, by which analytics notices
    that they replaced others. None for forks, and in databases whose commits have no numbers.
    """


def to_stored(turn: TurnRow, head: Head, commit_number: int | None = None) -> StoredTurn:
    """Return a turn as it is stored; `head` is the head after it."""
    return StoredTurn(
        **msgspec.structs.asdict(turn),
        message_count=head.messages,
        event_count=head.events,
        commit_number=commit_number,
    )


def keys_of(session: SessionRow | None) -> list[UniqueKey]:
    """Return the keys of a new session that no other session may have; none for a turn without a new session."""
    if session is None:
        return []
    named = [("key", session.key), ("idempotency_key", session.idempotency_key)]
    return [(session.tenant, field, value) for field, value in named if value is not None]


def require_uuid(session_id: str) -> None:
    """Raise RowRefused unless a session id is a UUID in its canonical form."""
    if not is_uuid(session_id):
        raise RowRefused(f"session id {session_id!r} is not a UUID")


def require_next(proposal: ProposedTurn, head: Head) -> None:
    """Raise RowRefused for invalid rows, TurnConflict for a turn that was not computed from the session's head.

    Whether the keys of a new session are free is not checked.
    """
    _require_well_formed(proposal)
    if proposal.expected_turn != head.turn:
        raise TurnConflict(proposal.turn.session_id, proposal.expected_turn, head.turn)
    require_numbers(proposal.turn, head)


def _require_well_formed(proposal: ProposedTurn) -> None:
    turn, session, moved = proposal.turn, proposal.session, proposal.migration
    require_uuid(turn.session_id)
    if turn.turn != proposal.expected_turn + 1:
        raise RowRefused(f"turn {turn.turn} cannot be computed from turn {proposal.expected_turn}")
    if (session is None) != (turn.turn > 0):
        raise RowRefused("a session's row must be committed together with its turn 0, and with no other turn")
    owner = (turn.tenant, turn.user_id, turn.session_id)
    if session is not None and owner != (session.tenant, session.user_id, session.session_id):
        raise RowRefused("turn 0 and its session's row name different sessions, users or tenants")
    number = (turn.tenant, turn.session_id, turn.turn)
    with_it: Mapping[str, Iterable[MigrationRow | DeliveryRow | TimerRow | HandOverRow]] = {
        "migration": () if moved is None else (moved,),
        "delivery": proposal.deliveries,
        "timer": proposal.timers or (),
        "hand-over": proposal.hand_overs or (),
    }
    for name, rows in with_it.items():
        if any((row.tenant, row.session_id, row.turn) != number for row in rows):
            raise RowRefused(f"a {name} and its turn name different sessions or turns")


def require_numbers(turn: TurnRow, head: Head) -> None:
    """Raise RowRefused unless the messages and events of a turn continue the numbers of the head."""
    numbered: list[tuple[str, int, Sequence[MessageRow | EventRow]]] = [
        ("message", head.messages, turn.messages),
        ("event", head.events, turn.events),
    ]
    for name, count, rows in numbered:
        for expected, row in enumerate(rows, start=count + 1):
            if row.seq != expected:
                raise RowRefused(f"{name} {row.seq} of turn {turn.turn} should be number {expected}")


def require_importable(whole: SessionDocument) -> None:
    """Raise RowRefused if a row of an imported session belongs to another one, or if it has no turn."""
    session = whole.session
    owner: SessionId = (session.tenant, session.session_id)
    require_uuid(session.session_id)
    for name, rows in (("turn", whole.turns), ("migration", whole.migrations), ("call", whole.calls)):
        if any((row.tenant, row.session_id) != owner for row in rows):
            raise RowRefused(f"a {name} belongs to another session than {session.session_id}")
    if not whole.turns:
        raise RowRefused("a session must have at least turn 0, its creation")


def imported_turns(turns: Sequence[TurnRow]) -> Iterator[StoredTurn]:
    """Yield the turns of an imported session as they are stored. Raises RowRefused for a gap in the numbers."""
    head, number = NO_HEAD, -1 - secrets.randbits(62)
    for turn in turns:
        if turn.turn != head.turn + 1:
            raise RowRefused(f"turn {turn.turn} should be number {head.turn + 1}")
        require_numbers(turn, head)
        head = head.after(turn)
        yield to_stored(turn, head, number)


Entry: TypeAlias = ProposedTurn | CallRow
"""An entry of a group: a turn, or a call for the journal."""


class TurnGroup:
    """Validate the entries of a group one by one; each entry is checked against the database and the entries before."""

    def __init__(self, heads: dict[SessionId, Head], keys: dict[UniqueKey, str], number: int | None) -> None:
        self.heads = heads
        self._number = number  # of the commit, in databases that number them
        self._keys = keys
        self.documents: dict[str, list[bytes]] = {}  # the encoded rows to insert, by table
        self.turns: list[ProposedTurn] = []
        self.settlements: list[Settlement] = []
        self.replacements: dict[str, dict[SessionId, list[bytes]]] = {}
        """The encoded rows that replace those of their session, by table and session, after its last turn."""

    def validate(self, entry: Entry) -> StoreError | None:
        """Add the turn or call to the group and return None, or return the error if it is refused."""
        try:
            if isinstance(entry, ProposedTurn):
                self._add_turn(entry)
            else:
                require_uuid(entry.session_id)
                self._add({"call_journal": [entry]})
        except StoreError as refused:
            return refused
        return None

    def all_documents(self) -> dict[str, list[bytes]]:
        """Return the encoded rows by table, with the timers and hand-overs after the last turn of each session."""
        replacing = {
            table: [row for rows in by_session.values() for row in rows]
            for table, by_session in self.replacements.items()
        }
        return self.documents | {table: rows for table, rows in replacing.items() if rows}

    def _add_turn(self, proposal: ProposedTurn) -> None:
        turn, session = proposal.turn, proposal.session
        head = self.heads.get(proposal.session_id, NO_HEAD)
        require_next(proposal, head)
        keys = keys_of(session)
        for key in keys:
            if key in self._keys:
                raise KeyTaken(*key[1:], self._keys[key])
        advanced = head.after(turn)
        self._add(
            {
                "session_starts": [] if session is None else [session],
                "session_migrations": [] if proposal.migration is None else [proposal.migration],
                "turns": [to_stored(turn, advanced, self._number)],
                "webhook_deliveries": proposal.deliveries,
            }
        )
        if proposal.timers is not None:
            self._replace("timers", proposal.session_id, proposal.timers)
        if proposal.hand_overs is not None:
            self._replace("hand_overs", proposal.session_id, proposal.hand_overs)
        self.heads[proposal.session_id] = advanced
        self._keys.update(dict.fromkeys(keys, turn.session_id))
        self.turns.append(proposal)
        if proposal.calls_used is not None:
            calls = proposal.calls_used, proposal.calls_withheld, proposal.calls_unsettled
            self.settlements.append(Settlement(*proposal.session_id, turn.turn, *calls, proposal.prompts))

    def _replace(self, table: str, session: SessionId, rows: Sequence[msgspec.Struct]) -> None:
        self.replacements.setdefault(table, {})[session] = list(map(encode, rows))

    def _add(self, rows: Mapping[str, Sequence[msgspec.Struct]]) -> None:
        """Add the rows of an entry, by table, all or none. Raises RowRefused."""
        encoded = {table: list(map(encode, of_table)) for table, of_table in rows.items() if of_table}
        for table, documents in encoded.items():
            self.documents.setdefault(table, []).extend(documents)
