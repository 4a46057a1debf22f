"""Actions in which a model speaks: `ai_say`, and `chat`, which goes on until the model or a condition ends it, or its
rounds are used up.
"""

from runtime.actions.outcomes import DONE, Outcome, Waits, give_up
from runtime.actions.statements import wait_acknowledgement
from runtime.answers.reply_values import is_blank
from runtime.state.events import Exited
from runtime.state.ports import ModelReply
from runtime.state.state import Wait
from runtime.turn import exits
from runtime.turn.context import TurnContext
from runtime.turn.exits import decide_exit, words_of
from runtime.turn.model_requests import always, complete
from scripts.model.actions import AiSay, Chat, rounds_of


async def ai_say(run: TurnContext, action: AiSay, reply: str | None = None) -> Outcome:
    """Say one of the action's utterances; `reply` is the user's reply to the previous one."""
    if reply is not None:
        run.progress.replies.append(reply)
        if run.progress.round >= action.utterances:
            return DONE
    tried = action.exits if reply is not None else ()
    task, until = run.wording(action.task), run.wording(words_of(action))
    answered = await complete(run, "say", action, task, until=until, reply=reply, speak=None if tried else always)
    decision = decide_exit(
        round_number=run.progress.round, rounds_max=action.utterances, reply=answered, exits=tried, holds=run.holds
    )
    run.progress.round += 1
    if decision.exit and decision.source != "model":
        run.record(Exited(action.id, decision.source, decision.reason))
        return DONE
    run.say(answered.text)
    if decision.exit:
        run.record(Exited(action.id, "model", answered.exit_reason))
        return DONE
    outcome = wait_acknowledgement(run, action)
    return Waits(Wait("acknowledge")) if run.progress.round < action.utterances and outcome is DONE else outcome


async def chat(run: TurnContext, action: Chat) -> Outcome:
    """Have the model open the conversation, or wait for the user."""
    if action.opens == "user":
        return Waits(Wait("text"))
    return _says(run, (await _complete(run, action, None)).text)


async def answer_chat(run: TurnContext, action: Chat, reply: str) -> Outcome:
    """Have the model answer; the last round still gets an answer."""
    if is_blank(reply):
        run.say(run.progress.said_last)  # nothing, if the user is to begin
        return Waits(Wait("text"))
    run.progress.round += 1
    run.progress.replies = [*run.progress.replies, reply][-rounds_of(action) :]
    answered = await _complete(run, action, reply)
    judgement = exits.judge(run, action, answered, {})
    exits.record(run, action, answered, judgement)
    decision, policy = judgement.decision, judgement.policy
    own = policy.say if policy is not None else None
    if not decision.exit and own is None:
        return _says(run, answered.text)
    text = answered.text if own is None else run.text(own)
    run.say(text)
    if not decision.exit:
        run.progress.complaint = text
        return Waits(Wait("text"))
    run.record(Exited(action.id, decision.source, decision.reason))
    return give_up(run, action.id, policy.then) if policy is not None and judgement.is_given_up else DONE


def _are_said(run: TurnContext, action: Chat, verdict: ModelReply) -> bool:
    """Return whether the text that comes with a verdict is said, rather than a text of the script's."""
    with run.trial():
        policy = exits.judge(run, action, verdict, {}).policy
    return policy is None or policy.say is None


async def _complete(run: TurnContext, action: Chat, reply: str | None) -> ModelReply:
    task, until = run.wording(action.task), run.wording(words_of(action))
    speak = always if reply is None else lambda verdict: _are_said(run, action, verdict)
    is_last = reply is not None and _ends_anyway(run, action)
    return await complete(run, "chat", action, task, until=until, reply=reply, speak=speak, is_last=is_last)


def _ends_anyway(run: TurnContext, action: Chat) -> bool:
    """Return whether the present round is the last one, whatever the model replies."""
    with run.trial():
        return exits.judge(run, action, ModelReply(), {}).decision.exit


def _says(run: TurnContext, text: str) -> Outcome:
    """Say the model's text, which becomes the current prompt; the script's own texts do not."""
    run.progress.prompt, run.progress.complaint = text or run.progress.prompt, ""
    run.say(text)
    return Waits(Wait("text"))
