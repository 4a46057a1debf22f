"""Checks that a PostgreSQL database has lost, doubled and torn nothing."""

import psycopg

from tests.support.api_client import ApiClient

_GAPS = """
SELECT t.session_id FROM turns AS t LEFT JOIN session_heads AS h USING (tenant, session_id)
GROUP BY t.session_id HAVING min(t.turn) <> 0 OR max(t.turn) <> count(*) - 1
    OR max(t.turn) <> max(h.turn) OR max(t.message_count) <> max(h.message_count)
"""
_DOUBLED_KEYS = """
SELECT session_id, idempotency_key FROM turns WHERE idempotency_key IS NOT NULL
GROUP BY session_id, idempotency_key HAVING count(*) > 1
"""
_DOUBLED_CALLS = "SELECT session_id, call_id FROM settled_calls GROUP BY session_id, call_id HAVING count(*) > 1"


def assert_whole(url: str) -> None:
    """Turns of every session are numbered without gaps, agree with their head, and no key or call has two rows."""
    with psycopg.connect(url) as connection:
        for query in (_GAPS, _DOUBLED_KEYS, _DOUBLED_CALLS):
            assert connection.execute(query).fetchall() == []


async def assert_verified(api: ApiClient, url: str) -> None:
    """The rows are whole, and `verify` finds nothing."""
    assert_whole(url)
    found = await api.read("/api/operations/verify")
    assert found["findings"] == [], found
