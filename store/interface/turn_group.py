"""A group of turns and calls of models that one transaction commits, checked by the same rules in any database."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from store.interface.admission import (
    NO_HEAD,
    Head,
    ProposedTurn,
    SessionId,
    UniqueKey,
    keys_of,
    require_next,
    require_uuid,
    stored,
)
from store.interface.encoding import encode
from store.interface.errors import KeyTaken, StoreError
from store.interface.rows import CallRow
from store.interface.settlement import Settlement

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
                "turns": [stored(turn, advanced, self._number)],
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
            settled = proposal.calls_used, proposal.calls_withheld, proposal.prompts
            self.settlements.append(Settlement(turn.tenant, turn.session_id, turn.turn, *settled))

    def _replace(self, table: str, session: SessionId, rows: Sequence[msgspec.Struct]) -> None:
        self.replacements.setdefault(table, {})[session] = list(map(encode, rows))

    def _add(self, rows: Mapping[str, Sequence[msgspec.Struct]]) -> None:
        """Add the rows of an entry, by table, all or none. Raises RowRefused."""
        encoded = {table: list(map(encode, of_table)) for table, of_table in rows.items() if of_table}
        for table, documents in encoded.items():
            self.documents.setdefault(table, []).extend(documents)
