"""Keeps what a model sees of a long conversation short: brings its strategy up to date at the end of a turn, and sums
up when an application asks for it.

At the end of a turn all words are said. What takes a model then is bounded in time, and where it fails the turn comes
to the same end: the strategy tries again in a later one.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from runtime.budgets import BudgetExceeded
from runtime.calls import GIVEN_UP, CallInterrupted
from runtime.context.accounts import PIECE_TOKENS_MAX, SUMMARY_CHARS_MAX, pieces
from runtime.context.memory import ContextMemory, LastResize
from runtime.context.ports import Condense
from runtime.context.windows import tokens_in
from runtime.deadlines import until
from runtime.events import Intervened, Message, Resized
from runtime.inputs import Compress
from runtime.ports import ModelFailed
from runtime.prompts.fitting import cut_text
from runtime.run import LimitExceeded, Run
from runtime.tokens import tokens_of
from scripts.actions import Action
from scripts.values import Value

CHUNKS_MAX = 20  # of what is compressed at a time
TURN_PART = 0.8  # of what is left of a turn's time, for accounts
WITHOUT_MODEL_S = 1.0  # for what a strategy does besides


class _Condenser:
    """Has messages condensed, until its time `ends_at`, and knows by whom the last account was made."""

    def __init__(self, run: Run, ends_at: float) -> None:
        self.by: Literal["model", "extract", ""] = ""
        self.failure = ""  # why the last account could not be had
        self.defect: Exception | None = None  # what went wrong in the runtime itself
        self._run = run
        self._ends_at = ends_at

    async def __call__(self, wish: Condense) -> Value:
        """The account. Raises ModelFailed, whatever goes wrong."""
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
                reply = await self._run.condense(wish)
        except TimeoutError:
            raise ModelFailed(GIVEN_UP) from None
        except (BudgetExceeded, LimitExceeded, CallInterrupted) as error:
            raise ModelFailed(str(error), retryable=not isinstance(error, LimitExceeded)) from error
        account: Value = reply.text.strip() if wish.purpose == "summarise" else dict(reply.values)
        if not account:
            raise ModelFailed("the model gave no account of the conversation")
        self.by = "extract" if reply.extracted else "model"
        return account


async def keep_up(run: Run, action: Action | None, turn_ends_at: float) -> None:
    """Lets the strategy at hand follow the conversation. Nothing that goes wrong here is the turn's affair."""
    chosen = run.contexts.chosen(run.program.script, run.state, action)
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
    run.state.context = after if after != ContextMemory() else None
    with contextlib.suppress(LimitExceeded):  # what there is to tell is told, as far as events can be
        if condenser.failure:
            run.warn("context_failed", condenser.failure)
        resized = _resized(chosen.settings.strategy, before, after, condenser)
        if resized is not None:
            run.record(resized)


def _until(run: Run, turn_ends_at: float) -> float:
    """When accounts are to be there: never so late that the turn could not end in time."""
    now = asyncio.get_running_loop().time()
    return now + min(run.limits.context_s, max(turn_ends_at - now, 0.0) * TURN_PART)


def _resized(strategy: str, before: ContextMemory, after: ContextMemory, condenser: _Condenser) -> Resized | None:
    """What became shorter; None where nothing did."""
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
        tokens=tokens_told(after.summary, after.memo),
    )


def tokens_told(summary: str, memo: Mapping[str, Value]) -> int:
    """About how many tokens accounts have."""
    return tokens_of(summary) + (tokens_of(msgspec.json.encode(memo).decode()) if memo else 0)


async def compress(run: Run, given: Compress, turn_ends_at: float) -> None:
    """Sums up all but the last messages, whatever the strategy. Raises ModelFailed."""
    first, last = given.messages[0].number, given.messages[-1].number
    run.record(Intervened("compress", first=first, last=last, keep=given.keep, instruct=given.instruct))
    before = run.state.context or ContextMemory()
    condenser = _Condenser(run, turn_ends_at - WITHOUT_MODEL_S)
    summary: Value = before.summary or None
    for chunk in pieces(given.messages, _chunk_max(given.messages), tokens_in):
        wish = Condense(purpose="summarise", messages=chunk, previous=summary, instruct=given.instruct)
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
    resized = _resized("compress", before, after, condenser)
    if resized is not None:
        run.record(resized)


def _chunk_max(messages: Sequence[Message]) -> int:
    """How many tokens are summed up at a time, so that all is done in a bounded number of times."""
    return max(PIECE_TOKENS_MAX, sum(map(tokens_in, messages)) // CHUNKS_MAX)
