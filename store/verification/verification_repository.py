"""The part of the store that verification uses."""

from store.duckdb.repository import Repository, reads, writes
from store.duckdb.script_texts import texts_after
from store.verification import rules, session_parts


class VerificationRepository(Repository):
    """Read the data of all tenants for verification, and fix memories. Raises the same errors as `Store`."""

    session_count = reads(session_parts.session_count)
    sessions_after = reads(session_parts.sessions_after)
    parts = reads(session_parts.read_parts)
    broken = reads(rules.broken)
    fix = writes(rules.fix)
    texts_after = reads(texts_after)
