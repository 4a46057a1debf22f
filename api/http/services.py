"""The parts of one application, created and connected."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial

import msgspec

from api.analytics.dashboards.dashboards import Dashboards
from api.analytics.dashboards.page_files import DashboardFiles
from api.analytics.files import AnalyticsFiles
from api.analytics.process import Processes
from api.analytics.queries import AnalyticsQueries
from api.analytics.schedule import Snapshots
from api.auth.api_keys import ApiKeys
from api.auth.authenticator import Authenticator
from api.auth.middleware import AuthMiddleware, OpenRequests
from api.catalog.catalog import Catalog
from api.http.other_servers import ERASURES, OtherServers
from api.integrity.backups import Backups
from api.integrity.check_sessions import SessionVerifier
from api.memory.embedding import embedding_of
from api.memory.memory_system import create_memory
from api.memory.model_calls import MemoryCalls, summarizers
from api.metrics import Metrics
from api.models.model_calls import Spending
from api.notifications.web_push import Reminders
from api.participants.access import Participants
from api.participants.links import Links
from api.privacy.deletion import Deletion
from api.privacy.retention_worker import Retention
from api.reviews.reviews import Reviews
from api.sessions.chat import Chat
from api.sessions.forks import Forks
from api.sessions.interventions import Interventions
from api.sessions.live_turns import LiveTurns
from api.sessions.migration import SessionMigrator
from api.sessions.session_creation import Labels, SessionCreation
from api.sessions.timers import Scheduler, SessionTimers
from api.sessions.turn_runner import ToolsOfTurn, TurnRunner
from api.settings import Settings
from api.tools.session_tools import SessionTools, ToolCaller
from api.transfer.session_import import SessionImporter
from api.webhooks.dispatcher import Dispatcher
from api.webhooks.registry import WebhookRegistry
from api.webhooks.sender import Sender
from api.webhooks.ssrf import AddressPolicy
from runtime.context.resize import Handlers
from runtime.models.hosted.settings import is_loopback
from runtime.state.ports import Clock, Ids, Model
from runtime.tools.examples import EXAMPLES
from store.interface.private_files import FILE_NAME, size_bytes
from store.store import Store


class Services:
    """The parts of one application over an open store. Raises SettingsInvalid."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        model: Model,
        *,
        clock: Clock,
        ids: Ids,
        lifespan: Callable[["Services"], AbstractAsyncContextManager[None]],
        serves: bool,
        live: LiveTurns | None,
        operator_key: str,
        keys_needed: bool,
        context_handlers: Handlers | None,
    ) -> None:
        self.settings, self.store, self.model, self.clock, self.ids = settings, store, model, clock, ids
        self._lifespan = lifespan
        self.tool_caller = ToolCaller(settings)
        self.metrics, self.keys, self.catalog = Metrics(), ApiKeys(store, clock), Catalog(store, clock)
        self.live = live or LiveTurns(settings)
        self.requests = OpenRequests(settings)
        authenticator = Authenticator(settings, self.keys, clock, operator_key, always=keys_needed)
        self.authenticator = authenticator
        policy = AddressPolicy.of(settings, lambda: is_loopback(settings.host) and not authenticator.is_required)
        self.webhooks = WebhookRegistry(store, settings, policy, clock, ids)
        self.dispatcher = Dispatcher(self.webhooks, Sender(settings, policy), self.metrics)
        spending, embedding = Spending(store, settings.budgets), embedding_of(settings)
        calls = MemoryCalls(model, store.memory, spending, self.metrics, clock, ids)
        summarizer = summarizers(calls, clock)
        self.memory_system = create_memory(
            store, settings, embedding, self.catalog.memory_plan, summarizer, clock, ids, self.metrics
        )
        contexts = msgspec.structs.replace(settings.contexts, handlers=context_handlers or Handlers())
        self.turn_runner = TurnRunner(
            store, model, settings, clock, ids, spending, self.metrics, contexts, self.memory_system, self._tools()
        )
        self.chat = Chat(self.turn_runner, self.catalog, self.live, self.webhooks)
        self.creation = SessionCreation(self.chat, self.turn_runner, self.catalog)
        self._create_participants(policy)
        self.reviews = Reviews(store, clock, ids)
        self.interventions = Interventions(self.chat, self.turn_runner)
        self.session_timers = SessionTimers(self.chat, self.turn_runner)
        self.scheduler = Scheduler(self.session_timers)
        self.forks = Forks(self.chat, self.turn_runner)
        self.labels = Labels(self.creation)
        self.migrator = SessionMigrator(self.chat, self.turn_runner, self.catalog)
        self.backups = Backups(store, settings, clock)
        self.retention = Retention(self.chat, self.turn_runner)
        # while requests are served, the verifier pauses so that turns keep their speed
        self.verifier = SessionVerifier(store, clock, gently=serves)
        self._create_analytics()
        self.session_importer = SessionImporter(self.chat, self.turn_runner, self.catalog)
        self.other_servers = self._others()
        self._watch()

    def _others(self) -> OtherServers | None:
        """Return the part that follows the other servers on the same database, if there can be any."""
        shared = self.store.shared
        if shared is None:
            return None
        reloads = {
            "keys": [self.keys.reload],
            "webhooks": [self.webhooks.reload],
            "participants": [self.participants.reload, self.reminders.reload],
        }
        return OtherServers(
            shared, self.live, self.authenticator, self.deletion, self.settings.data / ERASURES, reloads
        )

    def leads(self) -> bool:
        """Return whether this server does what one of the servers on a database does."""
        return self.other_servers is None or self.other_servers.leads

    def _create_participants(self, policy: AddressPolicy) -> None:
        """Create the parts that admit and remind participants, and the guard of all requests."""
        settings, authenticator = self.settings, self.authenticator
        self.participants = Participants(self.creation, authenticator.participant_tokens)
        self.links = Links(self.participants, self.creation)
        push_policy = AddressPolicy(is_open=policy.is_open)  # a participant gives the address: no target of webhooks
        sender = Sender(settings, push_policy)
        self.reminders = Reminders(self.store, sender, push_policy, self.metrics, settings, self.clock)
        self.chat.on_spoken = self.reminders.announce
        principal_of = self.participants.principal
        self.guard = AuthMiddleware(authenticator, principal_of, self.chat.owner, settings, self.requests)

    def _create_analytics(self) -> None:
        """Create the parts that read the database for analysts, and the deletion, which also removes their files."""
        store, settings, clock = self.store, self.settings, self.clock
        self.processes = Processes()
        files = AnalyticsFiles(store, self.catalog, self.processes, settings.data, self.metrics, settings.keys_in)
        self.analytics = AnalyticsQueries(files, self.processes, self.metrics)
        self.snapshots = Snapshots(store, self.analytics, settings, clock)
        self.dashboards = Dashboards(store, self.analytics, clock, self.ids)
        self.dashboard_files = DashboardFiles(self.dashboards, settings, clock)
        copies = (files.forget, self.snapshots.forget, self.dashboard_files.forget)
        self.deletion = Deletion(self.chat, self.turn_runner, self.keys, copies)

    def _tools(self) -> ToolsOfTurn:
        """Return the tools of turns: those of the server, or the examples of their declarations."""
        if not self.settings.calls_tools:
            return lambda calls: EXAMPLES
        return partial(SessionTools, self.tool_caller, self.metrics)

    def _watch(self) -> None:
        """Register the gauges that are read when the metrics are collected."""
        watch, store = self.metrics.watch, self.store
        watch("open_requests", "Open requests", lambda: self.requests.count)
        watch("writer_lag_seconds", "Age in seconds of the group of writes in progress", lambda: store.writer_lag_s)
        watch("writer_queue", "Writes that wait for the writer thread", lambda: store.writes_waiting)
        watch("cached_sessions", "Sessions in the cache", lambda: len(self.chat.cache))
        watch("streams", "Clients with an open stream", lambda: self.live.readers)
        if store.shared is None:
            files = partial(size_bytes, self.settings.data, f"{FILE_NAME}*")
            watch("database_bytes", "Size of the database file with its log", files)
        watch("analytics_bytes", "Size of the analytics files", self.analytics.files.size_bytes)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which the background work of these parts runs."""
        return self._lifespan(self)


current: ContextVar[Services] = ContextVar("services")
"""The services of the current request or lifespan."""
