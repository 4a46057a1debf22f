"""How long sessions are kept: policies, what is due by them, and the dropping of it.

Of the policies that drop text the first one that fits a session is its one, and of those that delete sessions likewise,
whatever their ages: so an exception stands before what it is one of. What is due is looked at again in the transaction
that drops it, so nothing that goes on meanwhile is lost.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from store.fetch import Cursor, Parameters, fetch, iso
from store.insert import as_list, encode
from store.readers import Readers
from store.reduction import drop_text
from store.removal import OF_SESSIONS, delete_sessions
from store.writer import Writer

Drop: TypeAlias = Literal["text", "session"]
DAYS_MAX = 36_500
DUE_MAX = 10_000
"""Sessions that one look finds; more are found by the next one."""

_Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Policy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is dropped of which sessions, and when; null fits all."""

    after_days: Annotated[int, Meta(ge=1, le=DAYS_MAX)]
    """Since the session's last turn."""
    drop: Drop = "text"
    """`text`: words and values go, what is counted stays; `session`: all of it goes."""
    script: _Text | None = None
    """The script it runs now, by the id its author gave it; `*` stands for any characters."""
    tenant: _Text | None = None
    status: Literal["active", "paused", "completed"] | None = None

    def covers(self, other: "Policy") -> bool:
        """Whether it fits all sessions that the other one fits, and drops the same of them."""
        pairs = ((self.script, other.script), (self.tenant, other.tenant), (self.status, other.status))
        return self.drop == other.drop and all(mine in {None, theirs} for mine, theirs in pairs)


def check_policies(policies: Sequence[Policy]) -> None:
    """Raises ValueError for a policy that never applies, since one before it fits all that it fits."""
    for number, policy in enumerate(policies):
        for before, other in enumerate(policies[:number]):
            if other.covers(policy):
                raise ValueError(
                    f"retention[{number}] never applies: retention[{before}] before it fits all its sessions; "
                    "put the one for fewer sessions first"
                )


class Due(Struct, frozen=True):
    """A session whose time has come."""

    tenant: str
    session_id: str
    user_id: str
    drops: Drop
    turns: int


class DueByPolicy(Struct, frozen=True):
    """What one policy would drop now."""

    number: int
    """The policy's place in the list, from 0."""
    sessions: int
    turns: int
    messages: int
    bytes: int
    """Of messages, variable writes and events, as they are stored."""
    oldest: datetime
    """The last turn of the session that was left the longest time ago."""


class Dropped(Struct, frozen=True):
    """What was dropped of some sessions of a tenant."""

    texts: list[str]
    """Sessions whose text went."""
    sessions: list[str]
    """Sessions that went."""
    users: list[str]
    """Whose memory had something of them."""


class _Rule(Struct, frozen=True):
    """A policy as the database reads it: sessions whose last turn is `before` are due."""

    number: int
    drops: Drop
    before: datetime
    script: str | None
    tenant: str | None
    status: str | None


class RetentionRecord:
    """What the record knows of policies."""

    def __init__(self, readers: Readers, writer: Callable[[], Writer]) -> None:
        self._readers = readers
        self._writer = writer

    async def counts(self, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
        """What each policy would drop now; those that would drop nothing are left out."""
        return await self._readers.read(lambda cursor: _counts(cursor, policies, now))

    async def due(self, policies: Sequence[Policy], now: datetime) -> list[Due]:
        """At most DUE_MAX sessions of every tenant that are due, those first that were left the longest time ago."""
        return await self._readers.read(lambda cursor: _find(cursor, policies, now))

    async def drop(self, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime) -> Dropped:
        """Drop what is due of these sessions, all or nothing; nobody may talk to them meanwhile."""
        return await self._writer().run(
            partial(_drop, tenant=tenant, session_ids=session_ids, policies=policies, now=now),
            lambda dropped: [(tenant, session_id) for session_id in (*dropped.texts, *dropped.sessions)],
        )


def _counts(cursor: Cursor, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
    select = f"""
    WITH {_due()}, held AS (
        SELECT tenant, session_id, max(message_count) AS messages,
            sum(strlen(messages) + strlen(variables) + strlen(events))::BIGINT AS bytes
        FROM turns SEMI JOIN due USING (tenant, session_id) GROUP BY tenant, session_id
    )
    SELECT number, count(*) AS sessions, sum(turns)::BIGINT AS turns, coalesce(sum(messages), 0)::BIGINT AS messages,
        coalesce(sum(bytes), 0)::BIGINT AS bytes, {iso("min(active_at)")} AS oldest
    FROM due LEFT JOIN held USING (tenant, session_id) GROUP BY number ORDER BY number"""  # noqa: S608
    return fetch(cursor, DueByPolicy, select, {"rules": _rules(policies, now)})


def _find(
    cursor: Cursor, policies: Sequence[Policy], now: datetime, *, of: tuple[str, list[str]] | None = None
) -> list[Due]:
    """Sessions that are due; only those `of` a tenant, if they are named."""
    parameters: Parameters = {"rules": _rules(policies, now)}
    if of is not None:
        parameters |= {"tenant": of[0], "sessions": of[1]}
    select = f"""
    WITH {_due(named=of is not None)}
    SELECT tenant, session_id::VARCHAR AS session_id, user_id, drops, turns FROM due
    ORDER BY active_at, session_id LIMIT {DUE_MAX}"""  # noqa: S608
    return fetch(cursor, Due, select, parameters)


def _drop(cursor: Cursor, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime) -> Dropped:
    found = _find(cursor, policies, now, of=(tenant, session_ids))
    texts = [each.session_id for each in found if each.drops == "text"]
    whole = [each.session_id for each in found if each.drops == "session"]
    users = set(drop_text(cursor, tenant, texts, now)) if texts else set()
    users |= set(delete_sessions(cursor, tenant, whole)) if whole else set()
    return Dropped(texts, whole, sorted(users))


def _rules(policies: Sequence[Policy], now: datetime) -> str:
    return as_list(
        encode(_Rule(number, each.drop, now - timedelta(days=each.after_days), each.script, each.tenant, each.status))
        for number, each in enumerate(policies)
    )


_RULES = """SELECT unnest(from_json_strict($rules::JSON, '[{"number": "INTEGER", "drops": "VARCHAR",
    "before": "TIMESTAMPTZ", "script": "VARCHAR", "tenant": "VARCHAR", "status": "VARCHAR"}]'), max_depth := 2)"""


def _due(*, named: bool = False) -> str:
    """SQL of common tables, of which `due` has the sessions that are due: every session's latest turn is looked at.

    Among them are those that never began, of which nothing is there but calls of models.
    """
    of = f"WHERE {OF_SESSIONS}" if named else ""
    return f"""
    rules AS ({_RULES}), latest AS (
        SELECT tenant, session_id, count(*) AS turns, max(finished_at) AS finished_at, arg_max(status, turn) AS status
        FROM turns {of} GROUP BY tenant, session_id
    ), moves AS (
        SELECT tenant, session_id, arg_max(script_id, turn) AS script_id FROM session_migrations {of}
        GROUP BY tenant, session_id
    ), standing AS (
        SELECT s.tenant, s.session_id, s.user_id, s.text_dropped_at, coalesce(m.script_id, s.script_id) AS script_id,
            latest.turns, latest.status, greatest(latest.finished_at, s.created_at) AS active_at
        FROM session_starts AS s JOIN latest USING (tenant, session_id) LEFT JOIN moves AS m USING (tenant, session_id)
        UNION ALL BY NAME
        SELECT tenant, session_id, any_value(user_id) AS user_id, any_value(script_id) AS script_id, 0 AS turns,
            max(started_at) AS active_at, if(max(request_digest) = '', active_at, NULL) AS text_dropped_at
        FROM (FROM call_journal {of}) ANTI JOIN session_starts USING (tenant, session_id) GROUP BY tenant, session_id
    ), fitting AS (
        SELECT s.*, rules.number, rules.drops, rules.before FROM standing AS s JOIN rules
            ON coalesce(rules.tenant, s.tenant) = s.tenant AND s.script_id GLOB coalesce(rules.script, '*')
            AND (rules.status IS NULL OR rules.status = s.status)
        QUALIFY row_number() OVER (PARTITION BY s.tenant, s.session_id, rules.drops ORDER BY rules.number) = 1
    ), due AS (
        SELECT * FROM fitting WHERE active_at < before AND (drops = 'session' OR text_dropped_at IS NULL)
        QUALIFY row_number() OVER (PARTITION BY tenant, session_id ORDER BY drops = 'text') = 1
    )"""  # noqa: S608
