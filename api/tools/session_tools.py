"""The tools of one turn of a session: every call is recorded before and after it is made, and never made twice."""

import asyncio
import hashlib
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from api.metrics import Metrics
from api.model_calls import RecordedCalls
from api.tools.tool_caller import ToolCaller
from runtime.state.limits import until
from runtime.state.ports import Clock, Ids
from runtime.state.tool_ports import (
    TOOL_PURPOSE,
    CallOptions,
    ToolCallFailed,
    ToolCallInterrupted,
    ToolFailure,
    ToolReply,
    ToolRequest,
    ToolResult,
)
from runtime.tools.results import checked_result
from scripts.expressions.values import Value
from scripts.model.tools import ToolDefinition
from store.interface.encoding import encode
from store.interface.errors import RowRefused
from store.interface.rows import CallRow, SessionRow
from store.store import Store

_MS = timedelta(milliseconds=1)
_NO_REPLY = b"null"
GIVEN_UP = "given up before its end"


class ToolJournal(Struct, frozen=True):
    """What the calls of every session have in common."""

    caller: ToolCaller
    store: Store
    clock: Clock
    ids: Ids
    metrics: Metrics

    def of_turn(self, session: SessionRow, turn: int, attempts: RecordedCalls) -> "SessionTools":
        """Return the tools of one attempt at a turn."""
        return SessionTools(self, session, turn, attempts)


class SessionTools:
    """The tools of one attempt at a turn."""

    def __init__(self, journal: ToolJournal, session: SessionRow, turn: int, attempts: RecordedCalls) -> None:
        self._journal = journal
        self._session = session
        self._turn = turn
        self._attempts = attempts

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Return the recorded result of the call, or make it. Raises ToolCallInterrupted."""
        digest = request.digest
        same = [row for row in self._attempts.rows.values() if row.request_digest == digest]
        for row in same:
            if bytes(row.reply) != _NO_REPLY:
                return ToolResult(msgspec.json.decode(bytes(row.reply), type=ToolReply), row.call_id)
        interrupted = next((row for row in same if row.ended_at is None), None)
        if interrupted is not None and options.on_interrupted == "fail":
            await self._note_interruption(interrupted)
            raise ToolCallInterrupted(
                f"a call of the tool {tool.id} was interrupted, and may have been carried out; "
                "send the message again to repeat it"
            )
        row = await self._begin(request, digest)
        return ToolResult(await self._made(tool, request, options, row), row.call_id)

    async def _made(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions, row: CallRow) -> ToolReply:
        try:
            reply = ToolReply(await self._result(tool, request, options))
            is_final = True
        except ToolCallFailed as failed:
            reply = ToolReply(failure=failed.failure)
            # the service has carried the call out, although its answer is not as declared
            is_carried_out = failed.kind == "result" and tool.makes_changes
            is_final = options.is_handled or is_carried_out
        except BaseException:  # the turn was cancelled
            await self._end(row, None, GIVEN_UP)
            raise
        error = "" if reply.failure is None else f"{reply.failure.kind}: {reply.failure.message}"
        try:
            await self._end(row, reply if is_final else None, error)
        except RowRefused:
            refused = ToolFailure("result", "the result contains values that cannot be stored")
            reply = ToolReply(failure=refused)
            await self._end(row, reply, refused.message)
        return reply

    async def _result(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> Value:
        """Call the tool. Raises ToolCallFailed."""
        try:
            async with until(options.ends_at) as limit:
                result = await self._journal.caller.call(tool, request.arguments, self._key(request.digest))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolCallFailed("timeout", "the tool did not answer in time") from error
        return checked_result(tool, result)

    def _key(self, digest: str) -> str:
        """Return the Idempotency-Key of a call, which is the same in every attempt at the turn."""
        session = self._session
        return hashlib.sha256(f"{session.tenant}/{session.session_id}/{self._turn}/{digest}".encode()).hexdigest()[:48]

    # -- rows --------------------------------------------------------------------------------------------------------

    async def _begin(self, request: ToolRequest, digest: str) -> CallRow:
        session = self._session
        row = CallRow(
            tenant=session.tenant,
            session_id=session.session_id,
            user_id=session.user_id,
            script_id=session.script_id,
            script_version=session.script_version,
            turn=self._turn,
            number=self._attempts.count + 1,
            call_id=self._journal.ids(),
            purpose=TOOL_PURPOSE,
            action_id=request.action_id,
            round=request.round,
            model=request.tool,
            request_digest=digest,
            started_at=self._journal.clock(),
        )
        try:
            await self._save(row)
        except asyncio.CancelledError:
            await self._end(row, None, "not made: the turn took too long")
            raise
        return row

    async def _end(self, row: CallRow, reply: ToolReply | None, error: str) -> None:
        now = self._journal.clock()
        ended = msgspec.structs.replace(
            row,
            ended_at=now,
            outcome="failed" if error else "done",
            error=error or None,
            latency_ms=round((now - row.started_at) / _MS),
            reply=msgspec.Raw(_NO_REPLY if reply is None else encode(reply)),
        )
        await self._save(ended)
        self._journal.metrics.count_tool_call(done=not error)

    async def _note_interruption(self, row: CallRow) -> None:
        now: datetime = self._journal.clock()
        error = "interrupted; the user got an error"
        await self._save(msgspec.structs.replace(row, ended_at=now, error=error))

    async def _save(self, row: CallRow) -> None:
        self._attempts.add(row)
        await self._journal.store.turns.note_call(row)
