"""The repositories that are the same over every database. What each method does is said in `store.interface`."""

from collections.abc import Awaitable, Callable, Mapping

from store.interface.admission import ProposedTurn
from store.interface.analyst_rows import DashboardRow, SavedQueryRow
from store.interface.hand_over_rows import HandOverRow
from store.interface.rows import CallRow, MigrationRow, SessionRow, TurnRow
from store.interface.timer_rows import TimerRow
from store.interface.turn_group import Entry
from store.interface.webhook_rows import DeliveryRow
from store.sql import calls as calls_sql
from store.sql import (
    deletion,
    drafts,
    hand_overs,
    keys,
    participants,
    reviews,
    script_texts,
    sessions,
    timers,
    turns,
    webhooks,
)
from store.sql import failures as failures_sql
from store.sql.connection import Connection
from store.sql.repository import C, Changed, Engine, Repository, reads, reads_durable, writes
from store.sql.tenant_table import TenantTable

ROWS_MAX = 1_000
"""Maximum number of saved queries, and of dashboards, of one tenant."""
_QUERIES = TenantTable("saved_queries", "query_id", SavedQueryRow, ROWS_MAX)
_DASHBOARDS = TenantTable("dashboards", "dashboard_id", DashboardRow, ROWS_MAX)


class Turns(Repository[C]):
    """Store and read turns. `commit` commits a turn, or a call for the journal, with the other waiting ones."""

    def __init__(self, engine: Engine[C], commit: Callable[[Entry], Awaitable[None]]) -> None:
        super().__init__(engine)
        self._commit = commit

    async def commit(
        self,
        turn: TurnRow,
        expected_turn: int,
        session: SessionRow | None = None,
        migration: MigrationRow | None = None,
        calls_used: tuple[str, ...] | None = None,
        calls_withheld: tuple[str, ...] = (),
        prompts: Mapping[str, str] = {},
        deliveries: tuple[DeliveryRow, ...] = (),
        timers: tuple[TimerRow, ...] | None = None,
        hand_overs: tuple[HandOverRow, ...] | None = None,
    ) -> None:
        """Commit a turn in a group with the other waiting turns."""
        await self._commit(
            ProposedTurn(
                turn,
                expected_turn,
                session,
                migration,
                calls_used,
                calls_withheld,
                prompts,
                deliveries,
                timers,
                hand_overs,
            )
        )

    async def note_call(self, call: CallRow) -> None:
        """Write a call of a model to the journal, in a group with the waiting turns."""
        await self._commit(call)

    save_failure = writes(failures_sql.save_failure)
    get = reads(turns.turn)
    range = reads(turns.turns)
    by_key = reads_durable(turns.turn_by_key)
    messages = reads(turns.messages)
    recent_messages = reads(turns.recent_messages)
    user_message = reads(turns.user_message)
    snapshots = reads(turns.snapshots)
    events = reads(turns.events)
    variable_history = reads(turns.variable_history)
    failures = reads(failures_sql.failures)
    unsettled_calls = reads(calls_sql.unsettled_calls)
    calls = reads(calls_sql.calls)
    spent = reads(calls_sql.spent)


class SessionReads(Repository[C]):
    """Read one session, and change its key and metadata."""

    start = reads(sessions.session_start)
    by_key = reads(sessions.session_by_key)
    by_creation_key = reads_durable(sessions.creation_by_key)
    hand_overs = reads(hand_overs.page)
    migrations = reads(sessions.migrations)
    label = writes(sessions.label)
    ids_of_user = reads(deletion.sessions_of_user)


class Scripts(Repository[C]):
    """Store and read scripts."""

    save = writes(script_texts.save_script)
    set_statuses = writes(script_texts.set_statuses)
    describe = writes(script_texts.describe)
    page = reads(script_texts.scripts)
    get = reads(script_texts.script)
    versions = reads(script_texts.script_versions)
    latest_published = reads(script_texts.latest_published)
    text = reads(script_texts.script_text)
    save_draft = writes(drafts.save_draft)
    delete_draft = writes(drafts.delete_draft)
    draft = reads(drafts.draft_of)
    drafts = reads(drafts.drafts)


class Delivery(Repository[C]):
    """Store and read webhooks and deliveries."""

    add_webhook = writes(webhooks.add_webhook)
    change_webhook = writes(webhooks.change_webhook)
    remove_webhook = writes(webhooks.remove_webhook)
    note_attempts = writes(webhooks.note_attempts)
    replay = writes(webhooks.replay_deliveries)
    tidy = writes(webhooks.tidy_deliveries)
    webhooks_of_all = reads(webhooks.webhooks_of_all)
    ahead = reads(webhooks.deliveries_ahead)
    page = reads(webhooks.deliveries)
    get = reads(webhooks.delivery)


class Timers(Repository[C]):
    """Read timers, and note failed attempts to fire them."""

    ahead = reads(timers.ahead)
    page = reads(timers.page)
    replace = writes(timers.replace)
    hold_due = writes(timers.hold_due)
    note_failure = writes(timers.note_failure)


class Keys(Repository[C]):
    """Store and read API keys."""

    add = writes(keys.add_key)
    revoke = writes(keys.revoke_key)
    note_use = writes(keys.note_key_use)
    known = reads(keys.known_keys)
    get = reads(keys.key)
    page = reads(keys.keys)


class Participants(Repository[C]):
    """Store and read links and participants."""

    add_link = writes(participants.add_link)
    revoke_link = writes(participants.revoke_link)
    link = reads(participants.link)
    links = reads(participants.links)
    add = writes(participants.add_participant)
    revoke = writes(participants.revoke_participant)
    set_push = writes(participants.set_push)
    to_remind = reads(participants.to_remind)
    reminded = reads(participants.reminded)
    get = reads(participants.participant)
    resuming = reads(participants.resuming)
    page = reads(participants.participants)


class Reviews(Repository[C]):
    """Store and read reviews and ratings."""

    add = writes(reviews.add_review)
    close = writes(reviews.close_review)
    delete = writes(reviews.delete_review)
    get = reads(reviews.review)
    page = reads(reviews.reviews)
    targets = reads(reviews.targets)
    turns_of = reads(reviews.turns_of)
    rate = writes(reviews.rate)
    rating = reads(reviews.rating)
    ratings = reads(reviews.ratings)


class Deletion(Repository[C]):
    """Delete sessions and users."""

    delete_session = writes(
        deletion.delete_session, lambda is_removed, tenant, session_id: Changed([(tenant, session_id)] * is_removed)
    )
    erase_user = writes(
        deletion.erase_user,
        lambda erased, tenant, user_id, *_: Changed(
            [(tenant, session_id) for session_id in erased.sessions], [(tenant, user_id)]
        ),
    )


def tenants(connection: Connection) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = connection.rows("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant")
    return [tenant for (tenant,) in found]


def scheduled_dashboards(connection: Connection) -> list[DashboardRow]:
    """Return the dashboards of all tenants that are written to files."""
    return _DASHBOARDS.where(connection, "schedule IS NOT NULL")


class AnalystTables(Repository[C]):
    """Store and read saved queries and dashboards."""

    tenants = reads(tenants)
    queries = reads(_QUERIES.page)
    query = reads(_QUERIES.find)
    add_query = writes(_QUERIES.add)
    change_query = writes(_QUERIES.change)
    delete_query = writes(_QUERIES.delete)
    dashboards = reads(_DASHBOARDS.page)
    dashboard = reads(_DASHBOARDS.find)
    add_dashboard = writes(_DASHBOARDS.add)
    change_dashboard = writes(_DASHBOARDS.change)
    delete_dashboard = writes(_DASHBOARDS.delete)
    scheduled_dashboards = reads(scheduled_dashboards)
