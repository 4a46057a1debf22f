"""Settle calls: once a turn is committed, the calls that its attempts have made are stored with what became of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from store.interface.rows import CallRow, SettledCallRow


class Settlement(msgspec.Struct, frozen=True):
    """A committed turn that settles the calls in its session's journal.

    `used` are the ids of the calls that the turn used, `withheld` of those whose text was not sent to the user. The
    texts of withheld calls, and of calls that were not used, are not stored. `prompts` are stored with the calls of
    these ids.
    """

    tenant: str
    session_id: str
    turn: int
    used: tuple[str, ...]
    withheld: tuple[str, ...] = ()
    prompts: Mapping[str, str] = {}


def settled_calls(journal: Iterable[CallRow], settlements: Iterable[Settlement]) -> Iterator[SettledCallRow]:
    """Return each journaled call of these sessions once, as it is stored now that the session's turn is committed."""
    by_session = {(each.tenant, each.session_id): each for each in settlements}
    for call in last_rows(journal):
        yield _settled(call, by_session[call.tenant, call.session_id])


def last_rows(journal: Iterable[CallRow]) -> list[CallRow]:
    """Return each journaled call once; the journal has a row from before the call, and another one if it has ended."""
    calls: dict[tuple[str, str, str], CallRow] = {}
    for row in journal:
        key = (row.tenant, row.session_id, row.call_id)
        if key not in calls or row.ended_at is not None:
            calls[key] = row
    return list(calls.values())


def _settled(row: CallRow, settlement: Settlement) -> SettledCallRow:
    used = row.call_id in settlement.used
    prompt = settlement.prompts.get(row.call_id) if used else None
    call = SettledCallRow(**msgspec.structs.asdict(row), prompt=prompt)
    reply: dict[str, Any] = msgspec.json.decode(call.reply) or {}
    if (used and call.call_id not in settlement.withheld) or not (reply.get("text") or reply.get("raw")):
        return replace(call, turn=settlement.turn, used=used, withheld=False)
    without_text = msgspec.Raw(msgspec.json.encode(reply | {"text": "", "raw": ""}))
    return replace(call, turn=settlement.turn, used=used, withheld=True, reply=without_text)
