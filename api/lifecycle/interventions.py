"""Interventions: what an application does to a session besides talking to it. Each is a turn, and is there only once.

A turn under way is taken first or the request refused, as with messages. Where nothing is left to do, nothing happens.
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET, Struct

from api.answer import Answer
from api.asking import Condition, values_of
from api.chat import Chat, context_of
from api.errors import ApiError
from api.hot import Hot
from api.lifecycle.past import turn_meant, turn_taken
from api.live import Underway
from api.running import Running, code_of
from api.schemas.base import Body
from api.schemas.lifecycle import Back, Ending, NewMessages, NewValues, SaidElsewhere
from runtime.context.attachments import PARTS
from runtime.engine import TurnFailed
from runtime.inputs import (
    Append,
    Appended,
    Clear,
    End,
    InputRefused,
    Intervention,
    NotNow,
    Pause,
    Resume,
    Rewind,
    SetVariables,
)


class _Asked(Struct, frozen=True):
    """A request to intervene: the same key with another of them is not the same request."""

    what: str
    body: Body | None = None


class Interventions:
    """Those in the sessions of all tenants. All raise ApiError."""

    def __init__(self, chat: Chat, running: Running) -> None:
        self._chat = chat
        self._record = running.record
        self._clock = running.clock

    async def pause(self, tenant: str, session_id: str, condition: Condition) -> Answer:
        """Takes no reply until the session is resumed."""

        async def wanted(hot: Hot) -> Intervention | None:
            return Pause() if hot.state.status != "paused" else None

        return await self.intervene(tenant, session_id, _Asked("pause"), wanted, condition)

    async def resume(self, tenant: str, session_id: str, condition: Condition) -> Answer:
        """Goes on where the session was paused."""

        async def wanted(hot: Hot) -> Intervention | None:
            return Resume() if hot.state.status != "active" else None

        return await self.intervene(tenant, session_id, _Asked("resume"), wanted, condition)

    async def end(self, tenant: str, session_id: str, ending: Ending, condition: Condition) -> Answer:
        """Ends the conversation where it is."""

        async def wanted(hot: Hot) -> Intervention | None:
            return End(ending.reason) if hot.state.status != "completed" else None

        return await self.intervene(tenant, session_id, _Asked("end", ending), wanted, condition)

    async def set_variables(self, tenant: str, session_id: str, new: NewValues, condition: Condition) -> Answer:
        """Sets and unsets variables, all of them or none."""
        given = SetVariables(values_of(new.variables, "variables"), new.scope)

        async def wanted(_: Hot) -> Intervention | None:
            return given

        return await self.intervene(tenant, session_id, _Asked("set_variables", new), wanted, condition)

    async def rewind(self, tenant: str, session_id: str, back: Back, condition: Condition) -> Answer:
        """Goes on from where an earlier turn left the session, without what was said since."""
        if back == Back():
            raise ApiError("REQUEST_INVALID", "name a `turn` to go back to, or `beforeUserMessage`")

        async def wanted(hot: Hot) -> Intervention | None:
            turn = await turn_meant(self._record, hot, back)
            return None if turn is None or turn == hot.state.turn else await self._rewind(hot, turn)

        return await self.intervene(tenant, session_id, _Asked("rewind", back), wanted, condition)

    async def _rewind(self, hot: Hot, turn: int) -> Rewind:
        moves = await self._record.migrations(hot.session.tenant, hot.session.session_id)
        if moves and moves[0].turn > turn:
            message = (
                f"the session moved to another version of its script in turn {moves[0].turn}, and cannot go back to "
                f"before it; fork turn {turn} instead"
            )
            raise ApiError("MIGRATION_BLOCKED", message, context=context_of(hot))
        _, state = await turn_taken(self._record, hot, turn)
        if not state.begun:
            message = f"the session had not begun in turn {turn}"
            raise ApiError("INTERVENTION_REFUSED", message, context=context_of(hot))
        return Rewind(state)

    async def clear(self, tenant: str, session_id: str, condition: Condition) -> Answer:
        """Takes all that was said out of the conversation; the session stays where it is."""

        async def wanted(hot: Hot) -> Intervention | None:
            state = hot.state
            is_clear = not state.message_seq or state.gaps == ((1, state.message_seq),)
            return None if is_clear and state.context is None else Clear()

        return await self.intervene(tenant, session_id, _Asked("clear"), wanted, condition)

    async def append(self, tenant: str, session_id: str, new: NewMessages, condition: Condition) -> Answer:
        """Adds messages that were said elsewhere, all of them or none; requests at once wait for each other."""
        given = Append(tuple(_appended(message, index) for index, message in enumerate(new.messages)))

        async def wanted(_: Hot) -> Intervention | None:
            return given

        waiting = msgspec.structs.replace(condition, queue=True)
        return await self.intervene(tenant, session_id, _Asked("append", new), wanted, waiting)

    async def intervene(
        self,
        tenant: str,
        session_id: str,
        asked: Struct,
        wanted: Callable[[Hot], Awaitable[Intervention | None]],
        condition: Condition,
    ) -> Answer:
        """Does to a session what is `wanted` as it stands; None where nothing is left to do. `asked` tells requests
        apart that have the same key.
        """

        async def take(hot: Hot, underway: Underway[Answer]) -> Answer:
            given = await wanted(hot)
            return await (self._nothing(hot) if given is None else self._take(hot, given, condition, underway))

        return await self._chat.changing(tenant, session_id, asked, take, condition)

    async def _nothing(self, hot: Hot) -> Answer:
        """The session as it stands; nothing was said and done."""
        row, _ = await turn_taken(self._record, hot, hot.state.turn)
        quiet = msgspec.structs.replace(row, messages=[], variables=[], events=[])
        return Answer(hot.session, hot.program, hot.state, quiet)

    async def _take(self, hot: Hot, given: Intervention, condition: Condition, underway: Underway[Answer]) -> Answer:
        context, started = context_of(hot), self._clock()
        try:
            turn = await self._chat.run(hot, given, started, underway)
        except NotNow as error:
            code = "SESSION_ENDED" if hot.state.status == "completed" else "INTERVENTION_REFUSED"
            raise ApiError(code, str(error), context=context) from error
        except InputRefused as error:
            raise ApiError("REQUEST_INVALID", str(error), context=context) from error
        except TurnFailed as failed:  # no script runs, so that what is too much is what was sent
            code = "PAYLOAD_TOO_LARGE" if failed.kind == "limit" else code_of(failed.kind)
            raise ApiError(code, str(failed), context=context) from failed
        return await self._chat.commit(hot, turn, started, condition.idempotency_key, underway.fingerprint)


def _appended(message: SaidElsewhere, index: int) -> Appended:
    """A message as the machine takes it: its words, and beside them whatever else came along. Raises ApiError."""
    parts = message.content if isinstance(message.content, list) else []
    words = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    texts = [text for text in words if isinstance(text, str)]
    if len(texts) != len(words):
        raise ApiError("REQUEST_INVALID", f"messages[{index}]: a part of the type `text` has a `text`")
    others = {
        PARTS: parts if len(words) < len(parts) else UNSET,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    metadata = message.metadata | {name: value for name, value in others.items() if value is not UNSET}
    content = message.content if isinstance(message.content, str) else "\n".join(texts)
    return Appended(message.role, content, values_of(metadata, f"messages[{index}]"))
