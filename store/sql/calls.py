"""Calls of language models: journaled while a turn runs, settled when it is committed, and listed."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from store.interface.admission import Settlement
from store.interface.pages import Page
from store.interface.rows import CallRow, SettledCallRow, SpentRow
from store.sql.connection import OF_SESSION, Connection, Parameters, Scalar, exists, fetch_page, of_session

UNSETTLED_MAX = 500
"""Maximum number of calls of one turn that are read: the latest ones."""

_COLUMNS = ", ".join(SettledCallRow.__struct_fields__)
_WITHHELD = {"reply": "NULL::JSON AS reply", "prompt": "NULL::VARCHAR AS prompt"}
_JOURNAL_COLUMNS = ", ".join(_WITHHELD.get(name, name) for name in SettledCallRow.__struct_fields__)


def journaled_sql(columns: str, which: str = "true") -> str:
    """Return SQL for the journaled calls that meet a condition, each once, with its result if it has one."""
    return f"""SELECT DISTINCT ON (call_id) {columns} FROM call_journal WHERE {which}
        ORDER BY call_id, ended_at NULLS LAST"""  # noqa: S608


def settle(connection: Connection, settlements: list[Settlement]) -> None:
    """Move the journaled calls of these turns' sessions to the settled calls, but for those that a turn leaves
    unsettled. Within a transaction.

    The rows pass through Python, because DuckDB 2.0 damaged its memory now and then when one INSERT joined, numbered
    and changed the journal's rows.
    """
    # the columns are compared, not the pair of them: with a list of pairs, DuckDB joins the table
    numbers = range(len(settlements))
    sessions = " OR ".join(f"(tenant = $tenant_{each} AND session_id = $session_{each}::UUID)" for each in numbers)
    values: dict[str, Scalar] = {}
    for number, each in enumerate(settlements):
        values |= {f"tenant_{number}": each.tenant, f"session_{number}": each.session_id}
    unsettled = [call_id for each in settlements for call_id in each.unsettled]
    which: Parameters = {**values, "unsettled": unsettled} if unsettled else values
    but_for = " AND call_id NOT IN (SELECT unnest($unsettled::VARCHAR[]))" if unsettled else ""
    journal = f"FROM call_journal WHERE ({sessions}){but_for}"
    logged = connection.fetch(CallRow, f"SELECT * {journal}", which)
    if not logged:
        return
    begun = {row.call_id for row in logged if row.ended_at is None}
    late: Parameters = {**values, "late": [row.call_id for row in logged if row.call_id not in begun]}
    if late["late"]:  # they ended after another server had taken over their turn, and settled them without an end
        of_late = f"({sessions}) AND call_id IN (SELECT unnest($late::VARCHAR[]))"
        connection.change(f"DELETE FROM settled_calls WHERE {of_late}", late)  # noqa: S608
    connection.insert("settled_calls", list(settled_calls(logged, settlements)))
    connection.change(f"DELETE {journal}", which)


def settle_unused(connection: Connection, call: CallRow) -> None:
    """Add the settled row of a call that no turn used. Within a transaction."""
    settlement = Settlement(call.tenant, call.session_id, call.turn, used=())
    connection.insert("settled_calls", list(settled_calls([call], [settlement])))


def settled_calls(journal: Iterable[CallRow], settlements: Iterable[Settlement]) -> Iterator[SettledCallRow]:
    """Yield each journaled call of these sessions once, as it is stored now that the session's turn is committed."""
    by_session = {(each.tenant, each.session_id): each for each in settlements}
    for call in last_rows(journal):
        yield _settle(call, by_session[call.tenant, call.session_id])


def last_rows(journal: Iterable[CallRow]) -> list[CallRow]:
    """Return each journaled call once; the journal has a row from before the call, and another one if it has ended."""
    calls: dict[tuple[str, str, str], CallRow] = {}
    for row in journal:
        key = (row.tenant, row.session_id, row.call_id)
        if key not in calls or row.ended_at is not None:
            calls[key] = row
    return list(calls.values())


def _settle(row: CallRow, settlement: Settlement) -> SettledCallRow:
    used = row.call_id in settlement.used
    prompt = settlement.prompts.get(row.call_id) if used else None
    call = SettledCallRow(**msgspec.structs.asdict(row), prompt=prompt)
    reply: dict[str, Any] = msgspec.json.decode(call.reply) or {}
    if (used and call.call_id not in settlement.withheld) or not (reply.get("text") or reply.get("raw")):
        return replace(call, turn=settlement.turn, used=used, withheld=False)
    without_text = msgspec.Raw(msgspec.json.encode(reply | {"text": "", "raw": ""}))
    return replace(call, turn=settlement.turn, used=used, withheld=True, reply=without_text)


def unsettled_calls(connection: Connection, tenant: str, session_id: str) -> list[CallRow]:
    """Return the last calls that attempts at a session's next turn have made, in order; at most UNSETTLED_MAX."""
    parameters = of_session(tenant, session_id)
    if not exists(connection, "call_journal", OF_SESSION, parameters):
        return []
    select = f"SELECT * FROM call_journal WHERE {OF_SESSION} ORDER BY number DESC LIMIT {2 * UNSETTLED_MAX}"  # noqa: S608
    return last_rows(connection.fetch(CallRow, select, parameters))[:UNSETTLED_MAX][::-1]


def calls(
    connection: Connection, tenant: str, session_id: str, *, limit: int = 100, cursor: str | None = None
) -> Page[SettledCallRow]:
    """Return a page of a session's calls, in the order they were made, settled or not. Raises CursorInvalid.

    Prompts and replies are returned for settled calls only.
    """
    source = f"""
        (SELECT {_COLUMNS} FROM settled_calls WHERE {OF_SESSION}
        UNION ALL SELECT * FROM ({journaled_sql(_JOURNAL_COLUMNS, OF_SESSION)}) AS journal) AS made"""  # noqa: S608
    order, of = {"started_at": datetime, "call_id": str}, of_session(tenant, session_id)
    return fetch_page(connection, SettledCallRow, source, {}, order, limit, cursor, parameters=of, descending=False)


def spent(
    connection: Connection, tenant: str, since: datetime, until: datetime, user_id: str | None = None
) -> SpentRow:
    """Return the usage of a tenant's or one user's calls that started in a time range, including calls for memory."""
    # calls of tools have no tokens and no price, and budgets count calls of models
    which = """purpose != 'tool' AND tenant = $tenant
        AND started_at >= $since::TIMESTAMPTZ AND started_at < $until::TIMESTAMPTZ
        AND ($user_id::VARCHAR IS NULL OR user_id = $user_id)"""
    columns = "attempts, input_tokens, output_tokens, cost"
    select = f"""
        SELECT count(*) FILTER (WHERE attempts IS DISTINCT FROM 0) AS calls,
            coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0)::BIGINT AS tokens,
            coalesce(sum(cost), 0) AS cost
        FROM (
            SELECT {columns} FROM settled_calls WHERE {which}
            UNION ALL SELECT * FROM ({journaled_sql(columns, which)}) AS journal
            UNION ALL SELECT {columns} FROM memory_calls WHERE {which}
        ) AS every"""  # noqa: S608
    between: Parameters = {"tenant": tenant, "user_id": user_id, "since": since.isoformat(), "until": until.isoformat()}
    return connection.fetch(SpentRow, select, between)[0]
