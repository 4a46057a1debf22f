"""Interventions: changes of a session by the application instead of a message. Each is one turn, carried out once.

A running turn is waited for, or the request is rejected, as with messages. If nothing is left to do, there is no turn.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Struct

from api.errors import ApiError, invalid_field, refused_input, refusing_field
from api.models.server_model import ModelUnknown, require_model
from api.schemas.base import Body
from api.schemas.lifecycle import Ending, ExternalMessage, ModelChoice, NewMessages, NewSpeech, NewValues, PastTurn
from api.sessions.chat import Chat
from api.sessions.forks import load_turn, resolve_turn
from api.sessions.live_turns import PendingTurn, TurnResult
from api.sessions.session_cache import CachedSession
from api.sessions.session_creation import require_user_zone
from api.sessions.turn_runner import Preconditions, TurnRunner, code_of, values_of
from api.sessions.views import context_of
from runtime.context.messages import PARTS, is_text
from runtime.engine.engine import TurnFailed
from runtime.state.inputs import (
    Append,
    Clear,
    End,
    GiveBack,
    InputRefused,
    Intervention,
    NotNow,
    OutsideMessage,
    Pause,
    Resume,
    Rewind,
    SetVariables,
    Speak,
    TakeOver,
    UseModel,
)
from runtime.state.program import ZONE_VARIABLE
from runtime.state.scopes import Scopes
from runtime.state.state import State

Choose: TypeAlias = Callable[[CachedSession], Awaitable[Intervention | None]]
"""Returns the intervention in a session while the session is locked; None if nothing is left to do."""


class _InterventionRequest(Struct, frozen=True):
    """The fingerprint of an intervention: the same key with another session or body is another request."""

    what: str
    body: Body | None = None
    operator: str = ""


class PlannedIntervention(Struct, frozen=True):
    """An intervention that an application requests; `request` distinguishes requests with the same key."""

    request: Struct
    choose: Choose
    waits: bool = False
    """Whether it waits for a running turn whatever the request says: concurrent requests wait for each other."""


class Interventions(Struct, frozen=True):
    """The interventions in sessions of all tenants. All methods raise ApiError."""

    chat: Chat
    runner: TurnRunner

    def set_variables(self, new: NewValues) -> PlannedIntervention:
        """Set and unset variables, all or none."""
        intervention = SetVariables(values_of(new.variables, "variables"), new.scope)

        async def choose(cached: CachedSession) -> Intervention:
            if (new.scope or Scopes(cached.program, cached.state).address(ZONE_VARIABLE)) == "global":
                require_user_zone(intervention.values, "variables")
            return intervention

        return PlannedIntervention(_InterventionRequest("set_variables", new), choose)

    def rewind(self, back: PastTurn) -> PlannedIntervention:
        """Restore the state that an earlier turn left; later messages leave the conversation."""
        if back == PastTurn():
            raise invalid_field("turn", "name the turn to rewind to, or `beforeUserMessage`")

        async def choose(cached: CachedSession) -> Intervention | None:
            turn = await resolve_turn(self.runner.store, cached, back)
            return None if turn is None or turn == cached.state.turn else await self._rewind(cached, turn)

        return PlannedIntervention(_InterventionRequest("rewind", back), choose)

    async def _rewind(self, cached: CachedSession, turn: int) -> Rewind:
        moves = await self.runner.store.sessions.migrations(*cached.key)
        if moves and moves[0].turn > turn:
            message = (
                f"the session migrated to another version of its script in turn {moves[0].turn} and cannot rewind to "
                f"an earlier turn; fork turn {turn} instead"
            )
            raise ApiError("MIGRATION_BLOCKED", message, context=context_of(cached))
        _, state = await load_turn(self.runner.store, cached, turn)
        if not state.begun:
            message = f"the session had not started in turn {turn}"
            raise ApiError("INTERVENTION_REFUSED", message, context=context_of(cached))
        return Rewind(state)

    def use_model(self, choice: ModelChoice) -> PlannedIntervention:
        """Ask another language model from now on."""
        name = choice.model or ""
        if name:
            with refusing_field("model", ModelUnknown):
                require_model(self.runner.model, self.runner.settings, name)
        return _unless(lambda state: state.model == name, UseModel(name), "use_model", choice)

    async def intervene(
        self, tenant: str, session_id: str, planned: PlannedIntervention, condition: Preconditions
    ) -> TurnResult:
        """Apply the intervention that is chosen for the current session."""

        async def take(cached: CachedSession, pending: PendingTurn) -> TurnResult:
            intervention = await planned.choose(cached)
            if intervention is None:
                return await self._nothing(cached)
            return await self._take(cached, intervention, condition, pending)

        if planned.waits:
            condition = msgspec.structs.replace(condition, queue=True)
        return await self.chat.submit_change(tenant, session_id, planned.request, take, condition)

    async def _nothing(self, cached: CachedSession) -> TurnResult:
        """Return the unchanged session, without messages or events."""
        row, _ = await load_turn(self.runner.store, cached, cached.state.turn)
        quiet = msgspec.structs.replace(row, messages=[], variables=[], events=[])
        failed = cached.failure is not None
        return TurnResult(cached.session, cached.program, cached.state, quiet, has_failed=failed)

    async def _take(
        self,
        cached: CachedSession,
        intervention: Intervention,
        condition: Preconditions,
        pending: PendingTurn,
    ) -> TurnResult:
        context, started = context_of(cached), self.runner.clock()
        try:
            turn = await self.chat.run(cached, intervention, started, pending)
        except NotNow as error:
            code = "SESSION_ENDED" if cached.state.status == "completed" else "INTERVENTION_REFUSED"
            raise ApiError(code, str(error), context=context) from error
        except InputRefused as error:
            raise refused_input(error, "REQUEST_INVALID", context) from error
        except TurnFailed as failed:  # no script runs, so the request itself exceeds a limit
            code = "PAYLOAD_TOO_LARGE" if failed.kind == "limit" else code_of(failed.kind)
            raise ApiError(code, str(failed), context=context) from failed
        return await self.chat.commit(cached, turn, started, condition.idempotency_key, pending)


def pause() -> PlannedIntervention:
    """Pause a session: it takes no message until it is resumed."""
    return _unless(lambda state: state.status == "paused", Pause(), "pause")


def resume() -> PlannedIntervention:
    """Resume a paused session."""
    return _unless(lambda state: state.status == "active", Resume(), "resume")


def end(ending: Ending) -> PlannedIntervention:
    """End the conversation at its current position."""
    return _unless(lambda state: state.status == "completed", End(ending.reason), "end", ending)


def clear() -> PlannedIntervention:
    """Remove all messages from the conversation; the position does not change."""
    return _unless(_is_clear, Clear(), "clear")


def append(new: NewMessages) -> PlannedIntervention:
    """Append messages from elsewhere, all or none."""
    messages = tuple(_to_append(message, index) for index, message in enumerate(new.messages))
    return _unless(_never, Append(messages), "append", new, waits=True)


def take_over(person: str) -> PlannedIntervention:
    """Let a person talk in place of the script."""
    return _unless(lambda state: state.operator == person, TakeOver(person), "take_over", operator=person)


def speak(person: str, said: NewSpeech) -> PlannedIntervention:
    """Say something as the person who has taken the session over."""
    return _unless(_never, Speak(person, said.content), "speak", said, operator=person, waits=True)


def give_back() -> PlannedIntervention:
    """Let the script continue; or dismiss a request for a person."""
    return _unless(lambda state: state.hand_over is None, GiveBack(), "give_back")


def _unless(
    is_done: Callable[[State], bool],
    intervention: Intervention,
    what: str,
    body: Body | None = None,
    *,
    operator: str = "",
    waits: bool = False,
) -> PlannedIntervention:
    """Plan an intervention unless the session is in the state that it leads to."""

    async def choose(cached: CachedSession) -> Intervention | None:
        return None if is_done(cached.state) else intervention

    return PlannedIntervention(_InterventionRequest(what, body, operator), choose, waits)


def _never(_: State) -> bool:
    return False


def _is_clear(state: State) -> bool:
    is_clear = not state.message_seq or state.gaps == ((1, state.message_seq),)
    return is_clear and state.context is None


def _to_append(message: ExternalMessage, index: int) -> OutsideMessage:
    """Convert a message of the request to a runtime message; other fields become metadata. Raises ApiError."""
    parts = message.content if isinstance(message.content, list) else []
    words = [part.get("text") for part in parts if is_text(part)]
    texts = [text for text in words if isinstance(text, str)]
    if len(texts) != len(words):
        raise invalid_field(f"messages[{index}].content", "a part of the type `text` has a `text`")
    others = {
        PARTS: parts if len(words) < len(parts) else None,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    sent = {name: value for name, value in others.items() if value not in (None, UNSET)}
    metadata = (message.metadata or {}) | sent
    content = message.content if isinstance(message.content, str) else "\n".join(texts)
    return OutsideMessage(message.role, content, values_of(metadata, f"messages[{index}]"))
