"""Routes that change sessions besides messages: pause, variables, model, rewind, clear, compress, append,
hand-over, timers, fork, metadata, migrate.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from litestar import Response, patch, post
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Struct

from api.auth.principal import check_session_key, masks
from api.http.request import (
    ETAG,
    ApiRequest,
    IdempotencyKey,
    IfMatch,
    Prefer,
    SessionId,
    WithEvents,
    condition,
    creating,
    creation_condition,
    respond_at,
    turn_of,
)
from api.privacy.mask import find_hidden_values
from api.privacy.masked_rows import mask_message, mask_wait
from api.schemas.lifecycle import (
    CompressionView,
    Ending,
    FiredTimer,
    MigrationView,
    ModelChoice,
    NewCompression,
    NewFork,
    NewLabels,
    NewMessages,
    NewSpeech,
    NewValues,
    NewVersion,
    PastTurn,
    SessionChange,
    SessionWithMessages,
    TimerList,
    TimerView,
)
from api.schemas.sessions import SessionView
from api.sessions import interventions
from api.sessions.compress import compression, summary_fields
from api.sessions.interventions import Interventions, PlannedIntervention
from api.sessions.live_turns import TurnResult
from api.sessions.migration import MigrationOutcome
from api.sessions.turn_runner import Preconditions
from api.sessions.views import (
    event_views,
    message_view,
    position,
    replies,
    session_view,
    snapshot,
    started_fields,
    wait_view,
)
from runtime.state.inputs import TimerDue

C = TypeVar("C", bound=SessionChange)


class Change(Struct, frozen=True):
    """A request that changes a session, its preconditions, and whether the answer has the events of the change."""

    request: ApiRequest
    session_id: str
    preconditions: Preconditions
    events: bool


def _change_of(
    request: ApiRequest,
    session_id: SessionId,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Change:
    return Change(request, session_id, condition(idempotency_key, if_match, prefer), events)


def _waiting_change_of(
    request: ApiRequest,
    session_id: SessionId,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    events: WithEvents = False,
) -> Change:
    return Change(request, session_id, condition(idempotency_key, if_match), events)


def _change(
    path: str, summary: str, method: type[post | patch] = post, change_of: Callable[..., Change] = _change_of
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Declare a route that changes a session."""
    return method(
        f"/sessions/{{sessionId:str}}/{path}",
        status_code=200,
        summary=summary,
        dependencies={"change": Provide(change_of, sync_to_thread=False)},
        response_headers=[ETAG],
    )


@_change("pause", "Pause a session")
async def pause_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """The session takes no message until it is resumed. A paused session does not change."""
    return await _apply(change, interventions.pause())


@_change("resume", "Resume a session")
async def resume_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """The session waits for the same input as before. A session that is not paused does not change."""
    return await _apply(change, interventions.resume())


@_change("end", "End a session")
async def end_session(change: NamedDependency[Change], data: JSONBody[Ending | None] = None) -> Response[SessionChange]:
    """Ends the conversation at its current position. A session that has ended does not change."""
    return await _apply(change, interventions.end(data or Ending()))


@_change("variables", "Set variables of a session", method=patch)
async def set_variables(change: NamedDependency[Change], data: JSONBody[NewValues]) -> Response[SessionChange]:
    """Sets each variable in the scope that declares or has it, else in the session's; null unsets. All or none."""
    return await _apply(change, _interventions(change).set_variables(data))


@_change("model", "Use another language model")
async def use_model(change: NamedDependency[Change], data: JSONBody[ModelChoice]) -> Response[SessionChange]:
    """From now on the session asks this model, whatever its script names; null restores those of the script."""
    return await _apply(change, _interventions(change).use_model(data))


@_change("rewind", "Rewind a session")
async def rewind_session(change: NamedDependency[Change], data: JSONBody[PastTurn]) -> Response[SessionChange]:
    """Later messages leave the conversation; the database retains them and every turn."""
    return await _apply(change, _interventions(change).rewind(data))


@_change("clear", "Clear a conversation")
async def clear_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """All messages leave the conversation; the database retains them. The position does not change."""
    return await _apply(change, interventions.clear())


@_change("take-over", "Take a session over")
async def take_over_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """The sender talks in place of the script, which waits: messages of the user are stored, and not answered."""
    return await _apply(change, interventions.take_over(change.request.principal.person))


@_change("speak", "Speak in place of the script")
async def speak(change: NamedDependency[Change], data: JSONBody[NewSpeech]) -> Response[SessionChange]:
    """Adds a message of the assistant by the person who has taken the session over. Concurrent requests wait."""
    return await _apply(change, interventions.speak(change.request.principal.person, data))


@_change("give-back", "Give a session back")
async def give_back_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """The script continues: it puts its question again. This also dismisses a request for a person."""
    return await _apply(change, interventions.give_back())


@_change("messages/append", "Append messages", change_of=_waiting_change_of)
async def append_messages(change: NamedDependency[Change], data: JSONBody[NewMessages]) -> Response[SessionChange]:
    """Adds messages from elsewhere; the script does not react to them. Concurrent requests wait."""
    return await _apply(change, interventions.append(data))


@_change("compress", "Compress a conversation")
async def compress_session(
    change: NamedDependency[Change], data: JSONBody[NewCompression | None] = None
) -> Response[CompressionView]:
    """Models then see the summary in place of all but the last messages, with every strategy. The messages remain.
    Without a language model the summary is an extract. If the summary fails, the request fails and nothing changes.
    """
    answer = await _intervene(change, compression(change.request.services.store, data or NewCompression()))
    return _change_response(CompressionView, answer, change.events, **summary_fields(answer))


@creating("/sessions/{sessionId:str}/fork", "Fork a session", "the copy", ETAG)
async def fork_session(
    session_id: SessionId,
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    data: JSONBody[NewFork | None] = None,
) -> Response[SessionWithMessages]:
    """Creates another session of the same user with the same past; the original does not change."""
    services, new = request.services, data or NewFork()
    check_session_key(request, new.key)
    preconditions = creation_condition(request, idempotency_key, if_match)
    cached = await services.forks.fork(request.tenant, session_id, new, preconditions)
    view = SessionWithMessages(**await started_fields(services.store, cached))
    return respond_at(cached.state.turn, view, created=f"/api/sessions/{cached.session.session_id}")


@patch("/sessions/{sessionId:str}", summary="Update the metadata or key of a session", response_headers=[ETAG])
async def label_session(
    session_id: SessionId, data: JSONBody[NewLabels], request: ApiRequest, if_match: IfMatch = None
) -> Response[SessionView]:
    """`metadata` is a merge patch (RFC 7396): null removes a name. Not a turn. A `key` can be set once."""
    check_session_key(request, data.key)
    cached = await request.services.labels.label(request.tenant, session_id, data, turn_of(if_match))
    return respond_at(cached.state.turn, session_view(cached))


@_change("timers/fire", "Fire a timer", change_of=_waiting_change_of)
async def fire_timer(change: NamedDependency[Change], data: JSONBody[FiredTimer]) -> Response[SessionChange]:
    """Fires one timer of the session now, also before it is due. It is a turn like any other."""
    timers, due = change.request.services.session_timers, TimerDue(data.timer_id)
    answer = await timers.fire(change.request.tenant, change.session_id, due, change.preconditions)
    return _change_response(SessionChange, answer, change.events)


@post("/sessions/{sessionId:str}/timers/arm", status_code=200, summary="Arm the timers of a session")
async def arm_timers(session_id: SessionId, request: ApiRequest, if_match: IfMatch = None) -> TimerList:
    """Lets the timers of a session fire that are held or have failed, and those of a fork or an import. They are set
    again by the session's next turn as well.
    """
    rows = await request.services.session_timers.arm(request.tenant, session_id, turn_of(if_match))
    return TimerList(data=[TimerView.of(row) for row in rows], next_cursor=None)


def _interventions(change: Change) -> Interventions:
    return change.request.services.interventions


async def _intervene(change: Change, planned: PlannedIntervention) -> TurnResult:
    return await _interventions(change).intervene(
        change.request.tenant, change.session_id, planned, change.preconditions
    )


async def _apply(change: Change, planned: PlannedIntervention) -> Response[SessionChange]:
    return _change_response(SessionChange, await _intervene(change, planned), change.events)


def _change_response(kind: type[C], answer: TurnResult, events: bool, **others: Any) -> Response[C]:
    state, row = answer.state, answer.row
    body = kind.of(
        snapshot(answer.program, state, answer.execution_status, None),
        answer.session,
        state,
        messages=[message_view(message) for message in row.messages],
        events=event_views(row) if events else msgspec.UNSET,
        **others,
    )
    return respond_at(state.turn, body)


# -- migrations -------------------------------------------------------------------------------------------------------


@post("/sessions/{sessionId:str}/migrate", status_code=200, summary="Migrate a session", response_headers=[ETAG])
async def migrate_session(
    session_id: SessionId, request: ApiRequest, data: JSONBody[NewVersion], if_match: IfMatch = None
) -> Response[MigrationView]:
    """Maps the position by ids and the script's `migrations:`. A session that cannot migrate does not change: the
    verdict is `blocked`, and `why` says what is missing. `dryRun` or a second request changes nothing.
    """
    outcome = await request.services.migrator.migrate(request.tenant, session_id, data, turn_of(if_match))
    return await _answer(request, outcome)


@post("/sessions/{sessionId:str}/migrate/undo", status_code=200, summary="Undo a migration", response_headers=[ETAG])
async def undo_migration(
    session_id: SessionId, request: ApiRequest, if_match: IfMatch = None
) -> Response[MigrationView]:
    """Restores the version and state before, if no turn followed the migration."""
    return await _answer(request, await request.services.migrator.undo(request.tenant, session_id, turn_of(if_match)))


async def _answer(request: ApiRequest, outcome: MigrationOutcome) -> Response[MigrationView]:
    """Return a migration; without a role that may see personal values, these are masked."""
    waits = outcome.row is not None or outcome.verdict != "restart_topic"
    said = replies(outcome.row) if outcome.row is not None else []
    why, wait = list(outcome.why), wait_view(outcome.state.wait) if waits else None
    if masks(request.principal, None) and "app" not in request.principal.roles:
        hidden = await find_hidden_values(request.services.store, request.services.catalog, outcome.session)
        why, said = [hidden.mask.text(each) for each in why], [mask_message(hidden, each) for each in said]
        wait = mask_wait(hidden, wait) if wait is not None else None
    view = MigrationView.of(
        outcome,
        outcome.session,
        outcome.state,
        why=why,
        moved=outcome.row is not None,
        from_version=outcome.session.script_version,
        position=position(outcome.program, outcome.state, None if waits else (*_topic(outcome.new_place), "")),
        wait=wait,
        messages=[message_view(message) for message in said],
    )
    return respond_at(outcome.state.turn, view)


def _topic(place: str) -> tuple[str, str]:
    phase, _, topic = place.partition("/")
    return phase, topic
