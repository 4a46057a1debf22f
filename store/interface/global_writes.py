"""The writes of global variables that turns contain, and the values after them."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

import msgspec

from store.interface.rows import TurnRow, UserVariableRow, VariableRow

UserId: TypeAlias = tuple[str, str]
"""Tenant and user id."""


class TurnWrites(msgspec.Struct, frozen=True):
    """The writes of a turn, in order, and what else of it they need."""

    tenant: str
    user_id: str
    finished_at: datetime
    variables: list[VariableRow]


def global_writes(turns: Iterable[TurnRow | TurnWrites]) -> list[UserVariableRow]:
    """Return the last write of each user's global variable. An unset variable has the value null."""
    latest = {
        (turn.tenant, turn.user_id, write.name): UserVariableRow(
            turn.tenant, turn.user_id, write.name, write.new, write.type, write.source, turn.finished_at
        )
        for turn in turns
        for write in turn.variables
        if write.scope == "global"
    }
    return list(latest.values())


def values_after(stored: Iterable[UserVariableRow], writes: Iterable[UserVariableRow]) -> list[UserVariableRow]:
    """Return the variables of one user that are set after the writes, ordered by name."""
    rows = {row.name: row for row in stored} | {row.name: row for row in writes}
    return [row for _, row in sorted(rows.items()) if row.value is not None]
