"""Which function carries out which action: entering it, and taking the reply it waited for."""

from collections.abc import Mapping
from typing import assert_never

from runtime.actions import (
    asking,
    assigning,
    blocks,
    calls,
    chatting,
    choosing,
    experimenting,
    filling,
    remembering,
    speaking,
)
from runtime.outcomes import DONE, Outcome
from runtime.run import ActionFailed, Run
from scripts.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Call,
    Chat,
    Choose,
    Emit,
    End,
    Experiment,
    Foreach,
    Form,
    Goto,
    If,
    Recall,
    Remember,
    Repeat,
    Say,
    Scene,
    Set,
    Show,
    UserSay,
    action_type,
)
from scripts.values import Value


async def enter(run: Run, action: Action) -> Outcome:
    """Begins an action."""
    match action:
        case Say():
            return speaking.say(run, action)
        case AiSay():
            return await speaking.ai_say(run, action, None)
        case Ask():
            return asking.ask(run, action)
        case AiAsk():
            return await asking.ai_ask(run, action)
        case AiThink():
            return await asking.ai_think(run, action)
        case Set():
            return assigning.assign(run, action)
        case Choose():
            return choosing.choose(run, action)
        case UserSay():
            return choosing.user_say(run, action)
        case Show():
            return speaking.show(run, action)
        case If():
            return blocks.branch(run, action)
        case Experiment():
            return experimenting.experiment(run, action)
        case Call():
            return calls.call(run, action)
        case Foreach():
            return blocks.foreach(run, action)
        case Repeat():
            return blocks.repeat(action)
        case Emit():
            return assigning.emit(run, action)
        case Remember():
            return remembering.remember(run, action)
        case Recall():
            return await remembering.recall(run, action)
        case Form():
            return filling.form(run, action)
        case Chat():
            return await chatting.chat(run, action)
        case Scene():
            return speaking.scene(run, action)
        case Goto():
            return assigning.goto(run, action)
        case End():
            return assigning.end(action)
        case _:
            assert_never(action)


async def resume(run: Run, action: Action, reply: str, picked: str | None, sent: Mapping[str, Value] | None) -> Outcome:
    """Hands a reply to the action that waited for it, with the key of the choice where one was picked, or with the
    values of the form where one was sent.

    Raises ActionFailed for an action that never waits.
    """
    match action:
        case AiSay():
            return await speaking.ai_say(run, action, reply)
        case Ask():
            return await asking.answer_ask(run, action, reply, picked)
        case AiAsk():
            return await asking.answer_ai_ask(run, action, reply)
        case Choose():
            return choosing.answer_choose(run, action, reply, picked)
        case Form():
            return await filling.answer_form(run, action, reply, sent)
        case Chat():
            return await chatting.answer_chat(run, action, reply)
        case UserSay():
            return DONE
        case _:
            raise ActionFailed(f"`{action_type(action)}` takes no reply")
