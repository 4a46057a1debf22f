"""`chat`: free conversation, until the model or a condition ends it or its rounds are used up."""

from runtime import judging
from runtime.actions.leading_away import onward
from runtime.events import Exited
from runtime.outcomes import DONE, Outcome, Waits
from runtime.ports import ModelReply
from runtime.run import Run
from runtime.speech import always
from runtime.state import Wait
from scripts.actions import Chat, rounds_of


async def chat(run: Run, action: Chat) -> Outcome:
    """Lets the model open the conversation, or waits for the user to."""
    if action.opens == "user":
        return Waits(Wait("text"))
    return _says(run, (await _complete(run, action, None)).text)


async def answer_chat(run: Run, action: Chat, reply: str) -> Outcome:
    """Lets the model answer; the last of its rounds still gets an answer."""
    if not reply.strip():
        run.say(run.progress.said_last)  # nothing, where the user is to begin
        return Waits(Wait("text"))
    run.progress.round += 1
    run.progress.replies = [*run.progress.replies, reply][-rounds_of(action) :]
    answered = await _complete(run, action, reply)
    judgement = judging.judge(run, action, answered, {})
    judging.record(run, action, answered, judgement)
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
    away = onward(run, policy.then, action.id) if policy is not None and judgement.is_given_up else None
    return away or DONE


def _are_said(run: Run, action: Chat, verdict: ModelReply) -> bool:
    """Whether the words that come with a verdict are said, and not the script's own in their place."""
    with run.trial():
        policy = judging.judge(run, action, verdict, {}).policy
    return policy is None or policy.say is None


async def _complete(run: Run, action: Chat, reply: str | None) -> ModelReply:
    task, until = run.wording(action.task), run.wording(action.exit)
    speak = always if reply is None else lambda verdict: _are_said(run, action, verdict)
    return await run.complete("chat", action, task, until=until, reply=reply, speak=speak)


def _says(run: Run, text: str) -> Outcome:
    """Say what the model has to say; the script's own words only lead back to it."""
    run.progress.prompt, run.progress.complaint = text or run.progress.prompt, ""
    run.say(text)
    return Waits(Wait("text"))
