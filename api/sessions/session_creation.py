"""Creates sessions, each with its first turn and once for each idempotency key, and gives them keys and metadata."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from api.catalog.catalog import Catalog
from api.errors import ApiError, invalid_field, refusing_field, require_session
from api.models.model_calls import RecordedCalls
from api.schemas.lifecycle import KeyedSession, NewLabels
from api.schemas.sessions import NewMessage, NewSession
from api.sessions import row_mapping
from api.sessions.chat import Chat
from api.sessions.live_turns import PendingTurn, Place, TurnResult
from api.sessions.row_mapping import FORKED_FROM
from api.sessions.session_cache import CachedSession, SessionLocks, key_exists, require_not_redacted
from api.sessions.turn_runner import Preconditions, TurnRunner, context_settings_of, same_request, values_of
from runtime.engine.engine import TurnFailed
from runtime.state.inputs import Start
from runtime.state.program import ZONE_VARIABLE, Program
from runtime.state.scopes import Scopes, WriteRefused
from runtime.state.state import State, decode
from scripts.expressions.time_values import zone_of
from scripts.expressions.values import Value
from scripts.model.script import Locale
from store.interface.errors import KeyTaken, StoreBusy
from store.interface.rows import SessionRow

ATTEMPTS_MAX = 20  # to change a session; each fails only if another server has changed it
WAITING_MAX = 1_000  # requests for one key, or about one session


def timezone_of(name: str | None) -> str:
    """Return the time zone of a request, empty if it names none. Raises ApiError REQUEST_INVALID if there is none."""
    if name is not None and zone_of(name) is None:
        raise invalid_field("timezone", f"there is no time zone {name!r}")
    return name or ""


def require_user_zone(variables: Mapping[str, Value], field: str) -> None:
    """Check a user's variable for the time zone, which may be null. Raises ApiError REQUEST_INVALID."""
    zone = variables.get(ZONE_VARIABLE)
    if zone is not None and (not isinstance(zone, str) or zone_of(zone) is None):
        raise invalid_field(f"{field}.{ZONE_VARIABLE}", f"there is no time zone {zone!r}")


class SessionCreation(Struct, frozen=True):
    """Creates the sessions of all tenants, whose turns `chat` then takes."""

    chat: Chat
    runner: TurnRunner
    catalog: Catalog

    def submit(
        self,
        tenant: str,
        new: NewSession,
        condition: Preconditions,
        *,
        join: bool = False,
    ) -> PendingTurn:
        """Create a session; awaiting the result raises ApiError. `join` the same request if it is in progress."""
        key = condition.idempotency_key
        place = None if key is None else (tenant, key)
        return self.chat.submit(place, new, join, partial(self._start, tenant, new, key, place))

    async def _start(
        self,
        tenant: str,
        new: NewSession,
        key: str | None,
        place: Place | None,
        pending: PendingTurn,
    ) -> TurnResult:
        with self.chat.live.answering(pending, place):
            async with self.chat.creations.begin((tenant, new.user_id)):
                return await self._create(tenant, new, key, pending)

    async def _create(self, tenant: str, new: NewSession, key: str | None, pending: PendingTurn) -> TurnResult:
        known = await self._known_start(tenant, key, pending)
        if known is not None:
            return known
        _require_no_origin(new.metadata)
        script = await self.catalog.version_to_begin(tenant, new.script_id, new.script_version)
        program = await self.catalog.valid_program(tenant, script.digest)
        locale = new.locale or self.runner.settings.locale or program.locale
        program = await self.catalog.program_in(locale, tenant, script.digest)
        session_id = await self.runner.new_session_id(tenant, key)
        session = SessionRow(
            tenant=tenant,
            session_id=session_id,
            user_id=new.user_id,
            key=new.key,
            script_uuid=script.script_uuid,
            script_id=script.script_id,
            script_version=script.version,
            digest=script.digest,
            locale=locale,
            seed=new.seed if new.seed is not None else row_mapping.seed_of(session_id),
            metadata=values_of(new.metadata, "metadata"),
            created_at=self.runner.clock(),
            idempotency_key=key,
        )
        state = self._first_state(session, program, locale, new)
        cached = CachedSession(session, program, state, (), self.runner.contexts.messages_max(program.script, state))
        if key is not None:
            cached.attempts = RecordedCalls(await self.runner.store.turns.unsettled_calls(tenant, session_id))
        try:
            await self._require_free(tenant, new.key)
            async with self.chat.locks.hold(cached.key):
                return await self._begin(cached, key, pending)
        except ApiError as error:
            if error.code not in {"SESSION_KEY_EXISTS", "TURN_CONFLICT"}:
                raise
            # another server may have committed the same request meanwhile
            known = await self._known_start(tenant, key, pending)
            if known is None:
                raise
            return known

    async def _known_start(self, tenant: str, key: str | None, pending: PendingTurn) -> TurnResult | None:
        """Return the first turn of the session that a request with this idempotency key created. Raises ApiError."""
        known = None if key is None else await self.runner.store.sessions.by_creation_key(tenant, key)
        if known is None:
            return None
        require_not_redacted(known)
        return await self._recorded_start(known, pending)

    async def _require_free(self, tenant: str, key: str | None) -> None:
        """Raise ApiError SESSION_KEY_EXISTS if a session has this key. The commit checks it again, but only after the
        first turn has called models and tools.
        """
        if key is None:
            return
        other = await self.runner.store.sessions.by_key(tenant, key)
        if other is not None:
            raise key_exists(KeyTaken("key", key, other.session_id))

    def _first_state(self, session: SessionRow, program: Program, locale: Locale, new: NewSession) -> State:
        variables = self.check_variables(program, locale, new.initial_variables)
        return State(
            seed=session.seed,
            locale=locale,
            user_id=session.user_id,
            start_variables=variables,
            context_settings=context_settings_of(new.context),
            timezone=timezone_of(new.timezone),
        )

    def check_variables(self, program: Program, locale: Locale, sent: Mapping[str, Any] | None) -> dict[str, Value]:
        """Return the initial variables of a session. Raises ApiError REQUEST_INVALID if one cannot be set."""
        variables = values_of(sent, "initialVariables")
        if ZONE_VARIABLE in program.global_names:
            require_user_zone(variables, "initialVariables")
        trial = Scopes(program, State(seed=0, locale=locale))
        for name, value in variables.items():
            with refusing_field("initialVariables", WriteRefused):
                trial.write(
                    "global" if name in program.global_names else "session", name, value, "api", self.runner.clock()
                )
        return variables

    async def _begin(self, cached: CachedSession, key: str | None, pending: PendingTurn) -> TurnResult:
        """Run the first turn. A session whose first turn fails is stored and can be started again."""
        cached.knows_all_keys = True
        started = self.runner.clock()
        try:
            turn = await self.chat.run(cached, Start(), started, pending)
        except TurnFailed as failed:
            await self.chat.commit(cached, row_mapping.session_before_first_turn(cached.state), started, key, pending)
            raise await self.chat.fail(cached, failed) from failed
        return await self.chat.commit(cached, turn, started, key, pending)

    async def _recorded_start(self, session: SessionRow, pending: PendingTurn) -> TurnResult:
        """Return the recorded answer to a creation; retry one that failed."""
        row = same_request(
            await self.runner.store.turns.get(session.tenant, session.session_id, 0), pending.fingerprint
        )
        async with self.chat.exclusive(session.tenant, session.session_id) as cached:
            if not cached.state.begun:
                return await self.chat.take_turn(NewMessage(content=""), None, cached, pending)
        while row.execution_status == "error":  # a later turn started it successfully
            following = await self.runner.store.turns.get(session.tenant, session.session_id, row.turn + 1)
            if following is None:
                break
            row = following
        return TurnResult(session, await self.chat.program_at(cached, row.turn), decode(bytes(row.state)), row)


class Labels:
    """The keys and metadata of sessions of all tenants."""

    def __init__(self, creation: SessionCreation) -> None:
        settings = creation.runner.settings
        self._creation = creation
        self._chat = creation.chat
        self._store = creation.runner.store
        self._keys = SessionLocks(WAITING_MAX, settings.turn_s)
        self._changes = SessionLocks(WAITING_MAX, settings.queue_s)

    async def by_key(self, tenant: str, key: str) -> CachedSession | None:
        """Return the session with a key, if any."""
        row = await self._store.sessions.by_key(tenant, key)
        return await self._chat.session(tenant, row.session_id) if row is not None else None

    async def get_or_create(self, tenant: str, new: KeyedSession) -> tuple[CachedSession, bool]:
        """Return the session with a key, created if it is missing, and whether it was created.

        Concurrent requests create one session.

        Raises ApiError, SESSION_KEY_EXISTS if the session belongs to another user.
        """
        async with self._keys.hold((tenant, new.key)):
            cached = await self.by_key(tenant, new.key)
            if cached is None:
                try:
                    answer = await self._creation.submit(tenant, new, Preconditions())
                except ApiError as error:
                    cached = await self.by_key(tenant, new.key) if error.code == "SESSION_KEY_EXISTS" else None
                    if cached is None:
                        raise
                else:
                    return await self._chat.session(tenant, answer.session.session_id), True
        if cached.session.user_id != new.user_id:
            raise ApiError("SESSION_KEY_EXISTS", "the session with this key belongs to another user")
        if not cached.state.begun:
            nothing, queue = NewMessage(content=""), Preconditions(queue=True)
            await self._chat.submit_message(tenant, cached.session.session_id, nothing, queue)
            cached = await self._chat.session(tenant, cached.session.session_id)
        return cached, False

    async def label(self, tenant: str, session_id: str, new: NewLabels, expected_turn: int | None) -> CachedSession:
        """Merge metadata into a session's, and set its key if it has none. Raises ApiError."""
        return await self._chat.run_shielded(self._label(tenant, session_id, new, expected_turn))

    async def _label(self, tenant: str, session_id: str, new: NewLabels, expected_turn: int | None) -> CachedSession:
        _require_no_origin(new.metadata)
        async with self._changes.hold((tenant, session_id)):  # not the session's lock: turns continue
            self._chat.require_turn(await self._chat.session(tenant, session_id), expected_turn)
            for _ in range(ATTEMPTS_MAX):
                if await self._try_label(tenant, session_id, new):
                    return await self._chat.session(tenant, session_id)
        raise StoreBusy("other servers change the metadata of the session at the same time")

    async def _try_label(self, tenant: str, session_id: str, new: NewLabels) -> bool:
        """Return false if the session was changed between the read and the write, on another server."""
        session = require_session(await self._store.sessions.start(tenant, session_id), session_id)
        require_not_redacted(session)
        if new.key is not None and session.key not in {None, new.key}:
            message = "the session has a key already, which cannot be changed"
            raise ApiError("INTERVENTION_REFUSED", message, context={"sessionId": session_id})
        key, metadata = new.key or session.key, apply_patch(session.metadata, new.metadata)
        if (key, metadata) == (session.key, session.metadata):
            return True
        try:
            is_set = await self._store.sessions.label(session, key, metadata)
        except KeyTaken as error:
            raise key_exists(error) from error
        if is_set:
            self._chat.cache.relabel(tenant, session_id, key, metadata)
        return is_set


def _require_no_origin(metadata: dict[str, Any] | None) -> None:
    """Raise ApiError REQUEST_INVALID if an application names the origin of a fork, since reports leave out forks."""
    if metadata and FORKED_FROM in metadata:
        raise invalid_field("metadata", f"`{FORKED_FROM}` is the origin of a fork, which an application cannot set")


def apply_patch(metadata: dict[str, Any], patch: dict[str, Any] | None) -> dict[str, Any]:
    """Apply a merge patch (RFC 7396) to metadata. Raises ApiError REQUEST_INVALID if it becomes too large or deep."""
    return values_of(_merge(metadata, values_of(patch, "metadata")), "metadata")


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
