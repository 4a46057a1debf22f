"""Dispatch of actions to their functions: `enter` begins an action, `resume` gives it the reply it waited for."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runtime.actions import ask, blocks, chat, choose, form, if_known, own_action, remember, sleep, statements, tool
from runtime.actions.outcomes import DONE, Expired, Outcome
from runtime.state.state import Wait
from runtime.turn import timing
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.values import Value
from scripts.model import actions
from scripts.model.actions import Action, action_type

AT_ONCE: Mapping[type[Action], Callable[[TurnContext, Any], Outcome]] = {
    actions.Say: statements.say,
    actions.Ask: ask.ask,
    actions.Choose: choose.choose,
    actions.Set: statements.assign,
    actions.Add: statements.add,
    actions.UserSay: choose.user_say,
    actions.Show: statements.show,
    actions.If: blocks.branch,
    actions.Experiment: blocks.experiment,
    actions.Call: blocks.call,
    actions.Foreach: blocks.foreach,
    actions.Repeat: blocks.repeat,
    actions.Emit: statements.emit,
    actions.Remember: remember.remember,
    actions.Form: form.form,
    actions.Scene: statements.scene,
    actions.Sleep: sleep.sleep,
    actions.Goto: statements.goto,
    actions.End: statements.end,
}
"""How the actions begin that ask neither a model nor memory nor a service."""


AWAITED: Mapping[type[Action], Callable[[TurnContext, Any], Awaitable[Outcome]]] = {
    actions.AiSay: chat.ai_say,
    actions.AiAsk: ask.ai_ask,
    actions.AiThink: ask.ai_think,
    actions.Recall: remember.recall,
    actions.CallTool: tool.call_tool,
    actions.Chat: chat.chat,
}
"""How the others begin; those of packages have types of their own."""


async def enter(run: TurnContext, action: Action, *, asks: bool = False) -> Outcome:
    """Begin an action; a question that has expired is not put; unless it `asks`, one whose answer is known neither."""
    passed_over = _pass_over(run, action, asks=asks)
    if passed_over is not None:
        return passed_over
    at_once = AT_ONCE.get(type(action))
    if at_once is not None:
        return at_once(run, action)
    if isinstance(action, actions.OwnAction):
        return await own_action.carry_out(run, action)
    if type(action) not in AWAITED:
        raise ActionFailed(f"`{action_type(action)}` cannot begin")
    return await AWAITED[type(action)](run, action)


def _pass_over(run: TurnContext, action: Action, *, asks: bool) -> Outcome | None:
    """Return the outcome of a question that is not put; None for one that is, and for other actions."""
    if (
        not asks
        and isinstance(action, actions.Ask | actions.AiAsk | actions.Choose)
        and action.if_known.policy != "ask"
        and (known_outcome := if_known.pass_over(run, action)) is not None
    ):
        return known_outcome
    if run.program.has_time and isinstance(action, actions.Asking | actions.Chat):
        expiry = timing.past_expiry(run, action)
        return None if expiry is None else Expired(action, expiry)
    return None


def question_of(run: TurnContext, action: Action) -> str:
    """Return the question that an action waits with, as the variables are now; a question of a model is as it was.

    If detectors watch the session's messages, the question is as it was said: they may have replaced it.
    """
    progress = run.progress
    if run.program.watches_assistant:
        return progress.question
    match action:
        case actions.Say() if len(action.texts) == 1:
            return run.text(action.texts[0])
        case actions.Ask() | actions.AiAsk() | actions.Choose() if progress.is_confirmation:
            progress.prompt = run.text(action.if_known.confirm) or progress.prompt  # a migration may remove it
        case actions.Ask() | actions.Choose() if progress.prompt:
            progress.prompt = run.text(action.question)
        case actions.Form() if progress.prompt:
            progress.prompt = run.text(run.program.forms[action.sheet].text)
    return progress.question


def current_wait(run: TurnContext, action: Action, wait: Wait) -> Wait:
    """Return a wait with its form or choices, or the moment of its end, as the variables are now."""
    match action:
        case actions.Sleep() if wait.kind == "time":
            return sleep.awake_at(run, wait)
        case actions.Form() if wait.kind == "form":
            return form.wait_for_form(run, action)
        case actions.Choose() if wait.kind == "choice" and not run.progress.is_confirmation:
            return choose.wait_for_choice(run, action)
        case actions.Ask() if wait.kind in {"choice", "text"} and not run.progress.is_confirmation:
            return ask.wait_for_answer(run, action).wait
        case _:
            return wait


async def resume(
    run: TurnContext,
    action: Action,
    wait: Wait | None,
    reply: str,
    picked: str | None,
    sent: Mapping[str, Value] | None,
) -> Outcome:
    """Give a reply to the action that waits for it, with the key of the picked choice or the values of the sent form.

    Raises ActionFailed for an action that does not wait so.
    """
    if run.progress.is_confirmation and isinstance(action, actions.Ask | actions.AiAsk | actions.Choose):
        return if_known.answer_confirmation(run, action, reply, picked) or await enter(run, action, asks=True)
    match action:
        case actions.AiSay():
            return await chat.ai_say(run, action, reply)
        case actions.Ask():
            return await ask.answer_ask(run, action, reply, picked)
        case actions.AiAsk():
            return await ask.answer_ai_ask(run, action, reply)
        case actions.Choose():
            return choose.answer_choose(run, action, reply, picked, wait.choices if wait is not None else ())
        case actions.Form():
            return await form.answer_form(run, action, reply, sent)
        case actions.Chat():
            return await chat.answer_chat(run, action, reply)
        case actions.Say() | actions.Show() | actions.UserSay() if wait is not None and wait.is_acknowledgement:
            return DONE
        case actions.OwnAction():
            return await own_action.carry_out(run, action, reply)
        case actions.Sleep():
            return sleep.answer_message(run, action)
        case _:
            raise ActionFailed(f"`{action_type(action)}` takes no reply")
