"""Requests to the model of a turn, and the streaming of its reply while it grows."""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from runtime.answers.patterns import MatchWanted
from runtime.context.ports import Condense, View
from runtime.memory.recall.terms import says_nothing
from runtime.state.events import Message
from runtime.state.ports import (
    SPEAKING,
    ConversationSummary,
    DetectorQuestion,
    MemoryFailed,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Purpose,
)
from runtime.state.program import PlaceLost
from runtime.state.recall_types import MemoryLine, lines_of
from runtime.state.scopes import WriteRefused
from runtime.turn.calls import BudgetExceeded, CallInterrupted
from runtime.turn.context import ActionFailed, LimitExceeded, TurnContext
from runtime.turn.exits import ends_by_condition
from runtime.turn.message_stream import ReplyStream
from runtime.turn.tool_use import CALLS_OF_REPLY_MAX, call_for_model, tools_offered
from runtime.turn.turn_recall import RecallsExceeded, RecallWanted
from scripts.expressions.expressions import Evaluation
from scripts.model.actions import Action, AiAsk, AiSay, Chat, ModelStep
from scripts.model.variables import Output, Records

CONTEXT = "context"
"""The action id of requests for a summary of the conversation, which belong to no action."""

_WITH_SUMMARY: frozenset[Purpose] = SPEAKING | {"think"}
"""The purposes whose requests contain the summary of the older conversation. Values, verdicts and intents are read
from the messages themselves, never from a summary.
"""

FAILURES = (
    ActionFailed, LimitExceeded, WriteRefused, ModelFailed, CallInterrupted, BudgetExceeded, PlaceLost, MemoryFailed,
    RecallsExceeded,
)  # fmt: skip
"""The expected errors of a turn; any other exception is a defect."""


def always(_: ModelReply) -> bool:
    """Return True, for replies whose text is always said."""
    return True


async def complete(
    run: TurnContext,
    purpose: Purpose,
    action: Action,
    task: Evaluation,
    *,
    outputs: tuple[Output, ...] = (),
    until: Evaluation = Evaluation(""),  # noqa: B008  (frozen)
    reply: str | None = None,
    records: tuple[Records, ...] = (),
    intents: Mapping[str, str] | None = None,
    speak: Callable[[ModelReply], bool] | None = None,
    is_last: bool = False,
) -> ModelReply:
    """Ask the model; `until` is the condition at which it is to call the action done. `speak` decides from a
    verdict, without its text, whether the text will certainly be said; the text is then streamed to the user.

    Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
    """
    goal, strategy = _purpose(run)
    view = run.view(action)
    memories = await _memories(run, run.last_heard() or task.text) if purpose in _WITH_SUMMARY else ()
    role = run.role
    speaker = run.program.roles.get(role)
    request = ModelRequest(
        purpose=purpose,
        action_id=action.id,
        round=run.progress.round,
        visit=count_visit(run, action.id),
        asked=_request_number(run, purpose),
        model=_model_of(run, action),
        task=task.text,
        task_spans=task.spans,
        locale=run.state.locale,
        phrases=run.program.script.phrases,
        now=run.local_now(),
        outputs=outputs,
        exit=until.text,
        exit_spans=until.spans,
        ends_by_condition=(isinstance(action, AiAsk) and ends_by_condition(action)) or UNSET,
        is_last=is_last or UNSET,
        criteria=isinstance(action, AiSay | AiAsk | Chat) and any(each.is_judged for each in action.exits),
        reply=reply,
        known=dict(run.progress.values),
        replies=tuple(run.progress.replies),
        history=view.messages,
        account=_account(purpose, view),
        memories=memories or UNSET,
        records=records,
        role=role,
        speaker=speaker,
        listener=run.program.roles.get(run.state.human_role),
        tone=action.tone or (speaker.tone if speaker is not None else ""),
        goal=goal,
        strategy=strategy,
        intents=intents or {},
        scheme=run.program.script.template_scheme,
        tools=(tools_offered(run, action) if purpose in SPEAKING else ()) or UNSET,
    )
    return await _reply_to(run, request, action, speak)


def _account(purpose: Purpose, view: View) -> ConversationSummary | UnsetType:
    """Return the summary and the memo of the older conversation, if the request contains one of them."""
    has_account = purpose in _WITH_SUMMARY and (view.summary or view.memo)
    return ConversationSummary(summary=view.summary, memo=view.memo) if has_account else UNSET


async def _reply_to(
    run: TurnContext, request: ModelRequest, action: Action, speak: Callable[[ModelReply], bool] | None
) -> ModelReply:
    """Return the model's reply, after the calls of tools that it wants; the last request offers no tool."""
    while request.offers:
        reply = await _ask(run, request, action, speak and partial(_is_said, speak))
        if reply.tool_call is None:
            return reply
        outcomes = (*request.outcomes, await call_for_model(run, action, request, reply.tool_call))
        offers = request.tools if len(outcomes) < CALLS_OF_REPLY_MAX else UNSET
        asked = _request_number(run, request.purpose)
        request = msgspec.structs.replace(request, asked=asked, tools=offers, tool_outcomes=outcomes)
    return await _ask(run, request, action, speak)


def _is_said(speak: Callable[[ModelReply], bool], verdict: ModelReply) -> bool:
    """Return whether a text is said that a model may write instead of the call of a tool."""
    return verdict.tool_call is None and speak(verdict)


async def detect(run: TurnContext, said: Message, watched: Mapping[str, DetectorQuestion]) -> ModelReply:
    """Ask the model for the verdicts of some detectors on a message.

    Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
    """
    history = tuple(message for message in run.history() if message.number <= said.number)
    request = _request_beside(run, "detect", said.action_id, said.number - run.first_number, history)
    return await _ask(run, msgspec.structs.replace(request, reply=said.content, detectors=watched), None, None)


async def condense(run: TurnContext, wish: Condense) -> ModelReply:
    """Ask the model to condense messages.

    Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
    """
    number, run.state.condensed = run.state.condensed, run.state.condensed + 1
    request = _request_beside(run, wish.purpose, CONTEXT, number, wish.messages)
    account = ConversationSummary(previous=wish.previous, instruct=wish.instruct)
    return await _ask(run, msgspec.structs.replace(request, account=account), None, None)


def _request_beside(
    run: TurnContext, purpose: Purpose, action_id: str, asked: int, history: tuple[Message, ...]
) -> ModelRequest:
    """Return a request about messages that does not continue the conversation."""
    return ModelRequest(
        purpose=purpose,
        action_id=action_id,
        round=run.state.heard,
        asked=asked,
        model=_model_of(run, None),
        task="",
        locale=run.state.locale,
        now=run.local_now(),
        history=history,
        scheme=run.program.script.template_scheme,
    )


async def _ask(
    run: TurnContext, request: ModelRequest, action: Action | None, speak: Callable[[ModelReply], bool] | None
) -> ModelReply:
    if len(run.calls.made) >= run.limits.model_calls_max:
        raise LimitExceeded(f"more than {run.limits.model_calls_max} calls of the model in one turn")
    own = action.on_interrupted if isinstance(action, ModelStep) else None
    hear: ReplyStream | None = None
    if speak is not None and run.speech.is_streamed:
        hear = ReplyStream(run.speech, run.state.message_seq + 1, run.action_id, partial(_is_sure, speak))
    reply = await run.calls.make(request, own or run.program.script.on_interrupted, hear)
    if reply.usage is not None and reply.usage.degraded:
        run.warn("model_degraded", f"the model's reply was not as requested: {reply.usage.degraded}")
    return reply


async def _memories(run: TurnContext, said: str) -> tuple[MemoryLine, ...]:
    """Return the memories for the prompt that answers `said`: none for fillers such as `ok`. If memory fails, the
    conversation continues without it. Raises RecallsExceeded, LimitExceeded.
    """
    if run.program.script.memory.recall != "always" or says_nothing(said):
        return ()
    try:
        recalled = await run.recall(run.recall_question(said, "prompt"))
    except MemoryFailed as failed:
        run.warn("recall_failed", str(failed))
        return ()
    return tuple(lines_of(recalled))


def _purpose(run: TurnContext) -> tuple[str, str]:
    """Return goal and strategy of the current skill or topic; an interrupt has none."""
    call = run.state.call()
    if call is not None and call.interrupt:
        answering = run.program.answering.get(call.interrupt)
        return (answering.goal, answering.strategy) if answering is not None else ("", "")
    topic = run.program.skills[call.skill] if call else run.program.topics[run.state.phase, run.state.topic]
    return topic.goal, topic.strategy


def count_visit(run: TurnContext, action_id: str) -> int:
    """Return in how many earlier visits of this action a model or tool was called; the first call of a visit counts
    it.
    """
    if not run.progress.visit:
        run.progress.visit = run.state.visits.get(action_id, 0) + 1
        run.state.visits[action_id] = run.progress.visit
    return run.progress.visit - 1


def _request_number(run: TurnContext, purpose: Purpose) -> int:
    """Count a call for a purpose and return how many there were before it in this visit."""
    before = run.progress.asked.get(purpose, 0)
    run.progress.asked[purpose] = before + 1
    return before


def _model_of(run: TurnContext, action: Action | None) -> str:
    """Return the model that was chosen for the session, else that of the action, else that of the script."""
    own = action.model if isinstance(action, ModelStep) else ""
    return run.state.model or own or run.program.script.model


def _is_sure(speak: Callable[[ModelReply], bool], verdict: ModelReply) -> bool:
    """Return whether a text will certainly be said; an error here is raised again where the verdict is evaluated."""
    try:
        return speak(verdict)
    except (*FAILURES, RecallWanted, MatchWanted):
        return False
