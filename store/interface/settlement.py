"""Settle calls: once a turn is committed, the calls that its attempts have made are stored with what became of them."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from store.interface.rows import CallRow


class Settlement(msgspec.Struct, frozen=True):
    """A committed turn that settles the calls in its session's journal.

    `used` are the ids of the calls that the turn used, `withheld` of those whose text was not sent to the user,
    and `prompts_withheld` of those whose prompt may contain such a text and is not stored. The
    texts of withheld calls, and texts and prompts of calls that were not used, are not stored.
    """

    tenant: str
    session_id: str
    turn: int
    used: tuple[str, ...]
    withheld: tuple[str, ...] = ()
    prompts_withheld: tuple[str, ...] = ()


def settled_calls(journal: Iterable[CallRow], settlements: Iterable[Settlement]) -> Iterator[CallRow]:
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


def _settled(call: CallRow, settlement: Settlement) -> CallRow:
    used = call.call_id in settlement.used
    if not used or call.call_id in settlement.prompts_withheld:
        call = replace(call, prompt=None)
    reply: dict[str, Any] = msgspec.json.decode(call.reply) or {}
    if (used and call.call_id not in settlement.withheld) or not (reply.get("text") or reply.get("raw")):
        return replace(call, turn=settlement.turn, used=used, withheld=False)
    without_text = msgspec.Raw(msgspec.json.encode(reply | {"text": "", "raw": ""}))
    return replace(call, turn=settlement.turn, used=used, withheld=True, reply=without_text)
