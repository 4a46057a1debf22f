"""Upkeep of the context: applies the context strategy at the end of a turn, and compresses it on request.

At the end of a turn all messages have been said. Model calls made then are bounded in time. If they fail, the result
of the turn is the same: the strategy tries again in a later turn.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from runtime.context.ports import Condense
from runtime.context.summaries import PIECE_TOKENS_MAX, SUMMARY_CHARS_MAX, pieces
from runtime.context.text_lengths import cut_text, tokens_of
from runtime.context.windows import tokens_in
from runtime.state.deadlines import until
from runtime.state.events import Intervened, Message, Resized
from runtime.state.inputs import Compress
from runtime.state.ports import ModelFailed
from runtime.state.state import ContextMemory, LastResize
from runtime.turn.calls import GIVEN_UP, BudgetExceeded, CallInterrupted
from runtime.turn.context import LimitExceeded, TurnContext
from runtime.turn.model_requests import condense
from scripts.expressions.values import Value
from scripts.model.actions import Action

CHUNKS_MAX = 20  # for one compression
TURN_PART = 0.8  # of the turn's remaining time, for model calls of the strategy
WITHOUT_MODEL_S = 1.0  # for the strategy's own work


class _Condenser:
    """Condenses messages by model calls until the time `ends_at`, and records the origin of the last summary."""

    def __init__(self, run: TurnContext, ends_at: float) -> None:
        self.by: Literal["model", "extract", ""] = ""
        self.failure = ""  # why the last summary could not be made
        self.defect: Exception | None = None  # an unexpected error of the runtime
        self._run = run
        self._ends_at = ends_at

    async def __call__(self, wish: Condense) -> Value:
        """Return the summary or memo. Raises ModelFailed for every expected error."""
        try:
            return await self._account(wish)
        except ModelFailed as failed:
            self.failure = str(failed)
            raise
        except Exception as defect:
            self.defect = defect
            raise

    async def _account(self, wish: Condense) -> Value:
        try:
            async with until(self._ends_at):
                reply = await condense(self._run, wish)
        except TimeoutError:
            raise ModelFailed(GIVEN_UP) from None
        except (BudgetExceeded, LimitExceeded, CallInterrupted) as error:
            raise ModelFailed(str(error), retryable=not isinstance(error, LimitExceeded)) from error
        account: Value = reply.text.strip() if wish.purpose == "summarise" else dict(reply.values)
        if not account:
            raise ModelFailed("the model gave no summary or memo of the conversation")
        self.by = "extract" if reply.extracted else "model"
        return account


async def update(run: TurnContext, action: Action | None, turn_ends_at: float) -> None:
    """Apply the current strategy to the conversation. Its errors never fail the turn."""
    chosen = run.contexts.choose(run.program.script, run.state, action)
    if chosen is None or run.state.status != "active":
        return
    before = run.state.context or ContextMemory()
    condenser = _Condenser(run, _until(run, turn_ends_at))
    messages = run.conversation(chosen.strategy.messages_max)
    try:
        async with until(_until(run, turn_ends_at) + WITHOUT_MODEL_S):
            after = await chosen.strategy.follow(messages, before, condenser)
    except Exception as error:
        if condenser.defect is not None:
            raise
        condenser.failure = f"the strategy failed: {type(error).__name__}"
        after = msgspec.structs.replace(before, failed=before.failed + 1)
    if after.failed > before.failed and not condenser.failure:  # a handler of the application raised ModelFailed
        condenser.failure = "the memo could not be made"
    run.state.context = after if after != ContextMemory() else None
    with contextlib.suppress(LimitExceeded):  # events are recorded as far as their limit allows
        if condenser.failure:
            run.warn("context_failed", condenser.failure)
        resized = _resize_event(chosen.settings.strategy, before, after, condenser)
        if resized is not None:
            run.record(resized)


def _until(run: TurnContext, turn_ends_at: float) -> float:
    """Return when model calls of the strategy must end, so that the turn can still end in time."""
    now = asyncio.get_running_loop().time()
    return now + min(run.limits.context_s, max(turn_ends_at - now, 0.0) * TURN_PART)


def _resize_event(strategy: str, before: ContextMemory, after: ContextMemory, condenser: _Condenser) -> Resized | None:
    """Return the event of what became shorter, or None if nothing did."""
    is_new = after.last_resize is not None and after.last_resize != before.last_resize
    marks = [(each.after, each.summary_to, each.memo_to) for each in (before, after)]
    if marks[0] == marks[1] and not is_new:
        return None
    last = after.last_resize if is_new else None
    kind = "summary" if after.summary_to > before.summary_to else "memo" if after.memo_to > before.memo_to else "window"
    return Resized(
        strategy=strategy,
        type=last.type if last is not None else kind,
        reason=last.reason if last is not None else "",
        after=after.after,
        summary_to=after.summary_to,
        memo_to=after.memo_to,
        by=condenser.by,
        tokens=tokens_of_history(after.summary, after.memo),
    )


def tokens_of_history(summary: str, memo: Mapping[str, Value]) -> int:
    """Return the estimated number of tokens of a summary and a memo."""
    return tokens_of(summary) + (tokens_of(msgspec.json.encode(memo).decode()) if memo else 0)


async def compress(run: TurnContext, request: Compress, turn_ends_at: float) -> None:
    """Summarise all but the last messages, whatever the strategy. Raises ModelFailed."""
    first, last = request.messages[0].number, request.messages[-1].number
    run.record(Intervened("compress", first=first, last=last, keep=request.keep, instruct=request.instruct))
    before = run.state.context or ContextMemory()
    condenser = _Condenser(run, turn_ends_at - WITHOUT_MODEL_S)
    summary: Value = before.summary or None
    for chunk in pieces(request.messages, _chunk_max(request.messages), tokens_in):
        wish = Condense(purpose="summarise", messages=chunk, previous=summary, instruct=request.instruct)
        summary = cut_text(str(await condenser(wish)), SUMMARY_CHARS_MAX)
    after = msgspec.structs.replace(
        before,
        summary=str(summary),
        summary_to=last,
        after=max(before.after, last),
        last_resize=LastResize("compress", before.turns, "asked for"),
        resized_at=before.turns,
    )
    run.state.context = after
    resized = _resize_event("compress", before, after, condenser)
    if resized is not None:
        run.record(resized)


def _chunk_max(messages: Sequence[Message]) -> int:
    """Return how many tokens are summarised at a time, so that the number of calls is bounded."""
    return max(PIECE_TOKENS_MAX, sum(map(tokens_in, messages)) // CHUNKS_MAX)
