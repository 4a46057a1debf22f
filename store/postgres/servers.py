"""The other servers on the same database."""

import asyncio
from collections.abc import Callable, Sequence

from store.interface.admission import SessionId
from store.interface.shared_database import Marks, Progress, SessionStamp
from store.postgres import erasures
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of
from store.postgres.engine import PostgresEngine
from store.sql.connection import OF_SESSION, Parameters, of_session

ALIVE_S = 15
"""Seconds after which a server that was not seen counts as dead."""
CHANGES_STORED_DAYS = 7
"""How long changes of sessions are stored for other servers; one that reads later copies all for analytics again."""
_STAMP = f"""
SELECT h.turn, (SELECT count(*) FROM call_journal WHERE {OF_SESSION}),
    EXISTS (SELECT 1 FROM turn_failures WHERE {OF_SESSION} AND turn_attempted = h.turn + 1),
    s.xmin::text
FROM (SELECT * FROM session_heads WHERE {OF_SESSION}) AS h
JOIN session_starts AS s ON s.tenant = h.tenant AND s.session_id = h.session_id
"""  # noqa: S608
_PROGRESS = f"""
SELECT tenant, session_id::TEXT, event_count, status = 'completed' FROM session_heads
WHERE {OF_SESSION_IDS}
"""  # noqa: S608
# Every change of a row gives it a greater `xmin`, whatever the clocks say. For keys, the ids are compared instead,
# since each use may change a row.
_MARKS = """
SELECT (SELECT concat_ws(' ', count(*), count(revoked_at), sum(hashtext(key_id))) FROM api_keys),
    (SELECT concat_ws(' ', count(*), sum(xmin::text::bigint)) FROM webhooks),
    (SELECT concat_ws(' ', count(*), sum(xmin::text::bigint)) FROM participants)
        || (SELECT concat(' ', count(*), ' ', count(revoked_at)) FROM links),
    (SELECT coalesce(json_object_agg(tenant, erased), '{}') FROM
        (SELECT tenant, count(*) AS erased FROM erasures GROUP BY tenant) AS by_tenant)
"""
_ALIVE = f"SELECT count(*) FROM servers WHERE seen_at > clock_timestamp() - INTERVAL '{ALIVE_S} seconds'"  # noqa: S608
_LEAD = """
INSERT INTO leaders AS held (job, owner, expires_at)
VALUES ($job, $owner::UUID, clock_timestamp() + make_interval(secs => $seconds))
ON CONFLICT (job) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE held.owner = excluded.owner OR held.expires_at < clock_timestamp() RETURNING 1
"""
_ENDED = """
SELECT 1 FROM job_runs WHERE job = $job AND ended_at > clock_timestamp() - make_interval(secs => $seconds)
"""


def servers_alive(connection: PostgresConnection) -> int:
    """Return the number of servers that live; one that was killed counts for ALIVE_S."""
    return int(connection.rows(_ALIVE)[0][0])


class PostgresServers:
    """Asks the rows that servers write for each other."""

    def __init__(self, engine: PostgresEngine, drop_copies: Callable[[], None]) -> None:
        self._engine = engine
        self._drop_copies = drop_copies

    async def stamp(self, tenant: str, session_id: str) -> SessionStamp | None:
        """Return the stamp of a session, or None if there is no such session."""
        found = await self._engine.read(lambda connection: connection.rows(_STAMP, of_session(tenant, session_id)))
        return SessionStamp(*found[0]) if found else None

    async def progress(self, sessions: Sequence[SessionId]) -> list[Progress]:
        """Return how far sessions have come; those that do not exist are left out."""
        found = await self._engine.read(lambda connection: connection.rows(_PROGRESS, names_of(sessions)))
        return [Progress((tenant, session_id), *rest) for tenant, session_id, *rest in found]

    async def marks(self) -> Marks:
        """Return the fingerprints of the tables that are cached."""
        return Marks(*(await self._engine.read(lambda connection: connection.rows(_MARKS)))[0])

    async def memory_version(self, tenant: str, user_id: str) -> int:
        """Return the version of a memory; 0 for one that was never changed."""
        return await self._engine.read(lambda connection: memory_version(connection, tenant, user_id))

    async def beat(self) -> int:
        """Note that this server lives; return the number of servers that live."""
        return await self._engine.write_at_once(self._beat)

    def _beat(self, connection: PostgresConnection) -> int:
        connection.change(
            """INSERT INTO servers (owner, seen_at) VALUES ($owner::UUID, clock_timestamp())
            ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at""",
            {"owner": self._engine.owner},
        )
        connection.change(f"DELETE FROM servers WHERE seen_at < clock_timestamp() - INTERVAL '{ALIVE_S} seconds'")  # noqa: S608
        connection.change(
            f"DELETE FROM erased_users WHERE erased_at < clock_timestamp() - INTERVAL '{erasures.STORED_S} seconds'"  # noqa: S608
        )
        connection.change(
            f"DELETE FROM changed_sessions WHERE changed_at < clock_timestamp() - INTERVAL '{CHANGES_STORED_DAYS} days'"  # noqa: S608
        )
        connection.change("DELETE FROM leaders WHERE expires_at < clock_timestamp() - INTERVAL '1 hour'")
        return servers_alive(connection)

    async def lead(self, job: str, seconds: int) -> bool:
        """Return whether this server does a job alone from now on, for `seconds`."""
        given: Parameters = {"job": job, "owner": self._engine.owner, "seconds": seconds}
        return bool(await self._engine.write_at_once(lambda connection: connection.rows(_LEAD, given)))

    async def stop_leading(self, job: str) -> None:
        """Let another server do a job that this one did alone."""
        await self._change("DELETE FROM leaders WHERE job = $job AND owner = $owner::UUID", job=job)

    async def is_due(self, job: str, every_s: float) -> bool:
        """Return whether no server has ended a job within the last `every_s` seconds."""
        given: Parameters = {"job": job, "seconds": every_s}
        return not await self._engine.read(lambda connection: connection.rows(_ENDED, given))

    async def note_end(self, job: str) -> None:
        """Note that a job has ended now."""
        await self._change(
            """INSERT INTO job_runs (job, ended_at) VALUES ($job, clock_timestamp())
            ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at""",
            job=job,
        )

    async def leave(self) -> None:
        """Note that this server does not live any more, and let others do what it did alone."""
        for table in ("leaders", "servers"):
            await self._change(f"DELETE FROM {table} WHERE owner = $owner::UUID")  # noqa: S608

    async def _change(self, statement: str, **given: str) -> None:
        """Execute a statement with `$owner`, this server."""
        parameters: Parameters = {"owner": self._engine.owner, **given}
        await self._engine.write_at_once(lambda connection: connection.change(statement, parameters))

    async def drop_copies(self) -> None:
        """Delete what this server has copied from the database for analytics, since it may contain erased data."""
        await asyncio.to_thread(self._drop_copies)

    async def agree_on_key(self, name: str, digest: str) -> bool:
        """Return whether a key file has the digest of the first server that had one of this name."""

        def agree(connection: PostgresConnection) -> bool:
            connection.change(
                "INSERT INTO key_digests (name, digest) VALUES ($name, $digest) ON CONFLICT (name) DO NOTHING",
                {"name": name, "digest": digest},
            )
            return connection.rows("SELECT digest FROM key_digests WHERE name = $name", {"name": name}) == [(digest,)]

        return await self._engine.write_at_once(agree)


def memory_version(connection: PostgresConnection, tenant: str, user_id: str) -> int:
    """Return the version of a memory; 0 for one that was never changed."""
    ((version,),) = connection.rows(
        """SELECT coalesce(
            (SELECT version FROM memory_versions WHERE tenant = $tenant AND user_id = $user_id),
            (SELECT memory_version FROM erased_users WHERE tenant = $tenant AND user_digest = $digest), 0)""",
        {"tenant": tenant, "user_id": user_id, "digest": erasures.digest_of(user_id)},
    )
    return int(version)


def new_memory_version(connection: PostgresConnection, tenant: str, user_id: str) -> int:
    """Give a memory a new version, and return it. Within the transaction that changes the memory."""
    connection.note_memory_change(tenant, [user_id])
    return memory_version(connection, tenant, user_id)
